"""Geometric decay of a gradient: its per-step factor, fitted, and how many steps that leaves."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from seqjax.statistics import mean


@dataclass(frozen=True)
class Decay:
    """Per-step factor γ of a geometric decay, with its 95% interval over rows."""

    factor: float
    low: float
    high: float
    rows: int  # fitted
    dead: int  # left out, as their gradient is exactly zero within two lags


def fit_decay(log10: Any, *, first: int = 1, last: int = 40) -> Decay:
    """Fit γ = exp(mean over rows of the slope of log norm against lag), lags first..last of log10 norms [B, lag].

    Each row is fitted up to its first zero (-inf), or its end (NaN). Rows with fewer than two lags say nothing and are
    left out; γ is 0 where all others are dead. ValueError where none is left, and for a gradient that has overflowed.
    """
    if np.ndim(log10) != 2:
        raise ValueError(f"log10 must be [B, lag], such as profile.log10[0], got shape {np.shape(log10)}")
    logs = np.asarray(log10, np.float64)[:, first : last + 1] * np.log(10)
    if np.isposinf(logs).any():
        raise ValueError("log10 holds infinity: the gradient overflowed, and no decay can be fitted to it")
    rows = logs[~np.isnan(logs[:, :2]).any(1)] if logs.shape[1] > 1 else logs[:0]
    if not len(rows):
        raise ValueError(f"log10 must hold at least two of the lags {first}..{last} in some row to fit a decay")
    slopes = [slope(row) for row in rows if np.isfinite(row[:2]).all()]
    dead = len(rows) - len(slopes)
    if not slopes:
        return Decay(0.0, 0.0, 0.0, 0, dead)
    fitted = mean(slopes)
    low, factor, high = (float(np.exp(value)) for value in (fitted.low, fitted.value, fitted.high))
    return Decay(factor, low, high, len(slopes), dead)


def slope(row: np.ndarray) -> float:
    """Least-squares slope of log norm against lag, up to the first zero or missing norm."""
    alive = int(np.cumprod(np.isfinite(row)).sum())
    return float(np.polyfit(np.arange(alive), row[:alive], 1)[0])


def horizon(factor: float, eps: float = 1e-6) -> float:
    """Lag at which a gradient decaying by `factor` a step has shrunk to `eps`, T_eps = ln eps / ln factor.

    Infinite where the factor is 1 or more, 0 where it is 0. ValueError unless factor >= 0 and 0 < eps < 1.
    """
    if not factor >= 0 or not 0 < eps < 1:
        raise ValueError(f"need factor >= 0 and 0 < eps < 1, got factor={factor!r}, eps={eps!r}")
    if factor >= 1:
        return float("inf")
    return float(np.log(eps) / np.log(factor)) if factor > 0 else 0.0


def half_life(factor: float) -> float:
    """Lag at which a gradient decaying by `factor` a step has halved; as `horizon` with eps = 0.5."""
    return horizon(factor, 0.5)


def reachable_steps(log10: Any, *, bound: float = 1e-20) -> np.ndarray:
    """How many steps a gradient reaches, [..] of log10 norms [.., lag]: lags whose norm is at least `bound`,
    below which Pascanu et al. (2013) count a step as out of reach. ValueError unless bound > 0.
    """
    if not bound > 0:
        raise ValueError(f"bound must be above 0, got {bound!r}")
    return (np.nan_to_num(np.asarray(log10, np.float64), nan=-np.inf, neginf=-np.inf) >= np.log10(bound)).sum(-1)
