"""Tasks of pairs: what is fed, what counts, and what a guess would score."""

import math
from datetime import date
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import close, same

import seqjax
from seqjax.losses import whole
from seqjax.tasks import DATE_SOURCE, DATE_TARGET, copying, dates, paired, reversing, scheduled_sampling
from seqjax.tasks.dates import DAYS, MONTHS

KEY, N = jax.random.key(3), 3000


def test_inputs_are_targets_shifted_by_one():
    """By hand: the end symbol leads what is fed, ends what is asked for, and counts; padding does not."""
    batch = paired([[7, 8, 99], [5, 99, 99]], [2, 1], [[1, 2, 3], [4, -1, -1]], [3, 1], end=9)
    assert batch.xs.source.tolist() == [[7, 8, 0], [5, 0, 0]]
    assert batch.xs.source_mask.tolist() == [[True, True, False], [True, False, False]]
    assert batch.xs.fed.tolist() == [[9, 1, 2, 3], [9, 4, 9, 9]]
    assert batch.targets.tolist() == [[1, 2, 3, 9], [4, 9, 9, 9]]
    assert batch.scored.tolist() == [[True] * 4, [True, True, False, False]]
    assert batch.lengths is None
    with pytest.raises(ValueError, match=r"lengths must lie in 0\.\.3"):
        paired([[7, 8, 0]], [4], [[1]], [1], end=9)


def test_whole_is_a_row_right_at_every_step():
    """Steps that do not count may be wrong, a row without any does not count, and NaN is no answer."""
    targets = np.array([[1, 2], [1, 2], [1, 2], [0, 0]])
    logits = jax.nn.one_hot(np.array([[1, 2], [1, 0], [0, 2], [1, 1]]), 3, dtype=float)
    mask = np.array([[1, 1], [1, 0], [1, 1], [0, 0]], bool)
    assert whole(logits, targets) == 1 / 4
    close(whole(logits, targets, mask), 2 / 3)
    assert np.isnan(whole(logits.at[0, 0, 0].set(np.nan), targets, mask))
    assert whole(logits.at[3, 0, 0].set(np.nan), targets, mask) == whole(logits, targets, mask)
    assert whole(logits, targets, np.zeros((4, 2), bool)) == 0


@pytest.mark.parametrize(("make", "order"), [(copying, 1), (reversing, -1)], ids=["copying", "reversing"])
def test_a_source_is_said_again(make, order):
    """In its order or the other, of uniform symbols and lengths; a function of key and update."""
    task = make(symbols=3, shortest=2, longest=4)
    batch = jax.tree.map(np.asarray, task.held_out(KEY, N))
    lengths = batch.xs.source_mask.sum(1)
    for row in range(20):
        n = lengths[row]
        assert batch.targets[row, :n].tolist() == batch.xs.source[row, :n][::order].tolist()
        assert batch.targets[row, n:].tolist() == [3] * (5 - n)
        assert batch.scored[row].sum() == n + 1
    counts = np.bincount(lengths, minlength=5)[2:] / N
    np.testing.assert_allclose(counts, 1 / 3, atol=0.04)
    shares = np.bincount(batch.xs.source[batch.xs.source_mask]) / lengths.sum()
    np.testing.assert_allclose(shares, 1 / 3, atol=0.03)
    same(task.draw(KEY, 3, 9), task.draw(KEY, 3, 9))
    assert not np.array_equal(task.draw(KEY, 3, 9).xs.source, task.draw(KEY, 4, 9).xs.source)
    assert not np.array_equal(task.held_out(KEY, 9).xs.source, task.draw(KEY, 0, 9).xs.source)


def test_chance_is_what_the_best_guess_scores():
    """The shortest length and any symbols; and the loss of odds that know lengths and symbols, but no source."""
    symbols, shortest, longest = 2, 1, 3
    task = copying(symbols=symbols, shortest=shortest, longest=longest)
    batch = task.held_out(KEY, 40_000)
    guess = jnp.broadcast_to(jax.nn.one_hot(jnp.array([0, 2, 2, 2]), 3), (*batch.targets.shape, 3))
    assert abs(task.score(guess, batch.targets, batch.scored) - task.chance) < 4 * math.sqrt(1 / 6 * 5 / 6 / 40_000)
    stop = np.array([0, 1 / 3, 1 / 2, 1])  # of the lengths that are left, at every step
    odds = np.stack([(1 - stop) / 2, (1 - stop) / 2, stop], axis=-1)
    logits = jnp.broadcast_to(jnp.log(np.maximum(odds, 1e-30)), (*batch.targets.shape, 3))
    close(task.loss(logits, batch.targets, batch.scored), task.chance_loss, 0.01)
    with pytest.raises(ValueError, match="longest must be at least the shortest, 3, got 2"):
        copying(shortest=3, longest=2)


def texts(batch):
    """(source, target) of every row as text."""
    target = DATE_TARGET + "$"
    batch = jax.tree.map(np.asarray, batch)
    rows = zip(batch.xs.source, batch.xs.source_mask, batch.targets, batch.scored, strict=True)
    return [("".join(DATE_SOURCE[i] for i in s[m]), "".join(target[i] for i in t[k])) for s, m, t, k in rows]


def parsed(text):
    """The day that a text means, as a person reads it."""
    if "/" in text:
        month, day, year = map(int, text.split("/"))
        return date(year, month, day)
    if "." in text:
        day, month, year = map(int, text.split("."))
        return date(year, month, day)
    words = text.replace(",", "").split()
    weekday = DAYS.index(words.pop(0)) if words[0] in DAYS else None
    (name,) = [word for word in words if word.isalpha()]
    (month,) = [i for i, full in enumerate(MONTHS, 1) if name in (full, full[:3])]
    day, year = (int(word) for word in words if word.isdigit())
    assert weekday in (None, date(year, month, day).weekday())
    return date(year, month, day)


def test_dates_are_those_of_the_calendar():
    """Whatever the format, the target is the day; no day that is held out is trained on."""
    task = dates(first=1996, last=2001)
    trained, held = texts(jax.jit(task.draw, static_argnums=2)(KEY, 0, 600)), texts(task.held_out(KEY, 200))
    for source, target in trained + held:
        assert target == parsed(source).isoformat() + "$"
    assert len({source.translate(str.maketrans("", "", "0123456789")) for source, _ in trained}) > 50
    assert not {target for _, target in trained} & {target for _, target in held}
    days = (date(2001, 12, 31) - date(1996, 1, 1)).days + 1
    tests = -(-days // 10)
    assert task.chance == 1 / tests
    close(task.chance_loss, math.log(days - tests) / 11)
    with pytest.raises(ValueError, match="must be years"):
        dates(first=2000, last=1999)


def test_scheduled_sampling_draws_by_its_schedule():
    """The same batches, with steps of the decoder's own at the rate of the update; held-out data as they were."""
    task = copying(symbols=3, shortest=1, longest=6)
    scheduled = scheduled_sampling(task, lambda update: 0.1 * update)
    rates = [scheduled.draw(KEY, update, 500).xs.own.mean() for update in (0, 2, 7)]
    np.testing.assert_allclose(rates, [0, 0.2, 0.7], atol=0.03)
    assert all(a <= b for a, b in pairwise(rates))
    same(scheduled.draw(KEY, 2, 5).targets, task.draw(KEY, 2, 5).targets)
    same(scheduled.held_out(KEY, 5), task.held_out(KEY, 5))
    with pytest.raises(ValueError, match="scheduled sampling needs a task of pairs, got 'recall'"):
        scheduled_sampling(seqjax.tasks.recall(length=3), lambda update: 0.5)
