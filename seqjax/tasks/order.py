"""The order of two events: was the refund later than the failed payment?"""

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.core import factory, require_sizes
from seqjax.tasks.classes import balanced
from seqjax.tasks.task import Batch, Task

FAILED, REFUND = 0, 1  # tokens of the two events; the others mean nothing


@factory
def order(*, shortest: int = 4, longest: int = 40, kinds: int = 8) -> Task:
    """Events of `kinds` kinds in sequences of `shortest` to `longest`, all lengths alike; one failed payment and one
    refund at random places, the rest uniform other kinds. The target, at the last step, is 1 where the refund is later.

    Every bag of events is as likely with either answer, so a model that knows no order is at chance, 1/2. ValueError
    for lengths below 2 or in the wrong order, and for fewer than 3 kinds.
    """
    require_sizes(shortest=shortest, longest=longest, kinds=kinds)
    if not 2 <= shortest <= longest:
        raise ValueError(f"lengths must be 2 <= shortest <= longest, to hold two events, got {shortest} and {longest}")
    if kinds < 3:
        raise ValueError(f"kinds must be at least 3, two events and something else, got {kinds}")

    def sample(key: Array, examples: int) -> Batch:
        others, sizes, first, second = jax.random.split(key, 4)
        lengths = jax.random.randint(sizes, (examples,), shortest, longest + 1)
        i = jax.random.randint(first, (examples,), 0, lengths)
        j = jax.random.randint(second, (examples,), 0, lengths - 1)
        j = j + (j >= i)  # another place than i
        xs = jax.random.randint(others, (examples, longest), 2, kinds)
        rows = jnp.arange(examples)
        return Batch(xs.at[rows, i].set(FAILED).at[rows, j].set(REFUND), (j > i).astype(jnp.int32), lengths)

    return balanced("order", sample, D=kinds, K=2)
