"""Tasks that ask for the past: targets by a slow reading of every sequence, what is drawn, and what a guess scores."""

import math
from fractions import Fraction
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from oracle import jiggle

import seqjax
from seqjax.tasks import Batch, agreement, copy, delayed_xor, echo, plant, regime, sentence, temporal_order
from seqjax.tasks.agreement import DETERMINERS, PLURAL, PREPOSITIONS, SINGULAR, VERBS, WORDS
from seqjax.tasks.temporal_order import CLASSES
from seqjax.train.run import TrainState, begin, update

KEY, MANY = jax.random.key(5), 5000
POLE = -0.7
NAN = math.nan


def read_echo(xs):
    """The symbol three steps before."""
    return [NAN if t < 3 else xs[t - 3] for t in range(len(xs))]


def read_copy(xs):
    """The symbols that were shown first, once the marker has come."""
    shown, answers, gone = [], [], False
    for token in xs:
        answers.append(shown.pop(0) if gone else NAN)
        if token < 3:
            shown.append(token)
        gone = gone or token == 4
    assert not shown
    return answers


def read_xor(xs):
    """Whether the bits two and four steps before differ."""
    return [NAN if t < 4 else int(xs[t - 4][0] != xs[t - 2][0]) for t in range(len(xs))]


def read_plant(us):
    """The recursion, one step at a time."""
    ys = [0.0]
    for t in range(len(us)):
        ys.append(POLE * ys[-1] + math.sqrt(1 - POLE**2) * (us[t - 2][0] if t >= 2 else 0))
    return [NAN if t < 2 else y for t, y in enumerate(ys[1:])]


def read_order(xs):
    """The two letters that are no distractors."""
    return CLASSES.index("".join("XY"[token - 4] for token in xs if token >= 4))


def read_sentence(tokens):
    """Parse determiner, noun, (preposition, determiner, noun)*, and agree with the first noun."""
    words = sentence(tokens).split()
    for place, word in enumerate(words):
        assert word in (DETERMINERS, SINGULAR + PLURAL, PREPOSITIONS)[place % 3]
    assert len(words) % 3 == 2
    return VERBS.index("are" if words[1] in PLURAL else "is")


READ = {
    "echo": (echo(length=9, delay=3, alphabet=3), read_echo),
    "copy": (copy(delay=2, symbols=4, alphabet=3), read_copy),
    "delayed_xor": (delayed_xor(length=9, delay=4), read_xor),
    "plant": (plant(length=9, delay=2, pole=POLE), read_plant),
    "temporal_order": (temporal_order(length=23), read_order),
    "agreement": (agreement(), read_sentence),
}
SMALL = {name: task for name, (task, _) in READ.items()} | {"regime": regime(length=9, share=0.4)}
each_task = pytest.mark.parametrize("task", SMALL.values(), ids=SMALL)


@lru_cache
def held_out(task, examples=MANY):
    """So many sequences of a task in NumPy, drawn in one program."""
    return jax.device_get(jax.jit(task.held_out, static_argnums=1)(KEY, examples))


@lru_cache
def trained_on(task, examples=MANY):
    """Those of an update."""
    return jax.device_get(jax.jit(task.draw, static_argnums=2)(KEY, 3, examples))


@lru_cache
def judge(task):
    """(outputs, targets, scored) -> score and loss, in one program."""
    return jax.jit(lambda *given: (task.score(*given), task.loss(*given)))


def judged(task, batch, outputs):
    """Score and loss of outputs for a batch."""
    return judge(task)(outputs, batch.targets, batch.scored)


def rows_of(batch):
    """Every row of a batch as Python numbers, as long as it is."""
    lengths = np.full(len(batch.xs), batch.xs.shape[1]) if batch.lengths is None else batch.lengths
    return [row[:n] for row, n in zip(batch.xs.tolist(), lengths, strict=True)]


def saying(task, answers):
    """The outputs [..., K] of whoever is sure of these answers, NaN where they are."""
    answers = np.asarray(answers, float)[..., None]
    if task.K == 1:
        return answers
    return np.where(np.isnan(answers), NAN, np.where(answers == np.arange(task.K), 0.0, -100.0))


def correct(task, read, batch):
    """Assert that a slow reader gives the targets where they are scored, and nothing elsewhere; its answers."""
    answers = np.array([read(row) for row in rows_of(batch)], float)
    asked = np.ones(answers.shape, bool) if batch.scored is None else batch.scored
    np.testing.assert_array_equal(asked, ~np.isnan(answers))
    np.testing.assert_allclose(batch.targets[asked], answers[asked], rtol=1e-12, atol=1e-12)
    return answers


