"""The engine off the beaten track: every pair of options, forward mode, narrow numbers, short sequences.

Options meet by orthogonal arrays, in which every value of one stands beside every value of every other: the ways that
take one step after another run 16 combinations of 4 cells, 4 chunks and 4 kinds of noise with reverse, mask, reset and
perturb each there or not; the associative scan runs 8 of its five. tests/test_evaluators.py has every cell.
"""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import (
    MAKERS,
    B,
    D,
    T,
    close,
    generic,
    jiggle,
    random_mask,
    random_params,
    random_state,
    random_xs,
    same,
    stacked,
)

from seqjax import gru, lru, rnn, unroll
from seqjax.dropout import Dropout, noise_of
from seqjax.sequences import batch_last
from seqjax.unroll import scan
from seqjax.unroll.scan import BUDGET, chunk_for

MASK, RESET = random_mask().T, (~random_mask(seed=8)).T
KEY = jax.random.key(7)
NOISES = {
    "none": (None, None),
    "factor": (Dropout(recurrent=0.4), KEY),
    "zoneout": (Dropout(zoneout=0.3), KEY),
    "expectation": (Dropout(zoneout=0.3), None),
}


def point(cell, scale=1.0, T=T):
    """Params, inputs with NaN in the padding, states and nudges."""
    params = jax.tree.map(lambda p: scale * p, random_params(cell))
    state = batch_last(random_state(cell, params, B))
    nudge = jax.tree.map(lambda s: jiggle(jnp.zeros((T, *s.shape)), 9), state)
    return params, random_xs(T, D, B), state, nudge


def gradients(cell, at, mask=None, reset=None, noise="none", perturb=True, **options):
    """Loss and trace, and the gradients of all that a run is given."""

    def loss(params, xs, state, nudge):
        drawn = noise_of(*NOISES[noise], cell, params, len(xs), B)
        trace = scan(cell, params, xs, state, mask, reset, nudge if perturb else None, drawn, **options)
        return generic((trace.ys, trace.after, trace.final)), replace(trace, converged=None, iterations=None)

    return jax.jit(jax.value_and_grad(loss, (0, 1, 2, 3), has_aux=True))(*at)


def assert_plain(cell, at, tolerance=1e-10, chunk=None, evaluator="auto", **options):
    """An evaluator gives what the plain scan gives."""
    got = gradients(cell, at, evaluator=evaluator, chunk=chunk, **options)
    close(got, gradients(cell, at, evaluator="scan", **options), tolerance)


def around(reverse, mask, reset, perturb):
    """Options, each there or not."""
    return {
        "reverse": bool(reverse),
        "mask": MASK if mask else None,
        "reset": RESET if reset else None,
        "perturb": bool(perturb),
    }


def times(a, b):
    """The product of the field with four elements, written as bit pairs."""
    return 0 if 0 in (a, b) else (a + b - 2) % 3 + 1


