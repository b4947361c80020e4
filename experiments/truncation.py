"""What truncated backpropagation cannot learn, and what it can.

Source   article, "truncation formally guarantees that nothing before those steps is learned" (D3, with B29)
Command  python -m experiments run truncation
Time     about 5 minutes on 2 CPU cores, with compilation
Expect   recall over T steps is solved with the whole gradient and by no window shorter than T, however little is
         missing; the order of two events is learned with a window of 10 all the same, up to length 400, as short
         examples fit into a window and the state is carried

Recall at T = 20 by an LSTM with forget bias 2, 500 updates. Order of two events in sequences of 4 to 40, from an
embedding of 16 numbers, clipped at norm 1, 500 updates.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

import seqjax
from experiments.claims import claim
from experiments.models import (
    SOLVED,
    Training,
    check_training,
    order_scores,
    recall_recipe,
    recipe_of,
    require_clip,
    require_known,
    spread,
    without,
)
from seqjax.checkpoint import Checkpoints
from seqjax.core import require_sizes
from seqjax.processes import fetch
from seqjax.progress import progress_bar
from seqjax.report import Claim, Experiment
from seqjax.report.style import COLOURS, GREY, NAMES, beside, level, panels
from seqjax.statistics import rate
from seqjax.sweep import gather, seed_keys

BODIES = {"rnn": seqjax.rnn(), "gru": seqjax.gru()}  # of the order task


@dataclass(frozen=True)
class Config(Training):
    """Settings; the defaults are the independent reproduction's, with more seeds."""

    seeds: int = 6
    updates: int = 500
    length: int = 20
    windows: tuple[int, ...] = (5, 10, 15, 19, 20)
    cells: tuple[str, ...] = ("rnn", "gru")
    order_window: int = 10
    shortest: int = 4
    longest: int = 40
    tests: tuple[int, ...] = (12, 40, 100, 400)
    embedding: int = 16
    clip: float = 1.0
    examples: int = 2000


def check(config: Config) -> None:
    """ValueError for settings that cannot be run."""
    check_training(config)
    require_known("cells", config.cells, BODIES)
    sizes = {f"{name}[{i}]": size for name in ("windows", "tests") for i, size in enumerate(getattr(config, name))}
    require_sizes(length=config.length, order_window=config.order_window, embedding=config.embedding, **sizes)
    if max(config.windows) != config.length or len(set(config.windows)) < len(config.windows):
        raise ValueError(f"windows must end at length, the whole gradient, each once, got {config.windows}")
    require_clip(config.clip)


def run(config: Config, point: Any) -> Any:
    """recall [window, seed] and order [cell, cut, test, seed], accuracies; cut is the window, or the longest length."""
    of_order = ("order_window", "shortest", "longest", "tests", "embedding", "clip", "cells")
    ours, theirs = without(config, "windows", *of_order), without(config, "windows", "length", "cells")
    recalled = [point.resumable(partial(recall, config, k), window=k, **ours) for k in config.windows]
    cuts = [config.order_window, config.longest]
    ordered = [
        point.resumable(partial(order, config, cell, cut), cell=cell, cut=cut, **theirs)
        for cell in config.cells
        for cut in cuts
    ]
    both = gather(recalled, {"window": config.windows}), gather(ordered, {"cell": config.cells, "cut": cuts})
    return xr.merge(both, combine_attrs="drop")


def recall(config: Config, k: int, *, checkpoints: Checkpoints | None = None) -> xr.Dataset:
    """Accuracy on recall of every seed that was trained with a window of k."""
    recipe = replace(recall_recipe("lstm", config.length, config), window=None if k == config.length else k)
    title = f"truncation: recall, window {k}"
    found = seqjax.sweep_recipe(
        recipe, seeds=config.seeds, examples=config.examples, title=title, checkpoints=checkpoints
    )
    return xr.Dataset({"recall": found.score})


def order(config: Config, cell: str, cut: int, *, checkpoints: Checkpoints | None = None) -> xr.Dataset:
    """Accuracy on the order of two events in sequences of every length that is tested."""
    network = seqjax.network(BODIES[cell], inputs="embedding", embedding=config.embedding)
    task = seqjax.tasks.order(shortest=config.shortest, longest=config.longest)
    window = None if cut == config.longest else cut
    recipe = replace(recipe_of(network, task, config, clip=config.clip), window=window)
    numbers, keys = seed_keys(config.seeds)
    with progress_bar(f"truncation: order, {cell}, window {cut}") as show:
        states, _ = seqjax.train_many(recipe, keys, progress=show, checkpoints=checkpoints)
    scores = [order_scores(recipe, states.params, keys, T, config.examples) for T in config.tests]
    failed = fetch(states.failed_at)[None] >= 0
    found = {"order": (("test", "seed"), np.where(failed, np.nan, scores))}
    return xr.Dataset(found, {"test": list(config.tests), "seed": numbers})