@pytest.mark.parametrize(("task", "read"), READ.values(), ids=READ)
def test_targets_are_what_a_slow_reader_says(task, read):
    """Who scores 1, whatever it says where nothing is asked."""
    score, loss = judged(task, held_out(task), saying(task, correct(task, read, held_out(task))))
    assert abs(score - 1) < 1e-12
    assert loss < 1e-12


@each_task
def test_chance_is_what_the_best_constant_answer_scores(task):
    """To four standard errors: the mean where the answer is a number, else a class, and its frequency for the loss."""
    batch = held_out(task)
    targets = batch.targets.reshape(MANY, -1).astype(float)
    targets = targets if batch.scored is None else targets[:, batch.scored[0]]
    shares = (targets[..., None] == np.arange(task.K)).mean(1)
    constants = [[0.0], [0.2], [-0.2]] if task.K == 1 else [*np.eye(task.K), np.log(shares.mean(0))]
    outputs = (np.broadcast_to(constant, (*batch.targets.shape, task.K)) for constant in constants)
    scores, losses = np.array([judged(task, batch, output) for output in outputs]).T
    if task.K == 1:
        errors = (targets**2).mean(1)
        error = 4 * errors.std() / math.sqrt(MANY)
        assert scores.argmax() == losses.argmin() == 0
        np.testing.assert_allclose(losses[0], errors.mean(), rtol=1e-12)
        assert abs(scores[0] - task.chance) < error / task.chance_loss
    else:
        error = 4 * shares.std(0).max() / math.sqrt(MANY)
        np.testing.assert_allclose(scores[:-1], shares.mean(0), rtol=1e-12)
        assert abs(scores[:-1].max() - task.chance) < error
    assert abs(losses.min() - task.chance_loss) < error


@each_task
def test_one_update(task):
    """Of a tiny network, in one program: there is a loss, a gradient and a score, on a batch with the right targets."""
    network = seqjax.network(seqjax.rnn(), inputs=task.inputs, readout=task.readout)
    recipe = seqjax.Recipe(network, task, hidden=3, updates=1, batch=4, optimizer=optax.sgd(0.1))
    shapes = jax.eval_shape(lambda: begin(recipe, KEY, {}))
    params = jiggle(jax.tree.map(lambda a: np.zeros(a.shape), shapes.params), seed=0)

    @jax.jit
    def run(key, params):
        state = TrainState(params, recipe.optimizer.init(params), key, jnp.int32(0), jnp.int32(-1), jnp.int32(0))
        return task.draw(key, 0, 4), update(recipe, {}, state)

    batch, (state, history) = jax.device_get(run(KEY, params))
    assert state.failed_at == -1
    assert history.loss > 0
    assert history.gradient_norm > 0
    assert history.score <= 1
    if task.name in READ:
        correct(task, READ[task.name][1], batch)


def uniform(tokens, kinds):
    """Whether tokens [N] are uniform over `kinds`, in five standard errors."""
    shares = np.array([(np.asarray(tokens) == kind).mean() for kind in kinds])
    p = 1 / len(kinds)
    near = np.abs(shares - p) <= 5 * math.sqrt(p * (1 - p) / len(tokens))
    return near.all() and abs(shares.sum() - 1) < 1e-12


def test_symbols_are_uniform_at_every_place():
    """Those of an echo and of a copy, the bits of an exclusive or, and the distractors of an order."""
    assert all(uniform(place, range(3)) for place in held_out(SMALL["echo"]).xs.T)
    assert all(uniform(place, (0, 1)) for place in held_out(SMALL["delayed_xor"]).xs[..., 0].T)
    copied = held_out(SMALL["copy"]).xs.T
    assert all(uniform(place, range(3)) for place in copied[:4])
    assert (copied[4:] == np.array([3, 3, 4, 3, 3, 3, 3])[:, None]).all()
    ordered = held_out(SMALL["temporal_order"]).xs.T
    assert all(uniform(place[place < 4], range(4)) for place in ordered)


@pytest.mark.parametrize("length", [10, 19, 57])
def test_the_two_symbols_of_an_order(length):
    """Each uniform in its tenth of the sequence, and every order of them alike likely."""
    batch = held_out(temporal_order(length=length))
    rows, places = np.nonzero(batch.xs >= 4)
    np.testing.assert_array_equal(rows, np.repeat(np.arange(MANY), 2))
    tenths = [math.floor(Fraction(n * length, 10)) for n in (1, 2, 4, 5)]
    assert uniform(places[::2], range(*tenths[:2]))
    assert uniform(places[1::2], range(*tenths[2:]))
    assert uniform(batch.targets, range(4))


