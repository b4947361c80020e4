"""Three tasks that no linear recursion solves, of any order, with the exact error of the best one.

Their inputs are white, so that what a linear filter can explain of the target is Σ_k cov(y_t, x_{t-k})² / var(x).
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seqjax.core import factory
from seqjax.tasks.regression import every_step
from seqjax.tasks.task import Batch, Task


@factory
def threshold(*, length: int) -> Task:
    """y_t = 1 where x_t > 0, else 0, for x_t ~ N(0, 1).

    Score is the share of the target's variance 1/4 that is explained; the best linear answer leaves 1/4 - 1/(2π).
    """

    def sample(key: Array, examples: int) -> Batch:
        xs = jax.random.normal(key, (examples, length, 1))
        return Batch(xs, (xs[..., 0] > 0).astype(xs.dtype))

    return every_step("threshold", length, sample, D=1, variance=0.25)


@factory
def gate(*, length: int) -> Task:
    """y_t = x_t where g_t > 0, else 0, for x_t and g_t ~ N(0, 1).

    Score is the share of the target's variance 1/2 that is explained; the best linear answer, x_t/2, leaves 1/4.
    """

    def sample(key: Array, examples: int) -> Batch:
        xs = jax.random.normal(key, (examples, length, 2))
        return Batch(xs, xs[..., 0] * (xs[..., 1] > 0))

    return every_step("gate", length, sample, D=2, variance=0.5)


@factory
def latch(*, length: int, rate: float = 0.1) -> Task:
    """y_t = the last ±1 so far, 0 before any: x_t is 1 or -1 at a share `rate` of the steps and 0 at the others.

    Score is the share of the target's variance that is explained; the best linear answer, an average that forgets by
    1 - rate a step, leaves (1 - rate)/(2 - rate) of it in the long run. ValueError unless 0 < rate < 1.
    """
    if not 0 < rate < 1:
        raise ValueError(f"rate must lie in (0, 1), got {rate}")

    def sample(key: Array, examples: int) -> Batch:
        first, second = jax.random.split(key)
        shape = (examples, length)
        xs = jax.random.rademacher(second, shape, jnp.float32) * jax.random.bernoulli(first, rate, shape)
        last = jax.lax.cummax(jnp.where(xs != 0, jnp.arange(length)[None], -1), axis=1)
        held = jnp.where(last < 0, 0, jnp.take_along_axis(xs, jnp.maximum(last, 0), axis=1))
        return Batch(xs[..., None], held)

    variance = float(np.mean(1 - (1 - rate) ** np.arange(1, length + 1)))
    return every_step("latch", length, sample, D=1, variance=variance)


def best_linear_error(name: str, length: int, rate: float = 0.1) -> float:
    """Mean squared error of the best linear recursion of any order on "threshold", "gate" or "latch"."""
    if name == "threshold":
        return 1 / 4 - 1 / (2 * np.pi)
    if name == "gate":
        return 1 / 4
    if name != "latch":
        raise ValueError(f"name must be threshold, gate or latch, got {name!r}")
    keep = (1 - rate) ** np.arange(1, length + 1)
    return float(np.mean((1 - keep) - rate * (1 - keep**2) / (1 - (1 - rate) ** 2)))
