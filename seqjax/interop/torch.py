"""PyTorch's recurrent weights in and out: `nn.RNN`, `nn.LSTM` and `nn.GRU` of any depth, direction and bias.

The layouts are the same, so this is renaming and checking: `weight_ih_l0_reverse` is `params[0].backward.W_ih`, with
gates in the order i, f, g, o or r, z, n and both bias vectors as they are. PyTorch's GRU resets after the product and
keeps z of the old state, which is what `gru()` does.
"""

import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from seqjax.cells import gru, lstm, rnn
from seqjax.core import Affine, Cell
from seqjax.interop import tensors
from seqjax.interop.loaded import Loaded, exported, require_plain
from seqjax.stack import Layer

if TYPE_CHECKING:
    import torch

FIELDS = {"weight_ih": "W_ih", "weight_hh": "W_hh", "bias_ih": "b_ih", "bias_hh": "b_hh"}  # in the order of Affine
DIRECTIONS = ("", "_reverse")
KEY = re.compile(rf"(?P<prefix>(?:.*\.)?)(?P<field>{'|'.join(FIELDS)}|weight_hr)_l(?P<layer>\d+)(?P<end>_reverse)?")
MODULES = {1: "nn.RNN", 3: "nn.GRU", 4: "nn.LSTM"}  # by gates

Keys = list[list[tuple[str, ...]]]  # [layer][direction][field]
Arrays = dict[str, np.ndarray]


def load(
    source: Mapping[Any, Any] | str | os.PathLike[str],
    *,
    prefix: str | None = None,
    activation: str = "tanh",
    dtype: Any = None,
) -> Loaded:
    """The cell and the layers of a recurrent PyTorch module, from its state_dict or that of a model around it.

    source      a mapping of names to tensors or arrays, or the path of a `.safetensors`, `.pt` or `.pth` file
    prefix      the module's path in the model, such as "encoder.rnn"; None finds it where there is one module
    activation  "relu" for nn.RNN(nonlinearity="relu"), of which the weights say nothing
    dtype       a floating-point type to cast to; None keeps the one they have, bit for bit
    The cell is `rnn(activation=...)`, `gru()` or `lstm(forget_bias=None)`, whose init too is PyTorch's. Other modules'
    keys are ignored. Raises ValueError, naming the key, for missing and extra keys of the module, wrong shapes, mixed
    dtypes, integers, projections (proj_size), float64 where JAX would narrow it, and files that cannot be read.
    """
    wanted = None if dtype is None else tensors.float_type(dtype)
    given = source if isinstance(source, Mapping) else tensors.read(source)
    keys = module_keys(given, module_prefix(given, prefix))
    arrays = {key: tensors.array_of(key, given[key], wanted) for key in flat(keys)}
    cell = cell_of(gates_of(keys, arrays), activation)
    require_no_narrowing(arrays)
    return Loaded(cell, tuple(Layer(*(affine(half, arrays) for half in layer)) for layer in keys))


def export(cell: Cell, params: tuple[Layer, ...], *, prefix: str = "") -> "dict[str, torch.Tensor]":
    """The state_dict of the equal PyTorch module, as new tensors that `load_state_dict(..., strict=True)` takes.

    Raises ValueError for cells other than rnn, lstm and gru without options, for params that are not plain `Affine`
    layers, and where layers differ in directions, biases, dtype or H.
    """
    return {key: tensors.tensor_of(array) for key, array in named(cell, params, prefix).items()}


def save(path: str | os.PathLike[str], cell: Cell, params: tuple[Layer, ...], *, prefix: str = "") -> None:
    """Write what `export` gives to a `.safetensors` file (without PyTorch), or to a `.pt` or `.pth` file.

    The weights do not tell relu from tanh: load them again with the same `activation`. Raises ValueError as `export`
    does, for another suffix and for a missing folder.
    """
    tensors.write(path, named(cell, params, prefix))


def named(cell: Cell, params: tuple[Layer, ...], prefix: str) -> Arrays:
    """The arrays of a stack by PyTorch's names, checked to be what a PyTorch module can hold."""
    exported(cell, "PyTorch")
    require_layers(params)
    arrays = {
        f"{dotted(prefix)}{name}_l{k}{end}": tensors.array_of(f"{field} of layer {k}", getattr(half, field))
        for k, layer in enumerate(params)
        for end, (half, _) in zip(DIRECTIONS, layer.halves(), strict=False)
        for name, field in FIELDS.items()
        if getattr(half, field) is not None
    }
    gates = gates_of(module_keys(arrays, dotted(prefix)), arrays)
    if gates != len(cell.gates):
        raise ValueError(f"params hold weights of {MODULES[gates]}, but cell is {cell.name!r}: pass their own cell")
    return arrays


def require_layers(params: Any) -> None:
    """ValueError unless params are at least one Layer, of halves that are Affine and nothing more."""
    if not isinstance(params, tuple | list) or not params or not all(isinstance(layer, Layer) for layer in params):
        what = type(params).__name__
        raise ValueError(f"params must be a tuple of at least one Layer, got {what}: a network's are its params.body")
    for k, layer in enumerate(params):
        for half, _ in layer.halves():
            require_plain(half, "PyTorch", f" in layer {k}")


def dotted(prefix: str) -> str:
    """A module's path as its keys begin: "encoder.rnn." for "encoder.rnn" (with or without its dot), "" for ""."""
    return prefix.removesuffix(".") + "." if prefix else ""