def test_an_exclusive_or_tells_nothing_to_whoever_misses_a_bit():
    """Given either of the two, or any other bit, the answer is a fair coin."""
    batch = held_out(SMALL["delayed_xor"])
    for t in range(4, 9):
        for bits in batch.xs[..., 0].astype(int).T:
            assert uniform(batch.targets[:, t] ^ bits, (0, 1))


@pytest.mark.parametrize(("length", "delay", "pole"), [(12, 4, 0.9), (3, 2, 0.5), (8, 1, 0)])
def test_the_variance_of_a_plant(length, delay, pole):
    """White input of unit variance; the mean variance is that of the rows of its impulse response, b a^{k - delay}."""
    gain, steps = math.sqrt(1 - pole**2), range(length)
    H = np.array([[gain * pole ** (t - s - delay) if t - s >= delay else 0.0 for s in steps] for t in steps])
    task = plant(length=length, delay=delay, pole=pole)
    np.testing.assert_allclose((H**2).sum(1)[delay:].mean(), task.chance_loss, rtol=1e-12)
    batch = held_out(task)
    us = batch.xs[..., 0]
    np.testing.assert_allclose(batch.targets, us @ H.T, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(us.T @ us / MANY, np.eye(length), atol=0.1)


BEFORE, AFTER = 0.6, -0.3


def test_a_fault_leaves_level_and_spread_alone():
    """At every step and on either side of a fault x is N(0, 1); neighbours correlate by the step's own coefficient."""
    batch = held_out(regime(length=8, before=BEFORE, after=AFTER), 80_000)
    xs, faulty = batch.xs[..., 0], batch.targets
    for t in range(8):
        for side in (0, 1) if t else (0,):
            now = faulty[:, t] == side
            error = 5 / math.sqrt(now.sum())
            assert abs(xs[now, t].mean()) < error
            assert abs((xs[now, t] ** 2).mean() - 1) < math.sqrt(2) * error
            if t:
                assert abs((xs[now, t] * xs[now, t - 1]).mean() - (BEFORE, AFTER)[side]) < math.sqrt(2) * error


@pytest.mark.parametrize(("length", "share"), [(2, 0.5), (12, 0.1)])
def test_when_a_fault_comes(length, share):
    """At steps 1..T - 1 alike, in a share of the sequences, and for good; the exact share of steps after it."""
    task = regime(length=length, share=share)
    faulty = held_out(task).targets
    assert (np.diff(faulty, axis=1) >= 0).all()
    steps = faulty.sum(1)
    assert abs((steps > 0).mean() - share) < 4 * math.sqrt(share * (1 - share) / MANY)
    assert uniform(steps[steps > 0], range(1, length))
    after = sum(Fraction(length - change, length) for change in range(1, length)) / (length - 1)
    wrong = share * float(after)
    np.testing.assert_allclose(task.chance, 1 - wrong, rtol=1e-12)
    np.testing.assert_allclose(task.chance_loss, -wrong * math.log(wrong) - (1 - wrong) * math.log(1 - wrong))
    assert (faulty.mean(0) < 0.5 + 4 * 0.5 / math.sqrt(MANY)).all()


def test_a_fault_can_be_found_in_the_signal():
    """Bayes' rule over all change points, on what was seen so far, does better than chance; the truth itself is 1."""
    task = SMALL["regime"]
    batch = held_out(task)
    xs, odds, hazard = batch.xs[..., 0], np.zeros((MANY, 9)), 0.4 / 8
    before, after = ((xs[:, 1:] - a * xs[:, :-1]) ** 2 / 2 / (1 - a**2) for a in (0.5, -0.5))
    for t in range(1, 9):
        faults = sum(np.exp((before - after)[:, change - 1 : t].sum(1)) for change in range(1, t + 1))
        odds[:, t] = hazard * faults / (1 - hazard * t)
    assert task.chance + 0.05 < judged(task, batch, saying(task, odds > 1))[0] < 0.95
    assert judged(task, batch, saying(task, batch.targets))[0] == 1


def numbers_of(batch):
    """The numbers of the nouns of every sentence, the subject's first: 0 for one, 1 for many."""
    plural = np.isin(batch.xs[:, 1::3], [WORDS.index(word) for word in PLURAL]).astype(int)
    return [row[: (n + 1) // 3] for row, n in zip(plural.tolist(), batch.lengths, strict=True)]


@pytest.mark.parametrize(("most", "longest"), [(2, 5), (4, 6)])
def test_sentences_in_training_and_held_out_do_not_overlap(most, longest):
    """In their numbers of attractors, each alike likely; those held out all differ from the subject."""
    task, least = agreement(train_attractors=most, test_attractors=longest), max(3, most + 1)
    train, test = trained_on(task), held_out(task)
    assert uniform((train.lengths - 2) // 3, range(most + 1))
    assert uniform((test.lengths - 2) // 3, range(least, longest + 1))
    assert train.lengths.max() < 11 or most > 2
    assert train.lengths.max() == train.xs.shape[1] < test.lengths.min()
    assert test.lengths.max() == test.xs.shape[1]
    train, test = numbers_of(train), numbers_of(test)
    assert all(set(others) == {1 - subject} for subject, *others in test)
    assert uniform([subject for subject, *_ in train], (0, 1))
    assert uniform([abs(n - subject) for subject, *others in train for n in others], (0, 1))


def test_words_are_uniform_at_every_place():
    """Every sentence of a length is alike likely, so that any can come; padding is one token."""
    task = agreement()
    batch = trained_on(task)
    xs, lengths = batch.xs.T, batch.lengths
    kinds = [[WORDS.index(word) for word in words] for words in (DETERMINERS, SINGULAR + PLURAL, PREPOSITIONS)]
    for place, tokens in enumerate(xs):
        assert uniform(tokens[lengths > place], kinds[place % 3])
        assert (tokens[lengths <= place] == 0).all()
    assert len(set(WORDS)) == len(WORDS) == task.D
    assert len(SINGULAR) == len(PLURAL)


def test_going_by_the_last_noun_or_by_most_is_wrong_on_all_that_is_held_out():
    """Whoever goes by the first is right."""
    task = agreement()
    batch = held_out(task)
    numbers = numbers_of(batch)
    guesses = [nouns[-1] for nouns in numbers], [int(2 * sum(nouns) > len(nouns)) for nouns in numbers]
    assert [judged(task, batch, saying(task, guess))[0] for guess in guesses] == [0, 0]
    assert judged(task, batch, saying(task, [nouns[0] for nouns in numbers]))[0] == 1


def test_the_keys_to_the_cabinet():
    """Eleven tokens with three singular nouns between the subject and "are", which are held out."""
    said = "the keys to the cabinet in the corner of the room"
    tokens = np.array([WORDS.index(word) for word in said.split()])
    shortest = agreement(test_attractors=3)
    assert len(tokens) == 11 == jax.eval_shape(lambda: shortest.held_out(KEY, 2)).xs.shape[1]
    assert numbers_of(Batch(tokens[None], None, [11])) == [[1, 0, 0, 0]]
    assert VERBS[read_sentence(tokens)] == "are"
    assert sentence(tokens) == said


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: echo(length=200), "length must be above the delay, 200, .* got 200"),
        (lambda: echo(length=9, delay=0), "delay must be"),
        (lambda: echo(length=9, delay=2, alphabet=0), "alphabet must be"),
        (lambda: copy(delay=0), "delay must be"),
        (lambda: copy(delay=2, symbols=2.5), "symbols must be"),
        (lambda: delayed_xor(length=9, delay=3), "delay must be even, .* got 3"),
        (lambda: delayed_xor(length=10), "length must be above the delay, 10"),
        (lambda: plant(length=4, delay=5), "length must be above the delay, 5"),
        (lambda: plant(length=40, pole=1), r"pole must lie in \(-1, 1\), .* got 1"),
        (lambda: plant(length=40, pole=NAN), "pole must lie"),
        (lambda: regime(length=1), "length must be at least 2"),
        (lambda: regime(length=0), "length must be an integer"),
        (lambda: regime(length=9, before=1.0), "before must lie"),
        (lambda: regime(length=9, after=-1.5), "after must lie"),
        (lambda: regime(length=9, before=0.2, after=0.2), "after must differ"),
        (lambda: regime(length=9, share=0.6), r"share must lie in \(0, 1/2\], .* got 0.6"),
        (lambda: temporal_order(length=9), "length must be at least 10, .* got 9"),
        (lambda: temporal_order(length=True), "length must be an integer"),
        (lambda: agreement(train_attractors=0), "train_attractors must be"),
        (lambda: agreement(train_attractors=5), "test_attractors must be at least 6, .* the 5 of training, got 5"),
        (lambda: agreement(train_attractors=1, test_attractors=2), "test_attractors must be at least 3"),
        (lambda: sentence(jnp.array([0, len(WORDS)])), "tokens must hold tokens in 0..30, got 31"),
        (lambda: sentence(jnp.zeros((2, 5), int)), r"tokens must be one sequence \[T\], got shape \[2, 5\]"),
        (lambda: sentence(jnp.array([-1, 0])), "tokens must hold tokens in 0..30, got -1"),
    ],
)
def test_what_is_not_a_task_is_refused(make, message):
    """With what is allowed."""
    with pytest.raises(ValueError, match=message):
        make()
