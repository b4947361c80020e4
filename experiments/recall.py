"""At which lengths does training find a loop that holds one symbol?

Source   lecture, recall of the first symbol: tanh RNN, LSTM and GRU at T = 5, 10, 20, 50 (C2a, C2b, C2c)
Command  python -m experiments run recall [--seeds 20]
Time     about 3 minutes for 3 seeds on 2 CPU cores, with compilation
Expect   the RNN solves T <= 10 on every seed and stays at chance at T = 50; the LSTM with forget bias 2 solves T <= 20
         and about half of its seeds at T = 50, the others sitting at chance; the GRU with keep bias 2 solves all
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import seqjax
from experiments.claims import claim
from experiments.models import CELLS, SOLVED, Training, check_training, recall_recipe, require_known, without
from seqjax.core import require_sizes
from seqjax.report import Claim, Experiment
from seqjax.report.style import COLOURS, NAMES, beside, label_ends, level, panels
from seqjax.statistics import Rate, rate
from seqjax.sweep import gather

AT_CHANCE = 0.2  # accuracy below this, on 2000 sequences of 8 symbols, is no better than a guess
# An independent reproduction's seeds. A rate here is judged by whether its 95% interval overlaps the one there.
LAB_ALL, LAB_SOLVED, LAB_CHANCE = (10, 10), (10, 20), (9, 20)


@dataclass(frozen=True)
class Config(Training):
    """Settings; the defaults are the source's."""

    cells: tuple[str, ...] = ("rnn", "lstm", "gru")
    lengths: tuple[int, ...] = (5, 10, 20, 50)
    examples: int = 2000


def check(config: Config) -> None:
    """ValueError for settings that cannot be run."""
    require_known("cells", config.cells, CELLS)
    check_training(config)
    if not config.lengths or len(set(config.lengths)) < len(config.lengths):
        raise ValueError(f"lengths must name at least one length, each once, got {config.lengths}")
    require_sizes(**{f"lengths[{i}]": length for i, length in enumerate(config.lengths)})


def run(config: Config, point: Any) -> Any:
    """Train every cell at every length; dims cell, length, seed [, update]."""
    settings = without(config, "cells", "lengths")

    def train(cell: str, length: int) -> Any:
        recipe, title = recall_recipe(cell, length, config), f"recall: {cell} at T = {length}"
        options = {"seeds": config.seeds, "examples": config.examples, "title": title}
        return point.resumable(partial(seqjax.sweep_recipe, recipe, **options), cell=cell, length=length, **settings)

    axes = {"cell": config.cells, "length": config.lengths}
    return gather([train(cell, length) for cell in config.cells for length in config.lengths], axes)


def share(dataset: Any, cell: str, length: int, test: Any) -> Rate:
    """How many seeds of one cell at one length pass a test of their accuracy; a failed seed passes none."""
    scores = dataset.score.sel(cell=cell, length=length).values
    return rate(int(test(scores).sum()), len(scores))


def solved(scores: Any) -> Any:
    """Above 99% of the test sequences."""
    return scores > SOLVED


def at_chance(scores: Any) -> Any:
    """No better than a guess."""
    return scores < AT_CHANCE


def claims(config: Config, dataset: Any) -> list[Claim]:
    """C2a to C2c, as rates over seeds with 95% Wilson intervals."""
    lengths, found = set(config.lengths), []
    if "rnn" in config.cells and {10, 50} <= lengths:
        found.append(plain_unit(dataset))
    if "lstm" in config.cells and {20, 50} <= lengths:
        found += long_memory(dataset)
    return found


def plain_unit(dataset: Any) -> Claim:
    """C2a."""
    ten, fifty = share(dataset, "rnn", 10, solved), share(dataset, "rnn", 50, at_chance)
    return claim(
        "C2a",
        measured=f"solved at T = 10: {ten}; at chance at T = 50: {fifty}",
        holds=ten.overlaps(rate(*LAB_ALL)) and fifty.overlaps(rate(*LAB_ALL)),
        note=f"At T = 20, {share(dataset, 'rnn', 20, solved)} are solved." if 20 in dataset.length else "",
    )


def long_memory(dataset: Any) -> list[Claim]:
    """C2b and C2c."""
    twenty, fifty = share(dataset, "lstm", 20, solved), share(dataset, "lstm", 50, solved)
    stuck = share(dataset, "lstm", 50, at_chance)
    return [
        claim(
            "C2b",
            measured=f"solved at T = 20: {twenty}; at T = 50: {fifty}",
            holds=twenty.overlaps(rate(*LAB_ALL)) and fifty.overlaps(rate(*LAB_SOLVED)),
            note="The expected rate at T = 50 is an independent reproduction's. The source ran three seeds; its two of "
            f"three is {'inside' if fifty.low <= 2 / 3 <= fifty.high else 'outside'} the interval measured here.",
        ),
        claim("C2c", measured=f"at chance: {stuck}", holds=stuck.overlaps(rate(*LAB_CHANCE))),
    ]


def table(config: Config, dataset: Any) -> list[dict[str, str]]:
    """Seeds solved, of those run, with 95% Wilson intervals."""
    rates = {cell: [share(dataset, cell, length, solved) for length in config.lengths] for cell in config.cells}
    heads = [f"T = {length}" for length in config.lengths]
    return [{"cell": cell, **dict(zip(heads, map(str, row), strict=True))} for cell, row in rates.items()]


def figure(config: Config, dataset: Any) -> Any:
    """Success rate against T, and the accuracy of every seed."""
    fig, (left, right) = panels(2, width=10)
    ends = []
    places = np.arange(len(config.lengths))
    for shift, cell in zip(np.linspace(-0.16, 0.16, len(config.cells)), config.cells, strict=True):
        rates = [share(dataset, cell, length, solved) for length in config.lengths]
        height = np.array([r.successes / r.trials for r in rates])
        spread = np.array([height - [r.low for r in rates], [r.high for r in rates] - height])
        left.errorbar(places + shift, height, spread, color=COLOURS[cell], marker="o", capsize=3, linewidth=2)
        ends.append((height[-1], NAMES[cell], COLOURS[cell]))
        for place, length in zip(places, config.lengths, strict=True):
            scores = dataset.score.sel(cell=cell, length=length).values
            dots = place + shift + beside(len(scores), 0.05)
            right.plot(dots, scores, "o", color=COLOURS[cell], alpha=0.6, markersize=5)
    for axes in (left, right):
        axes.set_xticks(places, [str(length) for length in config.lengths])
        axes.set(ylim=(-0.03, 1.05), xlim=(-0.4, places[-1] + 0.4), xlabel="T, length of the sequence")
    left.set_title(f"Seeds that solve recall ({config.seeds} each; 95% Wilson intervals)")
    left.set_ylabel("success rate")
    right.set_title(f"Accuracy of every seed after {config.updates} updates")
    right.set_ylabel("accuracy on fresh sequences")
    level(right, seqjax.tasks.recall(length=1).chance, "chance, 1/8")
    label_ends(left, ends)
    return fig


EXPERIMENT = Experiment(
    name="recall",
    summary="At which lengths does training find a loop that holds one symbol?",
    config=Config,
    quick={"cells": ("rnn", "lstm"), "lengths": (5,), "seeds": 2, "updates": 200, "examples": 500},
    run=run,
    claims=claims,
    table=table,
    figure=figure,
    check=check,
    version=2,
)
