"""Rates with their intervals."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rate:
    """`successes` of `trials`, with the 95% Wilson score interval (Wilson 1927)."""

    successes: int
    trials: int
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.successes}/{self.trials} ({self.low:.2f} to {self.high:.2f})"

    def overlaps(self, other: "Rate") -> bool:
        """Whether the two intervals share a value."""
        return self.low <= other.high and other.low <= self.high


def rate(successes: int, trials: int) -> Rate:
    """A success rate; ValueError unless both are whole numbers, 0 <= successes <= trials and trials >= 1."""
    from scipy.stats import binomtest

    if not 0 <= successes <= trials or trials < 1 or successes % 1 or trials % 1:
        raise ValueError(f"need 0 <= successes <= trials and trials >= 1, whole numbers, got {successes} of {trials}")
    interval = binomtest(int(successes), int(trials)).proportion_ci(0.95, method="wilson")
    return Rate(int(successes), int(trials), float(interval.low), float(interval.high))
