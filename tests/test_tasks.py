"""Tasks: what a batch holds, that it is a function of its key alone, and what a guess would score."""

import math

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax.tasks import (
    TASKS,
    Batch,
    adding,
    agreement,
    classification,
    copy,
    delayed_xor,
    echo,
    order,
    plant,
    recall,
    regime,
    task_named,
    temporal_order,
)
from seqjax.tasks.arrays import rows_of_update

KEY, MANY = jax.random.key(11), 200_000


def toy(labels=(0, 1, 1, 2, 1, 0, 2, 1, 1, 1), classes=3):
    """Ten sequences that carry their own row number, in a classification task."""
    rows = np.arange(float(len(labels)))
    train = Batch(np.broadcast_to(rows[:, None, None], (len(labels), 4, 2)), np.array(labels), rows.astype(int) % 5)
    return classification("toy", train, Batch(train.xs[6:], train.targets[6:]), classes=classes)


FRESH = {
    "recall": recall(length=30),
    "adding": adding(length=5),
    "echo": echo(length=30, delay=4),
    "order": order(shortest=20, longest=30),
    "plant": plant(length=5, delay=2),
    "regime": regime(length=5),
    "temporal_order": temporal_order(length=30),
    "copy": copy(delay=2, symbols=20),
    "delayed_xor": delayed_xor(length=60, delay=4),
}
DRAWN = {"toy": toy(), "agreement": agreement(), **FRESH}
each_task = pytest.mark.parametrize("task", DRAWN.values(), ids=DRAWN)


def near(share, chance, n=MANY):
    """Whether a share of n trials is within four standard errors of a probability."""
    return abs(share - chance) < 4 * math.sqrt(chance * (1 - chance) / n)


@each_task
def test_a_batch_is_a_function_of_key_and_update(task):
    """The same ones give the same batch, traced (to rounding) or not; another key or update gives another batch."""
    batch = task.draw(KEY, 3, 10)
    chex.assert_trees_all_equal(batch, task.draw(KEY, 3, 10))
    chex.assert_trees_all_close(batch, jax.jit(task.draw, static_argnums=2)(KEY, 3, 10), rtol=1e-14)
    assert batch.xs.shape[0] == len(batch.targets) == 10
    for key, update in ((KEY, 4), (jax.random.key(12), 3)):
        assert not np.array_equal(batch.xs, task.draw(key, update, 10).xs)


@pytest.mark.parametrize("task", FRESH.values(), ids=FRESH)
def test_what_is_held_out_is_never_trained_on(task):
    """No sequence of it is in a batch of the same key; it is a function of its key as well."""
    test, again = (task.held_out(KEY, 10) for _ in range(2))
    chex.assert_trees_all_equal(test, again)
    assert len(test.xs) == 10
    draw = jax.jit(task.draw, static_argnums=2)
    known = {row.tobytes() for update in range(50) for row in np.asarray(draw(KEY, update, 10).xs)}
    assert len(known) == 50 * 10
    assert not known & {row.tobytes() for row in np.asarray(test.xs)}


@pytest.mark.parametrize(("length", "alphabet"), [(1, 8), (6, 3), (4, 1)])
def test_recall_asks_for_the_first_symbol(length, alphabet):
    """Of uniform symbols at every place."""
    batch = recall(length=length, alphabet=alphabet).held_out(KEY, 9000)
    assert batch.xs.shape == (9000, length)
    np.testing.assert_array_equal(batch.targets, batch.xs[:, 0])
    for place in np.asarray(batch.xs).T:
        counts = np.bincount(place, minlength=alphabet)
        assert len(counts) == alphabet
        assert all(near(count / 9000, 1 / alphabet, 9000) or count == 9000 for count in counts)


def test_chance_in_recall_is_what_the_best_guess_scores():
    """Every constant answer is right 1/alphabet of the time, and equal odds cost ln alphabet."""
    alphabet = 5
    task = recall(length=2, alphabet=alphabet)
    targets = task.held_out(KEY, MANY).targets
    scores = [task.score(jnp.broadcast_to(guess, (MANY, alphabet)), targets) for guess in np.eye(alphabet)]
    assert all(near(score, task.chance) for score in scores)
    np.testing.assert_allclose(task.loss(jnp.zeros((MANY, alphabet)), targets), task.chance_loss, rtol=1e-12)
    informed = jnp.broadcast_to(np.log(scores), (MANY, alphabet))
    np.testing.assert_allclose(task.loss(informed, targets), task.chance_loss, rtol=1e-3)


@pytest.mark.parametrize("length", [2, 3, 7])
def test_adding_marks_one_number_in_each_half_and_asks_for_their_sum(length):
    """Numbers from U(0, 1); the marks are uniform over their half."""
    batch, half = adding(length=length).held_out(KEY, 6000), length // 2
    values, marks = np.moveaxis(np.asarray(batch.xs), -1, 0)
    assert ((marks == 0) | (marks == 1)).all()
    assert (marks[:, :half].sum(1) == 1).all()
    assert (marks[:, half:].sum(1) == 1).all()
    np.testing.assert_allclose(batch.targets, [v[m == 1].sum() for v, m in zip(values, marks, strict=True)], rtol=1e-12)
    assert 0 <= values.min() < 0.001
    assert 0.999 < values.max() < 1
    for part in (marks[:, :half], marks[:, half:]):
        assert all(near(share, 1 / part.shape[1], 6000) or part.shape[1] == 1 for share in part.mean(0))


