"""Many steps, a block at a time."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from seqjax.core import State


def in_blocks(
    run: Callable[[State, Any], tuple[State, State]], size: int | None, reverse: bool, first: State, each: Any
) -> tuple[State, State]:
    """(final, after) of `run(first, each)` on so many steps at a time, and on what is left; None is all at once.

    `each` is stacked over time, and so is `after`.
    """
    T = jax.tree.leaves(each)[0].shape[0]
    if size is None or size >= T:
        return run(first, each)
    left = T % size
    blocks = jax.tree.map(lambda a: a[: T - left].reshape(-1, size, *a.shape[1:]), each)
    rest = jax.tree.map(lambda a: a[T - left :], each)
    if left and reverse:
        first, last = run(first, rest)
    final, after = jax.lax.scan(run, first, blocks, reverse=reverse)
    after = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), after)
    if not left:
        return final, after
    if not reverse:
        final, last = run(final, rest)
    return final, jax.tree.map(lambda a, b: jnp.concatenate([a, b]), after, last)
