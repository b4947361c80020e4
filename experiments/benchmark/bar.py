"""Progress over pieces of work."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from experiments.benchmark.pieces import Piece


def shown(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """The pieces, with a bar on a terminal that says which is being done."""
    columns = (TextColumn("benchmark"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    title = TextColumn("{task.description}")
    with Progress(*columns, title, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=len(pieces))
        for piece in pieces:
            bar.update(task, description=piece.title)
            yield piece
            bar.advance(task)
