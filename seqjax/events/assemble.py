"""Rows of a table into sequences, in the order in which they come, sorted by time, equal times as in the file."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from seqjax.events.clock import SINCE, ticks
from seqjax.events.events import Events
from seqjax.events.fields import KINDS, Field, Number, field
from seqjax.events.table import Table
from seqjax.events.targets import Question, known, per_event, per_sequence

ANSWERS = ("prediction", "probabilities", "events", "error")  # beside which the ids could not stand


@dataclass(frozen=True)
class Columns:
    """Which column is what."""

    sequence: str
    time: str | None
    target: str | None
    fields: tuple[str, ...]
    kinds: Mapping[str, str]

    def named(self) -> tuple[str, ...]:
        """All that are read."""
        return (self.sequence, *(name for name in (self.time, self.target) if name is not None), *self.fields)

    def require(self, table: Table) -> None:
        """ValueError for columns that are not there or have two parts, and for kinds of something else."""
        table.require(self.named())
        twice = next((name for name in self.named() if self.named().count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"column {twice!r} is named twice among the sequence, the time, the target and the fields")
        for name, kind in self.kinds.items():
            if name not in self.fields or kind not in KINDS:
                raise ValueError(f"kinds must give each of some fields one of {list(KINDS)}, got {name!r}: {kind!r}")
        if self.time is not None and SINCE in self.fields:
            raise ValueError(f"{table.path.name}: {SINCE!r} is a field made of the times: rename that column")
        if self.target is not None and (self.sequence in ANSWERS or self.sequence.startswith("probability_")):
            raise ValueError(f"sequence must not be {self.sequence!r}, a name that answers have: rename that column")


def assembled(
    table: Table, chosen: Columns, given: tuple[Question, np.ndarray] | None, since_previous: bool, limit: int | None
) -> Events:
    """The rows as sequences."""
    ids, group = sequences(table, chosen.sequence)
    fields = tuple(field(table, name, chosen.kinds.get(name), limit) for name in chosen.fields)
    clock, times, untimed, per_second = (None,) * 4 if chosen.time is None else ticks(table, chosen.time)
    blank = blank_rows(group, fields, untimed, given)
    if blank.all():
        raise ValueError(f"{table.path.name} has no events: in every row all fields are missing")
    late = np.flatnonzero(~blank & untimed) if untimed is not None else np.arange(0)
    if late.size:
        raise table.error(late[0], f"the time column {chosen.time!r} is empty: fill it in, or leave the row out")
    order, reordered = arranged(group, times)
    order = order[~blank[order]]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(group[order], minlength=len(ids)))])
    fields = tuple(f.take(order) for f in fields)
    times = None if times is None else times[order]
    steps = None if times is None else steps_of(times, offsets)
    if steps is not None and per_second is not None and since_previous:
        fields = (*fields, Number(SINCE, np.log1p(steps / per_second)))
    targets = (
        None if given is None else (per_event if given[0].per_event else per_sequence)(table, *given, group, ids, order)
    )
    ignored = tuple(name for name in table.names if name not in chosen.named())
    equal = 0 if steps is None else int((steps == 0).sum())
    name = str(table.path)
    return Events(name, chosen.sequence, ids, offsets, fields, clock, times, targets, reordered, equal, ignored)


def sequences(table: Table, column: str) -> tuple[np.ndarray, np.ndarray]:
    """The ids in the order in which they come, [N], and the number of each row's sequence, int32 [rows].

    ValueError naming a row without one, and for ids that are neither text nor whole numbers.
    """
    import polars as pl

    series = table.column(column)
    empty = series.is_null() | (series == "") if series.dtype == pl.String else series.is_null()
    lost = empty.arg_true()
    if len(lost):
        raise table.error(lost[0], f"the sequence id {column!r} is empty: say which sequence the row belongs to")
    if series.dtype.is_float() and ((series % 1 == 0) & (series.abs() < 2**53)).all():
        series = series.cast(pl.Int64)
    if series.dtype.is_integer():
        whole = series.cast(pl.Int64, strict=False)
        series = series.cast(pl.String) if whole.null_count() else whole
    if series.dtype in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    if series.dtype != pl.String and not series.dtype.is_integer():
        raise ValueError(f"{table.path.name}: ids must be text or whole numbers, {column!r} holds {series.dtype}")
    ids = series.unique(maintain_order=True)
    numbers = ids.to_frame("id").with_columns(number=pl.int_range(len(ids), dtype=pl.Int32))
    group = series.to_frame("id").join(numbers, on="id", how="left", maintain_order="left")["number"]
    return ids.to_numpy(), group.to_numpy()


def blank_rows(
    group: np.ndarray, fields: tuple[Field, ...], untimed: np.ndarray | None, given: tuple[Question, np.ndarray] | None
) -> np.ndarray:
    """Rows that name a sequence without events, bool [rows]: its only row, in which nothing of an event is told."""
    blank = np.bincount(group)[group] == 1
    for f in fields:
        blank &= f.missing()
    if untimed is not None:
        blank &= untimed
    if given is not None and given[0].per_event:
        blank &= ~known(given[1])
    return blank if fields or untimed is not None else np.zeros_like(blank)


def arranged(group: np.ndarray, times: np.ndarray | None) -> tuple[np.ndarray, int]:
    """Rows sequence by sequence, sorted by time, those of equal times as in the file; and how many of them come in the
    file after a later one of their sequence."""
    order = np.argsort(group, kind="stable")
    if times is None:
        return order, 0
    ticks, same = times[order], np.diff(group[order]) == 0
    back = int((same & (np.diff(ticks) < 0)).sum())
    if back:
        order = np.lexsort((times, group))
    return order, back


def steps_of(times: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Time since the event before, float64 [E], NaN at the first event of every sequence."""
    steps = np.full(len(times), np.nan)
    steps[1:] = np.diff(times)
    firsts = offsets[:-1]
    steps[firsts[firsts < offsets[1:]]] = np.nan
    return steps
