"""Rates, means and differences with their 95% intervals."""

from dataclasses import dataclass
from typing import Any

import numpy as np


class Interval:
    """What a rate and a mean have in common: an interval from low to high."""

    low: float
    high: float

    def overlaps(self, other: "Interval") -> bool:
        """Whether the two intervals share a value."""
        return self.low <= other.high and other.low <= self.high


@dataclass(frozen=True)
class Rate(Interval):
    """`successes` of `trials`, with the 95% Wilson score interval (Wilson 1927)."""

    successes: int
    trials: int
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.successes}/{self.trials} ({self.low:.2f} to {self.high:.2f})"

    @property
    def value(self) -> float:
        """The share of successes."""
        return self.successes / self.trials


def rate(successes: int, trials: int) -> Rate:
    """A success rate; ValueError unless both are whole numbers, 0 <= successes <= trials and trials >= 1."""
    from scipy.stats import binomtest

    if not 0 <= successes <= trials or trials < 1 or successes % 1 or trials % 1:
        raise ValueError(f"need 0 <= successes <= trials and trials >= 1, whole numbers, got {successes} of {trials}")
    interval = binomtest(int(successes), int(trials)).proportion_ci(0.95, method="wilson")
    return Rate(int(successes), int(trials), float(interval.low), float(interval.high))


@dataclass(frozen=True)
class Mean(Interval):
    """A mean, or a difference of two, with its 95% interval; both ends are NaN where one value alone gives none."""

    value: float
    low: float
    high: float

    def __format__(self, sign: str) -> str:
        return f"{self.value:{sign}.3f} ({self.low:{sign}.3f} to {self.high:{sign}.3f})"

    def __str__(self) -> str:
        return format(self)


def mean(values: Any) -> Mean:
    """The mean of numbers [n] with Student's interval; ValueError for none."""
    from scipy.stats import t

    values = numbers(values, "values")
    n, value = len(values), float(values.mean())
    half = float(t.ppf(0.975, n - 1) * values.std(ddof=1)) / n**0.5 if n > 1 else float("nan")
    return Mean(value, value - half, value + half)


def difference(values: Any, others: Any) -> Mean:
    """The mean of numbers [n] less that of others [m], with Welch's interval (1947); ValueError for none."""
    from scipy.stats import t

    values, others = numbers(values, "values"), numbers(others, "others")
    value = float(values.mean() - others.mean())
    if min(len(values), len(others)) < 2:
        return Mean(value, float("nan"), float("nan"))
    parts = np.array([each.var(ddof=1) / len(each) for each in (values, others)])
    if not parts.any():
        return Mean(value, value, value)
    freedom = parts.sum() ** 2 / (parts**2 / [len(values) - 1, len(others) - 1]).sum()
    half = float(t.ppf(0.975, freedom) * parts.sum() ** 0.5)
    return Mean(value, value - half, value + half)


def numbers(values: Any, name: str) -> np.ndarray:
    """At least one number, in float64; ValueError otherwise."""
    array = np.asarray(values, np.float64)
    if array.ndim != 1 or not array.size:
        raise ValueError(f"{name} must be at least one number, [n], got shape {list(array.shape)}")
    return array


def auroc(scores: Any, outcomes: Any, *, draws: int = 2000) -> Mean:
    """Area under the ROC curve: how often a success [n] has the higher score [n], ties counting half; with a 95%
    interval by bootstrap over successes and failures apart (the same draws every time).

    ValueError for scores that are not finite, and unless both outcomes occur.
    """
    scores, outcomes = numbers(scores, "scores"), np.asarray(outcomes, bool)
    if scores.shape != outcomes.shape or not np.isfinite(scores).all() or outcomes.all() or not outcomes.any():
        raise ValueError("scores and outcomes must be [n] each, scores finite, with a success and a failure among them")
    ahead = np.sign(scores[outcomes][:, None] - scores[~outcomes][None]) / 2 + 0.5
    rng = np.random.default_rng(0)
    ours, theirs = (rng.multinomial(n, np.full(n, 1 / n), size=draws) / n for n in ahead.shape)  # the share of each
    low, high = np.quantile(((ours @ ahead) * theirs).sum(1), [0.025, 0.975])
    return Mean(float(ahead.mean()), float(low), float(high))