def module_prefix(given: Mapping[Any, Any], prefix: str | None) -> str:
    """How the keys of the wanted recurrent module begin; ValueError lists the modules where it is not clear."""
    found = sorted({match["prefix"] for key in strings(given) if (match := KEY.fullmatch(key))})
    paths = [each.removesuffix(".") for each in found]
    if not found:
        raise ValueError(f"source must hold a recurrent module, with a key such as weight_ih_l0: {nested(given)}")
    if prefix is None:
        if len(found) > 1:
            raise ValueError(f"source holds several recurrent modules, {paths}: pass one of them as prefix=")
        return found[0]
    if dotted(prefix) not in found:
        raise ValueError(f"prefix must be one of {paths}, got {prefix!r}")
    return dotted(prefix)


def nested(given: Mapping[Any, Any]) -> str:
    """What to do about a mapping without recurrent weights of its own."""
    mappings = {key: value for key, value in given.items() if isinstance(value, Mapping)}
    inner = [key for key, value in mappings.items() if any(map(KEY.fullmatch, strings(value)))]
    if inner:
        return f"pass what this checkpoint holds under {' or '.join(map(repr, inner))}"
    return f"got {', '.join(map(str, list(given)[:3])) or 'nothing'}{', ...' if len(given) > 3 else ''}"


def strings(keys: Iterable[Any]) -> list[str]:
    """Those keys that are strings."""
    return [key for key in keys if isinstance(key, str)]


def module_keys(given: Iterable[Any], prefix: str) -> Keys:
    """The keys of the module by layer, direction and field: all that it must have, and with no others beside them."""
    own = [key for key in strings(given) if key.startswith(prefix) and "." not in key.removeprefix(prefix)]
    found = [match for key in own if (match := KEY.fullmatch(key))]
    for match in found:
        if match["field"] == "weight_hr":
            raise ValueError(f"{match[0]} projects the state (proj_size), which no cell here does")
    biased = any(match["field"].startswith("bias") for match in found)
    fields = list(FIELDS)[: 4 if biased else 2]
    ends = DIRECTIONS[: 1 + any(match["end"] for match in found)]
    depth = len({match["layer"] for match in found})
    keys = [[tuple(f"{prefix}{field}_l{k}{end}" for field in fields) for end in ends] for k in range(depth)]
    require_exactly(set(flat(keys)), set(own))
    return keys


def require_exactly(wanted: set[str], given: set[str]) -> None:
    """ValueError naming the missing keys, or else those that are too many."""
    for problem, keys in (("missing", wanted - given), ("extra", given - wanted)):
        if keys:
            rule = "every layer must have the same directions and biases, and nothing else"
            raise ValueError(f"{problem} keys {', '.join(sorted(keys))}: {rule}")


def flat(keys: Keys) -> list[str]:
    """All keys, in order."""
    return [key for layer in keys for half in layer for key in half]


def gates_of(keys: Keys, arrays: Arrays) -> int:
    """G, from the first layer's W_hh [G*H, H], once every shape and dtype is found to agree with it."""
    first, hidden = keys[0][0][:2]
    shape = arrays[hidden].shape
    if len(shape) != 2 or shape not in [(gates * shape[1], shape[1]) for gates in MODULES] or not shape[1]:
        kinds = ", ".join(f"{gates} for {module}" for gates, module in MODULES.items())
        raise ValueError(f"{hidden} must have shape [G*H, H] with G = {kinds}, got {list(shape)}")
    rows, H = shape
    D = arrays[first].shape[1] if arrays[first].ndim == 2 else "D"
    for k, layer in enumerate(keys):
        shapes = ((rows, len(layer) * H if k else D), (rows, H), (rows,), (rows,))
        for half in layer:
            for key, want in zip(half, shapes, strict=False):  # two of them without biases
                require_like(hidden, arrays[hidden], key, arrays[key], want)
    return rows // H


def require_like(hidden: str, first: np.ndarray, key: str, array: np.ndarray, want: tuple[Any, ...]) -> None:
    """ValueError unless an array has the shape and dtype that go with the first layer's W_hh."""
    if array.shape != want:
        wanted, other = f"[{', '.join(map(str, want))}]", f"{hidden} {list(first.shape)}"
        raise ValueError(f"{key} must have shape {wanted} to go with {other}, got {list(array.shape)}")
    if array.dtype != first.dtype:
        raise ValueError(f"{key} is {array.dtype}, but {hidden} is {first.dtype}: mixed dtypes, cast them to one")


def require_no_narrowing(arrays: Arrays) -> None:
    """ValueError where JAX would silently make float32 of float64."""
    key, array = next(iter(arrays.items()))
    if jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
        fix = 'pass dtype="float32" to cast, or set jax_enable_x64'
        raise ValueError(f"{key} is {array.dtype}, which JAX would narrow: {fix}")


def cell_of(gates: int, activation: str) -> Cell:
    """The cell with PyTorch's equation for a number of gates, and PyTorch's draw."""
    if gates == 1:
        return rnn(activation=activation)
    if activation != "tanh":
        raise ValueError(f"activation must be 'tanh' for weights of {MODULES[gates]}, got {activation!r}")
    return gru() if gates == 3 else lstm(forget_bias=None)


def affine(half: tuple[str, ...], arrays: Arrays) -> Affine:
    """One direction of one layer, in memory of its own: a later step of a PyTorch optimiser must not change it."""
    W_ih, W_hh, *biases = (jnp.array(arrays[key]) for key in half)
    b_ih, b_hh = biases or (None, None)
    return Affine(W_ih, W_hh, b_ih, b_hh)
