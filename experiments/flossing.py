"""Does gradient flossing help a plain network to look back?

Source   Engelken 2023, section 5: the delayed exclusive or, N = 80, flossed before and during training
Command  python -m experiments run flossing
Time     about 20 minutes on 2 CPU cores, reckoned from 9.5 minutes for 10 seeds
Expect   from a uniform start half of the seeds learn it flossed and none plain; from a Gaussian one all do, either way

y_t = x_{t - 10} XOR x_{t - 5} of fair bits, asked at every step from 10 on, in sequences of 40. A tanh RNN whose arrays
start uniform, as in PyTorch, or with a Gaussian recurrent matrix of radius 1, Engelken's own; Adam at 1e-3 behind a
clip at norm 1, 64 fresh sequences an update. Flossing pulls the k leading Lyapunov exponents to 0, on fresh sequences
before training, or as a penalty all along it.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

import seqjax
from experiments.claims import claim
from experiments.models import (
    SOLVED,
    Training,
    check_training,
    recipe_of,
    require_known,
    require_positive,
    without,
)
from seqjax.core import require_sizes
from seqjax.init import Gaussian, with_init
from seqjax.report import Claim, Experiment
from seqjax.report.style import COLOURS, grid, level
from seqjax.statistics import Rate, rate
from seqjax.sweep import gather

STARTS = {"uniform": seqjax.rnn(), "gaussian": with_init(seqjax.rnn(), Gaussian(1.0))}
WAYS = {"plain": "plain", "first": "flossed first", "during": "flossed during training"}


@dataclass(frozen=True)
class Config(Training):
    """Settings; the size of the network, the delay and the two ways are Engelken's."""

    seeds: int = 20
    hidden: int = 80
    updates: int = 1500
    learning_rate: float = 1e-3
    starts: tuple[str, ...] = tuple(STARTS)
    ways: tuple[str, ...] = tuple(WAYS)
    length: int = 40
    delay: int = 10
    first_k: int = 40  # exponents
    first_updates: int = 300
    during_k: int = 20
    weight: float = 0.1  # of the penalty
    clip: float = 1.0
    examples: int = 500


def check(config: Config) -> None:
    """ValueError for settings that cannot be run."""
    check_training(config)
    require_known("starts", config.starts, STARTS)
    require_known("ways", config.ways, WAYS)
    require_sizes(first_k=config.first_k, first_updates=config.first_updates, during_k=config.during_k)
    seqjax.tasks.delayed_xor(length=config.length, delay=config.delay)
    require_positive(clip=config.clip, weight=config.weight)


def recipe(config: Config, start: str, way: str) -> seqjax.Recipe:
    """One way of training from one start."""
    network = seqjax.network(STARTS[start], readout="every")
    task = seqjax.tasks.delayed_xor(length=config.length, delay=config.delay)
    base = recipe_of(network, task, config, clip=config.clip)
    if way == "first":
        return replace(base, edit=seqjax.floss_first(network, task, k=config.first_k, updates=config.first_updates))
    if way == "during":
        return replace(base, penalty=seqjax.flossing(config.during_k, weight=config.weight))
    return base


def run(config: Config, point: Any) -> Any:
    """score and train_score, dims start, way, seed [, update]."""
    own = {"first": ("first_k", "first_updates"), "during": ("during_k", "weight")}

    def train(start: str, way: str) -> Any:
        others = [name for other, names in own.items() if other != way for name in names]
        options = {"seeds": config.seeds, "examples": config.examples, "title": f"flossing: {start}, {WAYS[way]}"}
        work = partial(seqjax.sweep_recipe, recipe(config, start, way), **options)
        settings = without(config, "starts", "ways", *others)
        return point.resumable(work, start=start, way=way, **settings)[["score", "train_score"]]

    axes = {"start": config.starts, "way": config.ways}
    return gather([train(start, way) for start in config.starts for way in config.ways], axes)


def solved(dataset: Any, start: str, way: str) -> Rate:
    """How many seeds are above 99%; a failed one is not."""
    scores = dataset.score.sel(start=start, way=way).fillna(0).values
    return rate(int((scores > SOLVED).sum()), len(scores))


def claims(config: Config, dataset: Any) -> list[Claim]:
    """V14."""
    if not {"plain", "first"} <= set(config.ways) or "uniform" not in config.starts:
        return []
    rates = {way: solved(dataset, "uniform", way) for way in config.ways}
    told = "; ".join(f"{WAYS[way]} {each}" for way, each in rates.items())
    note = ""
    if "gaussian" in config.starts:
        own = "; ".join(f"{WAYS[way]} {solved(dataset, 'gaussian', way)}" for way in config.ways)
        note = f"From a Gaussian matrix of radius 1: {own}."
    return [claim("V14", measured=told, holds=rates["plain"].high < rates["first"].low, note=note)]


def table(config: Config, dataset: Any) -> list[dict[str, str]]:
    """Seeds solved, with 95% Wilson intervals."""
    return [
        {"start": start} | {WAYS[way]: str(solved(dataset, start, way)) for way in config.ways}
        for start in config.starts
    ]


def figure(config: Config, dataset: Any) -> Any:
    """The training score of every seed, a row for every start and a column for every way."""
    pairs = [(start, way) for start in config.starts for way in config.ways]
    columns = len(config.ways)
    fig, axes = grid(len(pairs), columns, width=3.8 * columns, row=3.0)
    for one, (start, way) in zip(axes, pairs, strict=True):
        lines = dataset.train_score.sel(start=start, way=way).values
        one.plot(smooth(lines).T, color=COLOURS["rnn"], alpha=0.6, linewidth=1)
        one.set(ylim=(0.43, 1.03), xlabel="update", title=f"{start}, {WAYS[way]}:\n{solved(dataset, start, way)}")
        level(one, 0.5, "chance, 1/2")
    for one in axes[::columns]:
        one.set_ylabel("accuracy, every seed")
    return fig


def smooth(lines: np.ndarray, over: int = 20) -> np.ndarray:
    """Means over so many updates."""
    if lines.shape[1] <= over:
        return lines
    return np.stack([np.convolve(line, np.ones(over) / over, "valid") for line in lines])


EXPERIMENT = Experiment(
    name="flossing",
    summary="Does gradient flossing help a plain network to look back?",
    config=Config,
    quick={
        "seeds": 2,
        "updates": 10,
        "hidden": 6,
        "starts": ("uniform",),
        "ways": ("plain", "first"),
        "length": 6,
        "delay": 2,
        "first_k": 2,
        "first_updates": 3,
        "examples": 50,
    },
    run=run,
    claims=claims,
    table=table,
    figure=figure,
    check=check,
)
