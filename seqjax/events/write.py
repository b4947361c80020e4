"""A polars table into a file, by its suffix, whole or not at all."""

from pathlib import Path
from typing import Any

from seqjax.aside import aside
from seqjax.events.table import SUFFIXES


def require_table_path(path: Path) -> None:
    """ValueError for another suffix than a table's, and for a folder that is not there."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"{path.name} must be a file {', '.join(SUFFIXES)}")
    if not path.parent.is_dir() or path.is_dir():
        raise ValueError(f"{path} cannot be written ({'it' if path.is_dir() else path.parent} is no file in a folder)")


def write_table(path: Path, frame: Any) -> None:
    """Write a table; ValueError as for `require_table_path`, and where it cannot be written."""
    require_table_path(path)
    write = {".csv": frame.write_csv, ".parquet": frame.write_parquet}.get(path.suffix, frame.write_ndjson)
    try:
        with aside(path) as draft:
            write(draft)
    except OSError as error:
        raise ValueError(f"{path} cannot be written ({error.strerror or error})") from None
