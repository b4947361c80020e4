"""What the book's own tanh does to its programs, drawn: 086 by length, and exercise 1 step by step."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from experiments.book.printed import LENGTHS, PRINTED
from seqjax.report.style import COLOURS, GREY, label_ends, level, panels

DECAY, SETTLED = 100, 250  # steps of exercise 1 that the book asks for, and until the factor has settled
STYLES: Any = {
    "true": {"linestyle": "-", "linewidth": 2.2, "label": "true tanh"},
    "book": {"linestyle": "--", "linewidth": 1.6, "label": "the book's tanh"},
}
POINTS: Any = {"linestyle": "", "marker": "o", "markerfacecolor": "white", "clip_on": False, "label": "as printed"}
NOTHING = 1e-49  # where 0 is drawn on a log axis
BLUE = COLOURS["lstm"]
SIGMA = 1 / (1 + np.exp(-1))


def figure(config: Any, dataset: Any) -> Any:
    """Program 086 with either tanh and as printed; exercise 1, and its factor a step."""
    fig, (outputs, decay, factor) = panels(3, width=15, height=4.8, width_ratios=(1.2, 1, 1))
    fading_outputs(outputs, dataset.output)
    c0 = dataset.c0.sel(arithmetic="C", bias=1.0)
    fading_cell(decay, c0)
    factors(factor, c0, float(dataset.rate.sel(bias=1.0)))
    return fig


def printed(program: str, start: str) -> np.ndarray:
    """The figures of a program's rows whose name starts so."""
    rows = [text for (name, row), text in PRINTED.items() if name == program and row.startswith(start)]
    return np.array(" ".join(rows).split(), float)


def fading_outputs(axes: Axes, output: Any) -> None:
    """|output| by length on a log axis, with what is printed; 0 lies at the bottom."""
    axes.set(yscale="log", ylim=(NOTHING, 1), xlim=(0, 51), xlabel="length", ylabel="mean |output|, float32")
    for model in ("RNN", "LSTM"):
        colour = COLOURS[model.lower()]
        for tanh, style in STYLES.items():
            values = output.sel(tanh=tanh, model=model).values.astype(float)
            axes.plot(output.length, np.maximum(values, NOTHING), color=colour, **style)
        axes.plot(LENGTHS, np.maximum(printed("086", model), NOTHING), color=colour, **POINTS)
    axes.set_yticks([NOTHING, *10.0 ** np.arange(-40, 1, 10)], ["0", *(f"$10^{{{k}}}$" for k in range(-40, 1, 10))])
    level(axes, float(np.finfo(np.float32).tiny), "smallest normal")
    level(axes, float(np.finfo(np.float32).smallest_subnormal), "smallest subnormal")
    axes.annotate("exp(-2z) rounds to 1\nand tanh z to 0", (20, 1e-27), color=COLOURS["rnn"], fontsize=9)
    axes.legend(handles=axes.lines[3:6], loc=(0.6, 0.27), frameon=False, fontsize=9)
    ends = [
        (float(output.sel(tanh="true", model=model)[-1]), model, COLOURS[model.lower()]) for model in ("RNN", "LSTM")
    ]
    label_ends(axes, ends)
    axes.set_title("Program 086: one input, then nothing")


def fading_cell(axes: Axes, c0: Any) -> None:
    """c[0] of exercise 1 on a log axis beside the book's 0.74^t."""
    steps = np.arange(DECAY + 1)
    book = float(c0.sel(tanh="book")[0]) * 0.74**steps
    axes.plot(steps, book, ":", color=GREY, linewidth=2.5)
    ends = [(book[-1], "$0.74^t$", GREY)]
    for tanh, style in STYLES.items():
        cells = c0.sel(tanh=tanh).values[: DECAY + 1]
        axes.plot(steps, cells, color=BLUE, **style)
        ends.append((cells[-1], style["label"], BLUE))
    axes.plot(steps[10::10], printed("exercise 1", "c[0]"), color=BLUE, **POINTS)
    axes.set(
        yscale="log", xlim=(0, DECAY + 2), xlabel="step t", ylabel="c[0]", title="Exercise 1: the cell of 085 let alone"
    )
    label_ends(axes, ends)


def factors(axes: Axes, c0: Any, rate: float) -> None:
    """By what c[0] falls from step to step: less than its gate says, as long as something is written."""
    limits = {
        "true": (rate, f"true tanh:\nslowest mode, {rate:.4f}"),
        "book": (SIGMA, "the book's tanh:\nσ(1), the gate"),
    }
    for tanh, style in STYLES.items():
        cells = c0.sel(tanh=tanh).values[: SETTLED + 1]
        axes.plot(np.arange(1, SETTLED + 1), cells[1:] / cells[:-1], color=BLUE, **style)
        level(axes, limits[tanh][0], "")
    level(axes, 0.74, "0.74")
    axes.set(xlim=(0, SETTLED), xlabel="step t", ylabel="c[0] over the one before", title="Its factor a step")
    label_ends(axes, [(limit, text, BLUE) for limit, text in limits.values()])
