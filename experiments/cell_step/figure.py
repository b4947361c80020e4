"""An LSTM cell drawn with its numbers: two on every wire, the upper of unit 1 and the lower of unit 2.

Lengths are those of a canvas of 11 by 6.5 units with equal axes.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch

from seqjax.report.style import COLOURS, GREY, panels

UNITS = (COLOURS["lstm"], COLOURS["rnn"])
# heights: the gradient, the cell line, its tanh, the products, the gates
TOP, LINE, SQUASH, MIDDLE, BOTTOM = 6.1, 4.6, 3.9, 2.6, 1.2
LEFT, RIGHT = 0.2, 10.8
COLUMNS = {"f": 2.3, "i": 4.3, "g": 6.1, "o": 8.6}
PLUS = 5.2  # where the written part joins the cell line
NAMES = {"f": "forget", "i": "input", "g": "candidate", "o": "output"}
BOX, NODE = 0.3, 0.22  # half a box's height, a node's radius


def figure(config: Any, dataset: Any) -> Any:
    """The cell line on top, the gates below, and what the cell shows on the right."""
    fig, (axes,) = panels(1, width=11, height=6.5)
    axes.set(xlim=(0, 11), ylim=(0, 6.5), aspect="equal")
    axes.axis("off")
    cell_line(axes, dataset)
    written(axes, dataset)
    shown(axes, dataset)
    for gate, x in COLUMNS.items():
        draw_gate(axes, gate, x, dataset)
    gradient(axes, dataset)
    stack(axes, RIGHT, 0.78, "", ("unit 1", "unit 2"), "right")
    return fig


def cell_line(axes: Axes, dataset: Any) -> None:
    """c before, times f, plus what is written."""
    before, c, f = dataset.before.values, dataset.c.values, dataset.value.sel(gate="f").values
    wire(axes, (LEFT, LINE), (RIGHT, LINE), width=3)
    wire(axes, (COLUMNS["f"], BOTTOM + BOX), (COLUMNS["f"], LINE - NODE))
    node(axes, COLUMNS["f"], LINE, "×")
    node(axes, PLUS, LINE, "+")
    above(axes, 1.1, LINE, "$c_{t-1}$", written_out(before))
    above(axes, 3.75, LINE, r"$f\,c_{t-1}$", written_out(f * before))
    above(axes, 7.2, LINE, "$c_t$", written_out(c))
    beside(axes, COLUMNS["f"], MIDDLE, "$f$", written_out(f))


def written(axes: Axes, dataset: Any) -> None:
    """i times g, on its way to the cell line."""
    i, g = (dataset.value.sel(gate=gate).values for gate in "ig")
    wire(axes, (COLUMNS["i"], BOTTOM + BOX), (COLUMNS["i"], MIDDLE), (PLUS - NODE, MIDDLE))
    wire(axes, (COLUMNS["g"], BOTTOM + BOX), (COLUMNS["g"], MIDDLE), (PLUS + NODE, MIDDLE))
    wire(axes, (PLUS, MIDDLE + NODE), (PLUS, LINE - NODE))
    node(axes, PLUS, MIDDLE, "×")
    beside(axes, COLUMNS["i"], 2.0, "$i$", written_out(i), right=False)
    beside(axes, COLUMNS["g"], 2.0, "$g$", written_out(g))
    beside(axes, PLUS, 3.6, r"$i\,g$", written_out(i * g))


def shown(axes: Axes, dataset: Any) -> None:
    """The output gate on the squashed cell; its second value is a choice, so its numbers are left as symbols."""
    x, squashed = COLUMNS["o"], written_out(np.tanh(dataset.c.values), 3)
    o, h = (written_out(values[:1])[0] for values in (dataset.value.sel(gate="o").values, dataset.h.values))
    wire(axes, (x, LINE), (x, SQUASH + BOX))
    wire(axes, (x, SQUASH - BOX), (x, MIDDLE + NODE))
    wire(axes, (x, BOTTOM + BOX), (x, MIDDLE - NODE))
    wire(axes, (x + NODE, MIDDLE), (RIGHT, MIDDLE))
    box(axes, x, SQUASH, "tanh")
    node(axes, x, MIDDLE, "×")
    beside(axes, x, 3.23, r"$\tanh c_t$", squashed, right=False)
    beside(axes, x, 1.95, "$o$", [o, "$o_2$ not given"])
    above(axes, 9.9, MIDDLE, "$h_t$", [h, f"{squashed[1]} $o_2$"])


def draw_gate(axes: Axes, gate: str, x: float, dataset: Any) -> None:
    """A gate's box, fed with its pre-activation from below."""
    z = written_out(dataset.z.sel(gate=gate).values)
    wire(axes, (x, 0.35), (x, BOTTOM - BOX))
    box(axes, x, BOTTOM, "tanh" if gate == "g" else "σ")
    axes.text(x - 0.5, BOTTOM, NAMES[gate], ha="right", va="center", color=GREY)
    beside(axes, x, 0.5, "", z if gate != "o" else [z[0], ""])


