"""This library."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import seqjax
from seqjax.core import Affine, Cell
from seqjax.network import NetworkParams
from seqjax.streaming import streaming

CELLS: dict[str, Cell] = {"rnn": seqjax.rnn(), "lstm": seqjax.lstm(), "gru": seqjax.gru()}


def layer(cell: str, params: Affine) -> tuple[Affine, Callable[[Any, Any], Any]]:
    """`unroll` with its defaults."""
    return params, lambda weights, xs: seqjax.unroll(CELLS[cell], weights, xs).ys


def step(cell: str, params: NetworkParams) -> Callable[[np.ndarray], Any]:
    """`streaming` of a network: event [D] to answer [K]."""
    stream = streaming(seqjax.network(CELLS[cell]))
    state = stream.start(params)

    def take(x: np.ndarray) -> Any:
        nonlocal state
        state, y = stream.step(params, state, x)
        return jax.block_until_ready(y)

    return take
