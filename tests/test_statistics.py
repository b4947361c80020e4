"""Success rates and their intervals."""

import math

import numpy as np
import pytest

from seqjax import rate

Z = 1.959963984540054  # 97.5th percentile of the standard normal


def wilson(successes, trials):
    """The score interval in closed form (Wilson 1927)."""
    p, spread = successes / trials, Z**2 / trials
    centre = (p + spread / 2) / (1 + spread)
    half = Z / (1 + spread) * math.sqrt(p * (1 - p) / trials + Z**2 / (4 * trials**2))
    return centre - half, centre + half


@pytest.mark.parametrize(("successes", "trials"), [(0, 1), (1, 1), (0, 20), (3, 7), (10, 20), (20, 20), (370, 1000)])
def test_the_interval_is_wilsons(successes, trials):
    """At both ends and between; it stays within 0..1 and holds the share itself."""
    got = rate(successes, trials)
    np.testing.assert_allclose((got.low, got.high), wilson(successes, trials), atol=1e-12)
    assert 0 <= got.low <= successes / trials <= got.high <= 1
    assert (got.successes, got.trials) == (successes, trials)


def test_ten_of_twenty():
    """C2b: ten solved of twenty is a rate of .30 to .70."""
    got = rate(np.int64(10), np.int32(20))
    assert (round(got.low, 2), round(got.high, 2)) == (0.30, 0.70)
    assert str(got) == "10/20 (0.30 to 0.70)"


def test_rates_are_told_apart_by_their_intervals():
    """Overlap is symmetric, and every rate overlaps itself."""
    none, half, all_ = rate(0, 20), rate(10, 20), rate(20, 20)
    assert not none.overlaps(half)
    assert not half.overlaps(none)
    assert not all_.overlaps(none)
    assert half.overlaps(rate(13, 20))
    assert rate(13, 20).overlaps(half)
    assert none.overlaps(none)


@pytest.mark.parametrize(("successes", "trials"), [(-1, 5), (6, 5), (0, 0), (1, 0), (0, -1), (math.nan, 5), (2.5, 5)])
def test_what_is_not_a_rate_is_refused(successes, trials):
    """With what was given."""
    with pytest.raises(ValueError, match="need 0 <= successes <= trials"):
        rate(successes, trials)
