"""Which piece of the LSTM can be left out, on two small tasks?

Source   Greff et al. 2017, eight variants of the peephole LSTM on speech, handwriting and music: removing the forget
         gate or the output activation hurts most, and the other six are about level (S18)
Command  python -m experiments run variants [--seeds 20]
Time     about 5 minutes on 2 CPU cores, with compilation
Expect   on recall, no variant worse than the baseline: holding one symbol is all it asks, and a cell that cannot forget
         holds by construction; on the vowels, means of 0.95 to 0.98, too close for five seeds to tell apart: the lowest
         two are the paper's, and 20 seeds put them at 0.959 and 0.958 against the baseline's 0.965

The recipe is the same for every cell. Recall: every array uniform, a bias of 2 on whatever keeps the cell, where there
is such a gate. Vowels: the start and the settings of the experiment `vowels`. The variant without peepholes is the
plain LSTM; the GRU stands beside the variants, but is none of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import seqjax
from experiments import vowels
from experiments.claims import claim
from experiments.models import SOLVED, Training, check_training, recipe_of, require_known, without
from seqjax.cells import VARIANTS
from seqjax.core import Cell, require_sizes
from seqjax.report import Claim, Experiment
from seqjax.report.style import COLOURS, GREY, beside, panels
from seqjax.statistics import Mean, Rate, difference, mean, rate
from seqjax.sweep import gather

BASELINE = "baseline"
HURTS = ("no-forget-gate", "no-output-activation")  # what the paper found worst
CELLS: dict[str, Callable[[float | None], Cell]] = {  # by the effective initial bias of what keeps the cell
    BASELINE: lambda keep: seqjax.lstm(peephole=True, forget_bias=keep),
    **{name: partial(lambda name, keep: seqjax.variant(name, forget_bias=keep), name) for name in VARIANTS},
    "no-forget-gate": lambda keep: seqjax.variant("no-forget-gate"),
    "gru": lambda keep: seqjax.gru(keep_bias=keep),
}
LABELS = {name: name.replace("-", " ") for name in CELLS} | {
    BASELINE: "LSTM with peepholes",
    "no-peepholes": "no peepholes (plain LSTM)",
    "coupled": "forget = 1 − input",
    "gru": "GRU",
}
TASKS = ("recall", "vowels")
VIEWS = (  # task, title, label, whether its seeds are dots, whether what is judged is a bar
    ("recall", "Recall, T = {length}: seeds that solve it", "share above 0.99, 95% interval", False, True),
    ("recall", "Recall, T = {length}: every seed", "accuracy on fresh sequences", True, False),
    ("vowels", "Vowels: every seed, and the mean", "accuracy on test utterances, 95% interval", True, True),
)


@dataclass(frozen=True)
class Config(Training):
    """Settings: those of a training on recall, and beside them those on the vowels."""

    seeds: int = 5
    tasks: tuple[str, ...] = ("recall", "vowels")
    cells: tuple[str, ...] = tuple(CELLS)
    length: int = 20
    keep_bias: float = 2.0
    examples: int = 2000
    vowels_hidden: int = 64
    vowels_updates: int = 300
    vowels_batch: int = 32
    vowels_clip: float = 1.0


def on_vowels(config: Config) -> vowels.Config:
    """The settings of a training on the vowels."""
    return vowels.Config(
        seeds=config.seeds,
        hidden=config.vowels_hidden,
        updates=config.vowels_updates,
        batch=config.vowels_batch,
        learning_rate=config.learning_rate,
        clip=config.vowels_clip,
    )


def check(config: Config) -> None:
    """ValueError for settings that cannot be run, and where the data is asked for and not installed."""
    require_known("cells", config.cells, CELLS)
    require_known("tasks", config.tasks, TASKS)
    check_training(config)
    sizes = ("length", "vowels_hidden", "vowels_updates", "vowels_batch")
    require_sizes(**{name: getattr(config, name) for name in sizes})
    if "vowels" in config.tasks:
        vowels.check(on_vowels(config))


def run(config: Config, point: Any) -> Any:
    """Train every cell on every task; dims task, cell, seed."""

    def train(task: str, cell: str) -> Any:
        recipe, settings = training(config, task, cell)
        options = {"seeds": config.seeds, "examples": config.examples, "title": f"{task}: {LABELS[cell]}"}
        return point.resumable(partial(seqjax.sweep_recipe, recipe, **options), task=task, cell=cell, **settings)

    parts = [train(task, cell)[["score", "failed_at", "cause"]] for task in config.tasks for cell in config.cells]
    return gather(parts, {"task": config.tasks, "cell": config.cells})


def training(config: Config, task: str, cell: str) -> tuple[seqjax.Recipe, dict[str, Any]]:
    """One cell's recipe on one task, and the settings on which its result depends."""
    if task == "vowels":
        settings = on_vowels(config)
        return vowels.recipe(CELLS[cell](None), settings, clip=settings.clip), without(settings, "models")
    network = seqjax.network(CELLS[cell](config.keep_bias), inputs="onehot", readout="last")
    theirs = [name for name in vars(config) if name.startswith("vowels")]
    recipe = recipe_of(network, seqjax.tasks.recall(length=config.length), config)
    return recipe, without(config, "cells", "tasks", *theirs)


def share_solved(scores: Any) -> Rate:
    """The share of seeds above 0.99."""
    return rate(int((scores > SOLVED).sum()), len(scores))


def seeds_of(dataset: Any, task: str, cell: str) -> Any:
    """Scores of one cell on one task; a failed seed counts as 0."""
    return dataset.score.sel(task=task, cell=cell).fillna(0).values


