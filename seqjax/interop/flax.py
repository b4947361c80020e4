"""Flax weights in and out, linen's and nnx's, and any cell as an nnx cell.

    cell, params = load(variables)                            # the one recurrent layer in there, whatever is around it
    cell, params = load(variables, "RNN_0", ("fwd", "bwd"))   # a stack by name, whose upper layer has two directions
    ys = unroll_stack(cell, params, xs).ys                    # the numbers it gives in Flax
    variables = {"params": to_linen(cell, params)}            # and back, a layer at a time
    layer = nnx.RNN(as_nnx(lstm(peephole=True), D, H, rngs=rngs))

Flax's GRU resets after the product and keeps z of the old state, which is what `gru()` does. Where two biases would add
up, Flax has one: loaded, the other is zero; written, it is the sum.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from seqjax.cells import gru, lstm, rnn
from seqjax.core import Affine, Cell
from seqjax.interop import tensors
from seqjax.interop.flax_cell import NNXCell as NNXCell
from seqjax.interop.flax_cell import as_nnx as as_nnx
from seqjax.interop.flax_export import to_linen as to_linen
from seqjax.interop.flax_export import to_nnx as to_nnx
from seqjax.interop.flax_layout import to_affine
from seqjax.interop.flax_source import Found, activation_of, check, find, one
from seqjax.interop.loaded import Loaded
from seqjax.sequences import concrete
from seqjax.stack import Layer


def load(source: Any, *layers: str | Sequence[str], activation: str | None = None, dtype: Any = None) -> Loaded:
    """The cell and the layers of a recurrent Flax model.

    source      linen variables or params, an nnx module or an nnx.State, with LSTMCell, OptimizedLSTMCell, GRUCell or
                SimpleCell at any depth; what stands between and around them is not loaded
    layers      the layers in order, each the path of a cell or of what holds just that one, such as "encoder/cell" or
                "encoder"; a pair (forward, backward) is a layer of two directions. Not needed where there is one cell.
    activation  "tanh" or "relu" of a SimpleCell, of which weights say nothing; None takes what its module says, or tanh
    dtype       a floating-point type to cast to; None keeps the one they have, bit for bit
    Raises ValueError with the path of what is missing, extra, unknown, of another shape, dtype, class or equation.
    """
    wanted = None if dtype is None else tensors.float_type(dtype)
    cells = find(source)
    chosen = [tuple(one(cells, name) for name in directions(layer)) for layer in layers or (None,)]
    everyone = [found for halves in chosen for found in halves]
    for found in everyone:
        check(found)
    cell = common_cell(everyone, activation)
    check_dtypes(everyone, wanted)
    params = tuple(Layer(*(affine(found, wanted) for found in halves)) for halves in chosen)
    check_widths(chosen, params)
    return Loaded(cell, params)


def directions(layer: Any) -> tuple[str | None, ...]:
    """The names of a layer's halves, one or two; ValueError for anything else."""
    names = (layer,) if layer is None or isinstance(layer, str) else layer
    if not isinstance(names, tuple | list) or len(names) not in (1, 2):
        raise ValueError(f"a layer must be a path, or a pair of paths (forward, backward), got {layer!r}")
    return tuple(names)


def common_cell(cells: list[Found], activation: str | None) -> Cell:
    """The one cell that all are; ValueError where they are several."""
    ours = [cell_of(found, activation) for found in cells]
    for found, cell in zip(cells, ours, strict=True):
        if cell is not ours[0]:
            first = f"{cells[0].at()} is {ours[0].name!r}"
            raise ValueError(f"layers must be of one cell, but {first} and {found.at()} is {cell.name!r}")
    return ours[0]


def cell_of(found: Found, activation: str | None) -> Cell:
    """The cell with the equation of a Flax cell; ValueError where the wanted activation is not its own."""
    own = activation_of(found)
    if activation is not None and own not in (None, activation):
        raise ValueError(f"activation must be {own!r} for {found.at()} ({found.kind}), got {activation!r}")
    if found.layout.cell == "rnn":
        return rnn(activation=activation or own or "tanh")
    return gru() if found.layout.cell == "gru" else lstm(forget_bias=None)


def check_dtypes(cells: list[Found], wanted: Any) -> None:
    """ValueError where the arrays have several dtypes and are not cast to one, and where JAX would narrow them."""
    dtypes = {found.at(leaf): array.dtype for found in cells for leaf, array in found.leaves.items()}
    first = next(iter(dtypes))
    for path, dtype in dtypes.items() if wanted is None else [("dtype", wanted)]:
        if wanted is None and dtype != dtypes[first]:
            raise ValueError(
                f"{path} is {dtype}, but {first} is {dtypes[first]}: pass dtype= to cast all of them to one"
            )
        if jax.dtypes.canonicalize_dtype(dtype) != dtype:
            raise ValueError(f"{path} is {dtype}, which JAX would narrow: pass dtype='float32', or set jax_enable_x64")


def affine(found: Found, wanted: Any) -> Affine:
    """The weights of a cell in memory of their own: a later step of the Flax model must not change or free them."""

    def own(leaf: str, array: Any) -> Any:
        if not concrete(array):
            return array if wanted is None else array.astype(wanted)
        return jnp.array(tensors.array_of(found.at(leaf), array, wanted))

    return to_affine(found.layout, {leaf: own(leaf, array) for leaf, array in found.leaves.items()})


def check_widths(cells: list[tuple[Found, ...]], params: tuple[Layer, ...]) -> None:
    """ValueError unless every layer reads what the one below shows, and the halves of a layer have the same H."""
    shown = params[0].forward.W_ih.shape[1]
    for halves, layer in zip(cells, params, strict=True):
        sizes = [(half.W_ih.shape[1], half.W_hh.shape[1]) for half, _ in layer.halves()]
        for found, (D, H) in zip(halves, sizes, strict=True):
            if shown != D:
                raise ValueError(f"{found.at()} reads D = {D} numbers a step, but its layer is given {shown}")
            if sizes[0][1] != H:
                raise ValueError(f"{found.at()} has H = {H}, but {halves[0].at()}, its other half, has {sizes[0][1]}")
        shown = sum(H for _, H in sizes)
