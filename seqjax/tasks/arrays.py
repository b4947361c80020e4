"""Tasks over data at hand: epochs of shuffled batches as a pure function of a key and an update number."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seqjax.losses import accuracy, cross_entropy
from seqjax.sequences import steps_of
from seqjax.tasks.task import Batch, Task


def rows_of_update(key: Array, update: Array, batch: int, N: int) -> Array:
    """Row numbers [batch] of one update: the orders of all epochs, laid end to end, cut into batches.

    Every epoch is a fresh permutation and visits each of the N rows exactly once; a batch may straddle two epochs,
    so that none is short and nothing is dropped.
    """
    epoch, first = update * batch // N, update * batch % N
    orders = [jax.random.permutation(jax.random.fold_in(key, epoch + i), N) for i in range(2)]
    return jax.lax.dynamic_slice_in_dim(jnp.concatenate(orders), first, batch)


def checked(part: str, data: Batch, classes: int) -> Batch:
    """The data as NumPy arrays; ValueError for sequences or labels that do not fit."""
    xs, labels = np.asarray(data.xs), np.asarray(data.targets)
    lengths = None if data.lengths is None else np.asarray(data.lengths)
    if xs.ndim != 3 or 0 in xs.shape or labels.shape != xs.shape[:1] or not np.issubdtype(labels.dtype, np.integer):
        given = f"{xs.shape} and {labels.dtype} {labels.shape}"
        raise ValueError(f"{part} needs sequences [B, T, D] and one integer label each, got {given}")
    steps_of(xs, rank=2, lengths=lengths)
    if labels.min() < 0 or labels.max() >= classes:
        raise ValueError(f"{part} labels must lie in 0..{classes - 1}, got {labels.min()}..{labels.max()}")
    return Batch(xs, labels, lengths)


def classification(name: str, train: Batch, test: Batch, *, classes: int) -> Task:
    """Classify whole sequences of vectors: train on epochs over one set of arrays, score on another.

    Chance is the share of the test set's largest class; its loss is the entropy of the training labels.
    Raises ValueError for labels outside 0..classes-1, sequences that `unroll` would refuse, or a batch larger than the
    training set.
    """
    train, test = (checked(part, data, classes) for part, data in (("train", train), ("test", test)))
    N, D = len(train.targets), train.xs.shape[-1]
    if test.xs.shape[-1] != D:
        raise ValueError(f"test sequences must be as wide as the training sequences, {D}, got {test.xs.shape[-1]}")
    shares = np.bincount(np.asarray(train.targets), minlength=classes) / N
    entropy = -sum(p * np.log(p) for p in shares if p > 0)

    def draw(key: Array, update: Array, batch: int) -> Batch:
        if batch > N:
            raise ValueError(f"batch must be at most the {N} training rows, got {batch}")
        rows = rows_of_update(key, update, batch, N)
        return jax.tree.map(lambda a: jnp.asarray(a)[rows], train)

    return Task(
        name=name,
        draw=draw,
        held_out=lambda key, examples: test,
        inputs="vector",
        readout="last",
        D=D,
        K=classes,
        loss=cross_entropy,
        score=accuracy,
        chance=float(np.bincount(np.asarray(test.targets)).max() / len(test.targets)),
        chance_loss=float(entropy),
    )
