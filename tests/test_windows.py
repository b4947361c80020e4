"""Truncated backpropagation through time: the values of the whole pass, gradients that stop at every window's start."""

from dataclasses import replace
from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from oracle import close, jiggle

import seqjax
from seqjax.losses import accuracy, cross_entropy
from seqjax.sweep import seed_keys
from seqjax.tasks import Batch
from seqjax.train import judge
from seqjax.train.recipe import answers
from seqjax.train.run import TrainState, update
from seqjax.train.windows import truncated

B, T, D, H, K = 3, 7, 4, 5, 3
RNN, LSTM = seqjax.rnn(), seqjax.lstm()
LENGTHS = jnp.array([7, 5, 0])
RESET = jnp.zeros((B, T), bool).at[0, 4].set(True).at[1, 1].set(True)
SCORED = jnp.ones((B, T), bool).at[0, :2].set(False)


def recipe_of(readout="last", *, window=None, layers=2, cell=RNN, **options):
    """A network on tokens, and params in float64."""
    network = seqjax.network(cell, inputs="embedding", embedding=2, readout=readout, layers=layers)
    task = replace(seqjax.tasks.recall(length=T), inputs="onehot", readout=readout, D=D, K=K, draw=draw(readout))
    recipe = seqjax.Recipe(network, task, hidden=H, batch=B, window=window, **options)
    return recipe, jiggle(network.init(jax.random.key(0), D, H, K), 1)


def draw(readout):
    """Batches of a task: ragged, with resets, and with steps that do not count."""

    def batch(key, step, size):
        xs, targets = jax.random.randint(jax.random.fold_in(key, step), (2, B, T), 0, K)
        every = readout == "every"
        return Batch(xs, targets if every else targets[:, 0], LENGTHS, SCORED if every else None, RESET)

    return batch


def window_by_hand(recipe, params, batch, k, w, state):
    """Answers [B, k, K] or [B, K] of one window, what counts there, and the states that it ends in."""
    wide = lambda a: jnp.pad(a, ((0, 0), (-T % k, 0)))[:, w * k : w * k + k]  # noqa: E731
    mask = wide(np.arange(T)[None] < np.asarray(batch.lengths)[:, None])
    xs = params.embed[wide(batch.xs)]
    trace = seqjax.unroll_stack(recipe.network.cell, params.body, xs, mask=mask, reset=wide(batch.reset), state=state)
    state = jax.tree.map(jax.lax.stop_gradient, trace.final)
    if recipe.task.readout == "every":
        counts = mask & wide(batch.scored)
        return affine(params.head, trace.ys), wide(batch.targets), counts, state
    ends = (jnp.maximum(batch.lengths - 1, 0) + -T % k) // k == w
    return affine(params.head, trace.final[-1].h), batch.targets, ends, state


def affine(head, y):
    """The readout, batch first."""
    return jnp.einsum("...f,kf->...k", y, head.W) + jnp.broadcast_to(head.b, (*y.shape[:-1], K))


