"""The libraries side by side: which are installed, which cells they have, and where theirs differ from ours.

A library is a module of this package, imported only where the library is. Those in JAX offer one function,
    layer(cell, params) -> weights, apply(weights, xs [B, T, D]) -> ys [B, T, H]
from the name of a cell and our weights of it; PyTorch has calls of its own.
"""

from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any

DISTRIBUTIONS = {  # by the name of the library here
    "seqjax": "seqjax",
    "torch": "torch",
    "linen": "flax",
    "nnx": "flax",
    "haiku": "dm-haiku",
    "equinox": "equinox",
    "keras": "keras",
}
LIBRARIES = tuple(DISTRIBUTIONS)
CELLS = ("rnn", "lstm", "gru")
IN_JAX = ("linen", "nnx", "haiku", "equinox", "keras")
MODULES = {"dm-haiku": "haiku"}
ABSENT = "not installed"
LACKS = {("haiku", "rnn"): "relu only", ("equinox", "rnn"): "no plain cell"}
OWN_EQUATION = {("haiku", "gru"): "resets before the product"}  # as much work, but not on the same weights


def installed(library: str) -> bool:
    """Whether a library can be imported here."""
    distribution = DISTRIBUTIONS[library]
    return find_spec(MODULES.get(distribution, distribution)) is not None


def module_of(library: str) -> Any:
    """The module of a library that is installed."""
    return import_module(f"{__name__}.{library}")


def absence(library: str, cell: str) -> str:
    """Why a library does not take part for a cell, in a few words; "" where it does."""
    if not installed(library):
        return ABSENT
    if library == "torch" and not module_of(library).usable():
        return "no CUDA"
    return LACKS.get((library, cell), "")


def versions() -> dict[str, str]:
    """Of every distribution that is installed, and of JAX."""
    found = {name for library, name in DISTRIBUTIONS.items() if installed(library)} - {"seqjax"}
    return {name: metadata.version(name) for name in sorted(found | {"jax", "jaxlib", "optax", "numpy"})}
