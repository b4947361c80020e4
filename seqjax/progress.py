"""What people see of long work: a bar drawn by rich, and event files for TensorBoard."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from seqjax.processes import first

Show = Callable[[int, int, Any], None]  # (updates done, of how many, history [R, n] of the last n)
SOLVED = 0.99  # a mean training score above this, over a chunk of updates, is called solved


@contextmanager
def progress_bar(title: str, note: Callable[[Any], str] | None = None) -> Iterator[Show]:
    """Yield a function (done, total, history) that moves the bar and says how the runs are doing, or what `note` says
    of the history; process 0 alone shows it."""
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
        task, began = bar.add_task(title, total=None, note="compiling"), time.monotonic()

        def show(done: int, total: int, history: Any) -> None:
            nonlocal began
            if note is not None:
                bar.update(task, completed=done, total=total, note=note(history))
                return
            now = time.monotonic()
            rate, began = history.loss.shape[1] / max(now - began, 1e-9), now
            bar.update(task, completed=done, total=total, note=f"{rate:.0f} updates/s, {standing(history)}")

        yield show


def standing(history: Any) -> str:
    """How the runs stand at the end of a chunk: median loss, how many solve their batches, how many are frozen."""
    last, scores = np.asarray(history.loss)[:, -1], np.asarray(history.score)
    frozen = np.isnan(last)
    solved = (scores[~frozen].mean(1) > SOLVED).sum() if not frozen.all() else 0
    parts = [f"{solved}/{len(last)} solved"]
    if not frozen.all():
        parts.insert(0, f"loss {np.nanmedian(last):.3g}")
    return ", ".join(parts + ([f"{frozen.sum()} frozen"] if frozen.any() else []))


@contextmanager
def event_files(folder: str | os.PathLike[str]) -> Iterator[Show]:
    """Yield a function (done, total, history) that writes every update of every run for TensorBoard, in a folder run-i
    each. ValueError where the extra `log` is not installed."""
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise ValueError("log writes TensorBoard's files and needs the extra `log`: pip install '.[log]'") from None
    writers: list[Any] = []
    with ExitStack() as open_files:

        def show(done: int, total: int, history: Any) -> None:
            runs, n = history.loss.shape
            if not writers:
                writers.extend(
                    open_files.enter_context(SummaryWriter(str(Path(folder) / f"run-{i}"))) for i in range(runs)
                )
            for i, writer in enumerate(writers):
                for name, values in vars(history).items():
                    for step in np.flatnonzero(np.isfinite(values[i])):
                        writer.add_scalar(name, float(values[i, step]), done - n + int(step))

        yield show
