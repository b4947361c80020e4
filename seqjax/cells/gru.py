"""Gated recurrent unit (Cho et al. 2014), with the reset gate after the product (PyTorch, cuDNN) or before it."""

from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.nn import sigmoid

from seqjax.core import Affine, Cell, Hidden, factory, require_switches
from seqjax.gated import gated, no_product, normalise, plus, recur


def mix(state: Hidden, z: Array, n: Array) -> Hidden:
    """h_t = (1 - z) ⊙ n + z ⊙ h_{t-1}: z is the keep gate, as in Cho et al. and PyTorch (Chung et al. 2014 swap)."""
    return Hidden(h=n + z * (state.h - n))


def after_product(params: Affine, state: Hidden, u: Array, a: Array) -> Hidden:
    """n = tanh(u_n + r ⊙ (W_hn h + b_hn))."""
    u_r, u_z, u_n = jnp.split(u, 3)
    a_r, a_z, a_n = jnp.split(a, 3)
    r, z = sigmoid(normalise(params, 0, u_r + a_r)), sigmoid(normalise(params, 1, u_z + a_z))
    return mix(state, z, jnp.tanh(normalise(params, 2, u_n + r * a_n)))


def before_product(params: Affine, state: Hidden, u: Array, a: Any) -> Hidden:
    """n = tanh(u_n + W_hn (r ⊙ h) + b_hn): two products in a row, so no affine map for the engine to own."""
    u_r, u_z, u_n = jnp.split(u, 3)
    W_r, W_z, W_n = jnp.split(params.W_hh, 3)
    b_r, b_z, b_n = [None] * 3 if params.b_hh is None else jnp.split(params.b_hh, 3)
    r = sigmoid(normalise(params, 0, u_r + plus(W_r @ state.h, b_r)))
    z = sigmoid(normalise(params, 1, u_z + plus(W_z @ state.h, b_z)))
    return mix(state, z, jnp.tanh(normalise(params, 2, u_n + plus(W_n @ (r * state.h), b_n))))


@factory
def gru(*, reset_after: bool = True, keep_bias: float | None = None, norm: str | None = None) -> Cell:
    """GRU cell with gates r, z, n in PyTorch's order, equal to `nn.GRU` where `reset_after` holds.

    keep_bias     the effective initial bias of the keep gate z, b_ih + b_hh; None keeps the uniform draw
    norm="layer"  normalises every gate's pre-activation, inside the loop; ValueError for another
    """
    require_switches(reset_after=reset_after)
    update, product = (after_product, recur) if reset_after else (before_product, no_product)
    name = "gru" if reset_after else "gru-reset-before"
    return gated(name, gates="rzn", state=Hidden, update=update, bias={"z": keep_bias}, recur=product, norm=norm)
