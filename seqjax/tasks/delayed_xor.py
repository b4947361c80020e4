"""Delayed exclusive or (Engelken 2023): were two bits of the past different?"""

import jax
from jax import Array

from seqjax.core import factory
from seqjax.tasks.classes import balanced
from seqjax.tasks.delays import delayed, require_delay, scored_from
from seqjax.tasks.task import Batch, Task


@factory
def delayed_xor(*, length: int, delay: int = 10) -> Task:
    """`length` fair bits as numbers 0 and 1; y_t = x_{t - delay} XOR x_{t - delay/2}, scored from step `delay` on.

    Chance is 1/2 (loss ln 2) for whoever misses one of the two. ValueError for an odd delay, or unless length > delay.
    """
    require_delay(delay, length)
    if delay % 2:
        raise ValueError(f"delay must be even, as half of it is a number of steps too, got {delay}")

    def sample(key: Array, examples: int) -> Batch:
        bits = jax.random.randint(key, (examples, length), 0, 2)
        targets = delayed(bits, delay) ^ delayed(bits, delay // 2)
        return Batch(bits[..., None].astype(float), targets, scored=scored_from(delay, bits.shape))

    return balanced("delayed_xor", sample, D=1, K=2, inputs="vector", readout="every")
