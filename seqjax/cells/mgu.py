"""The minimal gated unit (Zhou et al. 2016): one gate that both resets and updates."""

from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.nn import sigmoid

from seqjax.core import Affine, Cell, Hidden, factory
from seqjax.gated import gated, no_product, normalise, plus


def update(params: Affine, state: Hidden, u: Array, a: Any) -> Hidden:
    """h_t = z ⊙ h_{t-1} + (1 - z) ⊙ tanh(u_n + W_hn ((1 - z) ⊙ h_{t-1}) + b_hn): z is the keep gate, as in our GRU (the
    paper's f is 1 - z)."""
    u_z, u_n = jnp.split(u, 2)
    W_z, W_n = jnp.split(params.W_hh, 2)
    b_z, b_n = (None, None) if params.b_hh is None else jnp.split(params.b_hh, 2)
    f = sigmoid(-normalise(params, 0, u_z + plus(W_z @ state.h, b_z)))
    n = jnp.tanh(normalise(params, 1, u_n + plus(W_n @ (f * state.h), b_n)))
    return Hidden(h=state.h + f * (n - state.h))


@factory
def mgu(*, keep_bias: float | None = None, norm: str | None = None) -> Cell:
    """Minimal gated unit with gates z, n.

    keep_bias     the effective initial bias of the keep gate z; None keeps the uniform draw
    norm="layer"  normalises both pre-activations, inside the loop; ValueError for another
    """
    bias = {"z": keep_bias}
    return gated("mgu", gates="zn", state=Hidden, update=update, bias=bias, recur=no_product, norm=norm)
