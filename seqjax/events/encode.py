"""All events of a file into codes and numbers, and some sequences of them into a padded batch."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from seqjax.events.encoding import Encoding, Scale, Words
from seqjax.events.events import Events, checked_rows
from seqjax.events.fields import Category, Number


@dataclass(frozen=True, eq=False)
class Encoded:
    """The events of N sequences, compact; `Encoding.dense` makes vectors of as many as are needed."""

    codes: np.ndarray  # [E, F] int16 or int32
    numbers: np.ndarray  # [E, M] float32, standardised, NaN where missing
    offsets: np.ndarray  # [N + 1]


class Padded(NamedTuple):
    """Some sequences, padded on the right with zeros."""

    codes: np.ndarray  # [B, T, F]
    numbers: np.ndarray  # [B, T, M]
    lengths: np.ndarray  # [B] int32


def encode(encoding: Encoding, events: Events) -> Encoded:
    """All events. ValueError unless they have the encoding's fields, of the same kinds."""
    categories = {field.name: field for field in events.fields if isinstance(field, Category)}
    quantities = {field.name: field for field in events.fields if isinstance(field, Number)}
    kinds = dict.fromkeys(categories, "category") | dict.fromkeys(quantities, "number")
    if kinds != encoding.kinds():
        raise ValueError(f"events have the fields {kinds}, the encoding has {encoding.kinds()}: read them alike")
    E = int(events.offsets[-1])
    codes = np.empty((E, len(encoding.words)), encoding.code_type)
    numbers = np.empty((E, len(encoding.scales)), np.float32)
    for f, words in enumerate(encoding.words):
        codes[:, f] = recoded(words, categories[words.name])
    for m, scale in enumerate(encoding.scales):
        numbers[:, m] = standardised(scale, quantities[scale.name].values)
    return Encoded(codes, numbers, events.offsets)


def recoded(words: Words, field: Category) -> np.ndarray:
    """The encoding's code of every event, by way of a table from the file's codes, whose last entry is missing, -1."""
    known = {value: code for code, value in enumerate(words.values)}
    return np.array([known.get(value, words.unseen_code) for value in field.values] + [words.missing_code])[field.codes]


def standardised(scale: Scale, values: np.ndarray) -> np.ndarray:
    """(x - mean) / sd, in float64 and then float32; ValueError for what is then infinite."""
    with np.errstate(over="ignore"):
        found = ((values - scale.mean) / scale.sd).astype(np.float32)
    bad = np.isinf(found)
    if bad.any():
        worst = np.asarray(values)[bad].flat[0]
        raise ValueError(f"column {scale.name!r} is {worst:.6g}, too far from training's {scale.mean:.6g}")
    return found


def padded(encoded: Encoded, rows: Any, T: int) -> Padded:
    """These sequences, right-padded to T steps; ValueError naming a longer one."""
    codes, numbers = (gathered(flat, encoded.offsets, rows, T) for flat in (encoded.codes, encoded.numbers))
    return Padded(codes, numbers, np.diff(encoded.offsets)[rows].astype(np.int32))


def gathered(flat: np.ndarray, offsets: np.ndarray, rows: Any, T: int) -> np.ndarray:
    """A flat column [E, ...] of some sequences, [B, T, ...], padded with zeros; ValueError naming one above T."""
    rows = checked_rows(rows, len(offsets) - 1)
    lengths = np.diff(offsets)[rows]
    if lengths.size and lengths.max() > T:
        raise ValueError(
            f"T must be at least {lengths.max()}, the length of sequence {rows[lengths.argmax()]}, got {T}"
        )
    valid = np.arange(T) < lengths[:, None]
    padded = np.zeros((len(rows), T, *flat.shape[1:]), flat.dtype)
    padded[valid] = flat[(offsets[rows][:, None] + np.arange(T))[valid]]
    return padded
