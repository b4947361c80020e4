"""Where the recurrent cells of a Flax model are, in its modules or in a tree of its weights, and what they must be."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from flax.core import meta

from seqjax.interop.flax_layout import KINDS, LAYOUTS, NNX, Layout

SIGMOIDS = (jax.nn.sigmoid, jax.lax.logistic)
ACTIVATIONS = {"tanh": (jnp.tanh, jax.nn.tanh, jax.lax.tanh), "relu": (jax.nn.relu,)}


@dataclass(frozen=True)
class Found:
    """A cell of a Flax model: where it is, what it holds, and its module where that is at hand."""

    path: str  # "encoder/cell", or "" for a bare cell
    layout: Layout  # that of its class, or the nearest
    leaves: dict[str, Any]  # "ii/kernel" and so on
    module: Any = None  # the nnx cell

    @property
    def kind(self) -> str:
        """The name of its class."""
        return self.layout.kind if self.module is None else type(self.module).__name__

    def at(self, leaf: str = "") -> str:
        """Its path in the model, or that of one of its arrays or attributes."""
        return "/".join(part for part in (self.path, leaf) if part) or "the cell"


def find(source: Any) -> dict[str, Found]:
    """Every recurrent cell of an nnx module, an nnx.State, or a tree of weights (linen's or nnx's), by its path.

    Of linen's variables only the collection "params" is searched. Raises ValueError for another kind of source.
    """
    if isinstance(source, nnx.Module):
        return {found.path: found for found in modules(source)}
    if not isinstance(source, Mapping | list | tuple):
        kinds = "linen variables or params, an nnx module or an nnx.State"
        raise ValueError(f"source must be {kinds}, got {type(source).__name__}")
    if not isinstance(source, nnx.State | list | tuple) and isinstance(source.get("params"), Mapping):
        source = source["params"]
    return {found.path: found for found in groups(dict(flatten(source)))}


def modules(model: nnx.Module) -> Iterator[Found]:
    """The cells of an nnx model, of whatever class."""
    for path, module in nnx.iter_modules(model):
        if isinstance(module, nnx.RNNCellBase):
            leaves = {"/".join(leaf): array for leaf, array in flatten(nnx.state(module))}
            layout = NNX.get(type(module), LAYOUTS[0])  # of another class, `check` refuses it
            yield Found("/".join(map(str, path)), layout, leaves, module)


def flatten(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every weight of a tree with its path; variables and boxes are opened, random states of nnx passed over."""
    if isinstance(tree, list | tuple):
        tree = dict(enumerate(tree))
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from flatten(value, (*path, str(key)))
    elif isinstance(tree, nnx.Variable):
        if isinstance(tree, nnx.Param):
            yield path, tree.get_value()
    elif tree is not None:
        yield path, meta.unbox(tree)


def groups(flat: Mapping[tuple[str, ...], Any]) -> Iterator[Found]:
    """The groups of weights that look like a cell."""
    for prefix in sorted({path[:-2] for path in flat if len(path) > 1}):
        depth = len(prefix)
        leaves = {"/".join(path[depth:]): leaf for path, leaf in flat.items() if path[:depth] == prefix}
        if layout := recognise(leaves):
            yield Found("/".join(prefix), layout, leaves)


def recognise(leaves: Mapping[str, Any]) -> Layout | None:
    """The nearest of the layouts that find more than half of their dense layers here, or None."""
    dense = {leaf.split("/")[0] for leaf in leaves if leaf.count("/") == 1 and leaf.endswith(("/kernel", "/bias"))}

    def nearness(layout: Layout) -> tuple[bool, int]:
        shape = getattr(leaves.get(f"{layout.hidden[0]}/kernel"), "shape", ())
        proportion = len(shape) == 2 and shape[1] * len(layout.hidden) == shape[0] * layout.gates
        return proportion, len(leaves.keys() & layout.shapes(1, 1).keys())

    near = [layout for layout in LAYOUTS if len(dense & {*layout.inputs, *layout.hidden}) > len(layout.inputs)]
    return max(near, key=nearness, default=None)


def one(cells: Mapping[str, Found], name: str | None) -> Found:
    """The one cell at or below a path, or the only one there is where name is None; ValueError otherwise."""
    if name is not None and name in cells:
        return cells[name]
    below = [cell for path, cell in cells.items() if name is None or path.startswith(f"{name}/")]
    if len(below) == 1:
        return below[0]
    if not cells:
        raise ValueError(f"source holds no {', '.join(KINDS)}: a cell is a group of dense layers under Flax's names")
    known = f"cells are at {', '.join(cells)}"
    if name is None:
        raise ValueError(
            f"source holds {len(cells)} cells: name the layers in order, a pair for two directions; {known}"
        )
    raise ValueError(f"layer {name!r} must be the path of one cell, but {len(below)} are there; {known}")


def check(found: Found) -> None:
    """ValueError unless a cell has a class and options with an equal here, and just the arrays that its layout says."""
    if found.module is not None:
        check_module(found)
    names = found.layout.shapes(1, 1).keys()
    for problem, wrong in (("missing", names - found.leaves.keys()), ("extra", found.leaves.keys() - names)):
        if wrong:
            paths = ", ".join(found.at(leaf) for leaf in sorted(wrong))
            raise ValueError(f"{problem} {paths}: {found.kind} has {', '.join(names)}, and nothing else")
    D, H = (rows(found, f"{layers[0]}/kernel") for layers in (found.layout.inputs, found.layout.hidden))
    for leaf, shape in found.layout.shapes(D, H).items():
        got = list(jnp.shape(found.leaves[leaf]))
        if got != shape:
            raise ValueError(f"{found.at(leaf)} must have shape {shape} in {found.kind}, got {got}")


def rows(found: Found, leaf: str) -> int:
    """How many numbers a dense layer reads; ValueError unless its kernel is a matrix."""
    shape = jnp.shape(found.leaves[leaf])
    if len(shape) != 2 or 0 in shape:
        raise ValueError(f"{found.at(leaf)} must be a matrix [inputs, units], got shape {list(shape)}")
    return shape[0]


def check_module(found: Found) -> None:
    """ValueError for a class, a subclass or an option with another equation."""
    if type(found.module) not in NNX:
        raise ValueError(f"{found.at()} must be one of {', '.join(KINDS)}, and no subclass, got {found.kind}")
    if getattr(found.module, "gate_fn", SIGMOIDS[0]) not in SIGMOIDS:
        raise ValueError(f"{found.at('gate_fn')} must be sigmoid to have an equal here, got {found.module.gate_fn!r}")
    if getattr(found.module, "residual", False):
        raise ValueError(f"{found.at('residual')} must be False to have an equal here: no cell adds h to its input")
    activation_of(found)


def activation_of(found: Found) -> str | None:
    """Its activation, "tanh" or "relu", or None where the weights do not say; ValueError for any other."""
    simple = found.layout.cell == "rnn"
    if found.module is None:
        return None if simple else "tanh"
    own = found.module.activation_fn
    for name in ("tanh", "relu") if simple else ("tanh",):
        if own in ACTIVATIONS[name]:
            return name
    allowed = "tanh or relu" if simple else "tanh"
    raise ValueError(f"{found.at('activation_fn')} must be {allowed} to have an equal here, got {own!r}")
