"""Can one gradient profile, taken before training, say whether training will succeed?

Source   none: nobody has this. Recall is the lecture's, in its configuration: H = 32, Adam at 3e-3, 1500 updates
Command  python -m experiments run trainability
Time     about 15 minutes on 2 CPU cores, with compilation
Expect   the share of the gradient that reaches step 1 at initialisation tells runs that will solve the task from those
         that will not, with an area under the ROC curve well above a half, across cells, starts, biases and lengths

Every configuration is one run with a seed of its own: a cell, how its recurrent matrix starts, what sets its memory
(the gain of the matrix of an RNN, the forget bias of an LSTM, the keep bias of a GRU), the scale of its input, and T.
"""

from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from experiments.claims import claim
from experiments.models import without
from experiments.trainability.configurations import Config, check, measure, pieces
from experiments.trainability.figure import figure
from experiments.trainability.outcome import areas, binned, solved
from seqjax.report import Claim, Experiment
from seqjax.statistics import rate


def run(config: Config, point: Any) -> Any:
    """One run of every configuration; dim run, with its cell, start, memory, variance, length and seed beside it."""
    parts = []
    for number, (cell, start, length) in enumerate(pieces(config)):
        work = partial(measure, config, cell, start, length, 1000 * number)
        parts.append(
            point(
                work, cell=cell, start=start, length=length, first=1000 * number, **without(config, "lengths", "cells")
            )
        )
    return xr.concat(parts, "run", combine_attrs="drop")


def claims(config: Config, dataset: Any) -> list[Claim]:
    """V5: the share that reaches step 1 ranks the runs."""
    found = areas(config, dataset)
    if "all" not in found:
        return []
    by_cell = "; ".join(f"{cell} {area}" for cell, area in found.items() if cell != "all")
    direct = areas(config, dataset, "direct")
    along = f" Along the gates alone, of gated cells: {direct['all']}." if "all" in direct else ""
    return [
        claim(
            "V5",
            measured=f"{found['all']} over {dataset.sizes['run']} runs, {int(solved(dataset).sum())} of them solved",
            holds=found["all"].low > 0.8,
            note=f"{by_cell}.{along} {surprises(dataset)}",
        )
    ]


def surprises(dataset: Any) -> str:
    """Where the prediction fails."""
    outcome, share = solved(dataset), dataset.share.values
    against, for_ = (share < -6) & outcome, (share > -2) & ~outcome
    return (
        f"Solved although less than a millionth arrived: {described(dataset, against)}. "
        f"Not solved although more than a hundredth did: {described(dataset, for_)}."
    )


def described(dataset: Any, chosen: np.ndarray) -> str:
    """How many runs, of which cells and starts."""
    names = [
        f"{cell} {start}" for cell, start in zip(dataset.cell.values[chosen], dataset.start.values[chosen], strict=True)
    ]
    kinds = ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))
    return f"{int(chosen.sum())}" + (f" ({kinds})" if kinds else "")


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
        "lengths": (5,),
        "gains": (1.0,),
        "forget": (0.0, 3.0),
        "keep": (0.0, 3.0),
        "rnn_variances": (1.0,),
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
