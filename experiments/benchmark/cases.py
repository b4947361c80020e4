"""What was timed, as one labelled dataset: a case is a piece of work of given sizes, a candidate is who did it."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import xarray as xr

from experiments.benchmark.timing import MOST

SIZES = ("B", "T", "D", "H", "S")  # 0 says nothing
LABELS = ("part", "kind", "cell", *SIZES, "place", "clock", "cores")  # of a case
CLOCKS = ("cpu", "wall")
FACTS = ("compiling", "temporaries")  # seconds, bytes


def dataset_of(cases: Sequence[dict[str, Any]], where: dict[str, Any]) -> xr.Dataset:
    """Dims case, candidate, round: cpu and wall seconds, NaN beyond the last round; compiling seconds, bytes of XLA's
    temporaries, and a note: why a candidate took no part, or how its work differs.

    `where` they were measured labels them all: a place in words, the clock that counts there, and how many cores, 0
    on an accelerator.
    """
    names = list(dict.fromkeys(name for case in cases for name in case["candidates"]))
    marks = where | dict.fromkeys(SIZES, 0)
    labels = {label: ("case", [(marks | case)[label] for case in cases]) for label in LABELS}
    grid = [[case["candidates"].get(name, {}) for name in names] for case in cases]
    times = {
        what: (["case", "candidate", "round"], [[padded(c, what) for c in row] for row in grid]) for what in CLOCKS
    }
    facts = {what: (("case", "candidate"), [[c.get(what, np.nan) for c in row] for row in grid]) for what in FACTS}
    notes = {"note": (("case", "candidate"), [[c.get("note", "") for c in row] for row in grid])}
    return xr.Dataset(times | facts | notes, {"candidate": names, **labels})


def padded(candidate: dict[str, Any], clock: str) -> np.ndarray:
    """Its seconds, a number a round, and NaN up to the most there are."""
    row = np.full(MOST, np.nan)
    row[: len(candidate.get(clock, ()))] = candidate.get(clock, ())
    return row


def joined(parts: Sequence[xr.Dataset]) -> xr.Dataset:
    """All cases of all parts, each with every candidate."""
    names = list(dict.fromkeys(name for part in parts for name in part.candidate.values))
    blank = {"note": ""} | dict.fromkeys((*CLOCKS, *FACTS), np.nan)
    alike = [part.reindex(candidate=names, fill_value=blank) for part in parts]
    return xr.concat(alike, "case", data_vars="minimal", coords="minimal", compat="override", join="exact")


def select(dataset: xr.Dataset, **labels: Any) -> Iterator[xr.Dataset]:
    """The cases with these labels, in order."""
    for i in range(dataset.sizes["case"]):
        case = dataset.isel(case=i)
        if all(case[label] == value for label, value in labels.items()):
            yield case


def seconds(case: xr.Dataset, candidate: str) -> np.ndarray:
    """Of one candidate, a number a round, by the clock that counts; empty where it took no part."""
    if candidate not in case.candidate:
        return np.empty(0)
    values = case[str(case.clock.values)].sel(candidate=candidate).values
    return values[~np.isnan(values)]


def timed(case: xr.Dataset) -> list[str]:
    """Who took part."""
    return [name for name in case.candidate.values.tolist() if len(seconds(case, name))]


def absent(case: xr.Dataset) -> dict[str, str]:
    """Who did not, and why."""
    notes = {name: str(case.note.sel(candidate=name).values) for name in case.candidate.values.tolist()}
    return {name: note for name, note in notes.items() if note and not len(seconds(case, name))}
