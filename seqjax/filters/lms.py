"""Filters by taps, and the least-mean-squares rule that adapts them (Widrow and Hoff 1960)."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seqjax.core import require_sizes
from seqjax.sequences import concrete


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Adapted:
    """What an adaptive filter did at every step."""

    weights: Array  # [T, K] after the step
    ys: Array  # [T] the output, by the weights before the step
    errors: Array  # [T] target less output


def fir(taps: Any, xs: Any) -> Array:
    """y_t = Σ_k taps_k x_{t-k}, of xs [T] with zeros before them; ValueError unless both are vectors."""
    taps = vector("taps", taps)
    return windows(xs, taps.size) @ taps


def windows(xs: Any, K: int) -> Array:
    """(x_t, x_{t-1}, .., x_{t-K+1}) for every t, zeros before the first: [T, K]."""
    xs = vector("xs", xs)
    padded = jnp.concatenate([jnp.zeros(K - 1, xs.dtype), xs])
    return jnp.stack([padded[K - 1 - k : K - 1 - k + len(xs)] for k in range(K)], axis=1)


def lms(xs: Any, targets: Any, *, taps: int, step: float, weights: Any = None) -> Adapted:
    """Adapt so many taps to make xs [T] into targets [T]: w ← w + step · error · window.

    It converges in the mean for 0 < step < 2/λ_max (`lms_bound`); single paths need a smaller step. Raises ValueError
    for vectors of different lengths, weights that are not [taps], and a step that is not above 0.
    """
    require_sizes(taps=taps)
    require_pairs(xs, targets)
    if not step > 0:
        raise ValueError(f"step must be above 0, got {step}")
    seen = windows(xs, taps)
    first = jnp.zeros(taps, seen.dtype) if weights is None else jnp.asarray(weights, seen.dtype)
    if first.shape != (taps,):
        raise ValueError(f"weights must be [taps] = [{taps}], got {list(first.shape)}")

    def adapt(w: Array, each: tuple[Array, Array]) -> tuple[Array, Adapted]:
        window, target = each
        y = w @ window
        w = w + step * (target - y) * window
        return w, Adapted(w, y, target - y)

    return jax.lax.scan(adapt, first, (seen, vector("targets", targets).astype(seen.dtype)))[1]


def autocorrelation(xs: Any, taps: int) -> np.ndarray:
    """R = E[window windowᵀ], Toeplitz, [taps, taps], from the measured (biased) autocorrelation of xs [T]."""
    require_sizes(taps=taps)
    values = np.asarray(vector("xs", xs), np.float64)
    if len(values) < taps:
        raise ValueError(f"xs must be at least as long as taps = {taps}, got {len(values)} steps")
    r = np.array([values[k:] @ values[: len(values) - k] for k in range(taps)]) / len(values)
    return r[np.abs(np.subtract.outer(np.arange(taps), np.arange(taps)))]


def lms_bound(xs: Any, taps: int) -> float:
    """2/λ_max of the measured autocorrelation: at a smaller step LMS converges in the mean. ValueError for silence."""
    largest = float(np.linalg.eigvalsh(autocorrelation(xs, taps))[-1])
    if largest <= 0:
        raise ValueError("xs is zero throughout, so that it bounds no step")
    return 2 / largest


def lms_mean(R: Any, wanted: Any, *, step: float, steps: int) -> np.ndarray:
    """E w of LMS from zero, by E w ← E w + step · R (wanted - E w): [steps, K], for an autocorrelation R [K, K]."""
    require_sizes(steps=steps)
    R, wanted = np.asarray(R, np.float64), np.asarray(wanted, np.float64)
    path = [np.zeros(len(wanted))]
    for _ in range(steps):
        path.append(path[-1] + step * R @ (wanted - path[-1]))
    return np.stack(path[1:])


def require_pairs(xs: Any, targets: Any) -> None:
    """ValueError unless there is a target for every input."""
    if np.shape(xs) != np.shape(targets):
        raise ValueError(f"targets must be like xs, [T], got {list(np.shape(targets))} and {list(np.shape(xs))}")


def vector(name: str, values: Any) -> Array:
    """The values as a vector of floats; ValueError unless they are at least one, in one row, real and finite."""
    if np.ndim(values) != 1 or not np.size(values):
        raise ValueError(f"{name} must be one vector, [T], got shape {list(np.shape(values))}")
    given = values if isinstance(values, Array) else np.asarray(values)
    if not (jnp.issubdtype(given.dtype, jnp.floating) or jnp.issubdtype(given.dtype, jnp.integer)):
        raise ValueError(f"{name} must be real numbers, got {given.dtype}")
    if concrete(given) and not np.isfinite(given).all():
        raise ValueError(f"{name} holds NaN or infinity")
    return jnp.asarray(given if jnp.issubdtype(given.dtype, jnp.floating) else given.astype(float))
