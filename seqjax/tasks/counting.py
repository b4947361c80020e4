"""Bit counting: how many ones were there?"""

from math import comb

import jax
from jax import Array

from seqjax.core import factory, require_sizes
from seqjax.losses import squared_error, within
from seqjax.tasks.task import Batch, Task


@factory
def counting(*, length: int) -> Task:
    """`length` fair bits as tokens 0 and 1; the target, at the last step, is the number of ones, as it is.

    Score is the share of answers that round to the count. A count is binomial: the best constant for the score is its
    mode T // 2, right with probability C(T, T // 2) / 2^T; for the loss it is the mean T/2, at the variance T/4.
    """
    require_sizes(length=length)

    def sample(key: Array, examples: int) -> Batch:
        xs = jax.random.randint(key, (examples, length), 0, 2)
        return Batch(xs, xs.sum(1))

    return Task(
        name="counting",
        draw=lambda key, update, batch: sample(jax.random.fold_in(key, update), batch),
        held_out=sample,
        inputs="onehot",
        readout="last",
        D=2,
        K=1,
        loss=squared_error,
        score=within(0.5),
        chance=comb(length, length // 2) / 2**length,
        chance_loss=length / 4,
    )
