"""How far back a gradient reaches: ‖dL/ds_t‖ over the whole carry, from one backward pass."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seqjax.core import Cell
from seqjax.gradients import safe_norm
from seqjax.losses import cross_entropy
from seqjax.sequences import batch_last, mask_of


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Profile:
    """Norms of the gradient to the state by lag, counted back from each row's own last step (lag 0).

    A backward half counts from the first step, where its scan ends. NaN where a row has no such lag.
    """

    whole: Array  # [L, B, T] over the whole carry, one L per layer and direction
    fields: dict[str, Array]  # name of a state field -> [L, B, T]


def gradient_profile(
    network: Any,
    params: Any,
    xs: Array,
    targets: Array,
    *,
    lengths: Array | None = None,
    loss: Callable = cross_entropy,
) -> Profile:
    """‖dL/ds_t‖ of a batch xs [B, T, ..], L being each row's own loss, for every layer, direction and lag.

    `network` is a `Network`; its readout is "last" or "every", to which `loss(predictions, targets, mask)` is applied.
    """
    mask = None if lengths is None else mask_of(lengths, xs.shape[1])
    return profile_of(network, params, batch_last(xs), targets, batch_last(mask), loss)


def profile_of(network: Any, params: Any, xs: Array, targets: Array, mask: Array | None, loss: Callable) -> Profile:
    """`gradient_profile` in the inside layout."""

    def total(perturb: Any) -> Array:
        output = network.forward(params, xs, mask, perturb)
        predicted = jnp.moveaxis(getattr(output, network.readout), -1, 0)
        every = {} if network.readout == "last" or mask is None else {"mask": mask.T}
        return loss(predicted, targets, **every) * xs.shape[-1]

    traces = jax.eval_shape(lambda: network.forward(params, xs, mask)).body.traces
    zeros = tuple(jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), trace.after) for trace in traces)
    adjoints = jax.grad(total)(zeros)
    reverses = [reverse for layer in params.body for _, reverse in layer.halves()]
    return by_lag(adjoints, mask, reverses)


def by_lag(adjoints: tuple[Any, ...], mask: Array | None, reverses: list[bool]) -> Profile:
    """Norms of adjoints, fields [T, H, B], in the order of the lag."""
    T, _, B = jax.tree.leaves(adjoints[0])[0].shape
    lengths = jnp.full(B, T) if mask is None else last_valid(mask) + 1
    lag = jnp.broadcast_to(jnp.arange(T), (B, T))

    def order(norms: Array, reverse: bool) -> Array:  # [T, B] -> [B, lag]
        step = lag if reverse else lengths[:, None] - 1 - lag
        values = jnp.take_along_axis(norms.T, jnp.clip(step, 0, T - 1), axis=1)
        return jnp.where(lag < lengths[:, None], values, jnp.nan)

    def stacked(part: Callable[[Any], Array]) -> Array:
        pairs = zip(adjoints, reverses, strict=True)
        return jnp.stack([order(safe_norm(part(adjoint), axis=1), reverse) for adjoint, reverse in pairs])

    names = list(adjoints[0].__dataclass_fields__)
    fields = {name: stacked(lambda adjoint, name=name: getattr(adjoint, name)) for name in names}
    return Profile(stacked(lambda adjoint: jnp.concatenate(jax.tree.leaves(adjoint), axis=1)), fields)


def last_valid(mask: Array) -> Array:
    """Index of each row's last valid step, mask [T, B] -> [B]; -1 where there is none."""
    return jnp.where(mask, jnp.arange(len(mask))[:, None], -1).max(0)


@lru_cache
def direct_path(cell: Cell) -> Cell:
    """The same cell with the gradient through its recurrent product cut, values unchanged.

    What is left is what `update` passes straight through: the forget-gate product along an LSTM's cell line, the keep
    gate along a GRU's, and nothing at all in a plain RNN.
    """
    return replace(cell, recur=lambda params, state: jax.lax.stop_gradient(cell.recur(params, state)))


@dataclass(frozen=True)
class Decay:
    """Per-step factor γ of a geometric decay, with its 95% interval over rows and the lags it was fitted on."""

    factor: float
    low: float
    high: float
    lags: int


def fit_decay(norms: Any, *, first: int = 1, last: int = 40) -> Decay:
    """Fit γ = exp(slope of log norm against lag) over lags first..last of rows [B, T]; the interval is over rows.

    Lags from the first zero or missing norm of any row on are left out, and `lags` says how many remain; with fewer
    than two, the gradient is dead within a step and γ is 0.
    """
    norms = np.asarray(norms, np.float64)[:, first : last + 1]
    alive = np.cumprod((np.isfinite(norms) & (norms > 0)).all(0)).sum()
    if alive < 2:
        return Decay(0.0, 0.0, 0.0, int(alive))
    slopes = np.polyfit(np.arange(alive), np.log(norms[:, :alive]).T, 1)[0]
    half = 1.96 * slopes.std(ddof=1) / np.sqrt(len(slopes)) if len(slopes) > 1 else np.nan
    low, factor, high = np.exp(
        slopes.mean() + half * np.array([-1, 0, 1]) if half == half else np.array([np.nan, slopes.mean(), np.nan])
    )
    return Decay(float(factor), float(low), float(high), int(alive))


def horizon(factor: float, eps: float = 1e-6) -> float:
    """Lag at which a gradient decaying by `factor` a step has shrunk to `eps`, T_eps = ln eps / ln factor.

    Infinite where the factor is 1 or more, 0 where it is 0. ValueError unless factor >= 0 and 0 < eps < 1.
    """
    if not factor >= 0 or not 0 < eps < 1:
        raise ValueError(f"need factor >= 0 and 0 < eps < 1, got factor={factor!r}, eps={eps!r}")
    if factor >= 1:
        return float("inf")
    return float(np.log(eps) / np.log(factor)) if factor > 0 else 0.0
