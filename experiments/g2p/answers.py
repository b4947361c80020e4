"""What a trained model says of words, and how far that is from their pronunciations."""

from typing import Any

import jax
import numpy as np
import xarray as xr

import seqjax
from experiments.g2p.config import WAYS, Config
from seqjax.seq2seq import beam, greedy
from seqjax.seq2seq.errors import closest
from seqjax.tasks.pronunciation import Dictionary

BLOCK = 256  # words decoded at once


def judged(config: Config, known: Dictionary, model: seqjax.Recipe, params: Any, words: tuple[str, ...]) -> xr.Dataset:
    """One seed's answers, greedy and by beam search: edits to the nearest pronunciation, and its symbols."""
    edits, symbols, finished = [], [], []
    for way in WAYS:
        answers, ended = said(config, known, model.network, params, words, way)
        asked = enumerate(zip(answers, words, strict=True))
        near = [closest(row, answer, known.ways[word]) for row, (answer, word) in asked]
        edits.append([each[0] for each in near])
        symbols.append([each[1] for each in near])
        finished.append(ended)
    weights, shown = attended(config, known, model.network, params)
    return xr.Dataset(
        {
            "edits": (("way", "word"), edits),
            "symbols": (("way", "word"), symbols),
            "finished": (("way", "word"), finished),
            "weights": (("shown", "phoneme", "letter"), weights),
            "said": ("shown", shown),
            "parameters": sum(leaf.size for leaf in jax.tree.leaves(params)),
        },
        {"way": list(WAYS), "word": list(words), "shown": list(config.shown)},
    )


def said(
    config: Config, known: Dictionary, network: Any, params: Any, words: tuple[str, ...], way: str
) -> tuple[list[tuple[str, ...]], np.ndarray]:
    """What a model makes of words, and which of its answers came to an end before the limit."""
    tokens, lengths = known.spelled(words)
    answers: list[tuple[str, ...]] = []
    finished = []
    for at in range(0, len(words), BLOCK):
        rows = np.arange(at, at + BLOCK) % len(words)  # the last block begins again, so that all have one shape
        options = {"lengths": lengths[rows], "limit": config.limit, "end": known.end}
        if way == "beam":
            out = beam(network, params, tokens[rows], width=config.width, **options)
        else:
            out = greedy(network, params, tokens[rows], **options)
        answers += known.heard(np.asarray(out.tokens), np.asarray(out.lengths))
        finished.append(np.asarray(out.finished))
    return answers[: len(words)], np.concatenate(finished)[: len(words)]


def attended(config: Config, known: Dictionary, network: Any, params: Any) -> tuple[np.ndarray, list[str]]:
    """The attention [shown, phoneme, letter] with which some words are said, zero beyond each, and what is said."""
    tokens, lengths = known.spelled(config.shown)
    out = greedy(network, params, tokens, lengths=lengths, limit=config.limit, end=known.end, weights=True)
    spoken = known.heard(np.asarray(out.tokens), np.asarray(out.lengths))
    return np.asarray(out.weights), [" ".join(answer) for answer in spoken]
