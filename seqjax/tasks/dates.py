"""Dates as people write them, to be written as ISO 8601 has them: "tuesday, march 3, 1998" -> "1998-03-03"."""

import math
from datetime import date, timedelta

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seqjax.core import factory, require_sizes
from seqjax.losses import cross_entropy, whole
from seqjax.tasks.pairs import paired
from seqjax.tasks.task import Batch, Task

DATE_SOURCE = " ,./0123456789abcdefghijklmnopqrstuvwxyz"  # source symbols, by their numbers
DATE_TARGET = "-0123456789"  # target symbols; the one after them is the end symbol
MONTHS = "january february march april may june july august september october november december".split()
DAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
FORMATS = (
    "{month} {day}, {year}",
    "{day} {month} {year}",
    "{short} {day} {year}",
    "{day2}.{month2}.{year}",
    "{month1}/{day}/{year}",
    "{weekday}, {month} {day}, {year}",
    "{weekday} {day} {short} {year}",
)
TEST = 10  # every so many days one is held out


@factory
def dates(*, first: int = 1900, last: int = 2099) -> Task:
    """Uniform days of the years first..last, each in one of seven formats; every tenth day is held out, in all of them.

    Characters: DATE_SOURCE in, DATE_TARGET and the end symbol out. Score is the share of dates that are right as a
    whole. Chance: without the source every day of those held out is as likely; the loss is the day's entropy over 11
    steps. ValueError for years outside 1000..9999, and for a last before the first.
    """
    require_sizes(first=first, last=last)
    if not 1000 <= first <= last <= 9999:
        raise ValueError(f"first and last must be years 1000 <= first <= last <= 9999, got {first} and {last}")
    days = calendar(first, last)
    numbers, lengths = spelled(days, first)
    targets = written([day.isoformat() for day in days], DATE_TARGET)[0]
    test = np.arange(len(days)) % TEST == 0

    def sample(key: Array, examples: int, among: np.ndarray) -> Batch:
        keys = jax.random.split(key)
        day = jnp.asarray(among)[jax.random.randint(keys[0], (examples,), 0, len(among))]
        form = jax.random.randint(keys[1], (examples,), 0, len(FORMATS))
        source = jnp.asarray(numbers)[day, form].astype(jnp.int32)
        target, full = jnp.asarray(targets)[day].astype(jnp.int32), jnp.full(examples, targets.shape[1])
        return paired(source, jnp.asarray(lengths)[day, form].astype(jnp.int32), target, full, end=len(DATE_TARGET))

    ours, theirs = np.flatnonzero(~test), np.flatnonzero(test)
    return Task(
        name="dates",
        draw=lambda key, update, batch: sample(jax.random.fold_in(key, update), batch, ours),
        held_out=lambda key, examples: sample(key, examples, theirs),
        inputs="pair",
        readout="every",
        D=len(DATE_SOURCE),
        K=len(DATE_TARGET) + 1,
        loss=cross_entropy,
        score=whole,
        chance=1 / len(theirs),
        chance_loss=math.log(len(ours)) / (targets.shape[1] + 1),
    )
