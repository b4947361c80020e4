"""Scores of a classifier or a regression, with intervals by bootstrap over whole sequences.

Everything is a function of weights: how often each sequence was drawn. With weights of 1 it is the score itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from seqjax.statistics import Mean

DRAWS = 1000
BINS = 10
CHUNK = 2**23  # numbers that are held at a time
HIGHER = ("accuracy", "AUROC", "R²")  # is better; of the others, lower
Score = Callable[[np.ndarray], np.ndarray]  # weights of the answers [draws, n] -> [draws]
Drawn = dict[str, dict[str, tuple[float, np.ndarray]]]  # by model and score: its value, and that of every draw


@dataclass(frozen=True, eq=False)
class Answered:
    """What a model said of n answers, of sequences or of their events.

    said    probabilities [n, K] of a classifier, numbers [n] of a regression
    truth   class numbers [n], or numbers
    group   [n] which sequence each is of, 0..N-1
    """

    said: np.ndarray
    truth: np.ndarray
    group: np.ndarray

    def scores(self) -> dict[str, Score]:
        """Every score by its name."""
        if self.said.ndim == 1:
            return regression_scores(self.said, self.truth)
        return class_scores(self.said, self.truth)


def class_scores(said: np.ndarray, truth: np.ndarray) -> dict[str, Score]:
    """Accuracy; AUROC, of many classes the mean of each against the rest; log loss in nats; calibration error."""
    n, K = said.shape
    right = (said.argmax(1) == truth).astype(np.float64)
    with np.errstate(divide="ignore"):
        surprise = -np.log(said[np.arange(n), truth])
    curves = [ranked(said[:, k], truth == k) for k in ([1] if K == 2 else range(K))]
    sure, came = confidence(said, truth)
    return {
        "accuracy": average(right),
        "AUROC": lambda w: mean_of_defined(np.stack([curve(w) for curve in curves])),
        "log loss": average(surprise),
        "calibration error": calibration(sure, came),
    }


def regression_scores(said: np.ndarray, truth: np.ndarray) -> dict[str, Score]:
    """Root mean squared error; R², the share of the variance that is explained."""
    error, flat = average((said - truth) ** 2), average(truth)
    squares = average((truth - truth.mean()) ** 2)
    centre = truth.mean()

    def explained(w: np.ndarray) -> np.ndarray:
        variance = squares(w) - (flat(w) - centre) ** 2
        return np.where(variance > 0, 1 - error(w) / np.where(variance > 0, variance, 1), np.nan)

    return {"RMSE": lambda w: np.sqrt(error(w)), "R²": explained}


def average(values: np.ndarray) -> Score:
    """The weighted mean of [n]."""
    return lambda w: (w @ values) / w.sum(1)


def confidence(said: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The probability that was said, and whether it came so: of two classes the second one's, else the likeliest's."""
    if said.shape[1] == 2:
        return said[:, 1], (truth == 1).astype(np.float64)
    return said.max(1), (said.argmax(1) == truth).astype(np.float64)


def bins_of(sure: np.ndarray) -> np.ndarray:
    """Which of ten equal bins of [0, 1] each probability is in."""
    return np.minimum((sure * BINS).astype(int), BINS - 1)


def calibration(sure: np.ndarray, came: np.ndarray) -> Score:
    """Expected calibration error (Naeini et al. 2015): Σ_bins |Σ (said - came)| / n."""
    inside = bins_of(sure)[:, None] == np.arange(BINS)
    gaps = np.where(inside, (sure - came)[:, None], 0)
    return lambda w: np.abs(w @ gaps).sum(1) / w.sum(1)


def ranked(scores: np.ndarray, outcomes: np.ndarray) -> Score:
    """AUROC by ranks, ties counting half: Σ_levels yes (no below + no at the level / 2) / (Σ yes Σ no); NaN where the
    weights leave one outcome only."""
    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    firsts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    outcomes = outcomes[order]

    def area(w: np.ndarray) -> np.ndarray:
        w = w[:, order]
        yes, no = (np.add.reduceat(np.where(here, w, 0), firsts, axis=1) for here in (outcomes, ~outcomes))
        pairs = yes.sum(1) * no.sum(1)
        below = np.cumsum(no, axis=1) - no / 2
        return np.where(pairs > 0, (yes * below).sum(1) / np.where(pairs > 0, pairs, 1), np.nan)

    return area


def mean_of_defined(values: np.ndarray) -> np.ndarray:
    """Over the first axis, of those that are not NaN; NaN where all are."""
    there = ~np.isnan(values)
    count = there.sum(0)
    return np.where(count > 0, np.where(there, values, 0).sum(0) / np.maximum(count, 1), np.nan)


def weights(group: np.ndarray, draws: int = DRAWS) -> list[np.ndarray]:
    """How often each of n answers is drawn where whole sequences are, [draws, n], in parts; the same every time."""
    N, n = int(group.max()) + 1, len(group)
    rng, size = np.random.default_rng(0), max(1, CHUNK // n)
    parts = [min(size, draws - first) for first in range(0, draws, size)]
    return [rng.multinomial(N, np.full(N, 1 / N), size=part).astype(np.float64)[:, group] for part in parts]


def drawn(models: Mapping[str, Answered]) -> Drawn:
    """Every score of every model, and what it is on every draw of the bootstrap; all models on the same draws, as they
    answer the same sequences."""
    scores = {name: model.scores() for name, model in models.items()}
    group = next(iter(models.values())).group
    once = np.ones((1, len(group)))
    draws = {name: {score: [] for score in each} for name, each in scores.items()}
    for part in weights(group):
        for name, each in scores.items():
            for score, measure in each.items():
                draws[name][score].append(measure(part))
    return {
        name: {score: (float(measure(once)[0]), np.concatenate(draws[name][score])) for score, measure in each.items()}
        for name, each in scores.items()
    }


def scored(found: Drawn) -> dict[str, dict[str, Mean]]:
    """Every score of every model, with its 95% interval."""
    return {name: {score: interval(*both) for score, both in each.items()} for name, each in found.items()}


def compared(found: Drawn, best: str, score: str) -> dict[str, Mean]:
    """How much better one model scores than each other, above 0 where it is better, with its 95% interval."""
    sign, (value, draws) = 1 if score in HIGHER else -1, found[best][score]
    others = {name: each[score] for name, each in found.items() if name != best}
    return {name: interval(sign * (value - its), sign * (draws - drawn)) for name, (its, drawn) in others.items()}


def interval(value: float, draws: np.ndarray) -> Mean:
    """A value with the quantiles of its draws that are defined, NaN where fewer than half are."""
    there = draws[~np.isnan(draws)]
    low, high = np.quantile(there, [0.025, 0.975]) if 2 * len(there) > len(draws) else (np.nan, np.nan)
    return Mean(value, float(low), float(high))


def shown(model: Answered) -> dict[str, Any]:
    """Of a classifier: what was said and what came, bin by bin; and how often each class was taken for which."""
    K = model.said.shape[1]
    sure, came = confidence(model.said, model.truth)
    place = bins_of(sure)
    counts = np.bincount(place, minlength=BINS)
    sums = [np.bincount(place, values, BINS) / np.maximum(counts, 1) for values in (sure, came)]
    taken = np.bincount(model.truth * K + model.said.argmax(1), minlength=K * K).reshape(K, K)
    return {"counts": counts, "said": sums[0], "came": sums[1], "confusion": taken}
