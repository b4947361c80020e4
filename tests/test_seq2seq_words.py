"""Vocabularies and error rates."""

import math
from functools import cache

import numpy as np
import pytest

from seqjax.seq2seq import edit_distance, error_rates
from seqjax.seq2seq.vocabulary import Vocabulary

WORDS = ["abba", "c", "ba"]


def test_there_and_back():
    """Symbols are sorted, the end symbol comes after them; padding is it, or a symbol of its own."""
    for pad, symbols, number in ((None, ("a", "b", "c", "<end>"), 3), ("_", ("a", "b", "c", "<end>", "_"), 4)):
        vocabulary = Vocabulary.of(WORDS, pad=pad)
        assert (vocabulary.symbols, vocabulary.end_number, vocabulary.pad_number) == (symbols, 3, number)
        tokens, lengths = vocabulary.encode(WORDS)
        assert tokens.tolist() == [[0, 1, 1, 0], [2, *[number] * 3], [1, 0, number, number]]
        assert lengths.tolist() == [4, 1, 2]
        for given in (lengths, None):
            assert ["".join(row) for row in vocabulary.decode(tokens, given)] == WORDS
    phonemes = Vocabulary.of([["HH", "AH0"], ["L", "OW1"]], end="#", pad="#")
    assert phonemes.symbols == ("AH0", "HH", "L", "OW1", "#")
    assert phonemes.decode([[1, 0, 4, 2]]) == [["HH", "AH0"]]
    assert Vocabulary.of(WORDS).encode([""], empty=True)[1].tolist() == [0]
    assert len(Vocabulary.of(WORDS)) == 4


REFUSED = {
    "repeated": (lambda: Vocabulary(("a", "b", "a", "<end>")), "symbols must be different from each other, got 'a'"),
    "no-end": (lambda: Vocabulary(("a", "b")), "symbols must hold the end symbol '<end>'"),
    "no-pad": (lambda: Vocabulary(("a", "<end>"), pad="_"), "symbols must hold the pad symbol '_'"),
    "outside": (lambda: Vocabulary.of(WORDS).encode(["ab", "axb"]), "row 1 holds 'x', which is none of the vocab"),
    "end": (
        lambda: Vocabulary.of(["ab"], end="b2").encode([["a", "b2"]]),
        "row 0 holds 'b2', which stands for the end",
    ),
    "empty": (lambda: Vocabulary.of(WORDS).encode(["a", ""]), "every sequence must hold a symbol, got none in row 1"),
    "long": (lambda: Vocabulary.of(WORDS).encode(WORDS, limit=3), "at most 3 symbols, the limit, got 4 in row 0"),
    "string": (lambda: Vocabulary.of(WORDS).encode("abba"), "must be a list of sequences, got the one string 'abba'"),
    "numbers": (lambda: Vocabulary.of(WORDS).decode([[0, 4]]), r"tokens must be \[B, T\] in 0\.\.3"),
    "rates": (lambda: error_rates(["a"], []), "one list for each answer, got 0 for 1"),
    "no-reference": (lambda: error_rates(["a", "b"], [["a"], []]), "at least one sequence .* got none in row 1"),
    "blank": (lambda: error_rates(["a"], [[""]]), "references must hold a symbol"),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused(call, message):
    """In one line."""
    with pytest.raises(ValueError, match=message):
        call()


def slow_distance(a, b):
    """The fewest edits, by trying everything."""

    @cache
    def best(i, j):
        if not i or not j:
            return i + j
        return min(best(i - 1, j) + 1, best(i, j - 1) + 1, best(i - 1, j - 1) + (a[i - 1] != b[j - 1]))

    return best(len(a), len(b))


def test_edit_distance_is_the_fewest_edits():
    """Of random words, and of known ones."""
    assert [edit_distance(*pair) for pair in (("kitten", "sitting"), ("", "ab"), ("ab", "ab"))] == [3, 2, 0]
    rng = np.random.default_rng(0)
    for _ in range(50):
        a, b = (tuple(rng.integers(0, 3, rng.integers(0, 7))) for _ in range(2))
        assert edit_distance(a, b) == slow_distance(a, b)


def test_the_nearest_reference_counts():
    """Edits over symbols, summed over rows; a sequence is right where any reference is."""
    rates = error_rates(["abc", "xy", "ab"], [["abd", "abc"], ["x", "zzzz"], ["abab"]])
    assert (rates.sequences.successes, rates.sequences.trials) == (2, 3)
    assert math.isclose(rates.symbols.value, (0 + 1 + 2) / (3 + 1 + 4))
    assert rates.symbols.low < rates.symbols.value < rates.symbols.high


def test_the_interval_of_the_symbol_error_rate_covers():
    """Over many samples of rows whose rate is known, about 95 of 100 times."""
    rng, hits, rounds = np.random.default_rng(1), 0, 300
    for _ in range(rounds):
        lengths = rng.integers(2, 9, 60)
        answers = ["".join(rng.choice(["a", "b"], n, p=[0.8, 0.2])) for n in lengths]
        rates = error_rates(answers, [["a" * n] for n in lengths])
        hits += rates.symbols.low <= 0.2 <= rates.symbols.high
    assert 0.9 < hits / rounds < 0.99
