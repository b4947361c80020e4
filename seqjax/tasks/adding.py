"""The adding problem (Hochreiter and Schmidhuber 1997): the sum of two marked numbers."""

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.core import factory, require_sizes
from seqjax.losses import squared_error, within
from seqjax.tasks.task import Batch, Task

TOLERANCE = 0.04  # Hochreiter and Schmidhuber 1997 count an answer right within this


@factory
def adding(*, length: int) -> Task:
    """Numbers from U(0, 1), one in each half marked; the target, at the last step, is the sum of the marked two.

    Score is the share of answers within 0.04. The best constant answer is 1: its squared error is the variance of the
    sum of two uniforms, 2/12, and it is right with probability 1 - (1 - 0.04)^2.
    """
    require_sizes(length=length)
    if length < 2:
        raise ValueError(f"length must be at least 2 to mark two numbers, got {length}")

    def sample(key: Array, examples: int) -> Batch:
        numbers, first, second = jax.random.split(key, 3)
        values = jax.random.uniform(numbers, (examples, length))
        i = jax.random.randint(first, (examples,), 0, length // 2)
        j = jax.random.randint(second, (examples,), length // 2, length)
        marks = jax.nn.one_hot(i, length) + jax.nn.one_hot(j, length)
        return Batch(jnp.stack([values, marks], axis=-1), (values * marks).sum(1))

    return Task(
        name="adding",
        draw=lambda key, update, batch: sample(jax.random.fold_in(key, update), batch),
        held_out=sample,
        inputs="vector",
        readout="last",
        D=2,
        K=1,
        loss=squared_error,
        score=within(TOLERANCE),
        chance=1 - (1 - TOLERANCE) ** 2,
        chance_loss=2 / 12,
    )
