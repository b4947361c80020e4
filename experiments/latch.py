"""What can a linear recursion not do, whatever its order, that a gated cell does?

Source   lecture, what linearity cannot do: a threshold, a gate and a latch (system S9)
Command  python -m experiments run latch
Time     about 4 minutes on 2 CPU cores, with compilation
Expect   a trained linear recursion comes to the error of the best linear filter, 0.091, 0.25 and 0.34, and no further;
         a GRU of the same width goes far below it on all three. Superposition holds in the one and not in the other
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np
import xarray as xr

import seqjax
from experiments.claims import claim
from experiments.models import Training, check_training, recipe_of, require_known, without
from seqjax.checkpoint import Checkpoints
from seqjax.core import require_sizes
from seqjax.plan import plan_for
from seqjax.processes import fetch
from seqjax.progress import progress_bar
from seqjax.report import Claim, Experiment
from seqjax.report.style import GREY, beside, panels
from seqjax.sweep import gather, seed_keys
from seqjax.tasks import best_linear_error
from seqjax.train import programs, test_keys

TASKS = {"threshold": seqjax.tasks.threshold, "gate": seqjax.tasks.gate, "latch": seqjax.tasks.latch}
CELLS = {"linear": seqjax.linear(), "rnn": seqjax.rnn(), "gru": seqjax.gru(keep_bias=1.0)}
COLOURS = {"linear": "#666666", "rnn": "#D55E00", "gru": "#009E73"}
NAMES = {"linear": "linear recursion", "rnn": "tanh RNN", "gru": "GRU"}


@dataclass(frozen=True)
class Config(Training):
    """Settings."""

    tasks: tuple[str, ...] = ("threshold", "gate", "latch")
    cells: tuple[str, ...] = ("linear", "rnn", "gru")
    length: int = 50
    examples: int = 2000


def check(config: Config) -> None:
    """ValueError for settings that cannot be run."""
    require_known("tasks", config.tasks, TASKS)
    require_known("cells", config.cells, CELLS)
    check_training(config)
    require_sizes(length=config.length)


def run(config: Config, point: Any) -> Any:
    """Train every cell on every task; dims task, cell, seed."""
    settings = without(config, "tasks", "cells")
    parts = [
        point.resumable(partial(measure, config, task, cell), task=task, cell=cell, **settings)
        for task in config.tasks
        for cell in config.cells
    ]
    return gather(parts, {"task": config.tasks, "cell": config.cells})


def measure(config: Config, name: str, cell: str, *, checkpoints: Checkpoints | None = None) -> xr.Dataset:
    """Squared error on fresh sequences, and the departure from superposition of the trained cell."""
    task = TASKS[name](length=config.length)
    recipe = recipe_of(seqjax.network(CELLS[cell], readout="every"), task, config)
    numbers, keys = seed_keys(config.seeds)
    with progress_bar(f"latch: {cell} on {name}") as show:
        states, _ = seqjax.train_many(recipe, keys, progress=show, checkpoints=checkpoints)
    judged = replace(recipe, task=replace(task, score=task.loss))
    errors = programs(judged, plan_for(len(keys)))[2](config.examples)(states.params, test_keys(keys))
    one, other = (task.held_out(jax.random.key(seed), 100).xs for seed in (1, 2))
    departs = jax.jit(jax.vmap(lambda p: seqjax.superposition(CELLS[cell], p.body[0].forward, one, other)))
    errors, failed, params = fetch((errors, states.failed_at, states.params))
    return xr.Dataset(
        {
            "error": ("seed", np.where(failed < 0, errors, np.nan)),
            "superposition": ("seed", np.asarray(departs(params))),
            "failed_at": ("seed", failed),
        },
        {"seed": numbers},
    )


def bound(config: Config, task: str) -> float:
    """Squared error of the best linear recursion of any order."""
    return best_linear_error(task, config.length)


def shares(config: Config, dataset: Any, cell: str) -> np.ndarray:
    """Every seed's error over that of the best linear recursion, [task, seed]."""
    bounds = np.array([bound(config, task) for task in config.tasks])
    return dataset.error.sel(cell=cell).values / bounds[:, None]


def claims(config: Config, dataset: Any) -> list[Claim]:
    """V7: the bound holds for the linear cell and is left far behind by the gated one."""
    if not {"linear", "gru"} <= set(config.cells):
        return []
    linear, gated = (shares(config, dataset, cell) for cell in ("linear", "gru"))
    medians = zip(config.tasks, np.median(linear, 1), np.median(gated, 1), strict=True)
    words = "; ".join(f"{task}: linear {a:.3f}, GRU {b:.2g}" for task, a, b in medians)
    departs = {cell: dataset.superposition.sel(cell=cell) for cell in ("linear", "gru")}
    return [
        claim(
            "V7",
            measured=f"error over the bound, medians: {words}",
            holds=bool(linear.min() > 0.97 and gated.max() < 0.2),
            note=f"Departure from superposition: linear at most {float(departs['linear'].max()):.1e}, GRU at least "
            f"{float(departs['gru'].min()):.2f}.",
        )
    ]


def table(config: Config, dataset: Any) -> list[dict[str, str]]:
    """Errors beside the bound, and superposition."""
    rows = []
    for task in config.tasks:
        row = {"task": task, "best linear": f"{bound(config, task):.4f}"}
        for cell in config.cells:
            errors = dataset.error.sel(task=task, cell=cell).values
            row[NAMES[cell]] = f"{np.nanmedian(errors):.4f}" if not np.isnan(errors).all() else "-"
            row[f"superposition, {cell}"] = f"{float(dataset.superposition.sel(task=task, cell=cell).median()):.1g}"
        rows.append(row)
    return rows


def figure(config: Config, dataset: Any) -> Any:
    """Every seed's error over that of the best linear recursion."""
    fig, (axes,) = panels(1, width=8, height=4.4)
    places = np.arange(len(config.tasks))
    for shift, cell in zip(np.linspace(-0.2, 0.2, len(config.cells)), config.cells, strict=True):
        for place, task in zip(places, config.tasks, strict=True):
            values = shares(config, dataset, cell)[config.tasks.index(task)]
            dots = place + shift + beside(len(values), 0.05)
            axes.plot(dots, values, "o", color=COLOURS[cell], alpha=0.7, label=NAMES[cell] if place == 0 else None)
    axes.axhline(1, color=GREY, linewidth=1, linestyle="--")
    axes.annotate("best linear recursion of any order", (len(places) - 0.55, 1.3), color=GREY, fontsize=9, ha="right")
    axes.set_xticks(places, config.tasks)
    axes.set(
        yscale="log",
        ylim=(None, 3),
        xlim=(-0.5, len(places) - 0.5),
        ylabel="squared error over that of the best linear one",
    )
    axes.set_title(f"What linearity cannot do; every seed, H = {config.hidden}, T = {config.length}")
    axes.legend(frameon=False, loc="lower left")
    return fig


EXPERIMENT = Experiment(
    name="latch",
    summary="What can a linear recursion not do, whatever its order, that a gated cell does?",
    config=Config,
    quick={
        "tasks": ("latch",),
        "cells": ("linear", "gru"),
        "length": 10,
        "updates": 40,
        "hidden": 8,
        "seeds": 2,
        "examples": 100,
    },
    run=run,
    claims=claims,
    table=table,
    figure=figure,
    check=check,
)
