"""Pairs of sequences as batches of a task, and training on a decoder's own choices."""

from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.pairs import Pair
from seqjax.sequences import mask_of
from seqjax.tasks.task import Batch, Task

OWN = 2**31  # of the draws of an update, far from those that a task makes


def paired(source: Array, source_lengths: Array, target: Array, target_lengths: Array, *, end: int) -> Batch:
    """Sources [B, S] and targets [B, T] of their lengths [B] as a batch for an encoder-decoder: targets [B, T+1].

    The decoder is fed the target shifted by one, the end symbol first; the end symbol, asked for after the last, counts
    like any other, and padding does not. ValueError for lengths outside what there is.
    """
    source, target = jnp.asarray(source), jnp.asarray(target)
    sources, symbols = mask_of(source_lengths, source.shape[1]), mask_of(target_lengths, target.shape[1])
    target = jnp.where(symbols, target, end)
    edge = jnp.full_like(target, end, shape=(len(target), 1))
    mask = jnp.pad(symbols, ((0, 0), (1, 0)), constant_values=True)
    pair = Pair(jnp.where(sources, source, 0), sources, jnp.concatenate([edge, target], axis=1), mask)
    return Batch(pair, jnp.concatenate([target, edge], axis=1), scored=mask)


def scheduled_sampling(task: Task, rate: Callable[[Array], Array | float]) -> Task:
    """The task in whose training the decoder is fed its own last choice at a step with probability rate(update), as in
    a schedule of optax (Bengio et al. 2015); what is held out is as it was. ValueError for a task that is not of pairs.
    """
    if task.inputs != "pair":
        raise ValueError(f"scheduled sampling needs a task of pairs, got {task.name!r} with inputs {task.inputs!r}")

    def draw(key: Array, update: Array, batch: int) -> Batch:
        drawn = task.draw(key, update, batch)
        own = jax.random.fold_in(jax.random.fold_in(key, update), OWN)
        flags = jax.random.bernoulli(own, rate(update), drawn.xs.fed.shape)
        return replace(drawn, xs=replace(drawn.xs, own=flags))

    return replace(task, name=f"{task.name}-scheduled", draw=draw)
