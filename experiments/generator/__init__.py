"""A decoder alone: what does it cost to write the next character, in bits, and what does it write?

Source   lecture, the generator (S11, S21); the baseline is an n-gram model by Witten and Bell 1991
Command  python -m experiments run generator
Time     4 minutes on 2 cores of an AMD EPYC
Expect   fewer bits a character than any n-gram of up to eight

Words of the CMU dictionary in a fixed random order, a line each, or any text (`--text FILE`, whose last tenth is the
test). An LSTM of H = 256 on an embedding of 32, Adam at 3e-3 behind a clip at norm 1, 64 places of the text an update.
"""

import hashlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

import seqjax
from experiments.claims import claim
from experiments.generator.ngram import bits_per_symbol, count
from experiments.models import (
    Training,
    check_training,
    recipe_of,
    require_clip,
    require_positive,
    runs_of,
    spread,
    without,
)
from seqjax.checkpoint import Checkpoints
from seqjax.core import require_sizes
from seqjax.losses import cross_entropy
from seqjax.processes import fetch
from seqjax.progress import progress_bar
from seqjax.report import Claim, Experiment
from seqjax.report.style import COLOURS, GREY, label_ends, panels
from seqjax.seq2seq import generate
from seqjax.sweep import seed_keys
from seqjax.tasks.characters import alphabet_of, characters, tokens_of

SAMPLES = 12
LETTERS = 400  # of a sample, at most


@dataclass(frozen=True)
class Config(Training):
    """Settings."""

    seeds: int = 2
    hidden: int = 256
    updates: int = 4000
    text: str | None = None  # a file in UTF-8; None for the words of the dictionary
    words: int | None = None  # of the dictionary; None for all
    embedding: int = 32
    steps: int = 64  # characters of a place
    order: int = 8  # of the longest n-grams
    clip: float = 1.0
    temperature: float = 0.8  # of the samples


def check(config: Config) -> None:
    """ValueError for settings that cannot be run."""
    check_training(config)
    require_sizes(embedding=config.embedding, steps=config.steps, order=config.order, words=config.words or 1)
    require_clip(config.clip)
    require_positive(temperature=config.temperature)
    if config.text is not None:
        for part, text in zip(("to train on", "for the test, its last tenth"), texts(config), strict=True):
            if len(text) <= config.steps:
                raise ValueError(
                    f"text must have more than {config.steps} characters {part}, got {len(text)} in {config.text}: "
                    "give a longer one, or fewer --steps"
                )


def texts(config: Config) -> tuple[str, str]:
    """What is read in training, and what is asked for in the test. ValueError for no file, and for one not in UTF-8."""
    if config.text is not None and not Path(config.text).is_file():
        raise ValueError(f"text must be a file, got {config.text}")
    if config.text is not None:
        try:
            text = Path(config.text).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"text must be in UTF-8, and {config.text} is not: {error}") from None
        asked = len(text) - len(text) // 10
        return text[:asked], text[asked:]
    known = seqjax.tasks.pronouncing()
    train, test = (sorted(known.parts[part], key=digest)[: config.words] for part in ("train", "test"))
    return lines(train), lines(test)


def lines(words: list[str]) -> str:
    """A word a line."""
    return "".join(f"{word}\n" for word in words)


def digest(text: str) -> str:
    """SHA-256, by which a text is known, and words are put in an order that is not the alphabet's."""
    return hashlib.sha256(text.encode()).hexdigest()


def run(config: Config, point: Any) -> Any:
    """bits [seed] and loss [seed, update] of the network, bits_of_ngrams [order], samples [sample]."""
    train, test = texts(config)
    data = {"train": digest(train), "test": digest(test)}
    alphabet = alphabet_of(train)
    settings = without(config, "text", "words", "order")
    network = point.resumable(partial(trained, config, train, test), **data, **settings)
    tokens = [tokens_of(text, alphabet) for text in (train, test)]
    counted = point(partial(baseline, config, *tokens, len(alphabet)), **data, order=config.order)
    return xr.merge([network, counted])


def baseline(config: Config, train: np.ndarray, test: np.ndarray, K: int) -> xr.Dataset:
    """Bits a character by n-grams of 1 to `order` characters, of which the last is asked for."""
    bits = bits_per_symbol(count(train, config.order), test, K)
    return xr.Dataset({"bits_of_ngrams": ("order", bits)}, {"order": 1 + np.arange(config.order)})


