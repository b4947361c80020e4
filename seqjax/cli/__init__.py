"""The `seqjax` command: `fit DATA`, `predict MODEL DATA`, `stream MODEL`, `horizon MODEL`, `inspect MODEL`.

Exit code 0, or 2 for a bad call, with one line that says what is wrong; nothing is then written.
"""

import logging
import os
import sys
from collections.abc import Callable

from seqjax.arguments import parse
from seqjax.cli.fit import Fit, run
from seqjax.cli.horizon import Horizon, horizon
from seqjax.cli.inspect import Inspect, inspect
from seqjax.cli.predict import Predict, predict
from seqjax.cli.stream import Stream, stream

COMMANDS: dict[str, tuple[type, Callable[..., None], str]] = {
    "fit": (Fit, run, "train a network on events of your own: scores, baselines, order, a page that says it all"),
    "horizon": (Horizon, horizon, "how far back a model can learn: gradients, horizons, gates, spectra, exponents"),
    "inspect": (Inspect, inspect, "layers, shapes, parameters and costs of a model"),
    "predict": (Predict, predict, "the answers of a model of events for every sequence of a file"),
    "stream": (Stream, stream, "the answers of a model of events, one event at a time, as JSON lines"),
}


def main(args: list[str] | None = None) -> int:
    """Carry out one command; the exit code."""
    name, *rest = (sys.argv[1:] if args is None else args) or ["--help"]
    if name in ("-h", "--help"):
        print("usage: seqjax COMMAND FILE [options]; seqjax COMMAND --help for its options\n")
        print("\n".join(f"{name:10} {summary}" for name, (_, _, summary) in COMMANDS.items()))
        return 0
    try:
        if name not in COMMANDS:
            raise ValueError(f"unknown command {name!r}: known are {', '.join(COMMANDS)}")
        kind, command, _ = COMMANDS[name]
        logging.getLogger("absl").setLevel(logging.ERROR)  # orbax tells there how it opens a folder to read
        command(parse(kind, rest, prog=f"seqjax {name}"))
        sys.stdout.flush()
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # nobody reads any more, as behind `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        return 1
    except OSError as error:  # of a file, such as a name that is too long
        if error.filename is None:
            raise
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    return 0
