"""The plain recurrent network (Elman 1990): one affine map and one nonlinearity."""

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.core import Affine, Cell, Hidden, factory
from seqjax.gated import gated, normalise

ACTIVATIONS = {"tanh": jnp.tanh, "relu": jax.nn.relu}


@factory
def rnn(*, activation: str = "tanh", norm: str | None = None) -> Cell:
    """Plain recurrent cell, h_t = φ(W_ih x_t + b_ih + W_hh h_{t-1} + b_hh), φ = tanh or relu; equal to `nn.RNN`.

    norm="layer" normalises the pre-activation, inside the loop. Raises ValueError for another activation or norm.
    """
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {sorted(ACTIVATIONS)}, got {activation!r}")
    φ = ACTIVATIONS[activation]

    def update(params: Affine, state: Hidden, u: Array, a: Array) -> Hidden:
        return Hidden(h=φ(normalise(params, 0, u + a)))

    name = "rnn" if activation == "tanh" else f"rnn-{activation}"
    return gated(name, gates="h", state=Hidden, update=update, norm=norm)
