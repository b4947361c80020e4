"""Times: numbers, or dates as ISO 8601 text or in a column of dates; a column at once, or one at a time."""

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np

from seqjax.events.table import Table

# Groups: day, hours and minutes, seconds, offset. Of offsets only UTC's distance counts.
ISO = (
    r"^([12][0-9]{3}-[01][0-9]-[0-3][0-9])"
    r"(?:[T ]((?:[01][0-9]|2[0-3]):[0-5][0-9])(:[0-5][0-9](?:\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:?[0-9]{2})?)?$"
)
ALLOWED = "a number or an ISO 8601 date such as 2024-05-31 or 2024-05-31T12:30:00.5+02:00"
SINCE = "since_previous"
MICROSECONDS = 1_000_000
LARGEST, FINEST = 2**62, 2**53  # of ticks: differences stay within 64 bits, and fractions beside whole numbers exact


@dataclass(frozen=True)
class Clock:
    """How times are told: in the column `column`, as "date" or as "number", whose unit is the user's own.

    A date without an offset counts as UTC.
    """

    column: str
    kind: str

    def tick(self, value: Any) -> int | float:
        """One time as a number, dates in microseconds since 1970; ValueError for what is not of this kind."""
        if self.kind == "number":
            found = value.item() if isinstance(value, np.number) else value
            known = isinstance(found, int | float) and not isinstance(found, bool) and abs(found) < LARGEST
        else:
            text = value.isoformat() if isinstance(value, date) else value
            found = microseconds(text) if isinstance(text, str) else None
            known = found is not None
        if not known or found is None:
            want = "an ISO 8601 date" if self.kind == "date" else "a number within ±2⁶²"
            raise ValueError(f"{self.column!r} must be {want}, got {value!r}")
        return found

    def since(self, tick: float, previous: float | None) -> np.float64:
        """log(1 + time since the event before), dates in seconds; NaN for a first event. ValueError for going back."""
        if previous is None:
            return np.float64(np.nan)
        if tick < previous:
            raise ValueError(f"{self.column!r} goes back: this event is earlier than the one before")
        return np.log1p(np.float64(tick - previous) / self.per_second)

    @property
    def per_second(self) -> int:
        """Of a tick's units; 1 where the unit is the user's own."""
        return MICROSECONDS if self.kind == "date" else 1


def microseconds(text: str) -> int | None:
    """An ISO 8601 time in microseconds since 1970, UTC; None for another text."""
    parts = re.fullmatch(ISO, text.strip())
    if parts is None:
        return None
    day, minutes, seconds, offset = parts.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{minutes or '00:00'}{seconds or ':00'}")
    except ValueError:
        return None
    ahead = 0 if offset in (None, "Z") else int(offset[0] + "1") * (60 * int(offset[1:3]) + int(offset[-2:]))
    return (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1) - 60 * MICROSECONDS * ahead


def ticks(table: Table, column: str) -> tuple[Clock, np.ndarray, np.ndarray, float]:
    """The clock of a column, its ticks, int64 or float64 [rows], where there are none, bool [rows], and ticks a second.

    Ticks of nanoseconds stay so, where microseconds would not tell them apart. ValueError for what is no time.
    """
    import polars as pl

    series = table.column(column)
    empty = series.is_null().to_numpy()
    if empty.all():
        raise ValueError(f"{table.path.name}: every value of the time column {column!r} is missing")
    if series.dtype == pl.String:
        kind, series = of_text(table, column, series)
    elif series.dtype.is_numeric():
        kind = "number"
    elif series.dtype in (pl.Date, pl.Datetime):
        kind = "date"
    else:
        raise ValueError(f"{table.path.name}: column {column!r} holds {series.dtype}, a time must be {ALLOWED}")
    values, per_second = (physical if kind == "date" else numeric)(series)
    most = FINEST if values.dtype.kind == "f" else LARGEST
    bad = np.flatnonzero(~((values > -most) & (values < most)) & ~empty)
    if bad.size:
        given = table.column(column).cast(pl.String)[int(bad[0])]
        limit = "±2⁵³ in a column of fractions" if values.dtype.kind == "f" else "±2⁶² of its units"
        raise table.error(bad[0], f"{column!r} is {given}, a time must be {ALLOWED}, within {limit}")
    return Clock(column, kind), values, empty, per_second


def numeric(series: Any) -> tuple[np.ndarray, float]:
    """Numbers as int64 where they are whole by type and not too large for it, else as float64."""
    import polars as pl

    whole = series.cast(pl.Int64, strict=False) if series.dtype.is_integer() else series
    found = whole if whole.null_count() == series.null_count() else series
    return found.cast(found.dtype if found.dtype == pl.Int64 else pl.Float64).fill_null(0).to_numpy(), 1.0


def physical(series: Any) -> tuple[np.ndarray, float]:
    """Dates as int64: microseconds, or nanoseconds where there are any that these would not tell apart."""
    import polars as pl

    unit = getattr(series.dtype, "time_unit", "day")
    values = series.to_physical().fill_null(0).cast(pl.Int64).to_numpy()
    if unit == "ns":
        return (values, 1e9) if (values % 1000).any() else (values // 1000, MICROSECONDS)
    factor = {"day": 86_400 * MICROSECONDS, "ms": 1000, "us": 1}[unit]
    return np.clip(values, -(LARGEST // factor) - 1, LARGEST // factor + 1) * factor, MICROSECONDS


def of_text(table: Table, column: str, series: Any) -> tuple[str, Any]:
    """Text as numbers, where the first one is a number, or as dates; ValueError naming a row that is neither."""
    import polars as pl

    text = series.str.strip_chars()
    first = text.drop_nulls()[:1].cast(pl.Float64, strict=False)
    if first.null_count():
        kind, found = "date", dates(table, column, text)
    else:
        kind, found = "number", text.cast(pl.Int64, strict=False)
        found = text.cast(pl.Float64, strict=False) if found.null_count() > text.null_count() else found
    bad = (found.is_null() & text.is_not_null()).arg_true()
    if len(bad):
        raise table.error(bad[0], f"{column!r} is {text[bad[0]]!r}, a time must be {ALLOWED}, all of one kind")
    return kind, found


def dates(table: Table, column: str, text: Any) -> Any:
    """ISO 8601 text as UTC dates, null where it is none; ValueError where only some tell their offset."""
    import polars as pl

    parts = text.str.extract_groups(ISO).struct.unnest()
    day, minutes, seconds, offset = (parts[name] for name in parts.columns)
    joined = day + "T" + minutes.fill_null("00:00") + seconds.fill_null(":00")
    found = joined.str.strptime(pl.Datetime("us"), "%Y-%m-%dT%H:%M:%S%.f", strict=False)
    told = offset.is_not_null()
    if not told.any():
        return found
    untold = (day.is_not_null() & ~told).arg_true()
    if len(untold):
        raise table.error(untold[0], f"{column!r} has no offset from UTC, {text[untold[0]]!r}, other rows have one")
    plain = offset.replace("Z", "+00:00")
    ahead = plain.str.slice(1, 2).cast(pl.Int64) * 60 + plain.str.slice(-2).cast(pl.Int64)
    sign = plain.str.slice(0, 1).replace_strict({"+": 1, "-": -1}, return_dtype=pl.Int64)
    return found - sign * ahead * timedelta(minutes=1)
