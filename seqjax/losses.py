"""Losses and scores of a batch, averaged over valid steps only; an all-padding batch gives 0."""

from collections.abc import Callable
from functools import cache

import jax.numpy as jnp
import optax
from jax import Array


def masked_mean(values: Array, mask: Array | None = None) -> Array:
    """Mean of `values` where the mask of the same shape holds; 0 where it holds nowhere."""
    if mask is None:
        return values.mean()
    return jnp.where(mask, values, 0).sum() / jnp.maximum(mask.sum(), 1)


def cleaned(outputs: Array, targets: Array, mask: Array | None) -> tuple[Array, Array]:
    """Outputs [..., K] and targets [...] with zeros where masked, before anything is computed from them.

    Raises ValueError for targets of another shape, which would be broadcast.
    """
    if jnp.shape(targets) != outputs.shape[:-1]:
        raise ValueError(
            f"targets must have shape {list(outputs.shape[:-1])}, one per output, got {jnp.shape(targets)}"
        )
    targets = jnp.asarray(targets)
    if mask is None:
        return outputs, targets
    return jnp.where(mask[..., None], outputs, 0), jnp.where(mask, targets, 0)


def cross_entropy(logits: Array, targets: Array, mask: Array | None = None) -> Array:
    """Mean cross-entropy in nats of logits [..., K] against class numbers [...]."""
    logits, targets = cleaned(logits, targets, mask)
    return masked_mean(optax.softmax_cross_entropy_with_integer_labels(logits, targets), mask)


def accuracy(logits: Array, targets: Array, mask: Array | None = None) -> Array:
    """Share of logits [..., K] whose largest entry is the target [...]; NaN where any of them is not finite."""
    logits, targets = cleaned(logits, targets, mask)
    right = (logits.argmax(-1) == targets).astype(logits.dtype)
    return masked_mean(jnp.where(jnp.isfinite(logits).all(-1), right, jnp.nan), mask)


def whole(logits: Array, targets: Array, mask: Array | None = None) -> Array:
    """Share of rows [B] whose logits [B, T, K] are right, as for `accuracy`, at every valid step [B, T] at once.

    Under teacher forcing that is the share which greedy decoding gets right: where every choice so far was right, what
    is fed is what was chosen. A row without a valid step does not count.
    """
    logits, targets = cleaned(logits, targets, mask)
    right = logits.argmax(-1) == targets
    rows = (right if mask is None else right | ~mask).all(-1).astype(logits.dtype)
    sound = jnp.isfinite(logits).all((-1, -2))
    return masked_mean(jnp.where(sound, rows, jnp.nan), None if mask is None else mask.any(-1))


def squared_error(outputs: Array, targets: Array, mask: Array | None = None) -> Array:
    """Mean squared error of outputs [..., 1] against numbers [...]."""
    outputs, targets = cleaned(outputs, targets, mask)
    return masked_mean((outputs[..., 0] - targets) ** 2, mask)


@cache
def within(tolerance: float) -> Callable[..., Array]:
    """Score function: share of outputs [..., 1] closer than `tolerance` to their target [...]."""

    def score(outputs: Array, targets: Array, mask: Array | None = None) -> Array:
        outputs, targets = cleaned(outputs, targets, mask)
        close = jnp.abs(outputs[..., 0] - targets) < tolerance
        return masked_mean(close.astype(outputs.dtype), mask)

    return score


@cache
def explained(variance: float) -> Callable[..., Array]:
    """Score function: 1 - squared error over the target's variance, so that the best constant answer scores 0."""

    def score(outputs: Array, targets: Array, mask: Array | None = None) -> Array:
        return 1 - squared_error(outputs, targets, mask) / variance

    return score