def gradient(axes: Axes, dataset: Any) -> None:
    """The Jacobian along the cell line, from right to left."""
    wire(axes, (RIGHT, TOP), (LEFT, TOP), colour=GREY, dashes="--")
    slopes = dataset.jacobian.sel(path="direct").values.diagonal()[2:]
    text = r"gradient along the cell line: $\partial c_t / \partial c_{t-1}$ = diag$(f)$ = diag"
    axes.text(
        (LEFT + RIGHT) / 2,
        TOP,
        f"{text}({slopes[0]:.1f}, {slopes[1]:.1f})",
        ha="center",
        va="center",
        bbox={"color": "white"},
    )


def written_out(values: Sequence[float], decimals: int = 2) -> list[str]:
    """Numbers as they stand on wires."""
    return [f"{value:.{decimals}f}".replace("-", "−") for value in values]


def wire(
    axes: Axes, *points: tuple[float, float], width: float = 1.6, colour: str = "black", dashes: str = "-"
) -> None:
    """A line through points, with an arrowhead at its end."""
    for start, end in pairwise(points[:-1]):
        axes.plot(*zip(start, end, strict=True), color=colour, linewidth=width, solid_capstyle="round", zorder=1)
    style = {"arrowstyle": "-|>", "mutation_scale": 14, "shrinkA": 0, "shrinkB": 0, "zorder": 1}
    axes.add_patch(FancyArrowPatch(*points[-2:], color=colour, linewidth=width, linestyle=dashes, **style))


def node(axes: Axes, x: float, y: float, text: str) -> None:
    """A pointwise operation."""
    axes.add_patch(Circle((x, y), NODE, facecolor="white", edgecolor="black", linewidth=1.6, zorder=2))
    axes.text(x, y, text, ha="center", va="center_baseline", fontsize=15, zorder=3)


def box(axes: Axes, x: float, y: float, text: str) -> None:
    """A nonlinearity."""
    outline = {"boxstyle": "round,pad=0,rounding_size=0.08", "facecolor": "#f0f0f0", "edgecolor": "black", "zorder": 2}
    axes.add_patch(FancyBboxPatch((x - 0.4, y - BOX), 0.8, 2 * BOX, linewidth=1.2, **outline))
    axes.text(x, y, text, ha="center", va="center", fontsize=12, zorder=3)


def above(axes: Axes, x: float, y: float, name: str, numbers: Sequence[str]) -> None:
    """A name and its two numbers over a horizontal wire."""
    stack(axes, x, y + 0.65, name, numbers, "center")


def beside(axes: Axes, x: float, y: float, name: str, numbers: Sequence[str], *, right: bool = True) -> None:
    """A name and its two numbers at the side of a vertical wire."""
    stack(axes, x + (0.15 if right else -0.15), y, name, numbers, "left" if right else "right")


def stack(axes: Axes, x: float, y: float, name: str, numbers: Sequence[str], align: str) -> None:
    """Three lines of text around a height, the numbers in the colours of their units."""
    for line, (text, colour) in enumerate(zip((name, *numbers), ("black", *UNITS), strict=True)):
        axes.text(x, y + 0.28 * (1 - line), text, color=colour, ha=align, va="center", fontsize=11)
