"""Spectra of recurrent matrices: how fast a loop holds, and how much it can stretch."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from seqjax.core import Cell, Params


@dataclass(frozen=True)
class Block:
    """Two numbers of one recurrent block: |largest eigenvalue| bounds the far past, σ_max a single step."""

    spectral_radius: float
    sigma_max: float


def square(matrix: Any) -> np.ndarray:
    """The matrix in double precision; ValueError unless it is square and finite."""
    M = np.asarray(matrix, np.complex128 if np.iscomplexobj(matrix) else np.float64)
    if M.ndim != 2 or M.shape[0] != M.shape[1] or not M.size:
        raise ValueError(f"matrix must be square, got shape {list(M.shape)}")
    if not np.isfinite(M).all():
        raise ValueError("matrix holds NaN or infinity")
    return M


def spectral_radius(matrix: Any) -> float:
    """Largest |eigenvalue| of a square matrix, on the host in float64."""
    return float(np.abs(np.linalg.eigvals(square(matrix))).max())


def with_spectral_radius(matrix: Any, radius: float) -> np.ndarray:
    """The matrix scaled until its spectral radius is `radius`, on the host in float64.

    ValueError for a radius that is not a finite number of at least 0, and for a matrix without a radius to scale: zero,
    or nilpotent (up to rounding, N ε σ_max), which holds nothing however large it is made.
    """
    M = square(matrix)
    if not 0 <= radius < float("inf"):
        raise ValueError(f"radius must be a finite number of at least 0, got {radius}")
    own, largest = float(np.abs(np.linalg.eigvals(M)).max()), float(np.linalg.norm(M, 2))
    if own <= len(M) * float(np.finfo(float).eps) * largest:
        raise ValueError("matrix is zero or nilpotent: its spectral radius is 0, and no scale makes it another")
    return M * (radius / own)


def singular_values(matrix: Any) -> np.ndarray:
    """Singular values of a square matrix, largest first, on the host in float64."""
    return np.linalg.svd(square(matrix), compute_uv=False)


def recurrent_blocks(cell: Cell, params: Params) -> dict[str, Block]:
    """Spectral radius and σ_max of every gate's recurrent block W_h* [H, H], by the gate's letter.

    Raises ValueError for a cell without gates, or whose gates do not look back.
    """
    if not cell.gates or params.W_hh is None:
        raise ValueError(f"cell {cell.name!r} has no recurrent blocks: nothing but its state looks back")
    blocks = np.split(np.asarray(params.W_hh, np.float64), len(cell.gates))
    return {
        gate: Block(spectral_radius(W), float(singular_values(W)[0]))
        for gate, W in zip(cell.gates, blocks, strict=True)
    }
