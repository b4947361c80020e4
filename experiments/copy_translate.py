"""Sequences in, sequences out: what is right beyond the lengths of training?

Source   lecture, input and output lengths are independent (S21); attention, Bahdanau et al. 2015
Command  python -m experiments run copy_translate
Time     7 minutes on 2 cores of an AMD EPYC
Expect   exact answers at the lengths of training with attention; at twice those none

Copying and reversing random symbols out of ten, 1 to 10 of them in training, up to 20 in the test; and dates as people
write them to ISO 8601, tested on days that training never saw. A GRU of H = 128 reads and another writes, from its last
state alone and with attention. Adam behind a clip at norm 1, from 3e-3 along a cosine to nothing, 64 fresh pairs an
update. (At a constant 3e-3 answers of ten symbols stay inexact: 0.86 to 0.94 of copies with attention after 5000.)
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import optax
import xarray as xr

import seqjax
from experiments.claims import claim
from experiments.models import (
    Training,
    check_training,
    recipe_of,
    require_clip,
    require_known,
    scores_on,
    spread,
    without,
)
from seqjax.checkpoint import Checkpoints
from seqjax.core import require_sizes
from seqjax.processes import fetch
from seqjax.progress import progress_bar
from seqjax.report import Claim, Experiment
from seqjax.report.style import COLOURS, GREY, beside, panels
from seqjax.sweep import gather, seed_keys

SAID = {"copying": seqjax.tasks.copying, "reversing": seqjax.tasks.reversing}
TASKS = (*SAID, "dates")
MODELS = {"plain": {}, "attention": {"attention": 64}}
NAMES = {"plain": "last state alone", "attention": "attention"}
COLOUR = {"plain": GREY, "attention": COLOURS["lstm"]}
SYMBOLS = 10


@dataclass(frozen=True)
class Config(Training):
    """Settings."""

    seeds: int = 3
    tasks: tuple[str, ...] = TASKS
    models: tuple[str, ...] = tuple(MODELS)
    hidden: int = 128
    updates: int = 3000
    longest: int = 10
    tests: tuple[int, ...] = (5, 10, 12, 15, 20)
    embedding: int = 32
    clip: float = 1.0
    examples: int = 500


def check(config: Config) -> None:
    """ValueError for settings that cannot be run."""
    check_training(config)
    require_known("tasks", config.tasks, TASKS)
    require_known("models", config.models, MODELS)
    require_sizes(longest=config.longest, embedding=config.embedding)
    require_sizes(**{f"tests[{i}]": size for i, size in enumerate(config.tests)})
    require_clip(config.clip)


def task_of(name: str, shortest: int, longest: int) -> seqjax.tasks.Task:
    """A task, of sources of these lengths where they can be chosen. Its score is right as a whole under teacher forcing
    and, as what is right up to a step is what is fed back there, as greedy decoding would have it."""
    if name == "dates":
        return seqjax.tasks.dates()
    return SAID[name](symbols=SYMBOLS, shortest=shortest, longest=longest)


def run(config: Config, point: Any) -> Any:
    """score [task, model, test, seed]; of dates the same at every length, as theirs are what they are."""

    def train(task: str, model: str) -> Any:
        work = partial(trained, config, task, model)
        return point.resumable(work, task=task, model=model, **without(config, "tasks", "models"))

    axes = {"task": config.tasks, "model": config.models}
    return gather([train(task, model) for task in config.tasks for model in config.models], axes)


def trained(config: Config, task: str, model: str, *, checkpoints: Checkpoints) -> xr.Dataset:
    """Every seed of one model on one task."""
    network = seqjax.encoder_decoder(seqjax.gru(), embedding=config.embedding, **MODELS[model])
    falling = optax.cosine_decay_schedule(config.learning_rate, config.updates)
    recipe = recipe_of(network, task_of(task, 1, config.longest), config)
    recipe = replace(recipe, optimizer=seqjax.adam(falling, clip=config.clip))
    numbers, keys = seed_keys(config.seeds)
    with progress_bar(f"copy_translate: {task}, {NAMES[model]}") as show:
        states, _ = seqjax.train_many(recipe, keys, progress=show, checkpoints=checkpoints)
    failed = fetch(states.failed_at) >= 0
    tests = [task_of(task, length, length) for length in config.tests]
    each = {test: scores_on(test, recipe, states.params, keys, config.examples) for test in dict.fromkeys(tests)}
    scores = [each[test] for test in tests]  # of dates, whatever the length, one test
    return xr.Dataset(
        {"score": (("test", "seed"), np.where(failed, np.nan, scores))}, {"test": list(config.tests), "seed": numbers}
    )


def claims(config: Config, dataset: Any) -> list[Claim]:
    """V20 and V21, of what was run."""
    if "attention" not in config.models:
        return []
    attention = dataset.score.sel(model="attention").fillna(0)
    within, found = [test for test in config.tests if test <= config.longest], []
    if within:
        known = attention.sel(test=within).values
        found.append(
            claim("V20", measured=f"lowest of every task, length and seed {known.min():.3f}", holds=known.min() > 0.95)
        )
    said = [task for task in config.tasks if task in SAID]
    if said and max(config.tests) >= 2 * config.longest:
        twice = dataset.score.sel(task=said, test=max(config.tests)).fillna(0).values
        found.append(
            claim("V21", measured=f"at {max(config.tests)} symbols {spread(twice.ravel())}", holds=twice.max() < 0.5)
        )
    return found


def table(config: Config, dataset: Any) -> list[dict[str, str]]:
    """Shares written exactly, lowest to highest of the seeds."""
    return [
        {"task": task, "model": NAMES[model]}
        | {
            f"{test} symbols": spread(dataset.score.sel(task=task, model=model, test=test).fillna(0).values)
            for test in config.tests
        }
        for task in config.tasks
        for model in config.models
    ]


def figure(config: Config, dataset: Any) -> Any:
    """A panel for every task, every seed against the length of the source."""
    fig, axes = panels(len(config.tasks), width=3.6 * len(config.tasks), sharey=True)
    for one, task in zip(axes, config.tasks, strict=True):
        tests = list(config.tests) if task in SAID else [config.tests[0]]  # dates are as long as they are
        for shift, model in zip(beside(len(config.models), 0.3), config.models, strict=True):
            scores = dataset.score.sel(task=task, model=model, test=tests).transpose("test", "seed").fillna(0).values
            places = np.array(tests)[:, None] + shift + np.zeros(scores.shape)
            one.plot(places.ravel(), scores.ravel(), "o", color=COLOUR[model], alpha=0.7, label=NAMES[model])
        one.set(ylim=(-0.03, 1.05), title=task)
        if task in SAID:
            one.axvspan(config.longest + 0.5, max(config.tests) + 1, color="#eeeeee", zorder=0)
            one.set(xlabel="symbols of the source; shaded: beyond training", xticks=tests)
        else:
            one.set(xlabel="dates that training never saw", xticks=[], xlim=(tests[0] - 2, tests[0] + 2))
    axes[0].set_ylabel("share written exactly, every seed")
    axes[0].legend(frameon=False, loc="lower left", labelcolor=GREY)
    return fig


EXPERIMENT = Experiment(
    name="copy_translate",
    summary="Sequences in, sequences out: what is right beyond the lengths of training?",
    config=Config,
    version=2,
    quick={
        "seeds": 2,
        "tasks": ("dates",),
        "models": ("attention",),
        "hidden": 8,
        "updates": 20,
        "longest": 4,
        "tests": (4,),
        "embedding": 4,
        "examples": 50,
    },
    run=run,
    claims=claims,
    table=table,
    figure=figure,
    check=check,
)
