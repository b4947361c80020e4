"""Regression at every step."""

from collections.abc import Callable

import jax
from jax import Array

from seqjax.core import require_sizes
from seqjax.losses import explained, squared_error
from seqjax.tasks.task import Batch, Task


def every_step(name: str, length: int, sample: Callable[[Array, int], Batch], *, D: int, variance: float) -> Task:
    """A regression at every step, of which a constant explains nothing."""
    require_sizes(length=length)
    return Task(
        name=name,
        draw=lambda key, update, batch: sample(jax.random.fold_in(key, update), batch),
        held_out=sample,
        inputs="vector",
        readout="every",
        D=D,
        K=1,
        loss=squared_error,
        score=explained(variance),
        chance=0.0,
        chance_loss=variance,
    )
