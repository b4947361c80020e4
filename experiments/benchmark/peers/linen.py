"""flax.linen: `RNN` over its fastest cell of each kind."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from flax import linen

from experiments.benchmark.peers.seqjax import CELLS
from seqjax.core import Affine
from seqjax.interop.flax import to_linen
from seqjax.network import NetworkParams

MODULES: dict[str, Any] = {"rnn": linen.SimpleCell, "lstm": linen.OptimizedLSTMCell, "gru": linen.GRUCell}


def layer(cell: str, params: Affine) -> tuple[Any, Callable[[Any, Any], Any]]:
    """The same numbers as ours on the same weights."""
    module = linen.RNN(MODULES[cell](params.W_hh.shape[1]))
    return {"params": {"cell": to_linen(CELLS[cell], params)}}, module.apply


class Last(linen.Module):
    """A layer, and an affine readout of its last output: xs [B, T, D] -> logits [B, K]."""

    cell: str
    hidden: int
    outputs: int

    @linen.compact
    def __call__(self, xs: Any) -> Any:
        ys: Any = linen.RNN(MODULES[self.cell](self.hidden))(xs)
        return linen.Dense(self.outputs)(ys[:, -1])


def step(cell: str, params: NetworkParams) -> Callable[[np.ndarray], Any]:
    """A jitted cell and readout on a batch of one, which gives its old state's buffers to the new: [D] -> [K]."""
    H = params.head.W.shape[1]
    module, head = MODULES[cell](H), linen.Dense(len(params.head.b))
    weights = {"params": to_linen(CELLS[cell], params.body)}
    readout = {"params": {"kernel": params.head.W.T, "bias": params.head.b}}
    state = module.initialize_carry(jax.random.key(0), (1, params.body[0].forward.W_ih.shape[1]))

    def advance(weights: Any, readout: Any, state: Any, x: Any) -> Any:
        state, y = module.apply(weights, state, x[None])
        return state, head.apply(readout, y)

    program = jax.jit(advance, donate_argnums=2)

    def take(x: np.ndarray) -> Any:
        nonlocal state
        state, y = program(weights, readout, state, x)
        return jax.block_until_ready(y)[0]

    return take
