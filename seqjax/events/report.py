"""What was read, in plain words: sizes, classes, and everything that is missing, unseen, late or left out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from seqjax.events.clock import SINCE
from seqjax.events.encoding import Encoding
from seqjax.events.events import Events
from seqjax.events.fields import Category
from seqjax.events.targets import Question, Targets


@dataclass(frozen=True)
class Report:
    """Counts of a file's events, and where they were split and encoded, of its parts."""

    path: str
    sequences: int
    events: int
    lengths: tuple[int, float, int]  # least, median and most events of a sequence
    empty: int  # sequences without events
    question: Question | None
    answered: int  # sequences, or events, with an answer
    classes: dict[str, dict[str, int]]  # of "all" and of every part: the answers of each class
    spread: tuple[float, float, float, float] | None  # of a regression: least, mean, standard deviation, most
    missing: dict[str, int]  # events without a value, for each field where there are any
    unseen: dict[str, dict[str, int]]  # of every part: events of a category without a column, for each such field
    unmarked: dict[str, dict[str, int]]  # of every part: missing values of a field that training never missed
    reordered: int
    equal: int
    parts: dict[str, tuple[int, int]]  # sequences and events of every part
    ignored: tuple[str, ...]

    def lines(self) -> list[str]:
        """The report, a fact a line."""
        least, median, most = self.lengths
        first = f"{self.path}: {self.sequences:,} sequences, {self.events:,} events"
        found = [f"{first}, {least:,} to {most:,} a sequence, median {median:,.0f}"]
        if self.empty:
            found.append(f"{self.empty:,} sequences have no events and are answered from nothing")
        found += [f"{name}: {n:,} sequences, {events:,} events" for name, (n, events) in self.parts.items()]
        found += self.of_targets() + self.of_fields() + self.of_times()
        if self.ignored:
            found.append(f"columns not read: {', '.join(self.ignored)}")
        return found

    def of_targets(self) -> list[str]:
        """What is asked, and how the answers are spread."""
        if self.question is None:
            return []
        ask = self.question
        unit = "events" if ask.per_event else "sequences"
        total = self.events if ask.per_event else self.sequences
        found = [f"target {ask.column}, one for {'every event' if ask.per_event else 'every sequence'}: {ask.task}"]
        if self.answered < total:
            found.append(f"{total - self.answered:,} of {total:,} {unit} have no target and do not count")
        if self.spread is not None:
            least, mean, sd, most = self.spread
            return [*found, f"from {least:.6g} to {most:.6g}, mean {mean:.6g}, standard deviation {sd:.6g}"]
        for part, counts in self.classes.items():
            found.append(f"classes of {part}: {shares(counts)}")
        most = max(self.classes["all"], key=self.classes["all"].__getitem__)
        share = self.classes["all"][most] / max(self.answered, 1)
        return [*found, f"always answering {most!r} would be right in {share:.1%} of {self.answered:,} {unit}"]

    def of_fields(self) -> list[str]:
        """What is missing or unseen."""
        found = [f"{name}: missing in {share(n, self.events)} events" for name, n in self.missing.items()]
        for part, fields in self.unseen.items():
            rare = "a category of one event only" if part == "train" else "a category that training did not have"
            found += [f"{name}: {rare}, in {share(n, self.parts[part][1])} {part} events" for name, n in fields.items()]
        for part, fields in self.unmarked.items():
            unmarked = "missing, as never in training, and taken for"
            for name, n in fields.items():
                found.append(f"{name}: {unmarked} an average one, in {share(n, self.parts[part][1])} {part} events")
        return found

    def of_times(self) -> list[str]:
        """What sorting by time met."""
        found = []
        if self.reordered:
            found.append(f"{self.reordered:,} events came after a later one of their sequence: sorted by time")
        if self.equal:
            found.append(f"{self.equal:,} events are at the time of the one before: they keep the order of the file")
        return found


def report(events: Events, *, parts: Mapping[str, Any] | None = None, encoding: Encoding | None = None) -> Report:
    """The report of a file. `parts` are rows by their names, as of `split(events)._asdict()`, in which what `encoding`
    does not know is counted, "train" being what it was fitted to. ValueError for rows that are none."""
    parts = {} if parts is None else dict(parts)
    inside = {name: events.within(rows) for name, rows in parts.items()}
    lengths, targets = events.lengths, events.targets
    missing = {f.name: int(f.missing().sum()) for f in events.fields if f.name != SINCE or events.clock is None}
    return Report(
        path=events.path,
        sequences=len(events.ids),
        events=int(events.offsets[-1]),
        lengths=(int(lengths.min()), float(np.median(lengths)), int(lengths.max())),
        empty=int((lengths == 0).sum()),
        question=None if targets is None else targets.question,
        answered=0 if targets is None else int(targets.known().sum()),
        classes={} if targets is None else class_counts(targets, parts, inside),
        spread=None if targets is None else spread_of(targets),
        missing={name: n for name, n in missing.items() if n},
        unseen={} if encoding is None else {name: unseen(events, encoding, inside[name]) for name in parts},
        unmarked={} if encoding is None else {name: unmarked(events, encoding, inside[name]) for name in parts},
        reordered=events.reordered,
        equal=events.equal,
        parts={name: (len(rows), int(inside[name].sum())) for name, rows in parts.items()},
        ignored=events.ignored,
    )


def unseen(events: Events, encoding: Encoding, within: np.ndarray) -> dict[str, int]:
    """How many of these events have a category without a column, for each field where there are any."""
    counts, columns = {}, {words.name: set(words.values) for words in encoding.words}
    for field in events.fields:
        if isinstance(field, Category):
            new = np.array([value not in columns[field.name] for value in field.values] + [False])
            counts[field.name] = int(new[field.codes[within]].sum())
    return {name: n for name, n in counts.items() if n}


def unmarked(events: Events, encoding: Encoding, within: np.ndarray) -> dict[str, int]:
    """How many of these events miss a value that training never missed, for each field where there are any."""
    never = {field.name for field in (*encoding.words, *encoding.scales) if not field.missing}
    counts = {field.name: int(field.missing()[within].sum()) for field in events.fields if field.name in never}
    return {name: n for name, n in counts.items() if n}


def class_counts(
    targets: Targets, parts: Mapping[str, Any], inside: Mapping[str, np.ndarray]
) -> dict[str, dict[str, int]]:
    """Answers of each class, of all and of every part; none for a regression."""
    ask, values = targets.question, targets.values
    if not ask.classes:
        return {}
    chosen = {"all": values} | {name: values[inside[name] if ask.per_event else parts[name]] for name in parts}
    counts = {name: np.bincount(each[each >= 0], minlength=ask.K) for name, each in chosen.items()}
    return {name: dict(zip(ask.classes, map(int, each), strict=True)) for name, each in counts.items()}


def spread_of(targets: Targets) -> tuple[float, float, float, float] | None:
    """Of a regression's answers: least, mean, standard deviation and most."""
    if targets.question.classes:
        return None
    told = targets.values[targets.known()]
    return float(told.min()), float(told.mean()), float(told.std()), float(told.max())


def shares(counts: Mapping[str, int]) -> str:
    """Classes with their shares, the largest twenty."""
    total = max(sum(counts.values()), 1)
    largest = sorted(counts, key=counts.__getitem__, reverse=True)[:20]
    more = f" and {len(counts) - 20} others" if len(counts) > 20 else ""
    return ", ".join(f"{name} {counts[name]:,} ({counts[name] / total:.1%})" for name in largest) + more


def share(n: int, total: int) -> str:
    """A count of a total."""
    return f"{n:,} of {total:,} ({n / max(total, 1):.1%})"
