"""What is a recurrence worth beside what has none? Every body on every task, with the same width and the same budget.

Source   lecture and article: order-free, windowed and convolutional baselines (S1 to S4); UCR archive, Dau et al. 2019
Command  python -m experiments run baselines
Time     about 20 minutes on 2 cores of an AMD EPYC, with compilation
Expect   see the table in the README; where order is all there is, pools know no more than what is most frequent; a
         window of the whole length and a dilated stack that spans it compete with recurrences

H = 32, Adam at 3e-3 behind a clip at norm 1, 1500 updates on fresh sequences, 600 on recorded ones, 5 seeds. A window
holds the whole task; the convolution is two layers of five taps; the WaveNet doubles its dilation until it spans the
task. The LSTM's forget bias and the GRU's keep bias are 2.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import jax
import numpy as np
import xarray as xr

import seqjax
from experiments.claims import claim
from experiments.models import Training, check_training, recipe_of, require_clip, require_known, spread, without
from seqjax.checkpoint import Checkpoints
from seqjax.core import require_sizes
from seqjax.report import Claim, Experiment
from seqjax.report.style import COLOURS, GREY, grid
from seqjax.sweep import gather
from seqjax.tasks import Task, published


def spanning(T: int) -> tuple[int, ...]:
    """Dilations 1, 2, 4, ... of two taps each that see T steps."""
    return tuple(2**i for i in range(max(1, int(np.ceil(np.log2(T))))))


BODIES: dict[str, Callable[..., seqjax.Network]] = {  # (T, inputs=, readout=) -> network
    "mean pool": lambda T, **how: seqjax.pooled("mean", **how),
    "max pool": lambda T, **how: seqjax.pooled("max", **how),
    "window": lambda T, **how: seqjax.windowed(T, **how),
    "convolution": lambda T, **how: seqjax.convolutional(5, (1, 1), **how),
    "WaveNet": lambda T, **how: seqjax.wavenet(2, spanning(T), **how),
    "tanh RNN": lambda T, **how: seqjax.network(seqjax.rnn(), **how),
    "LSTM": lambda T, **how: seqjax.network(seqjax.lstm(forget_bias=2.0), **how),
    "GRU": lambda T, **how: seqjax.network(seqjax.gru(keep_bias=2.0), **how),
}
RECORDED = ("GunPoint", "ArrowHead", "ItalyPowerDemand", "OSULeaf")
TASKS: dict[str, tuple[int, Callable[[], Task]]] = {  # steps, and the task
    "recall": (20, lambda: seqjax.tasks.recall(length=20)),
    "adding": (50, lambda: seqjax.tasks.adding(length=50)),
    "echo": (60, lambda: seqjax.tasks.echo(length=60, delay=20)),
    "digits": (64, lambda: seqjax.tasks.digits()),
    "permuted digits": (64, lambda: seqjax.tasks.digits(permuted=True)),
    "vowels": (29, lambda: seqjax.tasks.vowels()),
    "ItalyPowerDemand": (24, lambda: seqjax.tasks.recorded("ItalyPowerDemand")),
    "GunPoint": (150, lambda: seqjax.tasks.recorded("GunPoint")),
    "ArrowHead": (251, lambda: seqjax.tasks.recorded("ArrowHead")),
    "OSULeaf": (427, lambda: seqjax.tasks.recorded("OSULeaf")),
}
FRESH = ("recall", "adding", "echo")
FREE = ("mean pool", "max pool")  # of order
SYMBOLS = ("recall", "echo")  # tasks of independent symbols, of which one is asked for


@dataclass(frozen=True)
class Config(Training):
    """Settings; updates and batch of their own on recorded sequences, of which there are as few as 36."""

    seeds: int = 5
    tasks: tuple[str, ...] = tuple(TASKS)
    bodies: tuple[str, ...] = tuple(BODIES)
    recorded_updates: int = 600
    recorded_batch: int = 32
    clip: float = 1.0
    examples: int = 2000


def check(config: Config) -> None:
    """ValueError for settings that cannot be run."""
    check_training(config)
    require_known("tasks", config.tasks, TASKS)
    require_known("bodies", config.bodies, BODIES)
    require_sizes(recorded_updates=config.recorded_updates, recorded_batch=config.recorded_batch)
    require_clip(config.clip)


def recipe(config: Config, name: str, body: str) -> seqjax.Recipe:
    """One body on one task."""
    T, make = TASKS[name]
    task = make()
    network = BODIES[body](T, inputs=task.inputs, readout=task.readout)
    base = recipe_of(network, task, config, clip=config.clip)
    if name in FRESH:
        return base
    return replace(base, updates=config.recorded_updates, batch=config.recorded_batch)


def run(config: Config, point: Any) -> Any:
    """score and seconds [task, body, seed] and weights [task, body], of which seconds are a seed's share."""
    fresh, recorded = ("updates", "batch"), ("recorded_updates", "recorded_batch")

    def piece(name: str, body: str) -> Any:
        settings = without(config, "tasks", "bodies", *(recorded if name in FRESH else fresh))
        work = partial(trained, recipe(config, name, body), config, f"baselines: {body} on {name}")
        return point.resumable(work, task=name, body=body, **settings)

    axes = {"task": config.tasks, "body": config.bodies}
    return gather([piece(name, body) for name in config.tasks for body in config.bodies], axes)


