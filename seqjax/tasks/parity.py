"""Parity: was the number of ones odd?"""

import jax
from jax import Array

from seqjax.core import factory, require_sizes
from seqjax.tasks.classes import balanced
from seqjax.tasks.task import Batch, Task


@factory
def parity(*, length: int) -> Task:
    """`length` fair bits as tokens 0 and 1; the target, at the last step, is their sum modulo 2.

    Nothing less than every bit tells anything about it: chance is 1/2 (loss ln 2) for whoever misses one.
    """
    require_sizes(length=length)

    def sample(key: Array, examples: int) -> Batch:
        xs = jax.random.randint(key, (examples, length), 0, 2)
        return Batch(xs, xs.sum(1) % 2)

    return balanced("parity", sample, D=2, K=2)
