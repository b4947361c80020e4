"""`seqjax predict MODEL DATA`: the answers of a model for every sequence of a file."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from seqjax.events import Category, Encoding, Events, read_like, report
from seqjax.events.table import MISSING
from seqjax.events.write import require_table_path, write_table
from seqjax.model import load_model
from seqjax.serving import predict as predict_all

NAMED = 5  # new categories that are listed


@dataclass(frozen=True)
class Predict:
    """The answers of a model for every sequence of a file, or for every event where it was trained on those."""

    model: Annotated[Path, tyro.conf.Positional]
    """The folder of a model, such as seqjax fit writes."""
    data: Annotated[Path, tyro.conf.Positional]
    """A .csv, .parquet, .jsonl or .ndjson file with the columns that the model was trained on; no target is needed."""
    out: Path | None = None
    """A .csv, .parquet, .jsonl or .ndjson file to write; by default CSV goes to standard output."""
    missing: tuple[str, ...] = MISSING
    """Texts that stand for a missing value in a CSV file."""


def predict(options: Predict) -> None:
    """Read, answer and write; what was met on the way goes to standard error."""
    if options.out is not None:
        require_table_path(options.out)
        if options.out.resolve() == options.data.resolve():
            raise ValueError(f"--out {options.out} is the data itself: name another file")
    model = load_model(options.model)
    events = read_like(options.data, model.encoding, missing=options.missing)
    lines = report(events, parts={"new": np.arange(len(events.ids))}, encoding=model.encoding).lines()
    frame = predict_all(model, events).frame()
    if options.out is not None:
        write_table(options.out, frame)
    print(*lines, *news(model.encoding, events), sep="\n", file=sys.stderr)
    if options.out is None:
        sys.stdout.write(frame.write_csv())
    else:
        print(f"{options.out}: {len(frame):,} answers", file=sys.stderr)


def news(encoding: Encoding, events: Events) -> list[str]:
    """The categories that a model does not know, a line for each field that has some."""
    known, lines = {words.name: set(words.values) for words in encoding.words}, []
    for field in events.fields:
        new = [value for value in field.values if value not in known[field.name]] if isinstance(field, Category) else []
        more = f" and {len(new) - NAMED:,} others" if len(new) > NAMED else ""
        if new:
            lines.append(f"{field.name}: the model does not know {', '.join(map(repr, new[:NAMED]))}{more}")
    return lines