def trained(recipe: seqjax.Recipe, config: Config, title: str, *, checkpoints: Checkpoints) -> xr.Dataset:
    """Every seed of one body on one task."""
    found = seqjax.sweep_recipe(
        recipe, seeds=config.seeds, examples=config.examples, title=title, checkpoints=checkpoints
    )
    task = recipe.task
    like = jax.eval_shape(lambda key: recipe.network.init(key, task.D, recipe.hidden, task.K), jax.random.key(0))
    weights = sum(leaf.size for leaf in jax.tree.leaves(like))
    return found[["score"]].assign(weights=weights, seconds=found.attrs["run_seconds"] / config.seeds)


def claims(config: Config, dataset: Any) -> list[Claim]:
    """V13: what a pool cannot do."""
    names = [name for name in SYMBOLS if name in config.tasks]
    bodies = [body for body in FREE if body in config.bodies]
    if not names or not bodies:
        return []
    free = dataset.score.sel(task=names, body=bodies).fillna(0).transpose("task", "body", "seed").values
    above = (free - np.array([most_frequent(name) for name in names])[:, None, None]).max()
    told = "; ".join(
        f"{name} {each.max():.3f}, {most_frequent(name):.3f}" for name, each in zip(names, free, strict=True)
    )
    return [claim("V13", measured=f"best seed, most frequent symbol: {told}", holds=bool(above < 0.02))]


@cache
def most_frequent(name: str) -> float:
    """The accuracy of the symbol that has come most often so far, the best answer to a task of independent symbols for
    who knows their counts alone; over 20,000 sequences."""
    batch: Any = TASKS[name][1]().held_out(jax.random.key(0), 20_000)
    symbols = np.asarray(batch.xs)
    counts = np.cumsum(symbols[..., None] == np.arange(symbols.max() + 1), axis=1)
    shares = counts.max(-1) / np.arange(1, symbols.shape[1] + 1)
    return float(shares[:, -1].mean() if batch.scored is None else shares[np.asarray(batch.scored)].mean())


def table(config: Config, dataset: Any) -> list[dict[str, str]]:
    """Means over seeds and their range, weights, seconds of training a seed; what others reached on the split."""

    def row(name: str, body: str) -> dict[str, str]:
        one, (T, _) = dataset.sel(task=name, body=body), TASKS[name]
        scores = one.score.fillna(0).values
        found = {"task": f"{name}, T = {T}", "body": body, "accuracy": f"{scores.mean():.3f} ({spread(scores)})"}
        return found | {"weights": str(int(one.weights)), "seconds": f"{float(one.seconds):.1f}"}

    def others(name: str) -> list[dict[str, str]]:
        told = {"chance": TASKS[name][1]().chance} | known(name)
        return [
            {"task": f"{name}, T = {TASKS[name][0]}", "body": who, "accuracy": f"{score:.3f}"}
            for who, score in told.items()
        ]

    blank = {"weights": "", "seconds": ""}
    return [
        line
        for name in config.tasks
        for line in [*(row(name, body) for body in config.bodies), *(other | blank for other in others(name))]
    ]


def known(name: str) -> dict[str, float]:
    """What else is known of a task: what the best without order is, or what others reached on the same split."""
    if name in SYMBOLS:
        return {"most frequent symbol": most_frequent(name)}
    return published(name) if name in RECORDED else {}


def figure(config: Config, dataset: Any) -> Any:
    """A panel for every task: the accuracy of every seed of every body."""
    columns = min(5, len(config.tasks))
    fig, axes = grid(len(config.tasks), columns, width=2.5 * columns + 1.3, row=0.6 + 0.26 * len(config.bodies))
    places = np.arange(len(config.bodies))
    for one, name in zip(axes, config.tasks, strict=False):
        for place, body in zip(places, config.bodies, strict=True):
            scores = dataset.score.sel(task=name, body=body).fillna(0).values
            one.plot(scores, place + np.zeros(len(scores)), "o", color=colour_of(body), markersize=5, alpha=0.7)
        one.axvline(TASKS[name][1]().chance, color=GREY, linewidth=1, linestyle="--")
        for score in known(name).values():
            one.axvline(score, color=GREY, linewidth=0.7, linestyle=":")
        one.set(xlim=(-0.03, 1.05), title=f"{name}, T = {TASKS[name][0]}", yticks=places, yticklabels=config.bodies)
        one.invert_yaxis()
    for one in axes[-columns:]:
        one.set_xlabel("accuracy, every seed")
    return fig


def colour_of(body: str) -> str:
    """Recurrences in their own colours, all others in black."""
    return COLOURS.get({"tanh RNN": "rnn", "LSTM": "lstm", "GRU": "gru"}.get(body, ""), "#333333")


EXPERIMENT = Experiment(
    name="baselines",
    summary="What is a recurrence worth beside what has none?",
    config=Config,
    quick={
        "seeds": 2,
        "updates": 20,
        "hidden": 6,
        "tasks": ("recall",),
        "bodies": ("mean pool", "window"),
        "examples": 100,
    },
    run=run,
    claims=claims,
    table=table,
    figure=figure,
    check=check,
)
