"""What may happen to a gradient before an optimiser sees it: clipping, with a record of it, and Adam behind it."""

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from seqjax.core import at_least_float32
from seqjax.gradients import divisor, global_norm
from seqjax.sequences import concrete


class Clipped(NamedTuple):
    """What the last update's clip did, which is the state of the transformation."""

    share: Array  # of the entries that it changed
    angle: Array  # degrees between the gradient and what the optimiser was given


def clip(*, norm: Any = None, value: Any = None) -> optax.GradientTransformation:
    """Clip a gradient: every entry to at most `value` in size, then the whole to at most `norm`; both may be traced.

    By value turns the gradient, by norm does not (Pascanu et al. 2013, algorithm 1). The norm neither overflows nor
    underflows, so a huge finite gradient keeps its direction, which optax makes a zero update. Its state is `Clipped`.
    Raises ValueError where neither is given, and for a limit that is not above 0.
    """
    if norm is None and value is None:
        raise ValueError("a clip needs a limit, norm or value: leave the clip out for no clipping")
    for name, limit in (("norm", norm), ("value", value)):
        if limit is not None and concrete(limit) and not limit > 0:
            raise ValueError(f"the limit {name} of a clip must be above 0, got {limit}: leave it out for no clipping")

    zero = jnp.zeros((), jnp.float32)

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Clipped]:
        clipped = updates if value is None else jax.tree.map(lambda g: jnp.clip(g, -value, value), updates)
        clipped = clipped if norm is None else shrunk(clipped, norm)
        turned = zero if value is None else angle(updates, clipped)
        return clipped, Clipped(changed(updates, clipped), turned)

    return optax.GradientTransformation(lambda params: Clipped(zero, zero), update)


def shrunk(tree: Any, limit: Any) -> Any:
    """A gradient scaled down to the limit where its global norm is larger."""
    root = jnp.minimum(1, jnp.sqrt(limit) / jnp.sqrt(global_norm(tree)))  # its square may be too small to hold
    return jax.tree.map(lambda g: g * root.astype(g.dtype) * root.astype(g.dtype), tree)


def changed(before: Any, after: Any) -> Array:
    """The share of entries that differ."""
    counts = jax.tree.leaves(jax.tree.map(lambda b, a: (b != a).sum(), before, after))
    return jnp.float32(sum(counts) / sum(leaf.size for leaf in jax.tree.leaves(before)))


def angle(one: Any, other: Any) -> Array:
    """Degrees between two gradients, exact near 0 and 180 (Kahan 2006); 0 where one of them is zero."""
    u, v = unit(one), unit(other)
    apart, along = (global_norm(jax.tree.map(combine, u, v)) for combine in (jnp.subtract, jnp.add))
    both = (global_norm(u) > 0) & (global_norm(v) > 0)
    return jnp.where(both, jnp.degrees(2 * jnp.arctan2(apart, along)), 0).astype(jnp.float32)


def unit(tree: Any) -> Any:
    """A gradient at norm 1, by way of its largest entry, so that no square is lost; zero stays zero."""
    tree = jax.tree.map(at_least_float32, tree)
    tree = over(tree, jnp.stack([jnp.abs(leaf).max(initial=0) for leaf in jax.tree.leaves(tree)]).max())
    return over(tree, global_norm(tree))


def over(tree: Any, size: Array) -> Any:
    """Every entry divided by a size that none exceeds."""
    return jax.tree.map(lambda g: g / divisor(size).astype(g.dtype), tree)


def clip_of(opt_state: Any) -> Clipped:
    """What the last update's clip did, wherever it stands in a chain; NaN where there is none."""
    leaves = jax.tree.leaves(opt_state, is_leaf=lambda node: isinstance(node, Clipped))
    found = [node for node in leaves if isinstance(node, Clipped)]
    return found[0] if found else Clipped(jnp.float32(jnp.nan), jnp.float32(jnp.nan))


class Limits(NamedTuple):
    """Norms at which a run's own gradients might be clipped."""

    percentile: float  # which so many percent of the updates stay below
    average: float
    low: float  # half the average
    high: float  # ten times the average


def clip_limits(norms: Any, *, percentile: float = 90.0) -> Limits:
    """Limits for a clip by norm, read off the gradient norms of a run [updates], or of many.

    By a percentile, and by the rule of Pascanu et al. (2013, section 3.2): the average norm over many updates, of which
    half to ten times still trains. Updates of a failed run (NaN) do not count. ValueError where none is left, and for
    a percentile outside 0 to 100.
    """
    values = np.asarray(norms, np.float64)
    values = values[np.isfinite(values)]
    if not 0 <= percentile <= 100:
        raise ValueError(f"percentile must lie in 0..100, got {percentile}")
    if not values.size:
        raise ValueError("norms must hold at least one finite norm of a gradient, got none")
    average = float(values.mean())
    return Limits(float(np.percentile(values, percentile)), average, average / 2, average * 10)


def adam(learning_rate: Any, *, clip: Any = None, clip_value: Any = None) -> optax.GradientTransformation:
    """Adam (Kingma and Ba 2015), after clipping by global norm and by value where asked; all may be traced.

    The same plain numbers give the same object, so that recipes built twice share their compiled programs.
    """
    plain = all(isinstance(value, int | float | None) for value in (learning_rate, clip, clip_value))
    return (chained if plain else chained.__wrapped__)(learning_rate, clip, clip_value)


@cache
def chained(learning_rate: Any, norm: Any, value: Any) -> optax.GradientTransformation:
    """Clip first, then Adam."""
    first = [] if norm is None and value is None else [clip(norm=norm, value=value)]
    return optax.chain(*first, optax.adam(learning_rate))
