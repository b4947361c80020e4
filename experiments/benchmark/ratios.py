"""Ratios of two times of one run, and slopes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.benchmark.cases import seconds, timed

OURS = "seqjax"


@dataclass(frozen=True)
class Ratio:
    """How many times as long a peer takes as we do: the median over rounds, within each of which both were timed."""

    peer: str
    median: float
    low: float  # quartiles
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} {self.peer} ({self.low:.2f} to {self.high:.2f})"


def ratio(case: Any, peer: str) -> Ratio:
    """Of a peer that took part."""
    low, median, high = np.quantile(seconds(case, peer) / seconds(case, OURS), (0.25, 0.5, 0.75))
    return Ratio(peer, float(median), float(low), float(high))


def best(case: Any, peers: Sequence[str]) -> Ratio | None:
    """Against the fastest of the peers that took part; None where none did."""
    ratios = [ratio(case, peer) for peer in peers if peer in timed(case)]
    return min(ratios, key=lambda each: each.median, default=None)


@dataclass(frozen=True)
class Growth:
    """Our time along one axis of sizes, as a power law."""

    axis: str
    sizes: np.ndarray
    times: np.ndarray  # median seconds
    slope: float  # the exponent, median over rounds, within each of which all sizes were timed


def growth(cases: Sequence[Any]) -> Growth:
    """Of cases that differ in the size that their kind names."""
    axis = cases[0].kind.item()
    sizes = np.array([case[axis].item() for case in cases])
    rounds = np.array([seconds(case, OURS) for case in cases])
    return Growth(axis, sizes, np.median(rounds, axis=1), slope(sizes, rounds))


def slope(sizes: np.ndarray, times: np.ndarray) -> float:
    """Least squares of log time against log size, for every round of times [size, round], and the median of those."""
    return float(np.median(np.polyfit(np.log(sizes), np.log(times), 1)[0]))
