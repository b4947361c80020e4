"""`seqjax stream MODEL`: events on standard input, a JSON object a line, and an answer to each on standard output."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from seqjax.core import require_sizes
from seqjax.events.lines import object_in
from seqjax.model import load_model
from seqjax.serving import Live, Prediction


@dataclass(frozen=True)
class Stream:
    """Answer events as they come: one JSON object a line in, with the sequence's id and the fields under the names of
    the training's columns, null where a value is missing; one out, or {"error": .., "line": ..} and nothing changed."""

    model: Annotated[Path, tyro.conf.Positional]
    """The folder of a model, such as seqjax fit writes."""
    state: Path | None = None
    """File of all sequences' states: gone on from where it is there, and written at the end, also by SIGTERM."""
    every: int = 10_000
    """Write the state after so many answers, too."""
    limit: int | None = None
    """Sequences that are kept: beyond, the least recent is forgotten, and starts anew should it come back."""
    ignore: tuple[str, ...] = ()
    """Fields of events that are not looked at; others that the model does not know are errors."""


class Stopped(Exception):
    """A signal asked to stop."""


@contextmanager
def stoppable() -> Iterator[Callable[[Iterator[bytes]], bytes | None]]:
    """Yield a reader of the next line: None at the end, or after SIGTERM or SIGINT, which break nothing but a wait."""
    waiting, stopping = False, False

    def stop(*_: Any) -> None:
        nonlocal stopping
        stopping = True
        if waiting:
            raise Stopped

    def read(lines: Iterator[bytes]) -> bytes | None:
        nonlocal waiting
        try:
            waiting = True
            return None if stopping else next(lines, None)
        except Stopped:
            return None
        finally:
            waiting = False

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield read
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def stream(options: Stream) -> None:
    """Answer every line; at the end a summary on standard error, and the state in its file."""
    require_sizes(every=options.every)
    live = Live(load_model(options.model), limit=options.limit, ignore=options.ignore)
    if options.state is not None and options.state.exists():
        live.restore(options.state)
        print(f"{options.state}: goes on with {len(live):,} sequences", file=sys.stderr)
    elif options.state is not None:
        live.save(options.state)
    answered = refused = 0
    with stoppable() as read:
        lines = iter(sys.stdin.buffer)
        number = 0
        while (line := read(lines)) is not None:
            number += 1
            if not line.strip():
                continue
            found = reply(live, line, number)
            refused += "error" in found
            answered += "error" not in found
            if not written(found):
                break
            if options.state is not None and "error" not in found and answered % options.every == 0:
                live.save(options.state)
        if options.state is not None:
            live.save(options.state)
    forgotten = f", {live.forgotten:,} forgotten for the limit" if live.forgotten else ""
    print(
        f"{answered:,} events answered, {refused:,} lines refused, {len(live):,} sequences kept{forgotten}",
        file=sys.stderr,
    )


def written(found: dict[str, Any]) -> bool:
    """Write a line at once; whether there is still somebody who reads."""
    try:
        print(json.dumps(found, allow_nan=False), flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        return False
    return True


def reply(live: Live, line: bytes, number: int) -> dict[str, Any]:
    """The answer to one line, with the id as it came, or what is wrong with it."""
    sequence = live.model.encoding.sequence
    try:
        fields = object_in(line)
        if sequence not in fields:
            raise ValueError(f"the event has no {sequence!r}, the id of its sequence")
        id = fields.pop(sequence)
        return {sequence: id, **said(live.event(id, fields))}
    except ValueError as error:
        return {"error": str(error), "line": number}


def said(found: Prediction) -> dict[str, Any]:
    """An answer as JSON has it; a number has no probabilities."""
    probabilities = {"probabilities": found.probabilities} if found.probabilities else {}
    return {"prediction": found.answer, **probabilities, "events": found.events}
