"""Losses and scores against a Python loop over the valid steps; what is masked never matters."""

import math
from functools import lru_cache

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax.losses import accuracy, cross_entropy, masked_mean, squared_error, within

B, T, K = 3, 4, 5
MASK = np.array([[1, 1, 1, 1], [1, 0, 1, 0], [0, 0, 0, 0]], bool)
ONE = {  # of one step: predictions [K] or [1], and its target
    cross_entropy: lambda logits, k: math.log(sum(math.exp(z) for z in logits)) - logits[k],
    accuracy: lambda logits, k: float(max(range(K), key=lambda j: logits[j]) == k),
    squared_error: lambda output, y: (output[0] - y) ** 2,
    within(0.5): lambda output, y: float(abs(output[0] - y) < 0.5),
}
NAMES = [function.__qualname__.split(".")[0] for function in ONE]
each = pytest.mark.parametrize("function", ONE, ids=NAMES)
each_loss = pytest.mark.parametrize("function", [cross_entropy, squared_error])
of_classes = (cross_entropy, accuracy)


def example(function, *shape):
    """Predictions [*shape, K or 1] and targets [*shape]."""
    rng, shape = np.random.default_rng(2), shape or (B, T)
    if function in of_classes:
        logits = rng.standard_normal((*shape, K))
        return logits, np.where(rng.random(shape) < 0.5, logits.argmax(-1), rng.integers(0, K, shape))
    return rng.standard_normal((*shape, 1)), rng.standard_normal(shape) / 2


def loop(function, predictions, targets, mask):
    """The mean over valid steps, one at a time."""
    steps = [index for index in np.ndindex(targets.shape) if mask[index]]
    return sum(ONE[function](predictions[s].tolist(), targets[s].item()) for s in steps) / len(steps)


@lru_cache
def graded(function):
    """Value and gradient to the predictions, compiled."""
    return jax.jit(jax.value_and_grad(function))


@each
def test_a_mean_is_over_the_valid_steps(function):
    """With holes and an empty row; without a mask, over all steps; and over a batch read at the last step only."""
    predictions, targets = example(function)
    everything = np.ones((B, T), bool)
    masked, whole = (loop(function, predictions, targets, mask) for mask in (MASK, everything))
    assert masked not in (0, whole)
    for mask, want in ((MASK, masked), (everything, whole), (None, whole)):
        np.testing.assert_allclose(graded(function)(predictions, targets, mask)[0], want, rtol=1e-12)
    last = example(function, 7)
    np.testing.assert_allclose(graded(function)(*last)[0], loop(function, *last, np.ones(7, bool)), rtol=1e-12)


def test_masked_mean_is_a_mean():
    """Of whatever it is given, NaN in masked places included, and so is its gradient."""
    values = np.where(MASK, np.arange(12.0).reshape(B, T), np.nan)
    value, gradient = jax.value_and_grad(masked_mean)(jnp.asarray(values), jnp.asarray(MASK))
    assert value == (0 + 1 + 2 + 3 + 4 + 6) / 6
    np.testing.assert_array_equal(gradient, MASK / 6)
    assert masked_mean(jnp.arange(12.0)) == 5.5


@each
def test_a_batch_of_padding_gives_zero_and_a_zero_gradient(function):
    """Not NaN."""
    predictions, targets = example(function)
    value, gradient = graded(function)(predictions, targets, np.zeros((B, T), bool))
    assert value == 0
    np.testing.assert_array_equal(gradient, 0)


@each_loss
def test_a_gradient_is_that_of_the_loop(function):
    """By finite differences of the loop, in one generic direction; zero at masked steps."""
    predictions, targets = example(function)
    _, gradient = graded(function)(predictions, targets, MASK)
    direction, eps = np.random.default_rng(1).standard_normal(predictions.shape), 1e-6
    ahead, behind = (loop(function, predictions + sign * eps * direction, targets, MASK) for sign in (1, -1))
    np.testing.assert_allclose((gradient * direction).sum(), (ahead - behind) / (2 * eps), rtol=1e-7)
    assert not gradient[~MASK].any()


@each
@pytest.mark.parametrize("junk", [-1, 999, np.nan])
def test_junk_targets_in_masked_steps_never_matter(function, junk):
    """Neither to the value nor to the gradient."""
    predictions, targets = example(function)
    junk = np.iinfo(int).min if np.isnan(junk) and function in of_classes else junk
    want = graded(function)(predictions, targets, MASK)
    chex.assert_trees_all_equal(graded(function)(predictions, np.where(MASK, targets, junk), MASK), want)


@each
@pytest.mark.parametrize("junk", [np.nan, np.inf, -np.inf, 1e300])
def test_junk_predictions_in_masked_steps_never_matter(function, junk):
    """Neither to the value nor to the gradient: 0 times NaN would be NaN."""
    predictions, targets = example(function)
    want = graded(function)(predictions, targets, MASK)
    chex.assert_trees_all_equal(graded(function)(np.where(MASK[..., None], predictions, junk), targets, MASK), want)


def test_within_is_strict_and_cached():
    """An answer off by exactly the tolerance is wrong."""
    score = within(0.25)
    assert score is within(0.25)
    assert score(jnp.array([[1.25], [0.76], [1.24], [5.0]]), jnp.ones(4)) == 0.5
