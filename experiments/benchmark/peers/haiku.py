"""Haiku: `dynamic_unroll` of its LSTM, and of its GRU, which resets before the product and keeps by 1 - z."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import jax.numpy as jnp
from jax import Array

from seqjax.core import Affine

hk = import_module("haiku")


def layer(cell: str, params: Affine) -> tuple[Any, Callable[[Any, Any], Any]]:
    """The LSTM's numbers equal ours on the same weights, the GRU's those of our reset-before GRU."""
    core, weights = {"lstm": (hk.LSTM, lstm_weights), "gru": (hk.GRU, gru_weights)}[cell]

    def outputs(xs: Array) -> Array:
        unit = core(params.W_hh.shape[1])
        return hk.dynamic_unroll(unit, xs, unit.initial_state(xs.shape[0]), time_major=False)[0]

    return weights(params), hk.without_apply_rng(hk.transform(outputs)).apply


def lstm_weights(params: Affine) -> dict[str, dict[str, Array]]:
    """One matrix over [x, h], gates i, g, f, o, and a forget bias of 1 that the cell adds by itself."""
    bias = params.b_ih + params.b_hh
    i, f, g, o = jnp.split(jnp.concatenate([params.W_ih, params.W_hh, bias[:, None]], axis=1), 4)
    rows = jnp.concatenate([i, g, f.at[:, -1].add(-1), o])
    return {"lstm/linear": {"w": rows[:, :-1].T, "b": rows[:, -1]}}


def gru_weights(params: Affine) -> dict[str, dict[str, Array]]:
    """Gates z, r, n, with z the gate that lets the new in: minus our pre-activation."""

    def reordered(rows: Array) -> Array:
        r, z, n = jnp.split(rows, 3)
        return jnp.concatenate([-z, r, n])

    W_i, W_h, b = map(reordered, (params.W_ih, params.W_hh, params.b_ih + params.b_hh))
    return {"gru": {"w_i": W_i.T, "w_h": W_h.T, "b": b}}
