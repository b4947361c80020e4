"""Norms that neither overflow nor underflow, and what may happen to a gradient before an optimiser sees it."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array

from seqjax.sequences import concrete


def safe_norm(x: Array, axis: int = 0) -> Array:
    """Euclidean norm along one axis, in float32 or wider; finite and non-zero wherever the truth is a normal float.

    Its gradient at 0 is 0.
    """
    x = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    top = jax.lax.stop_gradient(jnp.abs(x).max(axis, keepdims=True, initial=0))  # the norm does not depend on its scale
    largest = 1 / jnp.finfo(x.dtype).tiny  # beyond it 1/scale would be subnormal, which XLA flushes to zero
    scale = jnp.where(top > 0, jnp.minimum(top, largest), 1)
    squares = ((x / scale) ** 2).sum(axis, keepdims=True)
    return jnp.where(top == 0, 0, jnp.sqrt(jnp.where(top == 0, 1, squares)) * scale).squeeze(axis)


def compensated(total: Array, more: Array) -> tuple[Array, Array]:
    """(total + more, what rounding lost of it), so that a hundred thousand terms add up to all digits (Knuth 1969)."""
    both = total + more
    added = both - total
    lost = (total - (both - added)) + (more - added)
    return both, jnp.where(jnp.isfinite(both), lost, 0)


def global_norm(tree: Any) -> Array:
    """Euclidean norm of all arrays together; infinite or NaN only where an entry, or the true norm, is."""
    return safe_norm(jnp.stack([safe_norm(leaf.ravel()) for leaf in jax.tree.leaves(tree)]))


def clip_by_global_norm(limit: Array | float) -> optax.GradientTransformation:
    """Scale the gradient down to `limit` where its global norm is larger (Pascanu et al. 2013, algorithm 1).

    Unlike optax's, the norm does not overflow, so a huge finite gradient keeps its direction instead of becoming a
    zero update; `limit` may be traced. Raises ValueError for a limit that is not above 0.
    """
    if concrete(limit) and not limit > 0:
        raise ValueError(f"the limit of a clip must be above 0, got {limit}: leave the clip out for no clipping")

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        root = jnp.minimum(1, jnp.sqrt(limit) / jnp.sqrt(global_norm(updates)))  # its square may be too small to hold
        return jax.tree.map(lambda g: g * root.astype(g.dtype) * root.astype(g.dtype), updates), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def adam(learning_rate: Any, *, clip: Any = None) -> optax.GradientTransformation:
    """Adam (Kingma and Ba 2015), after clipping by global norm where `clip` is given; both may be traced.

    The same plain numbers give the same object, so that recipes built twice share their compiled programs.
    """
    plain = all(isinstance(value, int | float | None) for value in (learning_rate, clip))
    return (chained if plain else chained.__wrapped__)(learning_rate, clip)


@cache
def chained(learning_rate: Any, clip: Any) -> optax.GradientTransformation:
    """Clip first, then Adam."""
    first = [] if clip is None else [clip_by_global_norm(clip)]
    return optax.chain(*first, optax.adam(learning_rate))


def all_finite(tree: Any) -> Array:
    """Whether no entry of any array is NaN or infinite."""
    return all_true(jax.tree.map(jnp.isfinite, tree))


def all_true(tree: Any) -> Array:
    """Whether every entry of every array holds."""
    return jnp.array([leaf.all() for leaf in jax.tree.leaves(tree)]).all()
