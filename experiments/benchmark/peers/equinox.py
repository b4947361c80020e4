"""Equinox: `LSTMCell` and `GRUCell`, which act on one example, vmapped over the batch and scanned as its guide does."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.core import Affine

eqx = import_module("equinox")


def layer(cell: str, params: Affine) -> tuple[Any, Callable[[Any, Any], Any]]:
    """The same numbers as ours on the same weights."""
    H, D = params.W_hh.shape[1], params.W_ih.shape[1]
    module = {"lstm": eqx.nn.LSTMCell, "gru": eqx.nn.GRUCell}[cell](D, H, key=jax.random.key(0))
    bias = params.b_ih + params.b_hh
    held = {"weight_ih": params.W_ih, "weight_hh": params.W_hh, "bias": bias}
    if cell == "gru":  # b_n is the one inside the reset product
        b_n = params.b_hh[2 * H :]
        held |= {"bias": bias.at[2 * H :].add(-b_n), "bias_n": b_n}
    module = eqx.tree_at(lambda m: [getattr(m, name) for name in held], module, list(held.values()))
    weights, rest = eqx.partition(module, eqx.is_array)

    def apply(weights: Any, xs: Array) -> Array:
        return jax.vmap(lambda row: scanned(eqx.combine(weights, rest), cell, row))(xs)

    return weights, apply


def scanned(module: Any, cell: str, xs: Array) -> Array:
    """Outputs [T, H] of one sequence [T, D]."""
    zero = jnp.zeros(module.hidden_size, xs.dtype)

    def step(state: Any, x: Array) -> tuple[Any, Array]:
        state = module(x, state)
        return state, state[0] if cell == "lstm" else state

    return jax.lax.scan(step, (zero, zero) if cell == "lstm" else zero, xs)[1]
