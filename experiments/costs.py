"""What does a recurrent network cost? Parameters, multiply-adds and memory, beside the figures that the sources print.

Source   book, parameters and products (A19, A20, A24); lecture, parameters and memory (B6 to B9, B11);
         article, activations (B32)
Command  python -m experiments run costs
Time     about 1 minute on 2 CPU cores: XLA compiles the gradient of every cell, and runs none
Expect   every figure but A20's, which has an output bias too many; activations reach the fixed memory at T = 64; XLA's
         temporaries are 1.00 to 1.28 times what a gradient of the cells needs at the least
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
import xarray as xr

import seqjax
from experiments.claims import claim
from experiments.models import require_known, without
from seqjax.core import require_sizes
from seqjax.cost import cost
from seqjax.dense import uniform_head
from seqjax.report import Claim, Experiment
from seqjax.report.style import COLOURS, GREY, NAMES, label_ends, panels
from seqjax.sweep import gather

CELLS = seqjax.CELLS | {
    "rnn-norm": partial(seqjax.rnn, norm="layer"),
    "lstm-peephole": partial(seqjax.lstm, peephole=True),
    "lstm-norm": partial(seqjax.lstm, norm="layer"),
    "gru-reset-before": partial(seqjax.gru, reset_after=False),
}
DRAWN = {"rnn": "rnn", "lstm": "lstm", "gru": "gru", "lru": "bigru"}  # cells in the figure, and whose colour they take
LECTURE: dict[str, Any] = {"B": 32, "T": 100, "D": 300, "H": 512, "K": 10_000}
PARTS = ("states", "inputs", "logits")
MB = 1e6
CAPTION: dict[str, Any] = {"xycoords": "axes fraction", "ha": "right", "color": GREY, "fontsize": 9}


@dataclass(frozen=True)
class Config:
    """Settings; the defaults are the lecture's. `lengths` are further ones at which XLA is asked about a few cells."""

    cells: tuple[str, ...] = tuple(CELLS)
    batch: int = LECTURE["B"]
    length: int = LECTURE["T"]
    inputs: int = LECTURE["D"]
    hidden: int = LECTURE["H"]
    classes: int = LECTURE["K"]
    lengths: tuple[int, ...] = (10, 1000)


def check(config: Config) -> None:
    """ValueError for settings that cannot be run."""
    require_known("cells", config.cells, CELLS)
    require_sizes(**without(config, "cells", "lengths"))
    require_sizes(**{f"lengths[{i}]": length for i, length in enumerate(config.lengths)})


def run(config: Config, point: Any) -> Any:
    """Count and compile every cell; dims cell, length."""
    settings = without(config, "cells")
    parts = [point(partial(measure, config, cell), cell=cell, **settings) for cell in config.cells]
    return gather(parts, {"cell": config.cells})


def measure(config: Config, name: str) -> xr.Dataset:
    """One cell without a readout, and what the lecture counts with one; bytes of the batch, XLA's by length."""
    of = partial(cost, CELLS[name](), B=config.batch, D=config.inputs, H=config.hidden)
    cells, read = of(T=config.length), of(T=config.length, K=config.classes).memory
    lengths = sorted({config.length, *config.lengths})
    asked = [name in DRAWN or config.length == T for T in lengths]
    numbers = {
        "parameters": cells.parameters.stored,
        "multiply_adds": cells.multiply_adds.step,
        "fixed": cells.memory.fixed,
        "least": cells.gradient.least,
        "fixed_with_readout": read.fixed,
        **{what: getattr(read, what) for what in PARTS},
    }
    xla = [of(T=T).xla_gradient if ask else np.nan for T, ask in zip(lengths, asked, strict=True)]
    return xr.Dataset({**numbers, "xla": ("length", xla)}, {"length": lengths})


