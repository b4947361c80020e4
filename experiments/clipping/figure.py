"""The figure."""

from typing import Any

import numpy as np

import seqjax
from experiments.clipping.config import AT, Config
from experiments.models import NONE
from seqjax.report.style import COLOURS, GREY, beside, label_ends, level, panels
from seqjax.statistics import mean


def figure(config: Config, dataset: Any) -> Any:
    """Accuracy against the step, the norm of every seed, and SGD seed by seed."""
    fig, (left, middle, right) = panels(3, width=14, height=4.4)
    length = 20 if 20 in config.lengths else config.lengths[-1]
    draw_scores(left, config, dataset.score.fillna(0).sel(length=length), length)
    draw_norms(middle, config, dataset, length)
    draw_sgd(right, config, dataset.sgd_score.fillna(0).values)
    return fig


def draw_scores(axes: Any, config: Config, scores: Any, length: int) -> None:
    """Every seed, and the means with their intervals."""
    ends = []
    for limit, colour, name in ((NONE, GREY, "unclipped"), (config.clip, COLOURS["lstm"], f"norm {config.clip:g}")):
        own = scores.sel(clip=limit).values
        means = [mean(each) for each in own]
        axes.plot(config.rates, own, "o", color=colour, alpha=0.3, markersize=3)
        reach = np.array([[m.value - m.low, m.high - m.value] for m in means]).T
        axes.errorbar(config.rates, [m.value for m in means], reach, color=colour, marker="o", capsize=3, linewidth=2)
        ends.append((means[-1].value, name, colour))
    axes.set(xscale="log", xlabel="learning rate of Adam", ylabel="accuracy on fresh sequences", ylim=(-0.03, 1.05))
    axes.set_title(f"Recall at T = {length} after {config.updates} updates")
    level(axes, seqjax.tasks.recall(length=length).chance, "chance, 1/8")
    label_ends(axes, ends)


def draw_norms(axes: Any, config: Config, dataset: Any, length: int) -> None:
    """The gradient norm of every unclipped run."""
    step = AT if AT in config.rates else config.rates[-1]
    values = dataset.gradient_norm.sel(length=length, learning_rate=step, clip=NONE).values
    axes.plot(values.T, color=COLOURS["rnn"], alpha=0.5, linewidth=0.7)
    axes.plot(np.nanmedian(values, axis=0), color="black", linewidth=1.2)
    axes.set(yscale="log", xlabel="update", ylabel="global norm of the gradient", xlim=(0, values.shape[1]))
    axes.set_title(f"Unclipped at {step:g}, every seed; median black")
    level(axes, config.clip, f"c = {config.clip:g}")


def draw_sgd(axes: Any, config: Config, scores: np.ndarray) -> None:
    """Both accuracies of every seed, joined."""
    places = np.array([[0], [1]]) + beside(scores.shape[1], 0.08)[None]
    axes.plot(places, scores, color=GREY, alpha=0.5, linewidth=0.8)
    for place, own, colour in zip(places, scores, (GREY, COLOURS["lstm"]), strict=True):
        axes.plot(place, own, "o", color=colour)
    axes.set_xticks([0, 1], ["unclipped", f"norm {config.clip:g}"])
    axes.set(xlim=(-0.4, 1.4), ylim=(-0.03, 1.05), ylabel="accuracy on fresh sequences")
    axes.set_title(f"SGD at {config.sgd_rate:g}, T = 20, every seed")
    level(axes, seqjax.tasks.recall(length=20).chance, "chance, 1/8")
