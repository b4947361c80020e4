"""Scores of a fit against closed forms, a Python loop over pairs, and scikit-learn; and their bootstrap."""

import numpy as np
import pytest

from seqjax.fit.figures import label
from seqjax.fit.metrics import Answered, calibration, compared, drawn, mean_of_defined, ranked, scored, shown, weights

ONCE = np.ones((1, 40))


def made(K, seed=0, n=40, ties=False):
    """A classifier's answers, of n sequences."""
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.arange(n) % K)
    said = rng.dirichlet(np.ones(K), n) + 0.3 * np.eye(K)[truth]
    said = np.round(said * 4) + 1 if ties else said
    return Answered(said / said.sum(1, keepdims=True), truth, np.arange(n))


def values(model):
    """Every score, once."""
    return {name: float(score(np.ones((1, len(model.group))))[0]) for name, score in model.scores().items()}


@pytest.mark.parametrize(
    ("scores", "area"), [([1, 2, 3, 4], 1), ([4, 3, 2, 1], 0), ([1, 1, 1, 1], 0.5), ([1, 2, 2, 3], 7 / 8)]
)
def test_areas_that_are_known(scores, area):
    """Of two failures before two successes."""
    found = ranked(np.array(scores, float), np.array([False, False, True, True]))(np.ones((1, 4)))
    np.testing.assert_allclose(found, area)


def test_an_area_of_one_outcome_is_not_defined():
    """NaN, with no warning, also where only the weights leave out the other; and its mean goes over the others."""
    area = ranked(np.array([1.0, 2.0]), np.array([False, True]))
    np.testing.assert_equal(area(np.array([[1.0, 0.0], [1.0, 1.0]])), [np.nan, 1])
    np.testing.assert_equal(mean_of_defined(np.array([[np.nan, 0.5], [np.nan, np.nan]])), [np.nan, 0.5])


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("K", [2, 4])
def test_scores_are_those_of_scikit_learn(K, ties):
    """Accuracy, AUROC and log loss."""
    metrics = pytest.importorskip("sklearn.metrics")
    model, found = made(K, ties=ties), values(made(K, ties=ties))
    area = model.said[:, 1] if K == 2 else model.said
    np.testing.assert_allclose(found["AUROC"], metrics.roc_auc_score(model.truth, area, multi_class="ovr"))
    np.testing.assert_allclose(found["log loss"], metrics.log_loss(model.truth, model.said))
    np.testing.assert_allclose(found["accuracy"], metrics.accuracy_score(model.truth, model.said.argmax(1)))


def test_weights_are_repetition():
    """Every score with weights is the score of the sequences so many times."""
    times = np.random.default_rng(1).integers(0, 3, 40)
    rows = np.repeat(np.arange(40), times)
    for model in (made(2, ties=True), made(3), Answered(made(2).said[:, 0], made(2).said[:, 1] ** 2, np.arange(40))):
        again = Answered(model.said[rows], model.truth[rows], np.arange(len(rows)))
        for name, score in model.scores().items():
            np.testing.assert_allclose(
                score(times[None].astype(float))[0], values(again)[name], rtol=1e-9, err_msg=name
            )


def test_regression_scores_are_those_of_scikit_learn():
    """RMSE and R²; R² of a constant truth is not defined."""
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    truth, said = rng.normal(5, 2, 40), rng.normal(5, 2, 40)
    found = values(Answered(said, truth, np.arange(40)))
    np.testing.assert_allclose(found["RMSE"], metrics.root_mean_squared_error(truth, said))
    np.testing.assert_allclose(found["R²"], metrics.r2_score(truth, said))
    assert np.isnan(values(Answered(said, np.full(40, 3.0), np.arange(40)))["R²"])


def test_calibration_that_is_known():
    """Said 0.75 and 0.25 where it came in every second: 1/4; said 0.5: 0; and the bins say the same."""
    came = np.tile([0.0, 1.0], 20)
    assert calibration(np.repeat([0.75, 0.25], 20), came)(ONCE)[0] == pytest.approx(0.25)
    assert calibration(np.full(40, 0.5), came)(ONCE)[0] == 0
    sure = np.repeat([0.75, 0.25], 20)
    bins = shown(Answered(np.stack([1 - sure, sure], 1), came.astype(int), np.arange(40)))
    assert bins["counts"][[2, 7]].tolist() == [20, 20]
    assert bins["counts"].sum() == 40
    np.testing.assert_allclose(bins["came"][[2, 7]], 0.5)
    np.testing.assert_array_equal(bins["confusion"], [[10, 10], [10, 10]])


def test_whole_sequences_are_drawn():
    """The answers of one sequence have one weight, and every draw has as many sequences as there are."""
    group = np.array([0, 0, 0, 1, 2, 2])
    times = np.concatenate(weights(group, 50))
    assert times.shape == (50, 6)
    np.testing.assert_array_equal(times[:, [0, 4]], times[:, [2, 5]])
    np.testing.assert_array_equal(times[:, [0, 3, 4]].sum(1), 3)


def test_intervals_are_those_of_theory():
    """Of an accuracy p: ±1.96 √(p (1 - p) / n); of a model less itself, nothing."""
    n = 400
    truth = np.zeros(n, int)
    right = np.arange(n) % 4 > 0
    model = Answered(np.where(right[:, None], [0.9, 0.1], [0.1, 0.9]), truth, np.arange(n))
    found = scored(drawn({"a": model}))["a"]["accuracy"]
    half = 1.96 * (0.75 * 0.25 / n) ** 0.5
    np.testing.assert_allclose([found.low, found.high], [0.75 - half, 0.75 + half], atol=0.01)
    same = compared(drawn({"a": model, "b": model}), "a", "accuracy")["b"]
    assert (same.value, same.low, same.high) == (0, 0, 0)


def test_a_difference_is_of_the_same_draws():
    """Above 0 for the better one, of scores of which less is better as well."""
    good, bad = made(2), Answered(made(2).said[:, ::-1], made(2).truth, np.arange(40))
    for score in ("AUROC", "log loss"):
        draws = drawn({"good": good, "bad": bad})
        difference = compared(draws, "good", score)["bad"]
        assert 0 < difference.low < difference.value < difference.high
        sign = 1 if score == "AUROC" else -1
        ours, theirs = draws["good"][score][1], draws["bad"][score][1]
        there = ~np.isnan(ours)
        np.testing.assert_allclose(difference.low, np.quantile(sign * (ours - theirs)[there], 0.025))


def test_a_class_is_shown_by_what_an_svg_may_hold():
    """Control characters are replaced, long names cut."""
    assert label("a\x01b\n") == "a\ufffdb\ufffd"
    assert label("naïve <b>") == "naïve <b>"
    assert label("x" * 17) == "x" * 15 + "…"
