"""Encoding: what of an event a network sees, fitted to training sequences and the same ever after.

A vector [D] has, for each field of categories, a column for every one of them, one for a missing and one for an unseen
category; for each field of numbers the standardised number and a column that says it is missing, where the number is 0.
The columns of missing and unseen values are there only where training had such, so that no column is without a trained
weight; elsewhere such a value is a vector of zeros, and the `Report` counts it.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seqjax.events.clock import Clock
from seqjax.events.events import Events
from seqjax.events.fields import Category, Number


@dataclass(frozen=True)
class Words:
    """A field of categories: codes 0..V-1 as `values`, then missing, then unseen where there are such; else -1.

    A category of a single training event counts as unseen: nothing can be learned of it but what an unseen one is.
    """

    name: str
    values: tuple[str, ...]
    missing: bool
    unseen: bool

    @property
    def width(self) -> int:
        """Columns of the vector."""
        return len(self.values) + self.missing + self.unseen

    @property
    def missing_code(self) -> int:
        """Of a missing category."""
        return len(self.values) if self.missing else -1

    @property
    def unseen_code(self) -> int:
        """Of a category that is not among the values."""
        return len(self.values) + self.missing if self.unseen else -1

    def columns(self) -> list[str]:
        """What each column says."""
        special = [f"{self.name} {word}" for word in ("missing", "unseen") if getattr(self, word)]
        return [f"{self.name}={value}" for value in self.values] + special


@dataclass(frozen=True)
class Scale:
    """A field of numbers: mean and standard deviation (1 for a constant) of the training events."""

    name: str
    mean: float
    sd: float
    missing: bool

    @property
    def width(self) -> int:
        """Columns of the vector."""
        return 1 + self.missing

    def columns(self) -> list[str]:
        """What each column says."""
        return [self.name, f"{self.name} missing"][: self.width]


@dataclass(frozen=True)
class Encoding:
    """Fields of F categories and of M numbers, and where events come from; a static value, as a jitted function wants
    one."""

    sequence: str
    clock: Clock | None
    words: tuple[Words, ...]
    scales: tuple[Scale, ...]

    @property
    def D(self) -> int:
        """Width of the vector of an event."""
        return sum(field.width for field in (*self.words, *self.scales))

    @property
    def code_type(self) -> type[np.signedinteger]:
        """The smallest of int16 and int32 that holds every code."""
        return np.int16 if all(field.width < 2**15 for field in self.words) else np.int32

    def columns(self) -> list[str]:
        """What each of the D columns says, such as "kind=refund" or "amount missing"."""
        return [column for field in (*self.words, *self.scales) for column in field.columns()]

    def kinds(self) -> dict[str, str]:
        """ "category" or "number" for every field."""
        return {f.name: "category" for f in self.words} | {f.name: "number" for f in self.scales}

    def dense(self, codes: Any, numbers: Any) -> Array:
        """Vectors [.., D] of codes [.., F] and numbers [.., M], in the numbers' dtype; pure, for within a jit."""
        codes, numbers = jnp.asarray(codes), jnp.asarray(numbers)
        parts = [jax.nn.one_hot(codes[..., f], field.width, dtype=numbers.dtype) for f, field in enumerate(self.words)]
        for m, scale in enumerate(self.scales):
            number = numbers[..., m, None]
            lost = jnp.isnan(number)
            parts += [jnp.where(lost, 0, number), lost.astype(numbers.dtype)][: scale.width]
        return jnp.concatenate(parts, -1)

    def to_json(self) -> str:
        """As text, for `from_json`; every number is kept to the last bit."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)

    @staticmethod
    def from_json(text: str) -> "Encoding":
        """What `to_json` wrote."""
        found = json.loads(text)
        return Encoding(
            found["sequence"],
            None if found["clock"] is None else Clock(**found["clock"]),
            tuple(Words(**field | {"values": tuple(field["values"])}) for field in found["words"]),
            tuple(Scale(**field) for field in found["scales"]),
        )


def fit_encoding(events: Events, rows: Any) -> Encoding:
    """The encoding of these sequences' events, the training sequences; of others nothing is looked at.

    ValueError for sequences without a single event, and naming a column of numbers that are too large for their
    variance.
    """
    within = events.within(rows)
    if not within.any():
        raise ValueError("rows must name training sequences with events, got none")
    words = [fit_words(field, within) for field in events.fields if isinstance(field, Category)]
    scales = [fit_scale(field, within) for field in events.fields if isinstance(field, Number)]
    return Encoding(events.sequence, events.clock, tuple(words), tuple(scales))


def fit_words(field: Category, within: np.ndarray) -> Words:
    """The categories of at least two of these events."""
    codes = field.codes[within]
    counts = np.bincount(codes[codes >= 0], minlength=len(field.values))
    values = tuple(value for value, count in zip(field.values, counts, strict=True) if count > 1)
    return Words(field.name, values, bool((codes < 0).any()), bool((counts == 1).any()))


def fit_scale(field: Number, within: np.ndarray) -> Scale:
    """Mean and standard deviation of the numbers that there are; 0 and 1 where there are none."""
    values = field.values[within]
    told = values[~np.isnan(values)]
    if not told.size:
        return Scale(field.name, 0.0, 1.0, True)
    with np.errstate(over="ignore", invalid="ignore"):
        mean, sd = float(told.mean()), float(told.std())
    if not np.isfinite([mean, sd]).all():
        raise ValueError(f"column {field.name!r} has numbers too large for a variance, up to {np.abs(told).max():.3g}")
    flat = bool((told == told[0]).all())
    return Scale(field.name, float(told[0]) if flat else mean, 1.0 if flat or sd == 0 else sd, told.size < values.size)
