"""Customers who cancel: the rule, that only order tells, the best scores, the files and the command."""

import csv
import json

import numpy as np
import pytest

from seqjax.events import read_events
from seqjax.events.churn import CANCELS, KINDS, RISK, best_scores, churn, main

MANY = churn(1, 4000)


def near_half(scores, outcomes):
    """Whether the area under the ROC curve of an uninformed score is within four standard errors of a half."""
    from scipy.stats import rankdata

    yes, no = outcomes.sum(), (~outcomes).sum()
    area = (rankdata(scores)[outcomes].sum() - yes * (yes + 1) / 2) / (yes * no)
    return abs(area - 0.5) < 4 * ((yes + no + 1) / (12 * yes * no)) ** 0.5


def test_a_function_of_the_seed():
    """The same one, the same customers; another one, others."""
    first, again, other = churn(3, 50), churn(3, 50), churn(4, 50)
    for name, values in vars(first).items():
        np.testing.assert_array_equal(values, getattr(again, name))
    assert not np.array_equal(first.kinds[:50], other.kinds[:50])


def test_sizes_and_shares():
    """4 to 400 events, about 100 on average; a quarter or so cancel; missing values."""
    lengths = np.diff(MANY.offsets)
    assert (lengths.min(), lengths.max() <= 400, lengths.max() > 350) == (4, True, True)
    assert 90 < lengths.mean() < 110
    assert 0.25 < MANY.cancelled.mean() < 0.30
    assert set(MANY.kinds) == set(range(len(KINDS)))
    paid = np.isin(MANY.kinds, [KINDS.index(kind) for kind in ("payment", "payment_failed", "refund")])
    assert not (np.isfinite(MANY.amounts) & ~paid).any()
    assert abs(np.isnan(MANY.amounts[paid]).mean() - 0.05) < 0.01
    assert abs((MANY.channels < 0).mean() - 0.02) < 0.01


def test_the_rule_is_the_order_of_refund_and_failed_payment():
    """The probability is the higher one where the last refund came after the last failed payment."""
    for n, p in enumerate(MANY.probabilities):
        kinds = [KINDS[kind] for kind in MANY.kinds[MANY.offsets[n] : MANY.offsets[n + 1]]]
        troubles = [kind for kind in kinds if kind in ("payment_failed", "refund")]
        assert kinds[0] == "signup"
        assert kinds.count("signup") == 1
        assert 1 <= troubles.count("refund") <= 2
        assert 1 <= troubles.count("payment_failed") <= 2
        assert p == CANCELS[troubles[-1] == "refund"]


def test_a_bag_of_events_tells_nothing():
    """No count, length, amount, channel, time between events, nor how many come before the troubles' first, tells who
    is at risk: of each the area under the ROC curve is a half."""
    group = np.repeat(np.arange(4000), np.diff(MANY.offsets))
    gaps = np.diff(MANY.seconds, prepend=0)
    gaps[MANY.offsets[:-1]] = 0
    risk = MANY.probabilities == CANCELS[1]
    bags = [np.bincount(group, MANY.kinds == kind, minlength=4000) for kind in range(len(KINDS))]
    bags += [np.bincount(group, MANY.channels == channel, minlength=4000) for channel in (-1, 0, 1, 2)]
    for kind in ("payment_failed", "refund", "payment"):
        chosen = MANY.kinds == KINDS.index(kind)
        bags.append(np.bincount(group, chosen * gaps, minlength=4000))
        bags.append(np.bincount(group, chosen * np.nan_to_num(MANY.amounts), minlength=4000))
    assert all(near_half(bag, risk) for bag in [*bags, np.diff(MANY.offsets)])
    assert not near_half(MANY.probabilities, MANY.cancelled)
    for failed, refunds in ((1, 1), (1, 2), (2, 1), (2, 2)):
        same = (bags[KINDS.index("payment_failed")] == failed) & (bags[KINDS.index("refund")] == refunds)
        assert abs(risk[same].mean() - RISK) < 4 * (RISK * (1 - RISK) / same.sum()) ** 0.5


