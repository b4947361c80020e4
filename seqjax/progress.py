"""A progress bar for long work, drawn by rich."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from seqjax.processes import first


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int, Any], None]]:
    """Yield a function (done, total, history) that moves the bar and shows the median loss of the runs, and how many
    have failed; process 0 alone shows it."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not (console.is_terminal and first())) as bar:
        task = bar.add_task(title, total=None, note="compiling")

        def show(done: int, total: int, history: Any) -> None:
            last = np.asarray(history.loss)[:, -1]
            failed = np.isnan(last).sum()
            note = f"loss {np.nanmedian(last):.3g}" if failed < len(last) else ""
            bar.update(task, completed=done, total=total, note=note + (f", {failed} failed" if failed else ""))

        yield show