def test_chance_in_adding_is_what_the_best_constant_scores():
    """The sum of two uniforms has density 1 - |s - 1|: the formulas, and a measurement."""
    task = adding(length=2)
    targets = task.held_out(KEY, MANY).targets

    def guess(answer):
        outputs = jnp.full((MANY, 1), answer)
        return float(task.score(outputs, targets)), float(task.loss(outputs, targets))

    s = (np.arange(20_000) + 0.5) / 10_000
    density = (1 - np.abs(s - 1)) / 10_000
    np.testing.assert_allclose(task.chance, density[np.abs(s - 1) < 0.04].sum(), rtol=1e-6)
    np.testing.assert_allclose(task.chance_loss, (density * (s - 1) ** 2).sum(), rtol=1e-6)
    score, loss = guess(1.0)
    assert near(score, task.chance)
    assert abs(loss - task.chance_loss) < 4 * math.sqrt((1 / 15 - 1 / 36) / MANY)
    for other in (0.5, 0.9, 1.1, 1.5):
        assert guess(other)[0] < score
        assert guess(other)[1] > loss


@pytest.mark.parametrize(("N", "batch"), [(10, 3), (10, 10), (10, 4), (10, 1), (3, 2), (1, 1)])
def test_every_epoch_visits_every_row_once(N, batch):
    """Batches are cut from the orders of all epochs laid end to end, and straddle them where they must."""
    stream = np.ravel([rows_of_update(KEY, jnp.int32(update), batch, N) for update in range(3 * N)])
    epochs = stream.reshape(-1, N)
    np.testing.assert_array_equal(np.sort(epochs), np.broadcast_to(np.arange(N), epochs.shape))
    assert N == 1 or len(np.unique(epochs, axis=0)) > 1
    for update in (0, 1, 2, 1000, 1001, 1002):
        np.testing.assert_array_equal(rows_of_update(KEY, jnp.int32(update), batch, N), by_hand(update, batch, N))


def by_hand(update, batch, N):
    """One row at a time: which epoch it is in, and where."""
    places = [divmod(place, N) for place in range(update * batch, (update + 1) * batch)]
    return [int(jax.random.permutation(jax.random.fold_in(KEY, epoch), N)[at]) for epoch, at in places]


def test_a_classification_batch_keeps_rows_together():
    """Inputs, labels and lengths of the same rows, and the test set as it is."""
    task = toy()
    batch = task.draw(KEY, 0, 10)
    rows = np.asarray(batch.xs)[:, 0, 0].astype(int)
    np.testing.assert_array_equal(rows, rows_of_update(KEY, 0, 10, 10))
    np.testing.assert_array_equal(batch.targets, np.array([0, 1, 1, 2, 1, 0, 2, 1, 1, 1])[rows])
    np.testing.assert_array_equal(batch.lengths, rows % 5)
    assert task.held_out(KEY, 2).targets.tolist() == [2, 1, 1, 1]
    assert (task.D, task.K, task.inputs, task.readout) == (2, 3, "vector", "last")


def test_chance_in_classification_is_the_largest_class():
    """Of the test set; the loss is the entropy of the training labels."""
    task = toy()
    assert task.chance == 3 / 4
    np.testing.assert_allclose(task.chance_loss, -(0.4 * math.log(0.2) + 0.6 * math.log(0.6)), rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: toy((0, 1, 3)), r"train labels must lie in 0..2, got 0..3"),
        (lambda: toy((0, -1, 2)), r"train labels must lie in 0..2, got -1..2"),
        (lambda: classification("x", toy_part(0, 1), toy_part(0, 2), classes=2), "test labels must lie in"),
        (
            lambda: classification("x", toy_part(0, 1, lengths=[2, 3]), toy_part(0), classes=2),
            "lengths must lie in 0..2",
        ),
        (lambda: toy().draw(KEY, 0, 11), "at most the 10 training rows, got 11"),
        (lambda: recall(length=0), "length must be"),
        (lambda: recall(length=3, alphabet=0), "alphabet must be"),
        (lambda: adding(length=1), "at least 2"),
        (lambda: adding(length=2.5), "length must be"),
        (
            lambda: task_named("copies"),
            "'copies': known tasks are adding, agreement, copy, copying, counting, dates, delayed_xor, digits, echo",
        ),
    ],
)
def test_what_is_not_a_task_is_refused(make, message):
    """With what is allowed."""
    with pytest.raises(ValueError, match=message):
        make()


def toy_part(*labels, lengths=None):
    """Some labelled zeros, two steps each."""
    return Batch(np.zeros((len(labels), 2, 1)), np.array(labels), lengths)


def test_tasks_are_found_by_name_and_built_once():
    """So that a function jitted on a task does not trace again."""
    assert all(task_named(name) is make for name, make in TASKS.items())
    assert recall(length=4) is recall(length=4)
    assert adding(length=4) is adding(length=4)


def test_order_asks_which_of_two_events_came_later():
    """One of each in every row, before its end; all lengths alike; and no place tells the answer."""
    batch = jax.tree.map(np.asarray, order(shortest=2, longest=5, kinds=4).held_out(KEY, 9000))
    for xs, length, target in zip(batch.xs, batch.lengths, batch.targets, strict=True):
        row = xs[:length].tolist()
        assert (row.count(0), row.count(1), target) == (1, 1, int(row.index(1) > row.index(0)))
    assert all(near((batch.lengths == T).mean(), 1 / 4, 9000) for T in range(2, 6))
    assert near(batch.targets.mean(), 1 / 2, 9000)
    assert near((batch.xs[batch.lengths == 2][:, 0] == 0).mean(), 1 / 2, 2000)
    for options, message in (
        ({"shortest": 1}, "lengths"),
        ({"shortest": 9, "longest": 8}, "lengths"),
        ({"kinds": 2}, "kinds"),
    ):
        with pytest.raises(ValueError, match=message):
            order(**options)