def test_best_scores_by_hand():
    """Of two levels: the area is a half and half the difference of the shares at the higher level."""
    best, (low, high) = best_scores(), CANCELS
    share = RISK * high + (1 - RISK) * low
    among = RISK * high / share - RISK * (1 - high) / (1 - share)
    entropy = [-(p * np.log(p) + (1 - p) * np.log(1 - p)) for p in CANCELS]
    assert best.share == pytest.approx(share)
    assert best.auroc == pytest.approx(0.5 + among / 2)
    assert best.accuracy == pytest.approx(RISK * high + (1 - RISK) * (1 - low))
    assert best.log_loss == pytest.approx(RISK * entropy[1] + (1 - RISK) * entropy[0])
    certain = best_scores([0, 1, 1], 1)
    assert (certain.auroc, certain.accuracy, certain.log_loss) == pytest.approx((1, 1, 0))
    assert best_scores([0.3] * 5, 1).auroc == pytest.approx(0.5)


def test_best_scores_are_what_the_probabilities_score():
    """On many customers, within four standard errors; of unequal probabilities by a double loop."""
    p, y, best = MANY.probabilities, MANY.cancelled, best_scores()
    right = ((p > 0.5) == y).mean()
    losses = -np.log(np.where(y, p, 1 - p))
    area = np.mean([np.mean((a > p[~y]) + (a == p[~y]) / 2) for a in p[y]])
    assert abs(right - best.accuracy) < 4 * (right * (1 - right) / len(p)) ** 0.5
    assert abs(losses.mean() - best.log_loss) < 4 * losses.std() / len(p) ** 0.5
    assert abs(area - best.auroc) < 0.03
    p = np.array([0.1, 0.4, 0.4, 0.9])
    pairs = sum(a * (1 - b) * ((a > b) + (a == b) / 2) for a in p for b in p) / (p.sum() * (1 - p).sum())
    assert best_scores(p, 1).auroc == pytest.approx(pairs)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_a_file_is_read_back(tmp_path, suffix):
    """Every customer's events, in their order, although the file is that of a log."""
    made = churn(5, 60)
    made.write(tmp_path / f"churn{suffix}")
    events = read_events(tmp_path / f"churn{suffix}", sequence="customer", time="time", target="cancelled")
    numbers = np.array([int(name[1:]) - 1 for name in events.ids])
    assert sorted(numbers) == list(range(60))
    kind, amount, channel, since = events.fields
    for n, number in enumerate(numbers):
        ours = slice(events.offsets[n], events.offsets[n + 1])
        its = slice(made.offsets[number], made.offsets[number + 1])
        assert [kind.values[code] for code in kind.codes[ours]] == [KINDS[k] for k in made.kinds[its]]
        np.testing.assert_array_equal(amount.values[ours], made.amounts[its])
        np.testing.assert_array_equal(np.expm1(since.values[ours][1:]).round(), np.diff(made.seconds[its]))
        assert events.targets.values[n] == made.cancelled[number]
    assert channel.missing().sum() == (made.channels < 0).sum()
    assert events.reordered == 0


def test_the_command(tmp_path, capsys):
    """Writes a file and says what can be reached."""
    path = tmp_path / "churn.csv"
    assert main([str(path), "--sequences", "30", "--seed", "2"]) == 0
    said = capsys.readouterr().out
    assert "30 customers" in said
    assert "AUROC 0.894, accuracy 0.915, log loss 0.282" in said
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == churn(2, 30).offsets[-1]
    assert list(rows[0]) == ["customer", "time", "kind", "amount", "channel", "cancelled"]
    assert [row["time"] for row in rows] == sorted(row["time"] for row in rows)
    assert main([str(tmp_path / "churn.jsonl"), "--sequences", "3"]) == 0
    assert json.loads((tmp_path / "churn.jsonl").read_text().splitlines()[0])["kind"] == "signup"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["churn.txt"], "churn.txt must be a file .csv, .parquet, .jsonl"),
        (["nowhere/churn.csv"], "cannot be written"),
        (["churn.csv", "--sequences", "0"], "sequences must be an integer of at least 1, got 0"),
        (["churn.csv", "--seed", "-1"], "seed must be a whole number from 0, got -1"),
        ([], "PATH"),
        (["churn.csv", "--sequences", "many"], "many"),
    ],
)
def test_a_bad_call_is_one_line(tmp_path, monkeypatch, capsys, args, message):
    """Exit code 2, nothing written."""
    monkeypatch.chdir(tmp_path)
    assert main(args) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert message in said
    assert not list(tmp_path.iterdir())
