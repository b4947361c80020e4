"""From letters to sounds: how well does a small encoder-decoder say English words that it has never read?

Source   lecture, the encoder-decoder (S21); Bahdanau et al. 2015, attention; words and sounds of the CMU dictionary
Command  python -m experiments run g2p
Time     about 20 minutes on 2 cores of an AMD EPYC
Expect   6.6% of phonemes and 28% of words wrong, with 1.4 million parameters; asked for are at most 9% and 36%

Words of the 26 letters and the apostrophe, stress marks stripped, split by word (see `tasks.pronouncing`); trained on
pairs of at most 12 letters and 12 phonemes, tested on every test word whatever its length. A bidirectional GRU of 256
units reads, a GRU of 256 with additive attention writes. An answer is right if it is any of the word's pronunciations.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import optax
import xarray as xr

import seqjax
from experiments.claims import claim
from experiments.g2p.answers import judged
from experiments.g2p.config import WAYS, Config, check
from experiments.g2p.figure import figure
from experiments.models import recipe_of, runs_of, without
from seqjax.checkpoint import Checkpoints
from seqjax.processes import fetch
from seqjax.progress import progress_bar
from seqjax.report import Claim, Experiment
from seqjax.seq2seq import ErrorRates
from seqjax.seq2seq.errors import rates_of
from seqjax.sweep import seed_keys


def recipe(config: Config) -> seqjax.Recipe:
    """The model, and how it is trained."""
    network = seqjax.encoder_decoder(
        seqjax.gru(),
        embedding=config.embedding,
        bidirectional=True,
        bridge=True,
        attention=config.attention,
        dropout=seqjax.Dropout(between=config.dropout) if config.dropout else None,
    )
    task = seqjax.tasks.pronunciation(stress=config.stress, longest=config.longest, words=config.words)
    falling = optax.cosine_decay_schedule(config.learning_rate, config.updates)
    return replace(recipe_of(network, task, config), optimizer=seqjax.adam(falling, clip=config.clip))


def run(config: Config, point: Any) -> Any:
    """edits, right and finished [way, seed, word], symbols [word], and weights [seed, shown, phoneme, letter]"""
    return point.resumable(partial(trained, config), **without(config))


def trained(config: Config, *, checkpoints: Checkpoints) -> xr.Dataset:
    """Every seed, asked for every test word."""
    known = seqjax.tasks.pronouncing(stress=config.stress)
    numbers, keys = seed_keys(config.seeds)
    model = recipe(config)
    with progress_bar("g2p") as show:
        states, history = seqjax.train_many(model, keys, progress=show, checkpoints=checkpoints)
    words = known.parts["test"][: config.tests]
    found = [judged(config, known, model, params, words) for params in runs_of(states.params, len(keys))]
    parts = xr.concat(found, "seed").assign_coords(seed=numbers)
    failed = fetch(states.failed_at) >= 0
    loss = fetch(history.loss)
    return parts.assign(failed=("seed", failed), loss=(("seed", "update"), loss))


def rates(dataset: Any, way: str) -> list[ErrorRates]:
    """Error rates of every seed; of a failed one they are those of its last finite params."""
    asked = dataset.sel(way=way)
    each = (asked.sel(seed=seed) for seed in asked.seed.values)
    return [rates_of(one.edits.values, one.symbols.values) for one in each]


def claims(config: Config, dataset: Any) -> list[Claim]:
    """V15."""
    found = rates(dataset, "beam")
    count = int(dataset.parameters.isel(seed=0))
    told = "; ".join(f"phonemes {percent(each.symbols)}, words {percent(each.sequences)}" for each in found)
    holds = all(each.symbols.value <= 0.09 and each.sequences.value <= 0.36 for each in found)
    sound = not dataset.failed.any()
    unfinished = int((~dataset.finished.sel(way="beam")).sum())
    return [
        claim(
            "V15",
            measured=f"{told}; {count:,} parameters",
            holds=bool(holds and sound and count < 3e6),
            note=f"{dataset.word.size} test words; {unfinished} answers ran into the limit of {config.limit} phonemes.",
        )
    ]


def percent(interval: Any) -> str:
    """A rate or a mean with its interval."""
    return f"{100 * interval.value:.2f}% ({100 * interval.low:.2f} to {100 * interval.high:.2f})"


def table(config: Config, dataset: Any) -> list[dict[str, str]]:
    """Error rates of every seed, with 95% intervals over words."""
    return [
        {
            "decoding": "greedy" if way == "greedy" else f"beam of {config.width}",
            "seed": str(int(seed)),
            "phonemes wrong": percent(each.symbols),
            "words wrong": percent(each.sequences),
        }
        for way in WAYS
        for seed, each in zip(dataset.seed.values, rates(dataset, way), strict=True)
    ]


EXPERIMENT = Experiment(
    name="g2p",
    summary="How well does a small encoder-decoder say words that it has never read?",
    config=Config,
    quick={
        "seeds": 1,
        "hidden": 16,
        "updates": 30,
        "batch": 32,
        "embedding": 8,
        "attention": 8,
        "words": 2000,
        "tests": 50,
        "width": 2,
    },
    run=run,
    claims=claims,
    table=table,
    figure=figure,
    check=check,
)
