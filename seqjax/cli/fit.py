"""`seqjax fit DATA --target COLUMN`: a network for events of one's own, with its scores and what they rest on."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from seqjax.cli.folder import folder
from seqjax.events import Events, read_events
from seqjax.events.read import LIMIT
from seqjax.events.table import MISSING
from seqjax.fit import Settings, fit
from seqjax.fit.learn import Course
from seqjax.fit.words import rows_of, verdict
from seqjax.fit.write import FILES
from seqjax.progress import Show, progress_bar
from seqjax.report.store import require_writable

PROGRESS = ".progress"  # where a fit that was stopped goes on from


@dataclass(frozen=True)
class Fit:
    """Train a recurrent network on events, one a row: CSV, Parquet or JSON lines. The page it writes says what it
    found; a fit that was stopped goes on where it stood when it is called again."""

    data: Annotated[Path, tyro.conf.Positional]
    """A .csv, .parquet, .jsonl or .ndjson file."""
    target: str
    """Column of what is to be predicted: the same in all rows of a sequence, or given in one of them."""
    sequence: str = "sequence"
    """Column that tells which sequence an event belongs to."""
    time: str | None = None
    """Column of numbers or dates by which events are sorted, equal ones in their order in the file, which is that of
    all events by default."""
    per_event: bool = False
    """Every event has an answer of its own."""
    task: Literal["binary", "multiclass", "regression"] | None = None
    """By default text, bools and up to 20 whole numbers are classes, other numbers a regression."""
    fields: tuple[str, ...] = ()
    """Columns that describe an event; by default all others."""
    categories: tuple[str, ...] = ()
    """Columns of numbers that are categories."""
    numbers: tuple[str, ...] = ()
    """Columns of text that are numbers."""
    since_previous: bool = True
    """With a time, the time since the event before is a field as well."""
    missing: tuple[str, ...] = MISSING
    """Texts that stand for a missing value in a CSV file."""
    limit: int = LIMIT
    """Categories that a column may have."""
    settings: Annotated[Settings, tyro.conf.arg(name="")] = field(default_factory=Settings)
    """Of the split, the network and its training."""
    out: Path | None = None
    """Folder to write; by default DATA-fit beside you."""
    overwrite: bool = False
    """Replace a fit that is finished."""


def run(options: Fit) -> None:
    """Read, fit, print what was found, and write it down."""
    out = free(Path(f"{options.data.stem}-fit") if options.out is None else options.out, options.overwrite)
    events, console = read(options), Console(stderr=True)
    fresh = [path for path in out.parents if not path.exists()]
    require_writable(out.parent)
    try:
        with bars() as bar:
            fitted = fit(
                events, options.settings, folder=out / PROGRESS, show=bar, say=lambda text: console.print(text, "...")
            )
    except ValueError:
        tidied(out, *fresh)
        raise
    except KeyboardInterrupt:
        console.print("stopped: the same command goes on from the last round that was saved")
        sys.exit(130)
    fitted.write(out)
    Console().print(table(rows_of(fitted, brief=True)))
    for line in verdict(fitted):
        Console().print(Text(line))
    print(out / "page.html")


def free(out: Path, overwrite: bool) -> Path:
    """The folder to write; ValueError where it holds a finished fit that may not be replaced, or other things."""
    out = folder(out, (*FILES, PROGRESS))
    if (out / "page.html").exists() and not overwrite:
        raise ValueError(f"--out {out} holds a finished fit: name another folder, or add --overwrite to replace it")
    return out


def read(options: Fit) -> Events:
    """The events, as the options say to read them."""
    twice = sorted(set(options.categories) & set(options.numbers))
    if twice:
        raise ValueError(f"column {twice[0]!r} cannot be both of --categories and of --numbers")
    kinds = dict.fromkeys(options.categories, "category") | dict.fromkeys(options.numbers, "number")
    return read_events(
        options.data,
        sequence=options.sequence,
        time=options.time,
        target=options.target,
        per_event=options.per_event,
        task=options.task,
        fields=options.fields or None,
        kinds=kinds,
        since_previous=options.since_previous,
        missing=options.missing,
        limit=options.limit,
    )


@contextmanager
def bars() -> Iterator[Callable[[str], Show]]:
    """Yield a function of a network's name that opens its progress bar, and closes the one before."""
    with ExitStack() as last:

        def bar(name: str) -> Show:
            last.close()
            return last.enter_context(progress_bar(name, standing))

        yield bar


def standing(course: Course) -> str:
    """Validation losses of the seeds: the best so far, and who has stopped."""
    best = ", ".join(f"{loss:.4g}" for loss in course.best_loss)
    return f"validation loss {best}; {int(course.stopped.sum())}/{len(course.stopped)} stopped"


def tidied(out: Path, *fresh: Path) -> None:
    """Remove the folder, and those made for it, where nothing has come of it."""
    for path in (out / PROGRESS, out, *fresh):
        with suppress(OSError):  # it is not empty, or not there
            path.rmdir()


def table(rows: list[dict[str, str]]) -> Table:
    """Rows of equal keys; words are shown as they are."""
    grid = Table(*rows[0])
    for row in rows:
        grid.add_row(*(Text(value) for value in row.values()))
    return grid