def book_figures() -> dict[str, dict[str, tuple[str, str]]]:
    """By claim: what a number is, as the book prints it, and ours."""
    rnn, lstm = (cost(cell, B=1, T=50, D=64, H=128, K=1) for cell in (seqjax.rnn(), seqjax.lstm()))
    small = cost(seqjax.rnn(), B=1, T=1, D=1, H=4, K=1).parameters.with_readout
    whole = [each.parameters.with_readout for each in (rnn, lstm)]
    core = [each.parameters.one_bias for each in (rnn, lstm)]
    products = [each.T * each.multiply_adds.recurrence // each.H**2 for each in (rnn, lstm)]
    return {
        "A19": {
            "RNN": ("24,833", f"{whole[0]:,}"),
            "LSTM": ("98,945", f"{whole[1]:,}"),
            "readout": ("129", f"{rnn.parameters.readout}"),
            "short of four times": ("387", f"{4 * whole[0] - whole[1]}"),
            "small RNN": ("29", f"{small}"),
        },
        "A20": {"RNN": ("24,705", f"{core[0]:,}"), "LSTM": ("98,820", f"{core[1]:,}")},
        "A24": {"RNN": ("50", f"{products[0]}"), "LSTM": ("200", f"{products[1]}")},
    }


def lecture_figures() -> dict[str, dict[str, tuple[str, str]]]:
    """By claim: what a number is, as the lecture (B32: the article) has it, and ours."""
    rnn, lstm, peephole = (cost(cell, **LECTURE) for cell in (seqjax.rnn(), seqjax.lstm(), CELLS["lstm-peephole"]()))
    p, memory = rnn.parameters, rnn.memory
    weights = p.matrices + p.readout_matrix
    fixed = {
        "no biases": ("88.57", weights),
        "one bias": ("88.58", p.one_bias + p.readout_matrix),
        "and the readout's": ("88.74", p.with_readout),
        "two biases": ("88.75", p.total),
    }
    window = jax.eval_shape(lambda: uniform_head(jax.random.key(0), LECTURE["H"], LECTURE["T"] * LECTURE["D"])).W
    block = rnn.params.body[0].forward.W_ih
    extra = peephole.parameters.stored - lstm.parameters.stored
    small = cost(seqjax.rnn(), B=1, T=500, D=1, H=32).memory.states // 4
    return {
        "B6": {"window": ("15,360,000", f"{window.size:,}"), "shared block": ("153,600", f"{block.size:,}")},
        "B7": {
            "states": ("6.5536", f"{memory.states / MB:.4f}"),
            "inputs": ("3.84", f"{memory.inputs / MB:.2f}"),
            "logits": ("128.0", f"{memory.logits / MB:.1f}"),
        },
        "B8": {name: (printed, f"{16 * count / MB:.2f}") for name, (printed, count) in fixed.items()}
        | {"activations reach it at T": ("64.00", f"{16 * weights * LECTURE['T'] / memory.activations:.2f}")},
        "B9": {
            "readout": ("5,120,000", f"{p.readout_matrix:,}"),
            "LSTM": ("1,665,024", f"{lstm.parameters.one_bias:,}"),
            "LSTM as stored": ("1,667,072", f"{lstm.parameters.stored:,}"),
        },
        "B11": {"share": ("0.0923%", f"{extra / lstm.parameters.one_bias:.4%}")},
        "B32": {"activations": ("16,000", f"{small:,}")},
    }


NOTES = {
    "A20": "Right: 24,704 and 98,816 = 4 · 24,704. The book counts an output bias into the RNN's core, then takes that "
    "four times.",
    "B8": "Without biases the two are equal at T = 4H/B exactly, whatever D and K; with PyTorch's biases at 64.13.",
    "B11": "The share is below 0.2% where H + D + 1 > 375, and 1.83% at H = 32, D = 8.",
}


def claims(config: Config, dataset: Any) -> list[Claim]:
    """Every printed figure beside ours, equal to the last digit; each at its source's own sizes."""
    found = []
    for id, figures in (book_figures() | lecture_figures()).items():
        measured = "; ".join(f"{what} {ours}" for what, (_, ours) in figures.items())
        holds = all(printed == ours for printed, ours in figures.values())
        found.append(claim(id, measured=measured, holds=holds, note=NOTES.get(id, "")))
    return found


def table(config: Config, dataset: Any) -> list[dict[str, str]]:
    """A cell a row, without a readout: multiply-adds of a step, MB of a batch, XLA's against the least."""
    rows = []
    for name in config.cells:
        at = dataset.sel(cell=name, length=config.length)
        rows.append(
            {
                "cell": name,
                "parameters": f"{int(at.parameters):,}",
                "multiply-adds": f"{int(at.multiply_adds):,}",
                "fixed MB": f"{float(at.fixed) / MB:.2f}",
                "states MB": f"{float(at.states) / MB:.2f}",
                "least MB": f"{float(at.least) / MB:.1f}",
                "XLA MB": f"{float(at.xla) / MB:.1f}",
                "ratio": f"{float(at.xla / at.least):.2f}",
            }
        )
    return rows


def figure(config: Config, dataset: Any) -> Any:
    """Activations against fixed memory as the lecture counts them, and what a gradient needs beside XLA's count."""
    fig, (left, right) = panels(2, width=12, height=4.8)
    draw_lecture(left, config, dataset.sel(cell="rnn" if "rnn" in config.cells else config.cells[0]))
    draw_gradients(right, config, dataset)
    return fig


def draw_lecture(axes: Any, config: Config, at: Any) -> None:
    """Stacked activations of one cell with a readout, by T, up to twice where they reach the fixed memory."""
    parts = {what: float(at[what]) / config.length / MB for what in PARTS}
    fixed = float(at.fixed_with_readout) / MB
    crossing = fixed / sum(parts.values())
    T, top = np.array([0, 2 * crossing]), 0.0
    axes.stackplot(T, [size * T for size in parts.values()], colors=(COLOURS["rnn"], COLOURS["rnn-uniform"], "#bfd7ea"))
    for what, size in parts.items():
        middle, share = (top + size / 2) * T[-1], size / sum(parts.values())
        axes.annotate(f"{what}, {share:.0%}", (T[-1], middle), (4, 0), textcoords="offset points", va="center")
        top += size
    axes.plot(T, [fixed, fixed], "--", color=GREY)
    axes.plot(crossing, fixed, "o", color="black")
    axes.annotate(f"passed at T = {crossing:.1f}", (crossing, fixed), (8, -14), textcoords="offset points")
    words = f"fixed: {fixed:.4g} MB of\nweights, gradient, Adam"
    axes.annotate(words, (0, fixed), (4, 4), textcoords="offset points", color=GREY)
    axes.set(xlabel="T, length of the sequences", ylabel="memory, MB", xlim=(0, T[-1]), ylim=(0, None))
    name = at.cell.item()
    axes.set_title(f"Activations: {NAMES.get(name, name)}, {config.classes:,} classes (H, D, B as on the right)")


def draw_gradients(axes: Any, config: Config, dataset: Any) -> None:
    """Lines: the least that a gradient needs; rings: XLA's temporaries; dashes: the fixed memory up to the crossing."""
    ends, crossings = [], []
    names = [name for name in DRAWN if name in config.cells]
    for name in names:
        at, colour = dataset.sel(cell=name), COLOURS[DRAWN[name]]
        T, step, fixed = np.array([1, at.length.max()]), float(at.least) / config.length / MB, float(at.fixed) / MB
        crossings.append(fixed / step)
        axes.plot(T, step * T, color=colour, linewidth=2)
        axes.plot(at.length, at.xla.values / MB, "o", color=colour, markerfacecolor="white")
        axes.plot([1, crossings[-1]], [fixed, fixed], "--", color=colour)
        axes.plot(crossings[-1], fixed, "o", color=colour)
        ends.append((step * T[-1], NAMES.get(name, name.upper()), colour))
    axes.set(xscale="log", yscale="log", xlim=(1, None), xlabel="T, length of the sequences", ylabel="memory, MB")
    axes.set_title(f"Gradient without readout: H = {config.hidden}, D = {config.inputs}, B = {config.batch}")
    label_ends(axes, ends, gap=0.05)
    if names:
        ratios = (dataset.xla / dataset.least).sel(length=config.length)
        axes.annotate(caption(crossings, ratios), (0.98, 0.03), **CAPTION)


def caption(crossings: list[float], ratios: Any) -> str:
    """What the marks of the right-hand panel are."""
    return (
        "lines: the least, from shapes alone\n"
        f"rings: XLA's temporaries, {float(ratios.min()):.2f} to {float(ratios.max()):.2f} times it over all cells\n"
        f"dashes: weights, gradient, Adam; passed at T = {min(crossings):.0f} to {max(crossings):.0f}"
    )


EXPERIMENT = Experiment(
    name="costs",
    summary="What does a recurrent network cost in parameters, multiply-adds and memory?",
    config=Config,
    quick={"cells": ("rnn", "lstm"), "batch": 4, "hidden": 16, "inputs": 8, "classes": 20, "lengths": (10,)},
    run=run,
    claims=claims,
    table=table,
    figure=figure,
    check=check,
    version=2,
)
