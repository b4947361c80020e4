"""One bucket of training sequences as a task, whose batches are encoded only when they are drawn."""

from collections.abc import Callable
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seqjax.events.targets import known
from seqjax.fit.prepare import Prepared
from seqjax.fit.rounds import Round, rows_of_update
from seqjax.losses import accuracy, cross_entropy, explained, squared_error
from seqjax.tasks.task import Batch, Task

Measure = Callable[..., Array]


def told(targets: Array) -> Array:
    """Where there is an answer, bool."""
    return targets >= 0 if jnp.issubdtype(targets.dtype, jnp.integer) else ~jnp.isnan(targets)


@cache
def over_told(measure: Measure) -> Measure:
    """A loss or score over the rows, or the steps, that have an answer."""

    def measured(outputs: Array, targets: Array, mask: Array | None = None) -> Array:
        where = told(targets) if mask is None else told(targets) & mask
        return measure(outputs, targets, where)

    return measured


def loss_of(classes: bool) -> Measure:
    """Cross-entropy of classes, squared error of a standardised number."""
    return over_told(cross_entropy if classes else squared_error)


def bucket_task(prepared: Prepared, rows: np.ndarray, bucket: int, whole: Round) -> Task:
    """These training sequences, of one bucket. Codes and numbers stay as they are, and vectors are made of a batch."""
    question, encoding = prepared.question, prepared.encoding
    arrays = jax.tree.map(jnp.asarray, prepared.padded(rows, prepared.widths[bucket]))
    shares = class_shares(prepared)

    def draw(key: Array, update: Array, batch: int) -> Batch:
        taken = rows_of_update(key, update, len(rows), bucket, whole)
        (codes, numbers, lengths), answers = jax.tree.map(lambda a: a[jnp.maximum(taken, 0)], arrays)
        there = taken >= 0
        answers = jnp.where(there.reshape(-1, *[1] * (answers.ndim - 1)), answers, nothing(answers))
        scored = told(answers) if question.per_event else None
        return Batch(encoding.dense(codes, numbers), answers, jnp.where(there, lengths, 0), scored)

    return Task(
        name=f"{question.column}-{bucket}",
        draw=draw,
        held_out=lambda key, examples: draw(key, jnp.int32(0), examples),
        inputs="vector",
        readout="every" if question.per_event else "last",
        D=encoding.D,
        K=question.K,
        loss=loss_of(bool(question.classes)),
        score=over_told(accuracy if question.classes else explained(1.0)),
        chance=float(shares.max()) if question.classes else 0.0,
        chance_loss=float(-(shares[shares > 0] * np.log(shares[shares > 0])).sum()) if question.classes else 1.0,
    )


def nothing(answers: Array) -> Array:
    """What stands for no answer."""
    return jnp.asarray(-1 if jnp.issubdtype(answers.dtype, jnp.integer) else jnp.nan, answers.dtype)


def class_shares(prepared: Prepared) -> np.ndarray:
    """The share of each class among the training answers, [K]; of a regression, 1."""
    if not prepared.question.classes:
        return np.ones(1)
    train = prepared.answers[prepared.units(prepared.parts.train)]
    return np.bincount(train[known(train)], minlength=prepared.question.K) / known(train).sum()
