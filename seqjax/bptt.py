"""Backpropagation through time written out by hand, for reading: the delta recursions of the tanh RNN and of the LSTM.

Both go back through one sequence, with ∂s = dL/ds_t of the state that left step t and δ_t = dL/dz_t of the
pre-activations z_t = W_ih x_t + b_ih + W_hh h_{t-1} + b_hh. Every weight's gradient is a sum of T outer products,
    dL/dW_hh = Σ_t δ_t h_{t-1}ᵀ,  dL/dW_ih = Σ_t δ_t x_tᵀ,  dL/db = Σ_t δ_t,
and each step hands ∂h_{t-1} = W_hhᵀ δ_t to the one before. A masked step hands ∂s on as it is, and δ_t is 0 there.
Training uses autodiff, which these equal to rounding.

The trace is that of a run forward in time without resets, of plain weights: no peepholes, no LayerNorm.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.nn import sigmoid

from seqjax.cells.gates import LSTMState
from seqjax.core import Affine, Hidden, State
from seqjax.gated import plus
from seqjax.unroll import Trace


class Gradients(NamedTuple):
    """dL/d of everything that an unroll reads."""

    params: Affine
    xs: Array  # [T, D]
    state: State  # of the initial state


def valid(trace: Trace, t: int) -> Array | bool:
    """Whether step t is not masked."""
    return True if trace.mask is None else trace.mask[t]


def collected(params: Affine, xs: Array, before: Array, deltas: list[Array], state: State) -> Gradients:
    """The sums of outer products, from δ_T, ..., δ_1."""
    δ = jnp.stack(deltas[::-1])  # [T, G*H]
    bias = None if params.b_ih is None else δ.sum(0)
    weights = Affine(jnp.einsum("tg,td->gd", δ, xs), jnp.einsum("tg,th->gh", δ, before), bias, bias)
    return Gradients(weights, δ @ params.W_ih, state)


def require_plain(params: Affine, xs: Array, gates: int) -> None:
    """ValueError unless params are plain weights of so many gates, and xs is one sequence."""
    if type(params) is not Affine or params.gain is not None or params.W_hh is None:
        raise ValueError(f"params must be a plain Affine, without peepholes or LayerNorm, got {type(params).__name__}")
    if params.W_hh.shape[0] != gates * params.W_hh.shape[1]:
        raise ValueError(f"params must be of {gates} gates, got W_hh {list(params.W_hh.shape)}")
    if jnp.ndim(xs) != 2:
        raise ValueError(f"xs must be one sequence [T, D], got shape {list(jnp.shape(xs))}: vmap over a batch")


def rnn_backward(params: Affine, xs: Array, trace: Trace, dys: Array, dfinal: Hidden) -> Gradients:
    """Gradients of a tanh RNN's run over one sequence xs [T, D], from dL/dys [T, H] and dL/d(final state).

    δ_t = (1 - h_t²) ⊙ ∂h_t,  ∂h_t = dL/dy_t + W_hhᵀ δ_{t+1}                     (lecture, backpropagation through time)
    """
    require_plain(params, xs, 1)
    dh, deltas = dfinal.h, []
    for t in reversed(range(len(xs))):
        m = valid(trace, t)
        dh = dh + jnp.where(m, dys[t], 0)
        δ = jnp.where(m, (1 - trace.after.h[t] ** 2) * dh, 0)
        dh = jnp.where(m, params.W_hh.T @ δ, dh)
        deltas.append(δ)
    return collected(params, cleaned(xs, trace), trace.before.h, deltas, Hidden(dh))


def lstm_backward(params: Affine, xs: Array, trace: Trace, dys: Array, dfinal: LSTMState) -> Gradients:
    """Gradients of an LSTM's run over one sequence xs [T, D], from dL/dys [T, H] and dL/d(final state).

    ∂h_t = dL/dy_t + W_hhᵀ δ_{t+1},  ∂c_t = f_{t+1} ⊙ ∂c_{t+1} + ∂h_t ⊙ o ⊙ (1 - tanh²c_t)
    δ_i = ∂c ⊙ g ⊙ i(1 - i),  δ_f = ∂c ⊙ c_{t-1} ⊙ f(1 - f),  δ_g = ∂c ⊙ i ⊙ (1 - g²),  δ_o = ∂h ⊙ tanh c ⊙ o(1 - o)
    (book, exercise 5)
    """
    require_plain(params, xs, 4)
    dh, dc, deltas = dfinal.h, dfinal.c, []
    for t in reversed(range(len(xs))):
        m, old, tanh_c = valid(trace, t), trace.before.c[t], jnp.tanh(trace.after.c[t])
        z = trace.us[t] + plus(params.W_hh @ trace.before.h[t], params.b_hh)
        i, f, g, o = jnp.split(z, 4)
        i, f, g, o = sigmoid(i), sigmoid(f), jnp.tanh(g), sigmoid(o)
        dh = dh + jnp.where(m, dys[t], 0)
        at_c = dc + dh * o * (1 - tanh_c**2)
        gates = at_c * g * i * (1 - i), at_c * old * f * (1 - f), at_c * i * (1 - g**2), dh * tanh_c * o * (1 - o)
        δ = jnp.where(m, jnp.concatenate(gates), 0)
        dh, dc = jnp.where(m, params.W_hh.T @ δ, dh), jnp.where(m, f * at_c, dc)
        deltas.append(δ)
    return collected(params, cleaned(xs, trace), trace.before.h, deltas, LSTMState(dh, dc))


def cleaned(xs: Array, trace: Trace) -> Array:
    """The inputs as the cell saw them, of zeros where masked."""
    return xs if trace.mask is None else jnp.where(trace.mask[:, None], xs, 0)