def claims(config: Config, dataset: Any) -> list[Claim]:
    """D3, which the order of two events refutes as far as it says that nothing is learned; V8."""
    scores, ordered = dataset.recall.fillna(0), dataset.order.fillna(0).sel(cut=config.order_window)
    whole = scores.sel(window=config.length).values
    cut = scores.sel(window=[k for k in config.windows if k < config.length])
    learned = rate(int((ordered.min("test") > SOLVED).sum()), int(ordered.isel(test=0).size))
    full, fewer = (rate(int((each > SOLVED).sum()), each.size) for each in (whole, cut.values))
    long = f"up to length {max(config.tests)}"
    return [
        claim(
            "D3",
            measured=f"with a window of {config.order_window}, order solved {long}: {learned}",
            holds=learned.high < 0.5,
            note=f"Of sequences of {config.shortest} to {config.longest} the short ones fit into a window: what they "
            "teach holds for the long ones, as the state is carried.",
        ),
        claim(
            "V8",
            measured=f"solved with the whole gradient: {full}; with a window: {fewer}",
            holds=fewer.high < full.low,
            note=f"With a window the mean accuracy is {cut.values.mean():.2f}, {cut.values.max():.2f} at most: what "
            "an untrained carry gives.",
        ),
    ]


def table(config: Config, dataset: Any) -> list[dict[str, str]]:
    """Accuracies, lowest to highest of the seeds."""
    rows = []
    for k in config.windows:
        row = {"task": f"recall, T = {config.length}", "cell": "LSTM", "window": window(k, config.length)}
        rows.append(row | {"accuracy": spread(dataset.recall.fillna(0).sel(window=k).values)})
    for cell in config.cells:
        for cut in (config.order_window, config.longest):
            for length in config.tests:
                scores = dataset.order.fillna(0).sel(cell=cell, cut=cut, test=length).values
                row = {"task": f"order, tested at {length}", "cell": NAMES[cell], "window": window(cut, config.longest)}
                rows.append(row | {"accuracy": spread(scores)})
    return rows


def window(k: int, T: int) -> str:
    """A window in words."""
    return "none" if k == T else str(k)


def figure(config: Config, dataset: Any) -> Any:
    """Accuracy of every seed against the window, and against the length that is tested."""
    fig, (left, right) = panels(2, width=11)
    scores = dataset.recall.fillna(0).values
    places = np.arange(len(config.windows))[:, None] + beside(scores.shape[1], 0.12)[None]
    left.plot(places.ravel(), scores.ravel(), "o", color=COLOURS["lstm"], alpha=0.7)
    left.set_xticks(range(len(config.windows)), [window(k, config.length) for k in config.windows])
    left.set(xlabel="window k of the gradient, steps", ylabel="accuracy on fresh sequences", ylim=(-0.03, 1.05))
    left.set_title(f"Recall over {config.length} steps, LSTM, every seed")
    level(left, seqjax.tasks.recall(length=2).chance, "chance, 1/8")
    draw_order(right, config, dataset)
    return fig


def draw_order(axes: Any, config: Config, dataset: Any) -> None:
    """The order of two events: dots of every seed, hollow with the whole gradient."""
    for shift, cell in zip(beside(len(config.cells), 0.12), config.cells, strict=True):
        for cut, face, move in ((config.order_window, COLOURS[cell], -0.04), (config.longest, "none", 0.04)):
            scores = dataset.order.fillna(0).sel(cell=cell, cut=cut).values
            places = np.arange(len(config.tests))[:, None] + shift + move + np.zeros(scores.shape)
            label = f"{NAMES[cell]}, window {window(cut, config.longest)}"
            axes.plot(places.ravel(), scores.ravel(), "o", color=COLOURS[cell], markerfacecolor=face, label=label)
    axes.set_xticks(range(len(config.tests)), [str(length) for length in config.tests])
    axes.set(xlabel="length of the sequences tested, events", ylim=(-0.03, 1.05), ylabel="accuracy on fresh sequences")
    axes.set_title(f"Order of two events, trained on {config.shortest} to {config.longest}, every seed")
    level(axes, seqjax.tasks.order().chance, "chance, 1/2")
    axes.legend(frameon=False, loc="lower right", labelcolor=GREY)


EXPERIMENT = Experiment(
    name="truncation",
    summary="What can truncated backpropagation not learn, and what can it?",
    config=Config,
    quick={
        "seeds": 2,
        "updates": 40,
        "hidden": 8,
        "length": 4,
        "windows": (2, 4),
        "cells": ("gru",),
        "order_window": 3,
        "longest": 8,
        "tests": (20,),
        "examples": 200,
    },
    run=run,
    claims=claims,
    table=table,
    figure=figure,
    check=check,
    version=2,
)
