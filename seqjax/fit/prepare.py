"""Events into what is trained on: parts, an encoding fitted to training alone, answers, and padded buckets."""

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from seqjax.events import Category, Encoded, Encoding, Events, Question, Split, buckets, encode, fit_encoding, split
from seqjax.events.encode import Padded, gathered, padded
from seqjax.events.targets import known
from seqjax.fit.settings import Settings

PROGRAMS = 3  # widths to which sequences are padded, at most


@dataclass(frozen=True, eq=False)
class Prepared:
    """Encoded events of N sequences, which of them train, and their answers.

    answers  [N], or [E] where every event has its own: class numbers, int32 and -1 for none, or standardised numbers,
             float32 and NaN for none
    scale    mean and standard deviation by which they were standardised; (0, 1) for classes
    widths   to which sequences are padded, rising
    """

    events: Events
    question: Question
    parts: Split
    encoding: Encoding
    encoded: Encoded
    answers: np.ndarray
    scale: tuple[float, float]
    widths: tuple[int, ...]

    def bucket(self, rows: np.ndarray) -> np.ndarray:
        """The number of the narrowest width that holds each sequence."""
        return np.searchsorted(self.widths, self.events.lengths[rows])

    def padded(self, rows: np.ndarray, width: int) -> tuple[Padded, np.ndarray]:
        """Some sequences padded to a width, with their answers, [B] or [B, T]."""
        own = gathered(self.answers, self.events.offsets, rows, width) if self.question.per_event else None
        return padded(self.encoded, rows, width), self.answers[rows] if own is None else own

    def units(self, rows: np.ndarray) -> np.ndarray:
        """What is answered in these sequences, numbers of sequences or of events."""
        if not self.question.per_event:
            return rows
        starts = self.events.offsets
        return np.concatenate([np.arange(starts[n], starts[n + 1]) for n in rows] or [np.arange(0)])


def prepare(events: Events, settings: Settings) -> Prepared:
    """Split, encode and standardise, by training sequences alone; ValueError for what cannot be learned from."""
    if events.targets is None:
        raise ValueError("events must have targets: name the column of the answers when reading them")
    question, parts = events.targets.question, split_of(events, settings)
    encoding = fit_encoding(events, parts.train)
    answers, scale = answers_of(events, parts)
    widths = widths_of(events.lengths, parts.train, settings.batch)
    return Prepared(events, question, parts, encoding, encode(encoding, events), answers, scale, widths)


def recent(prepared: Prepared, k: int, batch: int) -> Prepared:
    """The same with the last k events of every sequence alone, which is all that some networks see; for answers of
    whole sequences."""
    events, encoded = prepared.events, prepared.encoded
    to_end = np.repeat(events.offsets[1:], events.lengths) - np.arange(events.offsets[-1])
    kept = np.flatnonzero(to_end <= k)
    offsets = np.concatenate([[0], np.cumsum(np.minimum(events.lengths, k))])
    fields = tuple(field.take(kept) for field in events.fields)
    cut = replace(events, offsets=offsets, fields=fields, times=None if events.times is None else events.times[kept])
    widths = widths_of(cut.lengths, prepared.parts.train, batch)
    own = Encoded(encoded.codes[kept], encoded.numbers[kept], offsets)
    return replace(prepared, events=cut, encoded=own, widths=widths)


def split_of(events: Events, settings: Settings) -> Split:
    """The parts, each with an answer; ValueError where one has none, or training lacks a class that another has."""
    parts = split(
        events,
        seed=settings.split_seed,
        validation=settings.validation,
        test=settings.test,
        by=settings.split,
    )
    for name, rows in parts._asdict().items():
        if not known(answers_in(events, rows)).any():
            raise ValueError(f"no answer is known in the {name} part of {len(rows)} sequences: enlarge its share")
    told: Any = events.targets
    lacking = np.setdiff1d(told.values[known(told.values)], answers_in(events, parts.train))
    if told.question.classes and lacking.size:
        raise ValueError(
            f"no training sequence has an answer {told.question.classes[lacking[0]]!r} in {told.question.column!r}: "
            "take another split seed, or leave these answers empty"
        )
    return parts


def answers_in(events: Events, rows: np.ndarray) -> np.ndarray:
    """The answers, as they were read, of some sequences or of their events."""
    told: Any = events.targets
    return told.values[events.within(rows)] if told.question.per_event else told.values[rows]


def answers_of(events: Events, parts: Split) -> tuple[np.ndarray, tuple[float, float]]:
    """Answers as they are trained on, and their scale; ValueError for a regression whose training answers are one."""
    told: Any = events.targets
    if told.question.classes:
        return told.values.astype(np.int32), (0.0, 1.0)
    train = answers_in(events, parts.train)
    train = train[known(train)]
    column, answers = told.question.column, told.values
    with np.errstate(over="ignore", invalid="ignore"):
        mean, sd = float(train.mean()), float(train.std())
        standardised = ((answers - mean) / sd if sd else answers).astype(np.float32)
    if (train == train[0]).all():
        raise ValueError(f"every training answer in {column!r} is {train[0]:.6g}: there is nothing to learn")
    if not (0 < sd < float("inf")) or np.isinf(standardised).any():
        worst = np.abs(answers[known(answers)]).max()
        raise ValueError(f"answers in {column!r}, up to {worst:.3g}, are too large or too close for a variance")
    return standardised, (mean, sd)


def widths_of(lengths: np.ndarray, train: np.ndarray, batch: int) -> tuple[int, ...]:
    """At most three widths for all sequences, each with training sequences for half a batch, or one width."""
    for most in range(PROGRAMS, 1, -1):
        widths = buckets(lengths, most)
        counts = np.bincount(np.searchsorted(widths, lengths[train]), minlength=len(widths))
        if counts.min() >= min(batch, len(train)) / 2:
            return tuple(widths)
    return tuple(buckets(lengths, 1))


def fingerprint(events: Events) -> str:
    """A hash of all that a fit reads of events, by which a stopped fit knows them again."""
    found = hashlib.sha256(repr((events.sequence, events.clock, events.ids.tolist())).encode())
    found.update(events.offsets.tobytes())
    for field in events.fields:
        values = (field.codes, field.values) if isinstance(field, Category) else (field.values, ())
        found.update(repr((field.name, values[1])).encode() + values[0].tobytes())
    told: Any = events.targets
    found.update(b"" if events.times is None else events.times.tobytes())
    found.update(told.question.to_json().encode() + told.values.tobytes())
    return found.hexdigest()[:16]
