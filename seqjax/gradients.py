"""Norms that neither overflow nor underflow."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


def safe_norm(x: Array, axis: int = 0) -> Array:
    """Euclidean norm along one axis, in float32 or wider; finite and non-zero wherever the truth is a normal float.

    Its gradient at 0 is 0.
    """
    x = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    top = jax.lax.stop_gradient(jnp.abs(x).max(axis, keepdims=True, initial=0))  # the norm does not depend on its scale
    scale = divisor(top)
    squares = ((x / scale) ** 2).sum(axis, keepdims=True)
    return jnp.where(top == 0, 0, jnp.sqrt(jnp.where(top == 0, 1, squares)) * scale).squeeze(axis)


def divisor(top: Array) -> Array:
    """What numbers of at most this size can be divided by, to be near 1; zero gives 1."""
    largest = 1 / jnp.finfo(top.dtype).tiny  # beyond it 1/scale would be subnormal, which XLA flushes to zero
    return jnp.where(top > 0, jnp.minimum(top, largest), 1)


def compensated(total: Array, more: Array) -> tuple[Array, Array]:
    """(total + more, what rounding lost of it), so that a hundred thousand terms add up to all digits (Knuth 1969)."""
    both = total + more
    added = both - total
    lost = (total - (both - added)) + (more - added)
    return both, jnp.where(jnp.isfinite(both), lost, 0)


def global_norm(tree: Any) -> Array:
    """Euclidean norm of all arrays together; infinite or NaN only where an entry, or the true norm, is."""
    return safe_norm(jnp.stack([safe_norm(leaf.ravel()) for leaf in jax.tree.leaves(tree)]))


def all_finite(tree: Any) -> Array:
    """Whether no entry of any array is NaN or infinite."""
    return all_true(jax.tree.map(jnp.isfinite, tree))


def all_true(tree: Any) -> Array:
    """Whether every entry of every array holds."""
    return jnp.array([leaf.all() for leaf in jax.tree.leaves(tree)]).all()
