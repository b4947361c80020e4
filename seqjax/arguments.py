"""Arguments of a command line, read by tyro, and its complaints as one line."""

import io
import re
from contextlib import redirect_stderr
from typing import Any

import tyro


def parse(kind: type, args: list[str], *, prog: str | None = None, default: Any = None, partly: bool = False) -> Any:
    """A value of a dataclass from arguments; ValueError of one line for those that it does not take.

    `default` is the value where nothing is given; `partly` returns what was read and the arguments that are not known.
    """
    given, complaint = {} if default is None else {"default": default}, io.StringIO()
    try:
        with redirect_stderr(complaint):
            return tyro.cli(kind, args=args, prog=prog, return_unknown_args=partly, add_help=not partly, **given)
    except SystemExit as stop:
        if not stop.code:
            raise
        raise ValueError(one_line(complaint.getvalue())) from None


def one_line(box: str) -> str:
    """The first sentence of a boxed, perhaps coloured, message."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", box)
    inside = [line.strip("│| ") for line in plain.splitlines() if re.match(r"\s*[│|]", line)]
    until = next((i for i, line in enumerate(inside) if re.fullmatch("[─-]{3,}", line)), len(inside))
    return re.sub(r"\s+", " ", " ".join(inside[:until]) or plain).strip()
