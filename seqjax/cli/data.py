"""Sequences to run a model on: drawn as asked for, or read from a file."""

from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

KINDS = (".npy", ".npz", ".csv")


def drawn(inputs: str, key: Array, B: int, T: int, D: int) -> Array:
    """xs [B, T, D]: "gaussian:VARIANCE", independent numbers, or "onehot", uniform symbols. ValueError for others."""
    kind, _, number = inputs.partition(":")
    if kind == "onehot" and not number:
        return jax.nn.one_hot(jax.random.randint(key, (B, T), 0, D), D)
    try:
        variance = float(number or 1)
    except ValueError:
        variance = -1.0
    if kind != "gaussian" or not 0 <= variance < float("inf"):
        raise ValueError(f"--inputs must be gaussian:VARIANCE or onehot, got {inputs!r}")
    return jnp.sqrt(variance) * jax.random.normal(key, (B, T, D))


def read(path: Path, D: int) -> tuple[Array, Any]:
    """(xs [B, T, D], lengths or None) of a file: .npy of [T, D] or [B, T, D], .npz with `xs` and perhaps `lengths`,
    .csv with a row of D numbers a step. ValueError for what is none of these, and for another width than D."""
    if path.suffix not in KINDS:
        raise ValueError(f"--data must be a file {', '.join(KINDS)}, got {str(path)!r}")
    try:
        xs, lengths = arrays(path)
    except OSError as error:
        raise ValueError(f"--data {path} cannot be read ({error.strerror or error})") from None
    except (ValueError, KeyError, TypeError, EOFError, BadZipFile):
        what = "arrays xs and perhaps lengths" if path.suffix == ".npz" else "one array of numbers"
        raise ValueError(f"--data {path} cannot be read as a {path.suffix} file of {what}") from None
    xs = xs[None] if xs.ndim == 2 else xs
    if xs.ndim != 3 or xs.shape[2] != D:
        shape = list(xs.shape)
        raise ValueError(f"--data {path} must hold [B, T, D] or [T, D] with the model's D = {D}, got {shape}")
    return jnp.asarray(xs, jnp.float32), lengths


def arrays(path: Path) -> tuple[np.ndarray, Any]:
    """The real numbers in a file; ValueError for other things."""
    if path.suffix == ".csv":
        return np.loadtxt(path, delimiter=",", ndmin=2), None
    with path.open("rb") as file:
        found: Any = np.load(file)
        if path.suffix == ".npy":
            return real("fiu", found), None
        with found:
            return real("fiu", found["xs"]), real("iu", found["lengths"]) if "lengths" in found.files else None


def real(kinds: str, array: np.ndarray) -> np.ndarray:
    """An array of numbers of these kinds, floats as float64; ValueError for complex numbers, text and objects."""
    if array.dtype.kind not in kinds:
        raise ValueError("not numbers of these kinds")
    return array if kinds == "iu" else array.astype(np.float64)
