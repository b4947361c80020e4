"""Feedforward layers: what a pool or a window stands between."""

from collections.abc import Callable, Sequence

import jax
from jax import Array

from seqjax.cells.rnn import ACTIVATIONS
from seqjax.dense import Dense, affine, uniform_head

Layers = tuple[Dense, ...]


def draw_layers(key: Array, widths: Sequence[int]) -> Layers:
    """One layer from every width to the next, drawn as PyTorch's `nn.Linear`."""
    keys = jax.random.split(key, len(widths))
    return tuple(uniform_head(k, F, C) for k, C, F in zip(keys, widths, widths[1:], strict=False))


def feed(φ: Callable[[Array], Array], layers: Layers, x: Array) -> Array:
    """[C, B] -> [F, B] through every layer and the nonlinearity after it."""
    for layer in layers:
        x = φ(affine(layer, x))
    return x


def activation_named(name: str) -> Callable[[Array], Array]:
    """A nonlinearity; ValueError lists the known names."""
    if name not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {sorted(ACTIVATIONS)}, got {name!r}")
    return ACTIVATIONS[name]
