"""Which runs solved the task, how well a predictor ranks them, and how they fall into bins."""

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np

from experiments.models import SOLVED
from experiments.trainability.configurations import Config
from seqjax.statistics import Mean, auroc

EDGES = np.array([-12.0, -9, -6, -4, -3, -2, -1, 0, 2])  # of the bins of log10 of the share that arrives
LITTLE, MUCH = -3.0, -1.0  # log10 of the share: too little, and enough for most


def solved(dataset: Any) -> np.ndarray:
    """Which runs did; a failed one did not."""
    return dataset.score.values > SOLVED


def areas(config: Config, dataset: Any, name: str = "share") -> dict[str, Mean]:
    """Area under the ROC curve of a predictor, over all runs and cell by cell, where both outcomes occur."""
    found, outcome, values = {}, solved(dataset), dataset[name].values
    for label in ("all", *config.cells):
        own = np.ones(len(outcome), bool) if label == "all" else dataset.cell.values == label
        own = own & np.isfinite(values)
        if outcome[own].any() and not outcome[own].all():
            found[label] = auroc(values[own], outcome[own])
    return found


def surprises(dataset: Any) -> str:
    """Where the share says nothing: runs that much of the gradient reached and that failed all the same."""
    missed = (dataset.share.values > MUCH) & ~solved(dataset)
    pairs = zip(dataset.cell.values[missed], dataset.start.values[missed], strict=True)
    counted = Counter(f"{cell} {start}" for cell, start in pairs)
    kinds = ", ".join(f"{number} {kind}" for kind, number in counted.items()) or "none"
    return f"Not solved although more than a tenth arrived: {kinds}."


def binned(dataset: Any) -> list[tuple[str, np.ndarray]]:
    """Which runs fall between which powers of ten."""
    place = np.digitize(dataset.share.values, EDGES)
    labels = [
        f"below {EDGES[0]:g}",
        *(f"{a:g} to {b:g}" for a, b in pairwise(EDGES)),
        f"above {EDGES[-1]:g}",
    ]
    return [(label, place == i) for i, label in enumerate(labels) if (place == i).any()]
