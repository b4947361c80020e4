"""Long short-term memory (Hochreiter and Schmidhuber 1997; forget gate by Gers et al. 2000)."""

from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
from jax import Array
from jax.nn import sigmoid

from seqjax.core import Affine, Cell, gated


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class LSTMState:
    """The LSTM's whole carry, N = 2H: what it shows and what it holds."""

    h: Array  # [H]
    c: Array  # [H]


def update(params: Affine, state: LSTMState, u: Array, a: Array) -> LSTMState:
    """c_t = σ(f) ⊙ c_{t-1} + σ(i) ⊙ tanh(g),  h_t = σ(o) ⊙ tanh(c_t)."""
    i, f, g, o = jnp.split(u + a, 4)
    c = sigmoid(f) * state.c + sigmoid(i) * jnp.tanh(g)
    return LSTMState(h=sigmoid(o) * jnp.tanh(c), c=c)


@cache
def lstm(*, forget_bias: float | None = 1.0) -> Cell:
    """LSTM cell with gates i, f, g, o in PyTorch's order, equal to `nn.LSTM`.

    `forget_bias` is the effective initial bias of the forget gate, b_ih + b_hh; None keeps the uniform draw.
    """
    return gated("lstm", gates="ifgo", state=LSTMState, update=update, bias={"f": forget_bias})
