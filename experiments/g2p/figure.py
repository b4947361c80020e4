"""What is attended to, and which words are wrong."""

from typing import Any

import numpy as np

from experiments.g2p.config import WAYS, Config
from seqjax.report.style import COLOURS, grid


def figure(config: Config, dataset: Any) -> Any:
    """What is attended to as words are said, by the first seed; and words that are wrong, by their length."""
    fig, axes = grid(len(config.shown) + 1, 3, width=11, row=3.6)
    for one, word in zip(axes, config.shown, strict=False):
        each = dataset.isel(seed=0).sel(shown=word)
        spoken = [*str(each.said.values).split(), "end"]
        one.imshow(each.weights.values[: len(spoken), : len(word)].T, cmap="Greys", vmin=0, vmax=1, aspect="auto")
        one.set_yticks(range(len(word)), list(word))
        one.set_xticks(range(len(spoken)), spoken, rotation=90)
        one.set_title(word)
        one.grid(visible=False)
    by_length(axes[len(config.shown)], dataset)
    return fig


def by_length(axes: Any, dataset: Any) -> None:
    """The share of words that are wrong, every seed, against how many letters they have."""
    letters = np.array([len(word) for word in dataset.word.values])
    for way, style in zip(WAYS, ("--", "-"), strict=True):
        wrong = dataset.edits.sel(way=way).transpose("seed", "word").values > 0
        known = [length for length in range(2, 15) if (letters == length).sum() >= 10]
        shares = np.array([wrong[:, letters == length].mean(1) for length in known]).reshape(len(known), -1)
        axes.plot(known, shares, style, color=COLOURS["gru"])
    axes.set(
        xlabel="letters of the word", ylabel="share of words wrong", ylim=(0, None), title="greedy dashed, beam solid"
    )
