"""Is a recurrence linear? Superposition, measured."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.core import Cell, Params
from seqjax.unroll import unroll


def superposition(cell: Cell, params: Params, xs: Array, others: Array, **options: Any) -> Array:
    """How far the answer to a sum is from the sum of answers, over the size of the answer:

        ‖f(a + b) - f(a) - f(b) + f(0)‖ / ‖f(a + b) - f(0)‖

    f being all outputs on one sequence [T, D] or a batch [B, T, D]. 0, to rounding, for a linear recursion, with a bias
    or without; 1 and more where the answers have nothing to do with each other. Options and errors as for `unroll`;
    ValueError for inputs of different shapes.
    """
    if jnp.shape(xs) != jnp.shape(others):
        raise ValueError(f"others must be like xs, got {list(jnp.shape(others))} and {list(jnp.shape(xs))}")

    def answer(xs: Array) -> Array:
        return unroll(cell, params, xs, **options).ys

    xs, others = jnp.asarray(xs), jnp.asarray(others)
    both, still = answer(xs + others), answer(jnp.zeros_like(xs))
    gap = both - answer(xs) - answer(others) + still
    size = jnp.linalg.norm(jax.lax.collapse(both - still, 0))
    return jnp.linalg.norm(jax.lax.collapse(gap, 0)) / jnp.where(size > 0, size, 1)
