"""One event as it comes, into the same codes and numbers, to the bit, as all of a file."""

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from seqjax.events.clock import SINCE
from seqjax.events.encode import standardised
from seqjax.events.encoding import Encoding, Scale, Words
from seqjax.events.fields import BOOLS, word
from seqjax.events.table import MISSING

NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"


class Event(NamedTuple):
    """One event, as the batch has it."""

    codes: np.ndarray  # [F]
    numbers: np.ndarray  # [M]
    tick: float | None  # its time, for the event after it; None without a clock


def encode_event(encoding: Encoding, event: Mapping[str, Any], previous: float | None = None) -> Event:
    """One event as a row of the file tells it, {column: value}, with None where a value is missing; other columns are
    not looked at. `previous` is the tick of the event before it in the sequence.

    ValueError naming a field that is not there or whose value is of another type, an infinite number, and a time that
    goes back.
    """
    clock = encoding.clock
    tick = None if clock is None else clock.tick(told(event, clock.column))
    given = event if clock is None or tick is None else {**event, SINCE: clock.since(tick, previous)}
    codes = [code_of(words, told(event, words.name)) for words in encoding.words]
    numbers = [number_of(scale, told(given, scale.name)) for scale in encoding.scales]
    return Event(np.array(codes, encoding.code_type), np.array(numbers, np.float32), tick)


def told(event: Mapping[str, Any], name: str) -> Any:
    """A value of an event; ValueError where the event does not say that it has none."""
    if name not in event:
        raise ValueError(f"the event has no {name!r}: give it, or null where it is missing")
    return event[name]


def code_of(words: Words, value: Any) -> int:
    """The code of one value; ValueError for what is no category."""
    if value is None or value != value:
        return words.missing_code
    text = word(value)
    if text is None:
        raise ValueError(f"{words.name!r} must be a category, a word or a whole number, got {value!r}")
    return words.values.index(text) if text in words.values else words.unseen_code


def number_of(scale: Scale, value: Any) -> np.float32:
    """One number, standardised, NaN for None; ValueError for what is no number, and for infinity."""
    value = np.nan if value is None else value
    real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not real or abs(value) > sys.float_info.max:
        raise ValueError(f"{scale.name!r} must be a finite number, got {value!r}")
    return standardised(scale, np.array([value], np.float64))[0]


def typed_event(encoding: Encoding, row: Mapping[str, str], missing: Sequence[str] = MISSING) -> dict[str, Any]:
    """An event for `encode_event` out of a row of texts, such as `csv.DictReader` gives, read as `read_events` reads
    them; what stands for a missing value becomes None. ValueError naming a number that is none."""
    numeric = {scale.name for scale in encoding.scales}
    numeric |= {encoding.clock.column} if encoding.clock is not None and encoding.clock.kind == "number" else set()
    names = {words.name for words in encoding.words}
    event: dict[str, Any] = {}
    for name, text in row.items():
        event[name] = None if text in missing else text
        if event[name] is not None and name in numeric:
            event[name] = number_in(name, text.strip())
        elif event[name] is not None and name in names:
            event[name] = BOOLS.get(text, text)
    return event


def number_in(name: str, text: str) -> int | float:
    """The number that a text is; ValueError for another text."""
    if re.fullmatch(r"[+-]?[0-9]+", text):
        return int(text)
    if not re.fullmatch(NUMBER, text):
        raise ValueError(f"{name!r} must be a number, got {text!r}")
    return float(text)
