"""How far back a gradient reaches: ‖dL/ds_t‖ over the whole carry, from one backward pass."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seqjax.core import Cell
from seqjax.gradients import safe_norm
from seqjax.losses import cross_entropy
from seqjax.sequences import batch_first, checked_tokens


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Profile:
    """Norms of the gradient to the state by lag, counted back from each row's own last step (lag 0).

    A backward half counts from the first step, where its scan ends. NaN where a row has no such lag.
    """

    whole: Array  # [L, B, T] over the whole carry, one L per layer and direction: l0 forward, l0 backward, l1 ...
    fields: dict[str, Array]  # name of a state field -> [L, B, T]


def gradient_profile(
    network: Any,
    params: Any,
    xs: Array,
    targets: Array,
    *,
    lengths: Any = None,
    loss: Callable[..., Array] = cross_entropy,
) -> Profile:
    """‖dL/ds_t‖ of a batch xs [B, T, ..], L being each row's own loss, for every layer, direction and lag.

    `network` is a `Network` whose readout is "last" or "every", to which `loss(predictions, targets, mask)` is
    applied row by row. Raises ValueError as `network.apply` does, for other readouts, and for targets that are
    not one row each.
    """
    if network.readout not in ("last", "every"):
        raise ValueError(f'network must read "last" or "every", so that there is one loss, got {network.readout!r}')
    steps = network.steps(params, xs, lengths=lengths)
    if not steps.batched or jnp.shape(targets)[:1] != steps.xs.shape[-1:]:
        raise ValueError(
            f"xs must be a batch with one row of targets each, got {jnp.shape(xs)} and {jnp.shape(targets)}"
        )
    judged = steps.mask.T if network.readout == "every" and steps.mask is not None else None
    if loss is cross_entropy:
        checked_tokens(targets, judged, params.head.W.shape[0], "targets")

    def own(predictions: Array, targets: Array, mask: Array | None) -> Array:
        return loss(predictions[None], targets[None], None if mask is None else mask[None])

    def total(perturb: Any) -> Array:
        output = network.forward(params, steps.xs, steps.mask, perturb)
        return jax.vmap(own)(batch_first(getattr(output, network.readout)), jnp.asarray(targets), judged).sum()

    traces = jax.eval_shape(lambda: network.forward(params, steps.xs, steps.mask)).body.traces
    zeros = tuple(jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), trace.after) for trace in traces)
    reverses = [reverse for layer in params.body for _, reverse in layer.halves()]
    return by_lag(jax.grad(total)(zeros), steps.mask, reverses)


def by_lag(adjoints: tuple[Any, ...], mask: Array | None, reverses: list[bool]) -> Profile:
    """Norms of adjoints, fields [T, H, B], in the order of the lag."""
    T, _, B = jax.tree.leaves(adjoints[0])[0].shape
    lengths = jnp.full(B, T) if mask is None else mask.sum(0)
    lag = jnp.broadcast_to(jnp.arange(T), (B, T))

    def order(norms: Array, reverse: bool) -> Array:  # [T, B] -> [B, lag]
        step = lag if reverse else lengths[:, None] - 1 - lag
        values = jnp.take_along_axis(norms.T, jnp.clip(step, 0, T - 1), axis=1)
        return jnp.where(lag < lengths[:, None], values, jnp.nan)

    def stacked(part: Callable[[Any], Array]) -> Array:
        pairs = zip(adjoints, reverses, strict=True)
        return jnp.stack([order(safe_norm(part(adjoint), axis=1), reverse) for adjoint, reverse in pairs])

    names = [
        jax.tree_util.keystr(path, simple=True, separator=".")
        for path, _ in jax.tree_util.tree_leaves_with_path(adjoints[0])
    ]
    fields = {name: stacked(lambda adjoint, i=i: jax.tree.leaves(adjoint)[i]) for i, name in enumerate(names)}
    return Profile(stacked(lambda adjoint: jnp.concatenate(jax.tree.leaves(adjoint), axis=1)), fields)


@cache
def direct_path(cell: Cell) -> Cell:
    """The same cell with the gradient through its recurrent product cut, values unchanged.

    What is left is what `update` passes straight through: the forget-gate product along an LSTM's cell line, the keep
    gate along a GRU's, and nothing at all in a plain RNN. A cell whose product is in `update` raises ValueError.
    """

    def recur(params: Any, state: Any) -> Any:
        a = cell.recur(params, state)
        if not jax.tree.leaves(a):
            raise ValueError(f"cell {cell.name!r} has no recurrent product of its own (in `recur`) that could be cut")
        return jax.lax.stop_gradient(a)

    return replace(cell, recur=recur)


@dataclass(frozen=True)
class Decay:
    """Per-step factor γ of a geometric decay, with its 95% interval over rows."""

    factor: float
    low: float
    high: float
    rows: int  # fitted
    dead: int  # left out, as their gradient is exactly zero within two lags


def fit_decay(norms: Any, *, first: int = 1, last: int = 40) -> Decay:
    """Fit γ = exp(mean over rows of the slope of log norm against lag), lags first..last of norms [B, lag].

    Each row is fitted up to its first zero, or its end (NaN). Rows with fewer than two lags say nothing and are left
    out; γ is 0 where all others are dead, and ValueError is raised where none is left.
    """
    if np.ndim(norms) != 2:
        raise ValueError(f"norms must be [B, lag], such as profile.whole[0], got shape {np.shape(norms)}")
    norms = np.asarray(norms, np.float64)[:, first : last + 1]
    rows = norms[np.isfinite(norms[:, :2]).all(1)] if norms.shape[1] > 1 else norms[:0]
    if not len(rows):
        raise ValueError(f"norms must hold at least two of the lags {first}..{last} in some row to fit a decay")
    slopes = [slope(row) for row in rows if (row[:2] > 0).all()]
    dead = len(rows) - len(slopes)
    if not slopes:
        return Decay(0.0, 0.0, 0.0, 0, dead)
    mean = np.mean(slopes)
    half = 1.96 * np.std(slopes, ddof=1) / len(slopes) ** 0.5 if len(slopes) > 1 else np.nan
    low, factor, high = (float(np.exp(value)) for value in (mean - half, mean, mean + half))
    return Decay(factor, low, high, len(slopes), dead)


def slope(row: np.ndarray) -> float:
    """Least-squares slope of log norm against lag, up to the first zero or missing norm."""
    with np.errstate(invalid="ignore"):
        alive = int(np.cumprod(np.isfinite(row) & (row > 0)).sum())
    return float(np.polyfit(np.arange(alive), np.log(row[:alive]), 1)[0])


def horizon(factor: float, eps: float = 1e-6) -> float:
    """Lag at which a gradient decaying by `factor` a step has shrunk to `eps`, T_eps = ln eps / ln factor.

    Infinite where the factor is 1 or more, 0 where it is 0. ValueError unless factor >= 0 and 0 < eps < 1.
    """
    if not factor >= 0 or not 0 < eps < 1:
        raise ValueError(f"need factor >= 0 and 0 < eps < 1, got factor={factor!r}, eps={eps!r}")
    if factor >= 1:
        return float("inf")
    return float(np.log(eps) / np.log(factor)) if factor > 0 else 0.0
