"""Pieces of the tasks that ask at every step for what came some steps before."""

import jax.numpy as jnp
from jax import Array

from seqjax.core import require_sizes


def require_delay(delay: int, length: int) -> None:
    """ValueError unless the sequence is long enough for some step to look back that far."""
    require_sizes(delay=delay, length=length)
    if length <= delay:
        raise ValueError(f"length must be above the delay, {delay}, so that some step is scored, got {length}")


def delayed(xs: Array, delay: int) -> Array:
    """x_{t - delay} of [B, T] at every step t, 0 where there is none yet."""
    return jnp.pad(xs[:, : xs.shape[1] - delay], ((0, 0), (delay, 0)))


def scored_from(first: int, shape: tuple[int, ...]) -> Array:
    """The steps t >= first, [B, T] bool."""
    return jnp.broadcast_to(jnp.arange(shape[1]) >= first, shape)
