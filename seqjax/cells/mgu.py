"""The minimal gated unit (Zhou et al. 2016): one gate that both resets and updates."""

from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.nn import sigmoid

from seqjax.core import Affine, Cell, Hidden, factory
from seqjax.gated import gated, no_product, normalise, plus


def update(params: Affine, state: Hidden, u: Array, a: Any) -> Hidden:
    """h_t = (1 - f) ⊙ h_{t-1} + f ⊙ tanh(u_n + W_hn (f ⊙ h_{t-1}) + b_hn): f = 1 writes, two products in a row."""
    u_f, u_n = jnp.split(u, 2)
    W_f, W_n = jnp.split(params.W_hh, 2)
    b_f, b_n = (None, None) if params.b_hh is None else jnp.split(params.b_hh, 2)
    f = sigmoid(normalise(params, 0, u_f + plus(W_f @ state.h, b_f)))
    n = jnp.tanh(normalise(params, 1, u_n + plus(W_n @ (f * state.h), b_n)))
    return Hidden(h=state.h + f * (n - state.h))


@factory
def mgu(*, norm: str | None = None) -> Cell:
    """Minimal gated unit with gates f, n; norm="layer" normalises both pre-activations, ValueError for another."""
    return gated("mgu", gates="fn", state=Hidden, update=update, recur=no_product, norm=norm)
