"""Accumulators against numpy, and the recursions that a pole or a matrix makes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import B, D, T, close, prefix, random_params, random_xs, same

from seqjax import linear, one_pole, rnn, running_max, running_mean, running_sum, step_jacobians, streaming, unroll
from seqjax import network as network_of
from seqjax.init import InputIdentity, with_init

LENGTHS = jnp.array([T, 3, 1, 0])
SUMMARIES = {
    running_sum: lambda xs: np.cumsum(xs, 0),
    running_mean: lambda xs: np.cumsum(xs, 0) / np.arange(1, len(xs) + 1)[:, None],
    running_max: lambda xs: np.maximum.accumulate(xs, 0),
}
each_summary = pytest.mark.parametrize(("make", "wanted"), SUMMARIES.items(), ids=["sum", "mean", "max"])


@each_summary
def test_summaries_of_the_inputs_themselves(make, wanted):
    """With the identity for W_ih, at every step of ragged rows, whatever stands in the padding; zero before any."""
    cell = with_init(make(), InputIdentity())
    params = jax.tree.map(lambda p: p.astype(float), cell.init(jax.random.key(0), D, D))
    xs = random_xs() - 5.0  # a maximum of negative numbers is not 0
    padded = jnp.where(prefix(LENGTHS)[..., None], xs, jnp.nan)
    trace = unroll(cell, params, padded, lengths=LENGTHS)
    for row, length in enumerate(LENGTHS):
        close(trace.ys[row, :length], wanted(np.asarray(xs[row, :length])))
        last = wanted(np.asarray(xs[row, :length]))[-1] if length else np.zeros(D)
        close(trace.final.h[row], last)


@each_summary
def test_order_is_never_used(make, wanted):
    """The last state is that of the same inputs in any order; and it goes on from where it was."""
    params, xs = random_params(make()), random_xs()
    shuffled = xs[:, np.random.default_rng(0).permutation(T)]
    first = unroll(make(), params, xs[:, :2])
    whole = unroll(make(), params, xs).final
    close(unroll(make(), params, shuffled).final, whole)
    close(unroll(make(), params, xs[:, 2:], state=first.final).final, whole)


def test_a_mean_streams_in_constant_memory():
    """One event at a time, as a batch has it."""
    network = network_of(running_mean(), readout="every")
    params = network.init(jax.random.key(0), D, 4, 2)
    stream, xs = streaming(network), random_xs(T, D).astype("float32")
    state = stream.start(params)
    for t in range(T):
        state, y = stream.step(params, state, xs[t])
        close(y, network.apply(params, xs[: t + 1]).every[-1], 1e-6)


def test_a_sum_has_the_identity_for_a_jacobian_and_a_pole_its_own():
    """At every step; the matrix recursion has its matrix."""
    for cell, wanted in ((running_sum(), jnp.eye(5)), (one_pole(pole=-0.7), -0.7 * jnp.eye(5))):
        params = cell.init(jax.random.key(0), D, 5)
        Js = step_jacobians(cell, params, unroll(cell, params, random_xs().astype("float32")))
        close(Js, jnp.broadcast_to(wanted, (B, T, 5, 5)), 1e-6)
    params = random_params(linear())
    Js = step_jacobians(linear(), params, unroll(linear(), params, random_xs()))
    same(Js, jnp.broadcast_to(params.W_hh, Js.shape))


def test_a_linear_cell_starts_without_a_bias_and_takes_initialisers():
    """Every draw of recurrent blocks applies to it."""
    params = linear().init(jax.random.key(0), D, 4)
    assert not params.b_ih.any()
    assert not params.b_hh.any()
    assert linear().gates == "h"


def test_bad_input():
    """One clear line."""
    with pytest.raises(ValueError, match="W_ih must be square"):
        with_init(running_sum(), InputIdentity()).init(jax.random.key(0), 2, 3)
    for cell, kind in ((running_mean(), "Projection"), (one_pole(), "OnePole")):
        with pytest.raises(ValueError, match=f"must be {kind}"):
            unroll(cell, rnn().init(jax.random.key(0), D, 4), random_xs())
    params = running_max().init(jax.random.key(0), D, 4)
    with pytest.raises(ValueError, match=f"D = {D}"):
        unroll(running_max(), params, random_xs(B, T, D + 1))
