"""Affine maps: a readout, and the layers of a feedforward network."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Dense:
    """An affine readout."""

    W: Array  # [K, F]
    b: Array  # [K]


def uniform_head(key: Array, K: int, F: int) -> Dense:
    """Weights and bias from U(-1/√F, 1/√F), as PyTorch's `nn.Linear`."""
    W, b = (
        jax.random.uniform(k, s, jnp.float32, -(F**-0.5), F**-0.5)
        for k, s in zip(jax.random.split(key), ((K, F), (K,)), strict=True)
    )
    return Dense(W, b)


def gaussian_head(key: Array, K: int, F: int) -> Dense:
    """Weights from N(0, 1/F), zero bias."""
    return Dense(jax.random.normal(key, (K, F), jnp.float32) * F**-0.5, jnp.zeros(K, jnp.float32))


def affine(head: Dense, y: Array) -> Array:
    """[F, B] -> [K, B]."""
    return head.W @ y + head.b[:, None]