FOURS = [(a, b, *(a ^ times(k, b) for k in (1, 2, 3))) for a in range(4) for b in range(4)]
EIGHTS = [(a, b, c, a ^ b, a ^ c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]


def test_the_arrays_are_orthogonal():
    """Every pair of columns holds every pair of values equally often."""
    for rows, values in ((FOURS, 4), (EIGHTS, 2)):
        columns = np.array(rows).T
        for i in range(len(columns)):
            for j in range(i):
                counts = np.bincount(values * columns[i] + columns[j], minlength=values**2)
                assert set(counts) == {len(rows) // values**2}


@pytest.mark.parametrize("row", FOURS, ids=str)
def test_options_of_one_step_after_another(row):
    """Of hoisted gradients in and out of chunks, with NaN wherever there is a hole."""
    name = ("lstm", "gru", "rnn-norm", "lstm-peephole")[row[0]]
    options = around(row[3] & 1, row[3] & 2, row[4] & 1, row[4] & 2)
    params, xs, *rest = point(MAKERS[name]())
    xs = xs if options["mask"] is None else jnp.where(MASK[:, None], xs, jnp.nan)
    noise, chunk = list(NOISES)[row[1]], (None, 1, 4, T)[row[2]]
    assert_plain(MAKERS[name](), (params, xs, *rest), evaluator="hoisted", noise=noise, chunk=chunk, **options)


@pytest.mark.parametrize("row", EIGHTS, ids=str)
def test_options_of_the_associative_scan(row):
    """For real and complex poles in turn; what zoneout draws, or its expectation."""
    cell = (lru, MAKERS["mingru"])[row[0] ^ row[1] ^ row[2]]()
    noise = (("none", "zoneout"), ("none", "expectation"))[row[3]][row[4]]
    assert_plain(cell, point(cell), evaluator="associative", noise=noise, **around(*row[:4]))


@pytest.mark.parametrize(("noise", "evaluator"), list(zip(NOISES, ["newton", "quasi-newton"] * 2, strict=True)))
def test_noise_under_newton(noise, evaluator):
    """In a tanh network that contracts, forwards and backwards in turn."""
    reverse = evaluator == "newton"
    assert_plain(rnn(), point(rnn(), 0.3), 1e-9, evaluator=evaluator, noise=noise, reset=RESET, reverse=reverse)


def forward(cell, evaluator, chunk, at, by):
    """Tangents of a trace, and the Jacobian to the initial state, for two inputs and the same params: by vmap."""

    def run(params, xs, state, nudge):
        trace = scan(cell, params, xs, state, MASK, RESET, nudge, evaluator=evaluator, chunk=chunk)
        return trace.ys, trace.before, trace.final

    def both(xs, dxs):
        (params, _, state, nudge), (dparams, _, dstate, dnudge) = at, by
        pushed = jax.jvp(run, (params, xs, state, nudge), (dparams, dxs, dstate, dnudge))
        return pushed, jax.jacfwd(lambda s: run(params, xs, s, nudge)[2])(state)

    return jax.jit(jax.vmap(both))(stacked([at[1], -at[1]]), stacked([by[1], jnp.sin(by[1])]))


FORWARD = [("lstm", "hoisted", None), ("gru", "hoisted", 4), ("lru", "associative", None), ("rnn", "newton", None)]


@pytest.mark.parametrize(("name", "evaluator", "chunk"), FORWARD)
def test_forward_mode_equals_that_of_the_plain_scan(name, evaluator, chunk):
    """jvp and jacfwd, under vmap over inputs alone: the tangents are pushed, where a gradient transposes them."""
    cell = MAKERS[name]()
    at = point(cell, 0.3)
    by = tuple(jiggle(jax.tree.map(jnp.zeros_like, part), 20 + i, 1.0) for i, part in enumerate(at))
    close(forward(cell, evaluator, chunk, at, by), forward(cell, "scan", None, at, by))


@pytest.mark.parametrize("name", ["rnn", "gru"])
def test_a_gradient_of_a_tangent(name):
    """Reverse over forward mode, which goes through the rule where forward over reverse goes around it."""
    cell = MAKERS[name]()
    at = point(cell)

    def slope(evaluator, params):
        run = lambda p: generic(scan(cell, p, at[1], at[2], MASK, evaluator=evaluator).ys)  # noqa: E731
        return jax.jvp(run, (params,), (jax.tree.map(jnp.cos, params),))[1]

    got, want = (jax.jit(jax.grad(partial(slope, evaluator)))(at[0]) for evaluator in ("hoisted", "scan"))
    close(got, want)


NARROW = [("lstm", "bfloat16"), ("gru", "float16"), ("rnn-norm", "bfloat16"), ("lstm", "float32")]


@pytest.mark.parametrize(("name", "dtype"), NARROW)
def test_narrow_numbers(name, dtype):
    """Values and gradients in the dtypes of the plain scan, up to the rounding of a few additions."""
    cell = MAKERS[name]()
    params, xs, state, nudge = point(cell)
    narrow = jax.tree.map(lambda a: a.astype(dtype), (params, xs))
    wide = jax.tree.map(lambda a: a.astype("float32"), (state, nudge))
    got, want = (gradients(cell, (*narrow, *wide), MASK, RESET, evaluator=each) for each in ("hoisted", "scan"))
    assert jax.tree.map(lambda a: a.dtype, got) == jax.tree.map(lambda a: a.dtype, want)
    close(*jax.tree.map(lambda a: a.astype(float), (got, want)), 8 * float(jnp.finfo(dtype).eps))


WAYS = [(gru(), "hoisted"), (lru(), "associative"), (gru(), "newton"), (gru(), "quasi-newton")]


@pytest.mark.parametrize("steps", [0, 1])
@pytest.mark.parametrize(("cell", "evaluator"), WAYS)
def test_no_step_and_one(cell, evaluator, steps):
    """Of no step, the state that came in, and the identity as its gradient."""
    at = point(cell, 0.3, steps)
    mask, reset = jnp.ones((steps, B), bool), jnp.zeros((steps, B), bool)
    got = gradients(cell, at, mask, reset, evaluator=evaluator)
    close(got, gradients(cell, at, mask, reset, evaluator="scan"), 1e-9)
    if not steps:
        same(got[0][1].final, at[2])


@pytest.mark.parametrize(("cell", "evaluator"), [*WAYS, (gru(), "scan")])
def test_a_second_call_does_not_trace_again(cell, evaluator):
    """Neither a run nor its gradient, whatever the values and lengths."""
    traced, counts = [], []
    counted = replace(cell, project=lambda *args: traced.append(1) or cell.project(*args))
    for seed in (0, 1):
        params = jax.tree.map(lambda p: 0.3 * p, random_params(cell, seed=seed))
        run = partial(unroll, counted, xs=random_xs(seed=seed), lengths=jnp.full(B, seed + 1), evaluator=evaluator)
        jax.grad(lambda p, run=run: generic(run(p).ys))(params)
        run(params)
        counts.append(len(traced))
    assert counts[0] == counts[1] > 0


@pytest.mark.parametrize("name", ["lstm", "gru", "lru"])
def test_inputs_projected_ahead(name, monkeypatch):
    """As on an accelerator, where one product makes all of them."""
    cell = MAKERS[name]()
    at = point(cell)
    want = gradients(cell, at, MASK, RESET, evaluator="scan")
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    apart = replace(cell, name=f"{name}, ahead")  # so that no program is at hand that was made before
    for evaluator in ("auto", "scan"):
        close(gradients(apart, at, MASK, RESET, evaluator=evaluator), want)


@pytest.mark.parametrize(("bytes_kept", "size"), [(BUDGET // 2**10, 2**10), (BUDGET // 2**10 + 1, 16)])
def test_chunks_come_by_themselves_only_above_the_budget(bytes_kept, size):
    """At the budget all steps stay one; above it √(T state/kept), which balances the two.

    A state of kept/4 bytes, and pre-activations of kept/4, three numbers each.
    """
    quarter = -(-bytes_kept // 4)
    first, us = jax.ShapeDtypeStruct((quarter,), jnp.int8), jax.ShapeDtypeStruct((2**10, quarter), jnp.int8)
    assert chunk_for(first, us, 2**10) == size
