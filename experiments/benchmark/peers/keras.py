"""Keras on its JAX backend: `SimpleRNN`, `LSTM` and `GRU`."""

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

import jax.numpy as jnp
from jax import Array

from seqjax.core import Affine

os.environ["KERAS_BACKEND"] = "jax"  # read once, at import
keras = import_module("keras")


def layer(cell: str, params: Affine) -> tuple[Any, Callable[[Any, Any], Any]]:
    """The same numbers as ours on the same weights."""
    kind = {"rnn": keras.layers.SimpleRNN, "lstm": keras.layers.LSTM, "gru": keras.layers.GRU}[cell]
    module = kind(params.W_hh.shape[1], return_sequences=True)
    module.build((None, None, params.W_ih.shape[1]))
    rest = [variable.value for variable in module.non_trainable_variables]
    biases = (params.b_ih, params.b_hh)
    kernels = [reordered(cell, W).T for W in (params.W_ih, params.W_hh)]
    weights = [*kernels, jnp.stack([reordered(cell, b) for b in biases]) if cell == "gru" else sum(biases)]
    return weights, lambda weights, xs: module.stateless_call(weights, rest, xs)[0]


def reordered(cell: str, rows: Array) -> Array:
    """Keras's gates: those of the LSTM are in our order, the GRU's are z, r, n."""
    if cell != "gru":
        return rows
    r, z, n = jnp.split(rows, 3)
    return jnp.concatenate([z, r, n])
