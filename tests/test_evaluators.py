"""Every way of taking the steps is the plain scan: values, gradients, tangents, second derivatives."""

from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import pytest
from oracle import (
    MAKERS,
    B,
    D,
    T,
    close,
    each_shape,
    generic,
    jiggle,
    random_mask,
    random_params,
    random_state,
    random_xs,
)

from seqjax import lru, lstm, mgu, unroll
from seqjax.sequences import batch_last
from seqjax.unroll import scan

XS, MASK, RESET = random_xs(T, D, B), random_mask().T, (~random_mask(seed=8)).T
CONTRACTING = 0.3  # of the params, so that Newton's method converges


@lru_cache
def derivatives(cell, evaluator, second=False, chunk=None, reverse=False):
    """Trace and gradients, or the tangents of both along a direction: second derivatives among them."""

    def loss(params, xs, state, nudge):
        trace = scan(cell, params, xs, state, MASK, RESET, nudge, reverse=reverse, evaluator=evaluator, chunk=chunk)
        trace = (trace.us, trace.before, trace.after, trace.final, trace.ys)
        return generic(trace), trace

    gradient = jax.value_and_grad(loss, (0, 1, 2, 3), has_aux=True)
    return jax.jit(lambda at, by: jax.jvp(gradient, at, by)[1] if second else gradient(*at))


def everything(cell, evaluator, scale=1.0, **options):
    """What `derivatives` gives at random params, inputs, states and nudges, with holes, resets and NaN where masked."""
    params = jax.tree.map(lambda p: scale * p, random_params(cell))
    state = batch_last(random_state(cell, params, B))
    nudge = jax.tree.map(lambda s: jiggle(jnp.zeros((T, *s.shape)), 9), state)
    point = params, jnp.where(MASK[:, None], XS, jnp.nan), state, nudge
    direction = tuple(jiggle(jax.tree.map(jnp.zeros_like, part), 10 + i) for i, part in enumerate(point))
    return derivatives(cell, evaluator, **options)(point, direction)


@each_shape
def test_the_default_equals_the_plain_scan(cell):
    """Backwards and in two chunks and a rest for good measure, as each is an option of its own."""
    close(everything(cell, "auto", chunk=4, reverse=True), everything(cell, "scan", reverse=True))


@pytest.mark.parametrize("name", ["rnn-relu", "gru", "lstm-everything"])
def test_tangents_and_second_derivatives_equal_those_of_the_plain_scan(name):
    """So that whatever is made of jvp and grad holds."""
    cell = MAKERS[name]()
    close(everything(cell, "auto", second=True), everything(cell, "scan", second=True))


@pytest.mark.parametrize("name", [name for name in MAKERS if MAKERS[name]().coefficients is not None])
def test_associative_equals_the_plain_scan(name):
    """For every cell with coefficients."""
    cell = MAKERS[name]()
    close(everything(cell, "associative"), everything(cell, "scan"))


@pytest.mark.parametrize("evaluator", ["newton", "quasi-newton"])
@pytest.mark.parametrize("name", ["lstm", "lru"])
def test_newton_equals_the_plain_scan(name, evaluator):
    """Where the dynamics contract; its own tests prove the rest."""
    cell = MAKERS[name]()
    wanted = everything(cell, "scan", CONTRACTING)
    close(everything(cell, evaluator, CONTRACTING), wanted, 1e-10 if evaluator == "newton" else 1e-8)


@pytest.mark.parametrize("chunk", [1, 4, T])
@pytest.mark.parametrize("evaluator", ["scan", "hoisted"])
def test_chunks_change_nothing(evaluator, chunk):
    """Of any size, with a rest or without, in both ways of taking one step after another."""
    close(everything(lstm(), evaluator, chunk=chunk), everything(lstm(), "scan"))


@pytest.mark.parametrize("evaluator", ["auto", "scan", "associative", "newton", "quasi-newton"])
def test_vmap_over_params_equals_a_loop(evaluator):
    """Over seeds, gradients included."""
    cell, xs = lru(), random_xs()
    gradient = jax.jit(jax.grad(lambda p: generic(unroll(cell, p, xs, evaluator=evaluator).ys)))
    many = [random_params(cell, seed=seed) for seed in range(3)]
    found = jax.vmap(gradient)(jax.tree.map(lambda *a: jnp.stack(a), *many))
    close(found, jax.tree.map(lambda *a: jnp.stack(a), *map(gradient, many)))


def test_whether_newton_converged_is_told():
    """A row each, as every array of a trace has one; nothing where there was nothing to converge."""
    params = jax.tree.map(lambda p: CONTRACTING * p, random_params(lstm()))
    trace = jax.jit(partial(unroll, lstm(), evaluator="newton"))(params, random_xs())
    assert trace.converged.shape == trace.iterations.shape == (B,)
    assert trace.converged.all()
    assert unroll(lstm(), params, random_xs()).converged is None


def test_a_long_gradient_fits_in_little_memory():
    """T = 65,536 in chunks: XLA's temporaries stay under 64 MiB, where keeping every step takes gigabytes."""
    cell, T, B, H = lstm(), 65_536, 8, 128
    params = jax.eval_shape(lambda key: cell.init(key, 8, H), jax.random.key(0))
    xs = jax.ShapeDtypeStruct((T, 8, B), jnp.float32)

    def temporaries(chunk):
        gradient = jax.grad(lambda p, xs: scan(cell, p, xs, chunk=chunk).final.h.sum())
        return jax.jit(gradient).lower(params, xs).compile().memory_analysis().temp_size_in_bytes

    assert temporaries(None) < 64 * 2**20  # chosen without being asked for, as all steps are above the budget
    assert temporaries(T) > 2**31


BAD = {
    "an unknown evaluator": ({"evaluator": "fast"}, "evaluator must be one of"),
    "no coefficients": ({"evaluator": "associative"}, "evaluator .* coefficients"),
    "a chunk of nothing": ({"chunk": 0}, "chunk must be"),
    "a chunk of a half": ({"chunk": 0.5}, "chunk must be"),
    "a chunk that is a switch": ({"chunk": True}, "chunk must be"),
    "a chunk without a scan": ({"chunk": 3, "evaluator": "newton"}, "chunk cuts a scan"),
}


@pytest.mark.parametrize(("options", "message"), BAD.values(), ids=BAD.keys())
def test_a_bad_request_is_a_value_error(options, message):
    """That names the argument."""
    with pytest.raises(ValueError, match=message):
        unroll(lstm(), random_params(lstm()), random_xs(), **options)


def test_a_matrix_in_the_equation_keeps_a_cell_from_being_hoisted():
    """By name where it was asked for; by default the plain scan takes over."""
    with pytest.raises(ValueError, match=r"hoisted.*mgu"):
        unroll(mgu(), random_params(mgu()), random_xs(), evaluator="hoisted")
