"""First-symbol recall: say at the last step what came at the first."""

import jax
from jax import Array

from seqjax.core import factory, require_sizes
from seqjax.tasks.classes import balanced
from seqjax.tasks.task import Batch, Task


@factory
def recall(*, length: int, alphabet: int = 8) -> Task:
    """`length` uniform symbols; the target, at the last step, is the first. Chance is 1/alphabet (loss ln alphabet)."""
    require_sizes(length=length, alphabet=alphabet)

    def sample(key: Array, examples: int) -> Batch:
        xs = jax.random.randint(key, (examples, length), 0, alphabet)
        return Batch(xs, xs[:, 0])

    return balanced("recall", sample, D=alphabet, K=alphabet)
