"""How Flax's cells store weights: kernels transposed, gate by gate or all in one, one bias where two would add up."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from flax import nnx
from jax import Array

from seqjax.core import Affine


@dataclass(frozen=True)
class Layout:
    """The dense layers of a Flax cell by name, in the order of our gates, and which of them have a bias."""

    kind: str  # Flax's name of the cell
    cell: str  # ours
    gates: int
    inputs: tuple[str, ...]  # what reads x: one dense layer per gate, or one for all gates
    hidden: tuple[str, ...]  # what reads h, in step with `inputs`
    biased: tuple[str, ...]

    def shapes(self, D: int, H: int) -> dict[str, list[int]]:
        """Every array of a cell of H units that reads D numbers, by its path."""
        width = self.gates * H // len(self.inputs)
        kernels = [f"{name}/kernel" for name in (*self.inputs, *self.hidden)]
        rows = [D] * len(self.inputs) + [H] * len(self.hidden)
        shapes = {path: [size, width] for path, size in zip(kernels, rows, strict=True)}
        return shapes | {f"{name}/bias": [width] for name in self.biased}


def layout(kind: str, cell: str, gates: int, inputs: str, hidden: str, biased: str) -> Layout:
    """A layout from names separated by spaces."""
    return Layout(kind, cell, gates, *(tuple(names.split()) for names in (inputs, hidden, biased)))


LINEN = {  # by our cell; linen's OptimizedLSTMCell stores what its LSTMCell does
    "lstm": layout("LSTMCell", "lstm", 4, "ii if ig io", "hi hf hg ho", "hi hf hg ho"),
    "gru": layout("GRUCell", "gru", 3, "ir iz in", "hr hz hn", "ir iz in hn"),
    "rnn": layout("SimpleCell", "rnn", 1, "i", "h", "i"),
}
NNX: dict[type, Layout] = {
    nnx.LSTMCell: layout("LSTMCell", "lstm", 4, "ii if_ ig io", "hi hf hg ho", "hi hf hg ho"),
    nnx.OptimizedLSTMCell: layout("OptimizedLSTMCell", "lstm", 4, "dense_i", "dense_h", "dense_h"),
    nnx.GRUCell: layout("GRUCell", "gru", 3, "dense_i", "dense_h", "dense_i"),
    nnx.SimpleCell: layout("SimpleCell", "rnn", 1, "dense_i", "dense_h", "dense_i"),
}
LAYOUTS = (*LINEN.values(), *NNX.values())
KINDS = ("LSTMCell", "OptimizedLSTMCell", "GRUCell", "SimpleCell")


def to_affine(layout: Layout, leaves: Mapping[str, Array]) -> Affine:
    """Flax's arrays, complete and of the right shapes, as ours; a bias that Flax does not have is zero."""

    def rows(names: tuple[str, ...]) -> Array:
        return jnp.concatenate([leaves[f"{name}/kernel"].T for name in names])

    def biases(names: tuple[str, ...]) -> Array:
        absent = jnp.zeros_like(leaves[f"{layout.biased[0]}/bias"])
        return jnp.concatenate([leaves.get(f"{name}/bias", absent) for name in names])

    return Affine(rows(layout.inputs), rows(layout.hidden), biases(layout.inputs), biases(layout.hidden))


def from_affine(layout: Layout, params: Affine) -> dict[str, dict[str, Array]]:
    """Our weights as {dense layer: {"kernel": .., "bias": ..}}; a bias that stands for two is b_ih + b_hh."""
    absent = jnp.zeros(len(params.W_ih), params.W_ih.dtype)
    arrays: list[Any] = [params.W_ih, params.W_hh, params.b_ih, params.b_hh]
    blocks = [jnp.split(absent if array is None else array, len(layout.inputs)) for array in arrays]
    tree: dict[str, dict[str, Array]] = {}
    for i, h, W_i, W_h, b_i, b_h in zip(layout.inputs, layout.hidden, *blocks, strict=True):
        apart = i in layout.biased and h in layout.biased
        for name, W, b in ((i, W_i, b_i), (h, W_h, b_h)):
            tree[name] = {"kernel": W.T} | ({"bias": b if apart else b_i + b_h} if name in layout.biased else {})
    return tree