def estimate(dataset: Any, task: str, cell: str) -> Rate | Mean:
    """What is judged of one cell on one task."""
    return (share_solved if task == "recall" else mean)(seeds_of(dataset, task, cell))


def claims(config: Config, dataset: Any) -> list[Claim]:
    """V2 on recall and V3 on the vowels."""
    complete = {BASELINE, *VARIANTS} <= set(config.cells)
    judges = {"recall": on_recall, "vowels": judged_on_vowels}
    return [judges[task](dataset) for task in config.tasks] if complete else []


def on_recall(dataset: Any) -> Claim:
    """V2: no variant's interval lies below the baseline's."""
    found = {name: estimate(dataset, "recall", name) for name in (BASELINE, *VARIANTS)}
    worse = [name for name in VARIANTS if found[name].high < found[BASELINE].low]
    shown = "; ".join(f"{LABELS[name]} {found[name]}" for name in (BASELINE, *HURTS))
    return claim("V2", measured=f"{shown}; worse: {listed(worse) or 'none'}", holds=not worse)


def judged_on_vowels(dataset: Any) -> Claim:
    """V3: a variant is worse where the interval of its difference to the baseline lies below 0. With only some of the
    paper's two worse, and no other, there are too few seeds to say."""
    baseline = seeds_of(dataset, "vowels", BASELINE)
    gaps = {name: difference(seeds_of(dataset, "vowels", name), baseline) for name in VARIANTS}
    worse = {name for name in VARIANTS if gaps[name].high < 0}
    better = {name for name in HURTS if gaps[name].low > 0}
    undecided = worse < set(HURTS) and not better
    lowest = sorted(VARIANTS, key=lambda name: gaps[name].value)[:2]
    return claim(
        "V3",
        measured="; ".join(f"{LABELS[name]} {gaps[name]:+}" for name in HURTS),
        holds=None if undecided else worse == set(HURTS),
        note=f"Worse: {listed([name for name in VARIANTS if name in worse]) or 'none'}. The lowest two of the eight: "
        f"{listed(lowest)}." + (" Too few seeds to say: try --seeds 20." if undecided else ""),
    )


def listed(names: list[str]) -> str:
    """Cells in words."""
    return ", ".join(LABELS[name] for name in names)


def table(config: Config, dataset: Any) -> list[dict[str, str]]:
    """Every cell on every task, with 95% intervals and the range over seeds."""
    rows = []
    for cell in config.cells:
        row = {"cell": LABELS[cell]}
        for task in config.tasks:
            scores = seeds_of(dataset, task, cell)
            row[f"{task}: {'solved' if task == 'recall' else 'mean accuracy'}"] = str(estimate(dataset, task, cell))
            row[f"{task}: range"] = f"{scores.min():.3f} to {scores.max():.3f}"
        rows.append(row)
    return rows


def figure(config: Config, dataset: Any) -> Any:
    """A row a cell, ordered by the mean over tasks and seeds; the baseline is the first, and a level in every panel."""
    means = dataset.score.fillna(0).mean(["task", "seed"])
    order = sorted(config.cells, key=lambda cell: (cell != BASELINE, -float(means.sel(cell=cell))))
    views = [view for view in VIEWS if view[0] in config.tasks]
    fig, axes = panels(len(views), width=2.5 + 3.6 * len(views), height=5.2, sharey=True)
    for each, (task, title, label, *shown) in zip(axes, views, strict=True):
        draw(each, dataset, task, order, *shown)
        each.set(title=title.format(length=config.length), xlabel=label)
        if task == "recall":
            each.set_xlim(-0.03, 1.03)
    axes[0].set_yticks(range(len(order)), [LABELS[cell] for cell in order])
    axes[0].set_ylim(len(order) - 0.4, -0.6)
    for tick, cell in zip(axes[0].get_yticklabels(), order, strict=True):
        tick.set_color(colour(cell))
    return fig


def draw(axes: Any, dataset: Any, task: str, order: list[str], dots: bool, bar: bool) -> None:
    """One panel; the baseline's level is what is judged where there are bars, and its median where there are none."""
    for row, cell in enumerate(order):
        scores, found = dataset.score.sel(task=task, cell=cell).values, estimate(dataset, task, cell)
        if dots:
            places = row - 0.14 * bar + beside(len(scores), 0.12 if bar else 0.25)
            axes.plot(scores, places, "o", color=colour(cell), alpha=0.5, markersize=5, markeredgewidth=0)
        if bar:
            place = row + 0.22 * dots
            axes.plot([found.low, found.high], [place] * 2, color=colour(cell), linewidth=2.5, solid_capstyle="butt")
            axes.plot(found.value, place, "D", color=colour(cell), markersize=5)
    if BASELINE in order:
        seeds = dataset.score.sel(task=task, cell=BASELINE)
        level = estimate(dataset, task, BASELINE).value if bar else float(seeds.median())
        axes.axvline(level, color=GREY, linewidth=1, linestyle="--", zorder=0)


def colour(cell: str) -> str:
    """The paper's worst two stand out, and so does what is not an LSTM."""
    return {"gru": COLOURS["gru"], BASELINE: "black"}.get(cell, COLOURS["rnn" if cell in HURTS else "lstm"])


EXPERIMENT = Experiment(
    name="variants",
    summary="Which piece of the LSTM can be left out, on two small tasks?",
    config=Config,
    quick={
        "tasks": ("recall",),
        "cells": (BASELINE, "no-forget-gate"),
        "seeds": 2,
        "length": 5,
        "updates": 60,
        "examples": 200,
    },
    run=run,
    claims=claims,
    table=table,
    figure=figure,
    check=check,
    version=2,
)
