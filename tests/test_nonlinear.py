"""What linearity cannot do: the three tasks, the exact error of the best linear filter, and superposition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import close, random_params, random_xs

from seqjax import gru, linear, one_pole, running_max, running_sum, superposition, tasks
from seqjax.losses import explained

LENGTH, KEY = 12, jax.random.key(0)
MADE = {"threshold": tasks.threshold, "gate": tasks.gate, "latch": tasks.latch}


@pytest.mark.parametrize("name", MADE)
def test_no_window_of_inputs_predicts_better_than_the_bound(name):
    """Least squares on all inputs so far, at every step, on many sequences: what is left is the closed form."""
    batch = MADE[name](length=LENGTH).held_out(KEY, 40_000)
    xs, ys, left = np.asarray(batch.xs, float), np.asarray(batch.targets, float), []
    for t in range(LENGTH):
        seen = np.column_stack([xs[:, : t + 1].reshape(len(xs), -1), np.ones(len(xs))])
        left.append(np.mean((ys[:, t] - seen @ np.linalg.lstsq(seen, ys[:, t], rcond=None)[0]) ** 2))
    np.testing.assert_allclose(np.mean(left), tasks.best_linear_error(name, LENGTH), rtol=0.02)


def test_targets():
    """By their definitions, a latch step by step."""
    batch = tasks.threshold(length=LENGTH).held_out(KEY, 50)
    close(batch.targets, (batch.xs[..., 0] > 0).astype("float32"))
    batch = tasks.gate(length=LENGTH).held_out(KEY, 50)
    close(batch.targets, jnp.where(batch.xs[..., 1] > 0, batch.xs[..., 0], 0))
    batch = tasks.latch(length=LENGTH, rate=0.3).held_out(KEY, 50)
    for events, held in zip(np.asarray(batch.xs)[..., 0], np.asarray(batch.targets), strict=True):
        state = 0.0
        for event, target in zip(events, held, strict=True):
            state = event if event else state
            assert target == state
    np.testing.assert_allclose(np.abs(batch.xs).mean(), 0.3, atol=0.06)


@pytest.mark.parametrize("name", MADE)
def test_a_constant_explains_nothing(name):
    """The score of the mean is 0, and that of the target itself is 1."""
    task = MADE[name](length=LENGTH)
    targets = task.held_out(KEY, 20_000).targets
    constant = jnp.full((*targets.shape, 1), 0.5 if name == "threshold" else 0.0)
    np.testing.assert_allclose(task.score(constant, targets), task.chance, atol=0.03)
    np.testing.assert_allclose(task.loss(constant, targets), task.chance_loss, rtol=0.03)
    assert task.score(targets[..., None], targets) == 1
    assert explained(2.0) is explained(2.0)


def test_superposition():
    """Holds in linear recursions, with a bias too, on ragged rows in either direction; not in a maximum or a GRU."""
    one, other, lengths = random_xs(seed=5), random_xs(seed=6), jnp.array([6, 3, 0, 1])
    for cell in (linear(), one_pole(), running_sum()):
        assert superposition(cell, random_params(cell), one, other, lengths=lengths, reverse=True) < 1e-12
    for cell in (running_max(), gru()):
        assert superposition(cell, random_params(cell), one, other) > 0.05
    silent = jax.tree.map(jnp.zeros_like, random_params(gru()))
    assert superposition(gru(), silent, one, other) == 0


def test_bad_input():
    """One clear line."""
    with pytest.raises(ValueError, match="others must be like xs"):
        superposition(gru(), random_params(gru()), random_xs(), random_xs()[:, :3])
    for rate in (0.0, 1.0, -0.1):
        with pytest.raises(ValueError, match="rate must lie in"):
            tasks.latch(length=5, rate=rate)
    with pytest.raises(ValueError, match="length must be"):
        tasks.gate(length=0)
    with pytest.raises(ValueError, match="threshold, gate or latch"):
        tasks.best_linear_error("parity", 5)
