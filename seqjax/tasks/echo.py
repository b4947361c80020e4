"""Echo: say at every step what came some steps before."""

import jax
from jax import Array

from seqjax.core import factory, require_sizes
from seqjax.tasks.classes import balanced
from seqjax.tasks.delays import delayed, require_delay, scored_from
from seqjax.tasks.task import Batch, Task


@factory
def echo(*, length: int, delay: int = 200, alphabet: int = 8) -> Task:
    """`length` uniform symbols; the target at step t is the symbol of step t - delay, scored from step `delay` on.

    Chance is 1/alphabet (loss ln alphabet). ValueError unless length > delay.
    """
    require_sizes(alphabet=alphabet)
    require_delay(delay, length)

    def sample(key: Array, examples: int) -> Batch:
        xs = jax.random.randint(key, (examples, length), 0, alphabet)
        return Batch(xs, delayed(xs, delay), scored=scored_from(delay, xs.shape))

    return balanced("echo", sample, D=alphabet, K=alphabet, readout="every")
