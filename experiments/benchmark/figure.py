"""How many times as long the others take, by cell and size, and how our time grows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from experiments.benchmark.cases import select, timed
from experiments.benchmark.peers import LIBRARIES
from experiments.benchmark.ratios import growth, ratio
from seqjax.report.style import COLOURS, GREY, NAMES, beside, label_ends, level, panels

PEERS = dict(  # Okabe and Ito's palette
    zip(LIBRARIES[1:], ("#D55E00", "#0072B2", "#56B4E9", "#009E73", "#CC79A7", "#E69F00"), strict=True)
)
AXES = {"T": ("steps", COLOURS["lstm"]), "H": ("units", COLOURS["rnn"])}
AXES |= {"B": ("sequences", COLOURS["gru"]), "S": ("seeds", COLOURS["bigru"])}
Ends = list[tuple[float, str, str]]  # of lines, to be labelled


def figure(config: Any, dataset: Any) -> Any:
    """A panel for every cell that was timed as a layer, all of one height, and one of growth."""
    layers = list(select(dataset, part="layer", kind="gradient", place=str(dataset.place.values[0])))
    cells = {cell: [case for case in layers if case.cell == cell] for cell in config.cells if layers}
    along = {axis: list(select(dataset, part="growth", kind=axis)) for axis in AXES}
    along = {axis: cases for axis, cases in along.items() if cases}
    count = max(1, len(cells) + bool(along))
    fig, axes = panels(count, width=3.9 * count + 0.6, height=4.8)
    for panel in axes[1 : len(cells)]:
        panel.sharey(axes[0])
    ends = [draw_cell(panel, cases) for panel, cases in zip(axes, cells.values(), strict=False)]
    for panel, each in zip(axes, ends, strict=False):
        label_ends(panel, each, gap=0.05)
    if along:
        label_ends(axes[-1], draw_growth(axes[-1], along), gap=0.1)
    if cells:
        axes[0].set_ylabel("time of forward and gradient,\nrelative to seqjax's (above 1: seqjax is faster)")
    return fig


def draw_cell(axes: Any, cases: Sequence[Any]) -> Ends:
    """Ratios by size, with quartiles over rounds; the peers side by side at each."""
    ends, places = [], np.arange(len(cases))
    for shift, (peer, colour) in zip(beside(len(PEERS), 0.15), PEERS.items(), strict=True):
        found = {place + shift: ratio(case, peer) for place, case in enumerate(cases) if peer in timed(case)}
        if found:
            middle = np.array([each.median for each in found.values()])
            spread = np.abs(np.array([(each.low, each.high) for each in found.values()]).T - middle)
            axes.errorbar(list(found), middle, spread, color=colour, marker="o", markersize=4, capsize=2, linewidth=1.8)
            ends.append((middle[-1], peer, colour))
    axes.set(yscale="log", xlim=(-0.4, len(cases) - 0.6), xlabel="H, hidden units")
    axes.set_title(f"{NAMES[cases[0].cell.item()]}, {cases[0].place.item()}")
    axes.set_xticks(places, [str(case.H.item()) for case in cases])
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="y", color="#eeeeee")
    axes.set_axisbelow(True)
    level(axes, 1, "seqjax")
    return ends


def draw_growth(axes: Any, along: dict[str, list[Any]]) -> Ends:
    """Time against each size, both relative to the smallest, with the exponent fitted to it."""
    ends = []
    for axis, cases in along.items():
        found, (name, colour) = growth(cases), AXES[axis]
        x, y = found.sizes / found.sizes[0], found.times / found.times[0]
        axes.plot(x, y, "o-", color=colour, markersize=4, linewidth=1.8)
        ends.append((y[-1], f"{axis}, {name}:\n{found.slope:.2f}", colour))
    axes.set(xscale="log", yscale="log", xlabel="size, relative to its smallest", ylabel="time, relative to the first")
    axes.set_title("LSTM: how time grows, with slopes")
    reach = np.array([1, axes.get_xlim()[1]])
    axes.plot(reach, reach, "--", color=GREY, linewidth=1, zorder=1)
    axes.annotate(
        "in proportion", reach[[1, 1]], (0, -26), textcoords="offset points", color=GREY, ha="right", fontsize=9
    )
    return ends