def trained(config: Config, train: str, test: str, *, checkpoints: Checkpoints) -> xr.Dataset:
    """Every seed: what the test costs, read from its first to its last character, and what it writes."""
    network = seqjax.network(seqjax.lstm(), inputs="embedding", embedding=config.embedding, readout="every")
    recipe = recipe_of(network, characters(train, test, steps=config.steps), config, clip=config.clip)
    numbers, keys = seed_keys(config.seeds)
    with progress_bar("generator") as show:
        states, history = seqjax.train_many(recipe, keys, progress=show, checkpoints=checkpoints)
    params = runs_of(states.params, len(keys))
    failed, alphabet = fetch(states.failed_at) >= 0, alphabet_of(train)
    tokens = tokens_of(test, alphabet)
    bits = [bits_of(network, each, tokens) for each in params]
    return xr.Dataset(
        {
            "bits": ("seed", np.where(failed, np.nan, bits)),
            "loss": (("seed", "update"), fetch(history.loss) / np.log(2)),
            "samples": ("sample", written(config, network, params[0], alphabet)),
        },
        {"seed": numbers},
    )


def bits_of(network: seqjax.Network, params: Any, tokens: np.ndarray) -> float:
    """Bits a character of a text, all but its first, by a network that has read all before it."""
    logits = jax.jit(lambda params, xs: network.apply(params, xs).every)(params, tokens[:-1])
    return float(cross_entropy(logits, jnp.asarray(tokens[1:])) / np.log(2))


def written(config: Config, network: seqjax.Network, params: Any, alphabet: str) -> list[str]:
    """Lines that the network writes, each on its own after the end of a line; of a text without lines, from a space."""
    prompt = next((character for character in "\n " if character in alphabet), alphabet[0])
    start = np.full((SAMPLES, 1), alphabet.index(prompt), np.int32)
    out, _ = generate(
        network,
        params,
        jax.random.key(0),
        prompt=start,
        limit=LETTERS,
        end=alphabet.index(prompt),
        temperature=config.temperature,
    )
    rows = zip(np.asarray(out.tokens), np.asarray(out.lengths), strict=True)
    return ["".join(alphabet[n] for n in row[:end]) for row, end in rows]


def claims(config: Config, dataset: Any) -> list[Claim]:
    """V19."""
    ours, best = dataset.bits.fillna(np.inf).values, dataset.bits_of_ngrams
    order = int(dataset.order[best.values.argmin()])
    told = f"{spread(ours)} bits a character over seeds; n-grams {float(best.min()):.3f} at best, of {order}"
    return [claim("V19", measured=told, holds=bool(ours.max() < best.min()))]


def table(config: Config, dataset: Any) -> list[dict[str, str]]:
    """Bits a character, and what is written."""
    rows = [
        {"model": f"{int(n)}-gram", "bits a character": f"{float(bits):.3f}"}
        for n, bits in zip(dataset.order, dataset.bits_of_ngrams, strict=True)
    ]
    return [*rows, {"model": "LSTM", "bits a character": spread(dataset.bits.fillna(np.inf).values)}]


def figure(config: Config, dataset: Any) -> Any:
    """Bits in training and of the n-grams, and what is written."""
    fig, (left, right) = panels(2, width=10, width_ratios=(3, 1))
    left.plot(dataset.loss.values.T, color=COLOURS["lstm"], alpha=0.5, linewidth=0.7)
    ngrams, colour = dataset.bits_of_ngrams, COLOURS["lstm"]
    orders = sorted({2, int(ngrams.idxmin())} & set(ngrams.order.values.tolist()))
    ends = [(float(ngrams.sel(order=order)), f"{order}-gram, test", GREY) for order in orders]
    for bits, _, _ in ends:
        left.axhline(bits, color=GREY, linewidth=1, linestyle="--")
    for bits in dataset.bits.values:
        left.axhline(bits, color=colour, linewidth=1)
    label_ends(left, [*ends, (float(dataset.bits.mean()), "LSTM, test", colour)])
    left.set(xlabel="update", ylabel="bits a character", title="In training, every seed; lines: on the test")
    right.axis("off")
    shown = "\n".join(str(line)[:60] for line in dataset.samples.values)
    right.text(0, 1, shown, va="top", family="monospace", color=GREY)
    right.set_title("Written by the first seed")
    return fig


EXPERIMENT = Experiment(
    name="generator",
    summary="What does the next character cost, and what does a decoder alone write?",
    config=Config,
    quick={"seeds": 2, "hidden": 8, "updates": 20, "words": 300, "embedding": 4, "steps": 16, "order": 3},
    run=run,
    claims=claims,
    table=table,
    figure=figure,
    check=check,
)
