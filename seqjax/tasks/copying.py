"""Copying and reversing: a source of random symbols, said again as it is or back to front, source before target."""

import math

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.core import factory, require_sizes
from seqjax.losses import cross_entropy, whole
from seqjax.tasks.pairs import paired
from seqjax.tasks.task import Batch, Task


@factory
def copying(*, symbols: int = 10, shortest: int = 1, longest: int = 10) -> Task:
    """Uniform symbols, as many as a uniform length says; the target is the source.

    Token `symbols` is the end symbol, which no source holds. Score is the share of rows that are right as a whole.
    Chance: without the source one length, the shortest, is best: symbols^-shortest over the number of lengths; the loss
    is the target's entropy, of the length and of the symbols, over the steps there are. ValueError for sizes below 1
    and for a longest below the shortest.
    """
    return said_again("copying", symbols, shortest, longest, backwards=False)


@factory
def reversing(*, symbols: int = 10, shortest: int = 1, longest: int = 10) -> Task:
    """As `copying`, but the target is the source back to front."""
    return said_again("reversing", symbols, shortest, longest, backwards=True)


def said_again(name: str, symbols: int, shortest: int, longest: int, *, backwards: bool) -> Task:
    """The task of a target that is the source, in one order or the other."""
    require_sizes(symbols=symbols, shortest=shortest, longest=longest)
    if longest < shortest:
        raise ValueError(f"longest must be at least the shortest, {shortest}, got {longest}")

    def sample(key: Array, examples: int) -> Batch:
        first, second = jax.random.split(key)
        source = jax.random.randint(first, (examples, longest), 0, symbols)
        lengths = jax.random.randint(second, (examples,), shortest, longest + 1)
        return paired(source, lengths, turned(source, lengths) if backwards else source, lengths, end=symbols)

    lengths = longest - shortest + 1
    steps = (shortest + longest) / 2  # without the end symbol
    return Task(
        name=name,
        draw=lambda key, update, batch: sample(jax.random.fold_in(key, update), batch),
        held_out=sample,
        inputs="pair",
        readout="every",
        D=symbols + 1,
        K=symbols + 1,
        loss=cross_entropy,
        score=whole,
        chance=symbols**-shortest / lengths,
        chance_loss=(math.log(lengths) + steps * math.log(symbols)) / (steps + 1),
    )


def turned(source: Array, lengths: Array) -> Array:
    """Rows [B, T] back to front, each within its length [B]."""
    steps = jnp.arange(source.shape[1])[None]
    return jnp.take_along_axis(source, jnp.maximum(lengths[:, None] - 1 - steps, 0), axis=1)
