"""The next character of a text, and the n-grams that a generator has to beat."""

import jax
import numpy as np
import pytest

from experiments.generator import EXPERIMENT
from experiments.generator.ngram import bits_per_symbol, count
from seqjax import tasks
from seqjax.tasks.characters import alphabet_of, tokens_of

TEXT = "abracadabra " * 5


def test_places_of_a_text():
    """A row is a place of the text, its targets the characters one later; all places come up."""
    task = tasks.characters(TEXT, TEXT, steps=5)
    batch = task.draw(jax.random.key(0), 3, 400)
    alphabet, seen = alphabet_of(TEXT), set()
    for xs, targets in zip(np.asarray(batch.xs), np.asarray(batch.targets), strict=True):
        row = "".join(alphabet[n] for n in [*xs, targets[-1]])
        assert row in TEXT
        assert xs[1:].tolist() == targets[:-1].tolist()
        seen.add(row)
    assert len(seen) == 12


def test_what_is_held_out_is_in_order():
    """Rows one after the other; the last is left out where it is not whole."""
    task = tasks.characters(TEXT, "abracadabra abc", steps=4)
    held = task.held_out(jax.random.key(0), 1)
    assert np.asarray(held.xs).ravel().tolist() == tokens_of("abracadabra ", alphabet_of(TEXT)).tolist()
    assert np.asarray(held.targets).ravel().tolist() == tokens_of("bracadabra a", alphabet_of(TEXT)).tolist()
    assert task.chance == 6 / 15


@pytest.mark.parametrize(
    ("text", "test", "options", "message"),
    [
        (TEXT, TEXT, {"steps": 0}, "steps must be"),
        ("abc", TEXT, {"steps": 5}, "text must be longer than a row of 5 characters, got 3"),
        (TEXT, "abc", {"steps": 5}, "test must be longer"),
        (TEXT, "abracadabrax", {"steps": 5}, "holds 'x' at place 11"),
    ],
)
def test_refusals(text, test, options, message):
    """One line each."""
    with pytest.raises(ValueError, match=message):
        tasks.characters(text, test, **options)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "text must be a file"),
        (b"", "more than 64 characters to train on, got 0"),
        (b"a" * 600, "more than 64 characters for the test, its last tenth, got 60"),
        (b"\xff" * 900, "text must be in UTF-8"),
    ],
)
def test_a_generator_wants_a_text(tmp_path, content, message):
    """Before anything is run."""
    if content is not None:
        (tmp_path / "text").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        EXPERIMENT.configured(text=str(tmp_path / "text"))


def test_n_grams_by_hand():
    """After "a a b" a bigram has seen a after a once, and b once; a unigram two a and one b."""
    counts = count(np.array([0, 0, 1]), 2)
    unigram = np.array([(2 + 2 / 3) / 5, (1 + 2 / 3) / 5, 2 / 3 / 5])  # d = 2 different, c = 3, of K = 3
    first, after_a = unigram[0], (1 + 2 * unigram[1]) / 4
    bits = bits_per_symbol(counts, np.array([0, 1]), 3)
    np.testing.assert_allclose(bits, -np.log2([unigram[:2], [first, after_a]]).mean(1))


def test_n_grams_are_distributions():
    """Over all that could come next, the probabilities add up to 1, in contexts that were read and in others."""
    rng = np.random.default_rng(0)
    counts = count(rng.integers(0, 4, 200), 4)
    for before in ([0, 1, 2], [3, 3, 3], [4, 0, 1]):
        probabilities = np.zeros(4)
        for symbol in range(5):
            with_it, without = (bits_per_symbol(counts, np.array(t), 5) * len(t) for t in ([*before, symbol], before))
            probabilities += 2.0 ** -(with_it - without)
        np.testing.assert_allclose(probabilities, 1)
