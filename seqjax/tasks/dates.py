"""Dates as people write them, to be written as ISO 8601 has them: "tuesday, march 3, 1998" -> "1998-03-03".

A date is put together inside the program, out of a table of the texts that its pieces can be.
"""

import math
from datetime import date, timedelta

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seqjax.core import factory
from seqjax.losses import cross_entropy, whole
from seqjax.tasks.pairs import paired
from seqjax.tasks.task import Batch, Task

DATE_SOURCE = " ,./0123456789abcdefghijklmnopqrstuvwxyz"  # source symbols, in the order of their numbers
DATE_TARGET = "-0123456789"  # target symbols; the one after them is the end symbol
MONTHS = [
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
]
DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
FORMATS = (
    ("month", " ", "day", ", ", "year"),
    ("day", " ", "month", " ", "year"),
    ("short", " ", "day", " ", "year"),
    ("day2", ".", "month2", ".", "year"),
    ("month1", "/", "day", "/", "year"),
    ("weekday", ", ", "month", " ", "day", ", ", "year"),
    ("weekday", " ", "day", " ", "short", " ", "year"),
)
ISO = ("year", "-", "month2", "-", "day2")
FIELDS = {"year": 0, "month": 1, "month1": 1, "month2": 1, "short": 1, "day": 2, "day2": 2, "weekday": 3}
TEST = 10  # every so many days one is held out


@factory
def dates(*, first: int = 1900, last: int = 2099) -> Task:
    """Uniform days of the years first..last, each in one of seven formats; every tenth day is held out, in all of them.

    Characters: DATE_SOURCE in, DATE_TARGET and the end symbol out. Score is the share of dates that are right as a
    whole. Chance: without the source every day of those held out is as likely; the loss is the day's entropy over 11
    steps. ValueError for years outside 1000..9999, and for a last before the first.
    """
    if not 1000 <= first <= last <= 9999:
        raise ValueError(f"first and last must be years 1000 <= first <= last <= 9999, got {first} and {last}")
    days, texts = calendar(first, last), texts_of(first, last)
    test = np.arange(len(days)) % TEST == 0

    def sample(key: Array, examples: int, among: np.ndarray) -> Batch:
        keys = jax.random.split(key)
        fields = jnp.asarray(among)[jax.random.randint(keys[0], (examples,), 0, len(among))].astype(int)
        form = jax.random.randint(keys[1], (examples,), 0, len(FORMATS))
        source = spelled(texts, FORMATS, form, fields, DATE_SOURCE)
        target = spelled(texts, (ISO,), jnp.zeros_like(form), fields, DATE_TARGET)
        return paired(*source, *target, end=len(DATE_TARGET))

    return Task(
        name="dates",
        draw=lambda key, update, batch: sample(jax.random.fold_in(key, update), batch, days[~test]),
        held_out=lambda key, examples: sample(key, examples, days[test]),
        inputs="pair",
        readout="every",
        D=len(DATE_SOURCE),
        K=len(DATE_TARGET) + 1,
        loss=cross_entropy,
        score=whole,
        chance=1 / int(test.sum()),
        chance_loss=math.log(int((~test).sum())) / (len("1998-03-03") + 1),
    )


def calendar(first: int, last: int) -> np.ndarray:
    """Every day of the years first..last as (years since the first, month, day, day of the week), each from 0."""
    start = date(first, 1, 1)
    count = (date(last, 12, 31) - start).days + 1
    days = [start + timedelta(days=number) for number in range(count)]
    return np.array([(day.year - first, day.month - 1, day.day - 1, day.weekday()) for day in days], np.int16)


def texts_of(first: int, last: int) -> dict[str, list[str]]:
    """What each kind of piece can be; one that stands in a format as it is has one text."""
    kinds = {
        "year": [str(year) for year in range(first, last + 1)],
        "month": MONTHS,
        "month1": [str(month) for month in range(1, 13)],
        "month2": [f"{month:02}" for month in range(1, 13)],
        "short": [month[:3] for month in MONTHS],
        "day": [str(day) for day in range(1, 32)],
        "day2": [f"{day:02}" for day in range(1, 32)],
        "weekday": DAYS,
    }
    marks = {piece for form in (*FORMATS, ISO) for piece in form if piece not in FIELDS}
    return {**kinds, "": [""], **{mark: [mark] for mark in sorted(marks)}}


def spelled(
    texts: dict[str, list[str]], formats: tuple[tuple[str, ...], ...], form: Array, fields: Array, alphabet: str
) -> tuple[Array, Array]:
    """Days, of fields [B, 4], in formats [B], as tokens [B, T] of an alphabet and lengths [B]."""
    every = [text for kind in texts.values() for text in kind]
    codes = np.zeros((len(every), max(map(len, every))), int)
    for row, text in enumerate(every):
        codes[row, : len(text)] = [alphabet.find(letter) for letter in text]
    begins = dict(zip(texts, np.cumsum([0, *(len(kind) for kind in texts.values())]), strict=False))
    P = max(map(len, formats))
    whole_forms = [[*one, *[""] * (P - len(one))] for one in formats]
    base = jnp.asarray([[begins[piece] for piece in one] for one in whole_forms])[form]
    moves = jnp.asarray([[FIELDS.get(piece, 4) for piece in one] for one in whole_forms])[form]
    moved = jnp.take_along_axis(jnp.pad(fields, ((0, 0), (0, 1))), moves, axis=1)
    T = max(sum(max(map(len, texts[piece])) for piece in one) for one in formats)
    return jax.vmap(lambda rows: in_a_row(jnp.asarray(codes)[rows], sizes(every)[rows], T))(base + moved)


def sizes(every: list[str]) -> Array:
    """The lengths of texts."""
    return jnp.asarray([len(text) for text in every])


def in_a_row(pieces: Array, lengths: Array, T: int) -> tuple[Array, Array]:
    """Pieces [P, W] of their lengths [P], one after the other as [T], anything behind, and their whole length."""
    ends = jnp.cumsum(lengths)
    steps = jnp.arange(T)
    piece = jnp.minimum((steps[:, None] >= ends[None]).sum(1), len(ends) - 1)
    place = jnp.clip(steps - (ends - lengths)[piece], 0, pieces.shape[1] - 1)
    return pieces[piece, place], ends[-1]
