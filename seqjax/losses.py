"""Losses and scores of a batch, averaged over valid steps only; an all-padding batch gives 0."""

from collections.abc import Callable
from functools import lru_cache

import jax.numpy as jnp
import optax
from jax import Array


def masked_mean(values: Array, mask: Array | None = None) -> Array:
    """Mean of `values` where the mask of the same shape holds; 0 where it holds nowhere."""
    if mask is None:
        return values.mean()
    return jnp.where(mask, values, 0).sum() / jnp.maximum(mask.sum(), 1)


def cross_entropy(logits: Array, targets: Array, mask: Array | None = None) -> Array:
    """Mean cross-entropy in nats of logits [..., K] against class numbers [...]; masked targets never matter."""
    targets = targets if mask is None else jnp.where(mask, targets, 0)
    return masked_mean(optax.softmax_cross_entropy_with_integer_labels(logits, targets), mask)


def accuracy(logits: Array, targets: Array, mask: Array | None = None) -> Array:
    """Share of logits [..., K] whose largest entry is the target [...]."""
    return masked_mean((logits.argmax(-1) == targets).astype(logits.dtype), mask)


def squared_error(outputs: Array, targets: Array, mask: Array | None = None) -> Array:
    """Mean squared error of outputs [..., 1] against numbers [...]."""
    targets = targets if mask is None else jnp.where(mask, targets, 0)
    return masked_mean((outputs[..., 0] - targets) ** 2, mask)


@lru_cache
def within(tolerance: float) -> Callable[..., Array]:
    """Score function: share of outputs [..., 1] closer than `tolerance` to their target [...]."""

    def score(outputs: Array, targets: Array, mask: Array | None = None) -> Array:
        close = jnp.abs(outputs[..., 0] - targets) < tolerance
        return masked_mean(close.astype(outputs.dtype), mask)

    return score
