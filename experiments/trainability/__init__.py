"""Can one gradient profile, taken before training, say whether training will succeed?

Source   none: nobody has this. Recall is the lecture's, in its configuration: H = 32, Adam at 3e-3, 1500 updates
Command  python -m experiments run trainability
Time     about 12 minutes on 2 CPU cores, with compilation
Expect   the share of the gradient that reaches step 1 is necessary and not sufficient: below a thousandth no run solves
         the task, above a tenth four of five do, across cells, starts, biases and lengths; the area under the ROC
         curve is 0.74 over all runs, 0.95 for the GRU

Every configuration is one run with a seed of its own: a cell, how its recurrent matrix starts, what sets its memory
(the gain of the matrix of an RNN, the forget bias of an LSTM, the keep bias of a GRU), the scale of its input, and T.
"""

from functools import partial
from typing import Any

import xarray as xr

from experiments.claims import claim
from experiments.models import without
from experiments.trainability.configurations import Config, check, measure, pieces
from experiments.trainability.figure import figure
from experiments.trainability.outcome import LITTLE, MUCH, areas, binned, solved, surprises
from seqjax.report import Claim, Experiment
from seqjax.statistics import rate


def run(config: Config, point: Any) -> Any:
    """One run of every configuration; dim run, with its cell, start, memory, variance, length and seed beside it."""
    parts = []
    for number, (cell, start, length) in enumerate(pieces(config)):
        work = partial(measure, config, cell, start, length, 1000 * number)
        where = {"cell": cell, "start": start, "length": length, "first": 1000 * number}
        parts.append(point.resumable(work, **where, **without(config, "lengths", "cells")))
    return xr.concat(parts, "run", combine_attrs="drop")


def claims(config: Config, dataset: Any) -> list[Claim]:
    """V5: what has to reach step 1 for training to succeed."""
    outcome, share, found = solved(dataset), dataset.share.values, areas(config, dataset)
    few, many = share < LITTLE, share > MUCH
    if not few.any() or not many.any():
        return []
    low, high = (rate(int(outcome[own].sum()), int(own.sum())) for own in (few, many))
    ranked = "; ".join(f"{cell} {area}" for cell, area in found.items())
    direct = areas(config, dataset, "direct")
    along = f"; along the gates alone, of gated cells: {direct['all']}" if "all" in direct else ""
    note = f"Area under the ROC curve of the share: {ranked}{along}. {surprises(dataset)}"
    measured = f"solved {low} and {high}"
    return [claim("V5", measured=measured, holds=low.high < 0.2 and high.low > 0.7, note=note)]


def table(config: Config, dataset: Any) -> list[dict[str, str]]:
    """Runs solved by how much of the gradient reached step 1 before training."""
    outcome, rows = solved(dataset), []
    for label, chosen in binned(dataset):
        row = {"log10 of the share": label, "solved": str(rate(int(outcome[chosen].sum()), int(chosen.sum())))}
        for cell in config.cells:
            own = chosen & (dataset.cell.values == cell)
            row[cell] = f"{int(outcome[own].sum())}/{int(own.sum())}" if own.any() else "-"
        rows.append(row)
    areas_row = areas(config, dataset)
    rows.append(
        {
            "log10 of the share": "AUROC",
            "solved": str(areas_row.get("all", "-")),
            **{c: str(areas_row.get(c, "-")) for c in config.cells},
        }
    )
    return rows


EXPERIMENT = Experiment(
    name="trainability",
    summary="Can one gradient profile, taken before training, say whether training will succeed?",
    config=Config,
    quick={
        "cells": ("gru",),
        "lengths": (5,),
        "keep": (0.0, 3.0),
        "variances": (1.0,),
        "updates": 60,
        "hidden": 8,
        "examples": 200,
        "probes": 20,
    },
    run=run,
    claims=claims,
    table=table,
    figure=figure,
    check=check,
)
