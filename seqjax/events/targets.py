"""What is to be told of every sequence, or of every event: a class or a number."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from seqjax.events.fields import finite, text_of, typed
from seqjax.events.table import Table

TASKS = ("binary", "multiclass", "regression")
FEW = 20  # whole numbers of at most so many values are classes, where the task is not said


@dataclass(frozen=True)
class Question:
    """What is asked: the column, the task, and the classes in the order of their numbers, none for a regression."""

    column: str
    task: str  # one of TASKS
    classes: tuple[str, ...] = ()
    per_event: bool = False

    @property
    def K(self) -> int:
        """Outputs of a network that answers it: one per class, or one number."""
        return len(self.classes) or 1

    def to_json(self) -> str:
        """As text, for `from_json`."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @staticmethod
    def from_json(text: str) -> "Question":
        """What `to_json` wrote."""
        found = json.loads(text)
        return Question(**found | {"classes": tuple(found["classes"])})


@dataclass(frozen=True, eq=False)
class Targets:
    """The answers, per sequence [N] or per event [E]: class numbers, int32 and -1 where there is none, or float64 and
    NaN. Only events may have none."""

    question: Question
    values: np.ndarray

    def known(self) -> np.ndarray:
        """Where there is an answer, bool."""
        return known(self.values)


def known(values: np.ndarray) -> np.ndarray:
    """Where there is an answer, bool."""
    return values >= 0 if values.dtype.kind == "i" else ~np.isnan(values)


def answers(
    table: Table, column: str, task: str | None, per_event: bool, limit: int | None
) -> tuple[Question, np.ndarray]:
    """The question that a column asks, and its answer in every row.

    Without a task, text, bools and at most 20 whole numbers are classes, other numbers a regression. Raises ValueError
    for fewer than two values, and for a task that the column does not fit.
    """
    if task not in (None, *TASKS):
        raise ValueError(f"task must be one of {list(TASKS)}, got {task!r}")
    if not table.column(column).count():
        require_two(table, column, [])
    series = typed(table, column, "number" if task == "regression" else None)
    kind = task or inferred(series)
    if kind == "regression":
        if not series.dtype.is_numeric():
            raise ValueError(f"{table.path.name}: a regression needs numbers, column {column!r} holds {series.dtype}")
        values = finite(table, column, series)
        require_two(table, column, np.unique(values[~np.isnan(values)]).tolist())
        return Question(column, kind, per_event=per_event), values
    words = text_of(table, column, series)
    classes = words.drop_nulls().unique().to_list()
    classes = sorted(classes, key=int) if series.dtype.is_numeric() else sorted(classes)
    require_two(table, column, classes)
    if limit is not None and len(classes) > limit:
        raise ValueError(f"{table.path.name}: column {column!r} has {len(classes):,} classes, the limit is {limit:,}")
    if task == "binary" and len(classes) > 2:
        raise ValueError(f"{table.path.name}: column {column!r} has {len(classes)} classes, a binary target has 2")
    kind = task or ("binary" if len(classes) == 2 else "multiclass")
    question = Question(column, kind, tuple(classes), per_event)
    return question, numbered(table, question, words)


def answers_to(table: Table, question: Question) -> np.ndarray:
    """The answer in every row to a question that another file asked; ValueError for a class that it did not know."""
    if question.task == "regression":
        return finite(table, question.column, typed(table, question.column, "number"))
    return numbered(table, question, text_of(table, question.column, typed(table, question.column, None)))


def inferred(series: Any) -> str:
    """Whether a column tells classes or a regression."""
    values = series.drop_nulls()
    if not series.dtype.is_numeric():
        return "classes"
    whole = not series.dtype.is_float() or bool((values % 1 == 0).all())
    return "classes" if whole and values.n_unique() <= FEW else "regression"


def numbered(table: Table, question: Question, words: Any) -> np.ndarray:
    """Class numbers, int32 [rows], -1 where missing."""
    import polars as pl

    codes = words.replace_strict(question.classes, range(question.K), default=None, return_dtype=pl.Int32)
    bad = (codes.is_null() & words.is_not_null()).arg_true()
    if len(bad):
        raise table.error(
            bad[0], f"{question.column!r} is {words[bad[0]]!r}, the classes are {', '.join(question.classes[:20])}"
        )
    return codes.fill_null(-1).to_numpy()


def require_two(table: Table, column: str, values: Sequence[Any]) -> None:
    """ValueError for a column with one value: there is nothing to learn."""
    if len(values) < 2:
        found = f"is {values[0]!r} wherever it is given" if values else "is missing in every row"
        raise ValueError(f"{table.path.name}: the target {column!r} {found}: it takes two classes, or two numbers")


def per_event(
    table: Table, question: Question, values: np.ndarray, group: np.ndarray, ids: np.ndarray, order: np.ndarray
) -> Targets:
    """An answer for every event, of which the rows `order` tell, `group` [rows] being the number of their sequence.

    ValueError naming a sequence with events but no answer.
    """
    found, answered = (first_rows(group, where, len(ids)) >= 0 for where in (inside(order, group), known(values)))
    require_answers(table, question, ids, found & ~answered)
    return Targets(question, values[order])


def per_sequence(
    table: Table, question: Question, values: np.ndarray, group: np.ndarray, ids: np.ndarray, order: np.ndarray
) -> Targets:
    """One answer for each sequence, of those that its rows give, also of rows that tell of no event.

    ValueError naming a sequence without one, and the row of a second one.
    """
    first = first_rows(group, known(values), len(ids))
    require_answers(table, question, ids, first < 0)
    bad = np.flatnonzero(known(values) & (values != values[first[group]]))
    if bad.size:
        row, before = bad[0], first[group[bad[0]]]
        raise table.error(
            row,
            f"sequence {id_of(ids, group[row])} has the target {told(question, values[row])} and in row {before + 1} "
            f"{told(question, values[before])}: give it one, or say that every event has its own",
        )
    return Targets(question, values[first])


def require_answers(table: Table, question: Question, ids: np.ndarray, without: np.ndarray) -> None:
    """ValueError naming the first of the sequences without an answer, bool [N]."""
    if without.any():
        raise ValueError(
            f"{table.path.name}: {without.sum():,} of {len(ids):,} sequences have no target in {question.column!r} "
            f"(the first: {id_of(ids, without.argmax())}): give them one, or leave them out"
        )


def id_of(ids: np.ndarray, n: Any) -> str:
    """A sequence's id, text in quotes."""
    return repr(ids[n : n + 1].tolist()[0])


def inside(order: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Which rows are among those listed, bool [rows]."""
    found = np.zeros(len(group), bool)
    found[order] = True
    return found


def first_rows(group: np.ndarray, where: np.ndarray, N: int) -> np.ndarray:
    """The first row of each of N groups that counts, [N], -1 where there is none."""
    first = np.full(N, -1)
    rows = np.flatnonzero(where)[::-1]
    first[group[rows]] = rows  # of those given twice the last stays, the first row
    return first


def told(question: Question, value: Any) -> str:
    """An answer in words."""
    return repr(question.classes[value]) if question.classes else str(value)
