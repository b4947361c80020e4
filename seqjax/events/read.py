"""`read_events`: a file in long form, one event a row, into flat columns."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from seqjax.events.assemble import Columns, assembled
from seqjax.events.clock import SINCE
from seqjax.events.encoding import Encoding
from seqjax.events.events import Events
from seqjax.events.leaks import require_no_leak
from seqjax.events.table import MISSING, Table, read_table
from seqjax.events.targets import Question, answers, answers_to

LIMIT = 1000


def read_events(
    path: str | os.PathLike[str],
    *,
    sequence: str = "sequence",
    time: str | None = None,
    target: str | None = None,
    per_event: bool = False,
    task: str | None = None,
    fields: Sequence[str] | None = None,
    kinds: Mapping[str, str] | None = None,
    since_previous: bool = True,
    missing: Sequence[str] = MISSING,
    limit: int | None = LIMIT,
) -> Events:
    """Events of a .csv, .parquet, .jsonl or .ndjson file with one event a row.

    sequence        column that tells which sequence a row belongs to
    time            column of numbers or dates: sequences are sorted by it, and events at equal times keep the order of
                    the file, as do all events where there is no such column
    target          column of the answers: one for each sequence, told in at least one of its rows, or with `per_event`
                    one for each event, which may be missing and then does not count
    task            "binary", "multiclass" or "regression"; by itself text, bools and up to 20 whole numbers are classes
    fields          columns that describe an event; all others by default
    kinds           "category" or "number" for columns that would be taken for the other
    since_previous  with a time column, log(1 + time since the event before), dates in seconds, becomes a field of that
                    name, missing at first events
    missing         what stands for a missing value in a CSV file; elsewhere null and NaN do
    limit           categories that a column may have
    A sequence of one row in which all fields and the time are missing has no events.

    Raises ValueError, of one line that names the row (counted from 1, without the header) or the column, for whatever
    else cannot be meant.
    """
    table = read_table(Path(path), missing)
    chosen = Columns(sequence, time, target, named_fields(table, sequence, time, target, fields), kinds or {})
    chosen.require(table)
    given = None if target is None else answers(table, target, task, per_event, limit)
    events = assembled(table, chosen, given, since_previous, limit)
    require_no_leak(events)
    return events


def read_like(
    path: str | os.PathLike[str],
    like: Encoding,
    question: Question | None = None,
    *,
    missing: Sequence[str] = MISSING,
) -> Events:
    """Events of a file for an `Encoding` made of others: the same columns, of the same kinds, and the same clock.

    With a question the answers are read as well; `missing` as for `read_events`. There is no limit of categories:
    whatever is new is unseen. ValueError as for `read_events`, and for a class that the question does not have.
    """
    table = read_table(Path(path), missing)
    kinds, clock = like.kinds(), like.clock
    since_previous = clock is not None and kinds.pop(SINCE, None) is not None
    target = None if question is None else question.column
    chosen = Columns(like.sequence, None if clock is None else clock.column, target, tuple(kinds), kinds)
    chosen.require(table)
    given = None if question is None else (question, answers_to(table, question))
    events = assembled(table, chosen, given, since_previous, None)
    if clock is not None and clock != events.clock:
        kind = "numbers" if clock.kind == "date" else "dates"
        raise ValueError(f"{table.path.name}: times in {clock.column!r} are {kind}, in training they were not")
    return events


def named_fields(
    table: Table, sequence: str, time: str | None, target: str | None, fields: Sequence[str] | None
) -> tuple[str, ...]:
    """The fields that are asked for, or every other column; ValueError for none, and for one without a name."""
    named = tuple(name for name in table.names if name not in (sequence, time, target)) if fields is None else fields
    if isinstance(named, str):
        raise ValueError(f"fields must be a list of columns, got the text {named!r}")
    if "" in named:
        raise ValueError(f"{table.path.name}: column {table.names.index('') + 1} has no name: name the fields to use")
    if not named and time is None:
        raise ValueError(f"{table.path.name} has no field that describes an event, beside {', '.join(table.names)}")
    return tuple(named)
