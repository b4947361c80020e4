"""Cell functions, which are of one example at one time, over a batch that is the last axis, and over time.

`vmap` puts the batch in front, by transposing, wherever an array with a batch meets one without. So vectors of params
get a batch axis of their own before they meet one; matrices, which only enter products, stay as they are.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.core import Cell, Params, State


def is_vector(p: Any) -> bool:
    """Whether an array of params meets the batch number by number, and not in a product."""
    return jnp.ndim(p) < 2


def batch_size(*examples: Any) -> int:
    """B of arrays [.., B]."""
    return jax.tree.leaves(examples)[0].shape[-1]


def vectors(params: Params, B: int) -> list[Array]:
    """The vectors of params with the batch as their last axis: [H] -> [H, B]."""
    return [jnp.broadcast_to(p[..., None], (*p.shape, B)) for p in jax.tree.leaves(params) if is_vector(p)]


def over_vectors(function: Callable[..., Any], params: Params) -> Callable[..., Any]:
    """A cell function of params and one example as one of the params' `vectors` and a batch, batch last."""
    leaves, tree = jax.tree.flatten(params)

    def one(own: list[Array], *example: Any) -> Any:
        each = iter(own)
        return function(tree.unflatten([next(each) if is_vector(p) else p for p in leaves]), *example)

    return jax.vmap(one, -1, -1)


def over_batch(function: Callable[..., Any]) -> Callable[..., Any]:
    """A cell function of params and one example as one of a batch whose last axis is the batch."""

    def over(params: Params, *examples: Any) -> Any:
        return over_vectors(function, params)(vectors(params, batch_size(examples)), *examples)

    return over


def over_time(function: Callable[..., Any]) -> Callable[..., Any]:
    """A cell function of params and one example as one of [T, ..., B] arrays."""
    return lambda params, *examples: jax.vmap(lambda *each: over_batch(function)(params, *each))(*examples)


def start(cell: Cell, params: Params, B: int) -> State:
    """The cell's own initial state for a batch, batch last."""
    return jax.tree.map(lambda s: jnp.broadcast_to(s[..., None], (*s.shape, B)), cell.start(params))
