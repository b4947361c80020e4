"""The figure."""

from typing import Any

import numpy as np

import seqjax
from experiments.trainability.configurations import Config
from experiments.trainability.outcome import binned, solved
from seqjax.report.style import COLOURS, GREY, NAMES, level, panels
from seqjax.statistics import rate

SHARE = "log10 of the share of the gradient that reaches step 1"


def figure(config: Config, dataset: Any) -> Any:
    """Success by what reached step 1, and every run's accuracy against it."""
    fig, (left, right) = panels(2, width=12, height=4.6)
    draw_rates(left, dataset)
    draw_runs(right, config, dataset)
    return fig


def draw_rates(axes: Any, dataset: Any) -> None:
    """The success rate of every bin, with its interval and its number of runs."""
    outcome, kept = solved(dataset), binned(dataset)
    rates = [rate(int(outcome[chosen].sum()), int(chosen.sum())) for _, chosen in kept]
    heights = np.array([r.value for r in rates])
    reach = np.array([heights - [r.low for r in rates], [r.high for r in rates] - heights])
    axes.errorbar(range(len(kept)), heights, reach, color="black", marker="o", capsize=3, linewidth=1.5)
    for place, r in enumerate(rates):
        axes.annotate(f"{r.trials}", (place, -0.06), ha="center", color=GREY, fontsize=8)
    axes.set_xticks(range(len(kept)), [label for label, _ in kept], rotation=35, ha="right", fontsize=8)
    axes.set(ylim=(-0.09, 1.05), xlabel=SHARE, ylabel="runs that solve recall")
    axes.set_title("Success by the profile before training (95% Wilson; runs below)")


def draw_runs(axes: Any, config: Config, dataset: Any) -> None:
    """Accuracy of every run; one that failed is at 0."""
    for cell in config.cells:
        own = dataset.cell.values == cell
        shares, scores = dataset.share.values[own], dataset.score.fillna(0).values[own]
        axes.plot(shares, scores, "o", color=COLOURS[cell], alpha=0.5, markersize=4, label=NAMES[cell])
    level(axes, seqjax.tasks.recall(length=3).chance, "chance, 1/8")
    axes.set(xlabel=SHARE, ylabel="accuracy after training", ylim=(-0.03, 1.05))
    axes.set_title("Every run")
    axes.legend(frameon=False, loc="center left")
