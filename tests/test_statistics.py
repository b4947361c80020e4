"""Success rates, means, differences and their intervals."""

import math

import numpy as np
import pytest
from scipy import stats

from seqjax import rate
from seqjax.statistics import auroc, difference, mean

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


def test_the_interval_of_a_mean_is_students():
    """By hand for 1, 2, 3 (t = 4.302653 with two degrees of freedom), and scipy's for random numbers."""
    got = mean([1, 2, 3])
    np.testing.assert_allclose((got.low, got.value, got.high), (2 - 4.302653 / 3**0.5, 2, 2 + 4.302653 / 3**0.5), 1e-6)
    values = np.random.default_rng(0).normal(size=9)
    wanted = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    np.testing.assert_allclose((mean(values).low, mean(values).high), (wanted.low, wanted.high))
    assert str(got) == "2.000 (-0.484 to 4.484)"


def test_the_interval_of_a_difference_is_welchs():
    """Scipy's, on samples of other sizes and variances; equal constants differ by nothing, for sure."""
    rng = np.random.default_rng(1)
    values, others = rng.normal(size=5), 3 * rng.normal(size=12) + 1
    got, wanted = difference(values, others), stats.ttest_ind(values, others, equal_var=False).confidence_interval(0.95)
    np.testing.assert_allclose((got.low, got.high), (wanted.low, wanted.high))
    np.testing.assert_allclose(got.value, values.mean() - others.mean())
    same = difference([0.5, 0.5], [0.5, 0.5, 0.5])
    assert (same.low, same.value, same.high) == (0, 0, 0)
    assert f"{difference([2.0, 2.0], [1.0, 1.0]):+}" == "+1.000 (+1.000 to +1.000)"


def test_one_value_has_no_interval_and_none_is_refused():
    """NaN at both ends; ValueError by name."""
    for got in (mean([0.7]), difference([0.7], [0.1, 0.2])):
        assert math.isnan(got.low)
        assert math.isnan(got.high)
    with pytest.raises(ValueError, match="values must be at least one number"):
        mean([])
    with pytest.raises(ValueError, match="others must be at least one number"):
        difference([1.0], [])


def test_area_under_the_roc_curve():
    """How often a success is ahead, ties counting half: as scikit-learn's, and 1 and 0 at the extremes."""
    scores, outcomes = np.array([0.1, 0.4, 0.35, 0.8, 0.4]), np.array([0, 0, 1, 1, 1])
    found = auroc(scores, outcomes)
    assert found.value == (1 + 0 + 1 + 1 + 1 + 0.5) / 6
    assert found.low <= found.value <= found.high
    assert auroc([1.0, 2.0, 3.0], [False, True, True]).value == 1
    assert auroc([3.0, 2.0, 1.0], [False, True, True]).value == 0
    rng = np.random.default_rng(0)
    wide, narrow = (auroc(rng.standard_normal(n) + (np.arange(n) % 2), np.arange(n) % 2) for n in (40, 2000))
    assert narrow.high - narrow.low < 0.25 * (wide.high - wide.low)
    assert narrow.low < 0.760 < narrow.high  # Φ(1/√2)


NOT_RANKED = [([1.0], [1]), ([1.0, 2.0], [1]), ([1.0, np.nan], [1, 0]), ([1.0, 2.0], [1, 1])]


@pytest.mark.parametrize(("scores", "outcomes"), NOT_RANKED)
def test_area_under_the_roc_curve_refuses(scores, outcomes):
    """One outcome alone, other lengths, and what is not a number."""
    with pytest.raises(ValueError, match="must be"):
        auroc(scores, outcomes)
