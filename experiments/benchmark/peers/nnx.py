"""flax.nnx: `RNN` over its fastest cell of each kind."""

from collections.abc import Callable
from typing import Any

from flax import nnx

from experiments.benchmark.peers.seqjax import CELLS
from seqjax.core import Affine
from seqjax.interop.flax import to_nnx


def layer(cell: str, params: Affine) -> tuple[Any, Callable[[Any, Any], Any]]:
    """The same numbers as ours on the same weights, whose GRU must not have a bias inside its reset product."""
    module = nnx.RNN(to_nnx(CELLS[cell], params, optimized=cell == "lstm"), rngs=False)
    graph, weights, rest = nnx.split(module, nnx.Param, ...)
    return weights, lambda weights, xs: nnx.merge(graph, weights, rest)(xs, rngs=nnx.Rngs(0))  # its zeros ask for a key
