"""Temporal order of two relevant symbols among distractors (Hochreiter and Schmidhuber 1997, task 6a)."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seqjax.core import factory, require_sizes
from seqjax.tasks.classes import balanced
from seqjax.tasks.task import Batch, Task

DISTRACTORS = 4
CLASSES = ("XX", "XY", "YX", "YY")


@factory
def temporal_order(*, length: int) -> Task:
    """Uniform distractors 0..3 but for two symbols, each X (4) or Y (5); the target, at the last step, is which came
    when: XX, XY, YX or YY.

    Of steps counted from 0, the first is in ⌊T/10⌋..⌊2T/10⌋ - 1 and the second in ⌊4T/10⌋..⌊5T/10⌋ - 1, as in the text
    of Pascanu et al. 2013. (Their code has the second in 5T/10..6T/10, like Hochreiter and Schmidhuber, who draw 10..20
    and 50..60 of 100 to 110 steps and mark both ends.) Chance is 1/4 (loss ln 4). ValueError unless length >= 10.
    """
    require_sizes(length=length)
    if length < 10:
        raise ValueError(f"length must be at least 10, so that a tenth of it is a step, got {length}")

    tenths = np.array([[1, 4]])

    def sample(key: Array, examples: int) -> Batch:
        others, kinds, places = jax.random.split(key, 3)
        xs = jax.random.randint(others, (examples, length), 0, DISTRACTORS)
        kinds = jax.random.randint(kinds, (examples, 2), 0, 2)
        places = jax.random.randint(places, (examples, 2), tenths * length // 10, (tenths + 1) * length // 10)
        xs = xs.at[jnp.arange(examples)[:, None], places].set(DISTRACTORS + kinds)
        return Batch(xs, 2 * kinds[:, 0] + kinds[:, 1])

    return balanced("temporal_order", sample, D=DISTRACTORS + 2, K=len(CLASSES))
