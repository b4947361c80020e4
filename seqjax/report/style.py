"""How figures look: colours told apart by everyone, every seed visible, labels beside the lines they name."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito's palette, safe for colour-blind readers.
COLOURS = {
    "rnn": "#D55E00",
    "rnn-uniform": "#E69F00",
    "lstm": "#0072B2",
    "gru": "#009E73",
    "bigru": "#CC79A7",
}
NAMES = {
    "rnn": "tanh RNN",
    "rnn-uniform": "tanh RNN,\nuniform start",
    "lstm": "LSTM",
    "gru": "GRU",
    "bigru": "bidirectional GRU",
}
GREY = "#666666"
RULES: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "svg.hashsalt": "seqjax",
}


def styled() -> AbstractContextManager[None]:
    """The settings under which figures are drawn and saved."""
    return matplotlib.rc_context(RULES)


def panels(columns: int, *, width: float = 9, height: float = 4, **options: Any) -> tuple[Figure, Sequence[Axes]]:
    """A figure with a row of axes, without pyplot and so without global state."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, columns, squeeze=False, **options)[0]


def grid(count: int, columns: int, *, width: float, row: float) -> tuple[Figure, list[Axes]]:
    """A figure of so many axes, row by row, each row so high in inches."""
    rows = -(-count // columns)
    figure = Figure(figsize=(width, rows * row), layout="constrained")
    every = list(figure.subplots(rows, columns, squeeze=False).flat)
    for unused in every[count:]:
        unused.remove()
    return figure, every[:count]


def level(axes: Axes, y: float, text: str) -> None:
    """A dashed horizontal line with its name on it, at the left."""
    axes.axhline(y, color=GREY, linewidth=1, linestyle="--", zorder=1)
    axes.annotate(
        text,
        (0.01, y),
        xycoords=("axes fraction", "data"),
        xytext=(0, 2),
        textcoords="offset points",
        color=GREY,
        fontsize=9,
        bbox={"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 0.5},
    )


def beside(dots: int, width: float) -> np.ndarray:
    """Offsets of so many dots side by side, from -width to width; one alone stands at 0."""
    return np.linspace(-width, width, dots) if dots > 1 else np.zeros(1)


def label_ends(axes: Axes, labels: Sequence[tuple[float, str, str]], *, gap: float = 0.06) -> None:
    """Name lines beside their right ends, (y, text, colour), moved apart by at least `gap` of the height."""
    transform = axes.transData + axes.transAxes.inverted()
    heights = [float(transform.transform((axes.get_xlim()[1], y))[1]) for y, _, _ in labels]
    order = np.argsort(heights)
    placed = np.array(heights)
    for before, after in pairwise(order):
        placed[after] = max(placed[after], placed[before] + gap)
    for height, (_, text, colour) in zip(placed, labels, strict=True):
        axes.annotate(text, (1.01, min(height, 1.02)), xycoords="axes fraction", color=colour, va="center", fontsize=9)
