"""A file of rows as a polars table: CSV, Parquet or JSON lines, refused with one line unless it is whole."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from seqjax.events.lines import object_in

SUFFIXES = (".csv", ".parquet", ".jsonl", ".ndjson")
MISSING = ("", "NA", "NaN", "nan", "null")  # what stands for a missing value in a CSV file
KINDS_OF = {bool: "bool", int: "number", float: "number", str: "text", list: "list", dict: "object"}


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a file, null where missing. Of CSV all are text."""

    path: Path
    frame: Any  # polars.DataFrame
    names: tuple[str, ...]  # every column of the file, read or not

    def error(self, row: Any, what: str) -> ValueError:
        """An error of one row, of those counted from 0; it is told counted from 1, without the header."""
        return ValueError(f"{self.path.name}, row {int(row) + 1}: {what}")

    def column(self, name: str) -> Any:
        """A column, without its name, which polars would take for a pattern where it looks like one."""
        return self.frame[name].alias("")

    def require(self, names: Sequence[str]) -> None:
        """ValueError for columns that the file does not have."""
        for name in names:
            if name not in self.names:
                listed = ", ".join(map(repr, self.names[:20])) + (", ..." if len(self.names) > 20 else "")
                hint = ": columns are separated by commas" if len(self.names) == 1 else ""
                raise ValueError(f"{self.path.name} has no column {name!r}, it has {listed}{hint}")


def read_table(path: Path, missing: Sequence[str] = MISSING) -> Table:
    """All of a file; `missing` are the texts that stand for a missing value in CSV, elsewhere null and NaN do.

    Raises ValueError for another suffix, and a file that is not there, is empty, is cut short or not UTF-8, has
    columns of one name, rows of other lengths than its header (CSV), or values of two types in a column (JSON lines).
    """
    import polars as pl
    from polars.exceptions import PanicException, PolarsError

    if path.suffix not in SUFFIXES:
        raise ValueError(f"{path.name} must be a file {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise ValueError(f"{path} is not there" if not path.exists() else f"{path} is no file")
    if not path.stat().st_size:
        raise ValueError(f"{path.name} is empty")
    reader = {".csv": read_csv, ".parquet": read_parquet}.get(path.suffix, read_lines)
    try:
        frame = reader(path, missing)
    except (PolarsError, PanicException) as error:
        why = (str(error).splitlines() or ["no reason given"])[0]
        raise ValueError(f"{path.name} cannot be read as a whole {path.suffix} file ({why})") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror or error})") from None
    if not frame.height:
        raise ValueError(f"{path.name} is empty: it has no rows")
    return Table(path, frame.with_columns(pl.selectors.float().fill_nan(None)), tuple(frame.columns))


def read_parquet(path: Path, missing: Sequence[str]) -> Any:
    """A Parquet file."""
    import polars as pl

    return pl.read_parquet(path)


def read_csv(path: Path, missing: Sequence[str]) -> Any:
    """A CSV file with a header, every column as text; blank lines are no rows."""
    import polars as pl

    widths = csv_widths(path)
    frame = pl.read_csv(path, infer_schema=False, null_values=list(missing))
    if frame.height != len(widths):
        raise ValueError(f"{path.name} has quotes or line ends that do not match: {len(widths)} rows or {frame.height}")
    return frame if widths.all() else frame.filter(pl.Series(widths > 0))


def csv_widths(path: Path) -> np.ndarray:
    """Fields of every row below the header, 0 for a blank line; polars would fill a row that is too short."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = next(reader, [])
            widths = np.fromiter(map(len, reader), np.int64)
    except UnicodeDecodeError:
        raise not_utf8(path) from None
    except csv.Error as error:
        raise ValueError(f"{path.name} is cut short or has quotes that do not match ({error})") from None
    require_unique(path.name, header)
    bad = np.flatnonzero((widths != len(header)) & (widths > 0))
    if bad.size:
        row, found = int(bad[0]), int(widths[bad[0]])
        last = " (the last: is the file cut short?)" if row == len(widths) - 1 else ""
        raise ValueError(f"{path.name}, row {row + 1}{last}: {found} fields, the header has {len(header)}")
    return widths


def read_lines(path: Path, missing: Sequence[str]) -> Any:
    """A file with a JSON object in every line; blank lines are no rows."""
    import polars as pl

    require_lines(path)
    return pl.read_ndjson(path, infer_schema_length=None)


def require_lines(path: Path) -> None:
    """ValueError naming the first line that is no JSON object, or holds a value of another type than the lines before
    it: polars takes the first of two values of one name, and numbers beside text as text, without a word."""
    kinds: dict[str, str] = {}
    rows = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                found = object_in(line) if line.strip() else {}
            except ValueError as error:
                ends = "" if line.endswith(b"\n") else " (the last: is the file cut short?)"
                raise ValueError(f"{path.name}, line {number}{ends}: {error}") from None
            rows += bool(line.strip())
            for name, value in found.items():
                kind = KINDS_OF.get(type(value))
                if kind and kinds.setdefault(name, kind) != kind:
                    what = f"{name!r} is {value!r}, a {kind}, above it is a {kinds[name]}"
                    raise ValueError(f"{path.name}, line {number}: {what}")
    if not rows:
        raise ValueError(f"{path.name} is empty: it has no rows")


def not_utf8(path: Path) -> ValueError:
    """The error that names the first line which is not UTF-8."""
    with path.open("rb") as file:
        for number, line in enumerate(chain(file, [b"\xff"]), 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return ValueError(f"{path.name}, line {number}: not UTF-8 text, save the file as UTF-8")
    raise AssertionError("the last line above is not UTF-8")


def require_unique(where: str, names: Sequence[str]) -> None:
    """ValueError for two columns of one name."""
    for name in names:
        if list(names).count(name) > 1:
            raise ValueError(f"{where} has the column {name!r} {list(names).count(name)} times: rename one")
