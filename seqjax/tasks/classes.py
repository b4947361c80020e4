"""Classification of fresh sequences, all classes alike."""

from collections.abc import Callable

import jax
import numpy as np
from jax import Array

from seqjax.losses import accuracy, cross_entropy
from seqjax.tasks.task import Batch, Task


def balanced(
    name: str, sample: Callable[[Array, int], Batch], *, D: int, K: int, inputs: str = "onehot", readout: str = "last"
) -> Task:
    """One of K classes, of which none is likelier to whoever has not understood: chance is 1/K (loss ln K)."""
    return Task(
        name=name,
        draw=lambda key, update, batch: sample(jax.random.fold_in(key, update), batch),
        held_out=sample,
        inputs=inputs,
        readout=readout,
        D=D,
        K=K,
        loss=cross_entropy,
        score=accuracy,
        chance=1 / K,
        chance_loss=float(np.log(K)),
    )