def by_hand(recipe, params, batch, k):
    """The loss, with the states carried over by their values in a Python loop over windows."""
    state, total, number = None, 0.0, 0
    for w in range(-(-T // k)):
        answers, targets, counts, state = window_by_hand(recipe, params, batch, k, w, state)
        total += cross_entropy(answers, targets, counts) * counts.sum()
        number += counts.sum()
    return total / number


@pytest.mark.parametrize("readout", ["every", "last"])
@pytest.mark.parametrize("k", [3, 7])
def test_values_are_those_of_the_whole_pass_and_gradients_stop_at_windows(readout, k):
    """Ragged, with resets and steps that do not count, whether or not k divides T; at k = T all is as without."""
    recipe, params = recipe_of(readout, window=k)
    batch = recipe.task.draw(jax.random.key(2), 0, B)

    @jax.jit
    def three(params):
        loss, score, grads = truncated(recipe, params, batch, None)
        whole = jax.value_and_grad(lambda p: judge(recipe, p, batch, cross_entropy))(params)
        hand = jax.value_and_grad(lambda p: by_hand(recipe, p, batch, k))(params)
        return (loss, score, grads), (*whole, judge(recipe, params, batch, accuracy)), hand

    (loss, score, grads), (want, whole, right), hand = three(params)
    close((loss, score), (want, right))
    close((loss, grads), hand)
    if k == T:
        close(grads, whole)


def test_nothing_before_the_window_is_learned():
    """B29: the embedding of a symbol that comes before the last window alone has a gradient of exactly zero, and not so
    without the window."""
    recipe, params = recipe_of(window=3, layers=1, cell=LSTM)
    xs = jnp.array([[3, 3, 3, 3, 0, 1, 0], [3, 0, 1, 2, 0, 0, 1]])  # windows 0, 1..3, 4..6
    batch = Batch(xs, jnp.array([0, 1]))
    (_, _, grads), whole = (
        truncated(recipe, params, batch, None),
        jax.grad(lambda p: judge(recipe, p, batch, cross_entropy)),
    )
    np.testing.assert_array_equal(grads.embed[2:], 0)
    assert (grads.embed[:2] != 0).all()
    assert (whole(params).embed != 0).all()


def test_memory_does_not_grow_with_the_sequence():
    """From T = 1,000 to T = 100,000 the temporaries grow by copies of the tokens alone, where the whole pass keeps a
    state a step; the gradient is computed as well."""
    recipe, _ = recipe_of(layers=1)
    params = recipe.network.init(jax.random.key(0), D, 32, K)

    def compiled(T, window):
        run = lambda p, b: truncated(replace(recipe, window=window), p, b, None)[2]  # noqa: E731
        batch = Batch(jnp.zeros((1, T), jnp.int32), jnp.zeros(1, jnp.int32))
        program = jax.jit(run).lower(params, batch).compile()
        return program.memory_analysis().temp_size_in_bytes, partial(program, params, batch)

    (short, _), (long, run), (whole, _) = compiled(1_000, 50), compiled(100_000, 50), compiled(100_000, None)
    assert (long - short) / 99_000 < 3 * 4 < 32 * 4 < whole / 100_000
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(run()))


def fresh(recipe, params, optimizer):
    """A run before its first update."""
    zero = jnp.int32(0)
    return TrainState(params, optimizer.init(params), jax.random.key(5), zero, zero - 1, zero)


@pytest.mark.parametrize("readout", ["every", "last"])
def test_a_step_of_the_optimiser_for_every_window(readout):
    """As by hand: the loss of a window under the params that the last one left; none where nothing counts."""
    optimizer = optax.adam(0.1)
    recipe, params = recipe_of(readout, window=3, step_every="window", optimizer=optimizer)
    after, history = jax.jit(partial(update, recipe, {}))(fresh(recipe, params, optimizer))
    batch = recipe.task.draw(jax.random.key(5), 0, B)
    held, opt_state, states, norms = params, optimizer.init(params), None, []
    for w in range(3):

        @jax.jit
        def own(p, states, w=w):
            answers, targets, counts, states = window_by_hand(recipe, p, batch, 3, w, states)
            return cross_entropy(answers, targets, counts), (counts.any(), states)

        grads, (any_counts, states) = jax.jit(jax.grad(own, has_aux=True))(held, states)
        if any_counts:
            norms.append(float(optax.tree.norm(grads)))
            steps, opt_state = optimizer.update(grads, opt_state)
            held = optax.apply_updates(held, steps)
    assert len(norms) == (3 if readout == "every" else 2)  # no row ends in the second window
    close(after.params, held)
    np.testing.assert_allclose(history.gradient_norm, max(norms))
    assert after.step == 1


@pytest.mark.parametrize("step_every", ["sequence", "window"])
def test_sweeps_take_windows(step_every):
    """One update trains, a run that explodes is frozen, and the others are as alone."""
    recipe = replace(
        recipe_of(window=2, step_every=step_every)[0], updates=3, optimizer=lambda hyper: optax.sgd(hyper["rate"])
    )
    rates = {"rate": jnp.array([0.1, 3e38, 0.1])}
    states, history = seqjax.train_many(recipe, seed_keys(3)[1], rates)
    assert [failed >= 0 for failed in states.failed_at.tolist()] == [False, True, False]
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(states.params))
    alone, _ = jax.jit(lambda key: seqjax.train(key, recipe, rate=0.1))(seed_keys([2])[1][0])
    chex.assert_trees_all_close(jax.tree.map(lambda a: a[2], states.params), alone.params, atol=1e-6)
    assert np.isfinite(history.loss[0]).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"window": 0}, "window must be an integer of at least 1"),
        ({"window": T + 1}, "window must be at most the T = 7 steps"),
        ({"step_every": "window"}, '"window" with a window'),
        ({"step_every": "batch", "window": 2}, "step_every must be one of"),
        ({"penalty": lambda *a, **k: 0.0, "window": 2}, "penalty reads whole sequences"),
        ({"network": seqjax.network(seqjax.rnn(), inputs="onehot", bidirectional=True), "window": 2}, "run forwards"),
    ],
    ids=["none", "long", "no window", "unknown", "penalty", "bidirectional"],
)
def test_refusals(change, message):
    """Each in one line."""
    recipe, _ = recipe_of()
    with pytest.raises(ValueError, match=message):
        seqjax.begin_many(replace(recipe, **change), seed_keys(1)[1])


def test_answers_count_where_they_are_scored():
    """The whole pass agrees with what the windows take as counted."""
    recipe, params = recipe_of("every")
    batch = recipe.task.draw(jax.random.key(2), 0, B)
    _, where = answers(recipe, params, batch)
    assert where.sum() == 7 - 2 + 5
