"""Backpropagation through time by hand against autodiff, with masks, and against one step done on paper."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import D, H, all_zero, close, generic, random_mask, random_params, random_state, random_xs

from seqjax import Affine, lstm, rnn, unroll
from seqjax.bptt import lstm_backward, rnn_backward
from seqjax.core import Hidden

both = pytest.mark.parametrize(
    ("cell", "backward"), [(rnn(), rnn_backward), (lstm(), lstm_backward)], ids=["rnn", "lstm"]
)


def weights_of(trace):
    """dL/dys and dL/dfinal of the generic loss."""
    return jax.grad(lambda out: generic(out))((trace.ys, trace.final))


@both
@pytest.mark.parametrize("masked", [False, True], ids=["all steps", "holes full of NaN"])
@pytest.mark.parametrize("steps", [1, 50])
def test_by_hand_equals_autodiff(cell, backward, masked, steps):
    """To params, inputs and initial state, to 1e-10, on weights that do not commute (S12, B25)."""
    params, xs, state = random_params(cell), random_xs(steps, D), random_state(cell, random_params(cell))
    mask = random_mask(steps).at[0].set(True) if masked else None
    xs = xs if mask is None else jnp.where(mask[:, None], xs, jnp.nan)

    def loss(params, xs, state):
        trace = unroll(cell, params, xs, mask=mask, state=state)
        return generic((trace.ys, trace.final)), trace

    wanted, trace = jax.jit(jax.grad(loss, (0, 1, 2), has_aux=True))(params, xs, state)
    close(tuple(backward(params, xs, trace, *weights_of(trace))), wanted)
    assert not any(all_zero(part) for part in wanted)


@both
def test_an_all_masked_run_hands_the_gradient_back(cell, backward):
    """Identity to the state, zero to everything else."""
    params, xs, state = random_params(cell), random_xs(3, D), random_state(cell, random_params(cell))
    trace = unroll(cell, params, xs, mask=jnp.zeros(3, bool), state=state)
    got = backward(params, xs, trace, jnp.ones((3, H)), trace.final)
    close(got.state, trace.final)
    assert all_zero((got.params, got.xs))


def test_two_steps_on_paper():
    """H = D = 1, w_ih = 1, w_hh = 1/2, no bias, x = (1, 0), L = h_2: δ_2 = 1 - h_2², δ_1 = (1 - h_1²) δ_2 / 2."""
    params = Affine(jnp.ones((1, 1)), jnp.full((1, 1), 0.5), jnp.zeros(1), jnp.zeros(1))
    xs = jnp.array([[1.0], [0.0]])
    trace = unroll(rnn(), params, xs)
    got = rnn_backward(params, xs, trace, jnp.array([[0.0], [1.0]]), Hidden(jnp.zeros(1)))
    h1 = np.tanh(1.0)
    h2 = np.tanh(h1 / 2)
    δ2 = 1 - h2**2
    δ1 = (1 - h1**2) * δ2 / 2
    close(
        replace(got.params, b_hh=None), Affine(*(jnp.array(a) for a in ([[δ1]], [[δ2 * h1]], [δ1 + δ2])), None), 1e-14
    )
    close((got.xs, got.state.h), (jnp.array([[δ1], [δ2]]), jnp.array([δ1 / 2])), 1e-14)


@pytest.mark.parametrize(
    ("cell", "backward", "message"),
    [
        (rnn(norm="layer"), rnn_backward, "plain Affine"),
        (lstm(peephole=True), lstm_backward, "plain Affine.*got Peephole"),
        (lstm(coupled=True), lstm_backward, "of 4 gates"),
        (lstm(), rnn_backward, "of 1 gates"),
    ],
)
def test_other_cells_are_refused(cell, backward, message):
    """The recursions are those of two equations."""
    params, xs = random_params(cell), random_xs(3, D)
    trace = unroll(cell, params, xs)
    with pytest.raises(ValueError, match=message):
        backward(params, xs, trace, trace.ys, trace.final)
    with pytest.raises(ValueError, match=r"one sequence \[T, D\]"):
        rnn_backward(random_params(rnn()), random_xs(), trace, trace.ys, trace.final)
