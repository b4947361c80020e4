"""Fields of events: a column of categories or of numbers, told apart by what it holds unless it is said."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from seqjax.events.clock import ISO
from seqjax.events.table import Table

KINDS = ("category", "number")
BOOLS = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}  # as CSV files spell them
LEAVE = "leave it out of the fields"


@dataclass(frozen=True, eq=False)
class Category:
    """A field of words."""

    name: str
    codes: np.ndarray  # [E] int32, -1 where missing
    values: tuple[str, ...]  # the word of every code, sorted

    def missing(self) -> np.ndarray:
        """Where there is no value, bool [E]."""
        return self.codes < 0

    def take(self, order: np.ndarray) -> "Category":
        """The same field of these events."""
        return Category(self.name, self.codes[order], self.values)


@dataclass(frozen=True, eq=False)
class Number:
    """A field of numbers."""

    name: str
    values: np.ndarray  # [E] float64, NaN where missing

    def missing(self) -> np.ndarray:
        """Where there is no value, bool [E]."""
        return np.isnan(self.values)

    def take(self, order: np.ndarray) -> "Number":
        """The same field of these events."""
        return Number(self.name, self.values[order])


Field = Category | Number


def field(table: Table, name: str, kind: str | None, limit: int | None) -> Field:
    """A column as a field of at most `limit` categories, None for no limit; without a kind, text, bools and
    categoricals are categories and numbers are numbers.

    Text of a CSV file is numbers where it all is. Raises ValueError
    naming the row for text among numbers and for infinity; naming the column for what has no kind, such as dates.
    """
    series = typed(table, name, kind)
    if series.dtype.is_numeric() and kind != "category":
        return Number(name, finite(table, name, series))
    if kind == "number" and series.null_count() < len(series):
        raise ValueError(f"{table.path.name}: column {name!r} holds {series.dtype}, which are no numbers")
    words = text_of(table, name, series)
    return Category(name, *coded(table, name, words, limit))


def typed(table: Table, name: str, kind: str | None) -> Any:
    """A column as polars has it, but text that is numbers as such; ValueError as for `field`."""
    import polars as pl

    series = table.column(name)
    given = series.count()
    if not given and kind is None:
        raise ValueError(f"{table.path.name}: every value of column {name!r} is missing: {LEAVE}, or say its kind")
    if not given:
        return pl.Series("", [None] * len(series), pl.Float64 if kind == "number" else pl.String)
    if series.dtype != pl.String or kind == "category":
        return series.replace(BOOLS) if series.dtype == pl.String and table.path.suffix == ".csv" else series
    text = series.str.strip_chars()
    numbers = text.cast(pl.Float64, strict=False).fill_nan(None)
    if kind == "number" or (table.path.suffix == ".csv" and 2 * numbers.count() >= given):
        bad = (numbers.is_null() & text.is_not_null()).arg_true()
        if len(bad):
            fix = "mend it, leave it empty" + ("" if kind else ", or say that the column is a category")
            raise table.error(bad[0], f"column {name!r} holds numbers, but here {series[bad[0]]!r}: {fix}")
        whole = text.cast(pl.Int64, strict=False)
        return whole if whole.null_count() == text.null_count() else numbers
    if kind is None and text.drop_nulls()[:1].str.contains(ISO).all():
        raise ValueError(f"{table.path.name}: column {name!r} holds dates: name it as the time, or {LEAVE}")
    return series.replace(BOOLS) if table.path.suffix == ".csv" else series


def finite(table: Table, name: str, series: Any) -> np.ndarray:
    """Numbers as float64, NaN where missing; ValueError naming the row of an infinite one."""
    import polars as pl

    values = series.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    bad = np.flatnonzero(np.isinf(values))
    if bad.size:
        raise table.error(bad[0], f"column {name!r} is infinite, {values[bad[0]]}: mend it, or leave it empty")
    return values


def text_of(table: Table, name: str, series: Any) -> Any:
    """What can be a category as text: as `word` does it for one value. ValueError for other types and for fractions."""
    import polars as pl

    if series.dtype.is_float():
        bad = (series.is_not_null() & ((series % 1 != 0) | (series.abs() >= 2**63))).arg_true()
        if len(bad):
            raise table.error(bad[0], f"column {name!r} is {series[bad[0]]}: a category is a word or a whole number")
        series = series.cast(pl.Int64)
    if series.dtype in (pl.String, pl.Boolean, pl.Categorical, pl.Enum) or series.dtype.is_integer():
        return series.cast(pl.String)
    raise ValueError(f"{table.path.name}: column {name!r} holds {series.dtype}, neither words nor numbers: {LEAVE}")


def word(value: Any) -> str | None:
    """One value of a category as text; None for what cannot be one."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int | np.integer) or (isinstance(value, float | np.floating) and value % 1 == 0):
        return str(int(value))
    return str(value) if isinstance(value, str) else None


def coded(table: Table, name: str, words: Any, limit: int | None) -> tuple[np.ndarray, tuple[str, ...]]:
    """Codes int32 [rows], -1 where missing, of the sorted words; ValueError above the limit."""
    import polars as pl

    values = words.drop_nulls().unique().sort()
    if limit is not None and len(values) > limit:
        raise ValueError(
            f"{table.path.name}: column {name!r} has {len(values):,} categories, the limit is {limit:,}: "
            f"{LEAVE}, or raise the limit"
        )
    codes = words.cast(pl.Enum(values)).to_physical().cast(pl.Int32).fill_null(-1).to_numpy()
    return codes, tuple(values.to_list())
