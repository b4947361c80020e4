"""A plant with dead time: what comes out of a first-order lag that answers late."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seqjax.core import factory
from seqjax.tasks.delays import delayed, require_delay, scored_from
from seqjax.tasks.regression import every_step
from seqjax.tasks.task import Batch, Task


@factory
def plant(*, length: int, delay: int = 10, pole: float = 0.9) -> Task:
    """y_t = a y_{t-1} + b u_{t - delay} at rest before, a the pole, b = √(1 - a²); u ~ N(0, 1) is all that is seen.

    Scored from step `delay` on, as y is 0 before; n steps later its variance is 1 - a^{2(n+1)}. Score is the share of
    the mean variance that is explained. ValueError unless -1 < pole < 1 and length > delay.
    """
    require_delay(delay, length)
    if not -1 < pole < 1:
        raise ValueError(f"pole must lie in (-1, 1), where the plant is stable, got {pole}")
    gain = (1 - pole**2) ** 0.5

    def respond(y: Array, u: Array) -> tuple[Array, Array]:
        y = pole * y + gain * u
        return y, y

    def sample(key: Array, examples: int) -> Batch:
        us = jax.random.normal(key, (examples, length))
        _, ys = jax.lax.scan(respond, jnp.zeros_like(us[:, 0]), delayed(us, delay).T)
        return Batch(us[..., None], ys.T, scored=scored_from(delay, us.shape))

    variance = float(np.mean(1 - pole ** (2 * np.arange(1, length - delay + 1))))
    return every_step("plant", length, sample, D=1, variance=variance)
