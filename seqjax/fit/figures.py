"""The figures of a fit."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unicodedata import category

import matplotlib
import numpy as np
from matplotlib.ticker import MaxNLocator

from seqjax.fit.fitted import Fitted
from seqjax.fit.metrics import Answered, shown
from seqjax.fit.task import class_shares
from seqjax.fit.words import loss_name
from seqjax.report.style import COLOURS, GREY, label_ends, level, panels, styled

BLUE = COLOURS["lstm"]
CLASSES = 12  # of a confusion matrix in which numbers can be read


@contextmanager
def drawing() -> Iterator[None]:
    """Settings under which any words are drawn as they are: no mathematics in them, and boxes for what no font has."""
    with styled(), matplotlib.rc_context({"text.parse_math": False}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield


def figures(fitted: Fitted) -> dict[str, tuple[str, Any]]:
    """Every figure by its file's name, with what it shows."""
    said = fitted.said[fitted.main]
    found = {"learning": ("Loss of training and validation, by round, of every seed", learning(fitted))}
    if said.said.ndim == 1:
        found["predictions"] = ("What was predicted, against what came", scatter(fitted, said))
    else:
        found["reliability"] = ("How often it came so, against the probability that was said", reliability(said))
        found["confusion"] = ("How often each class was taken for which", confusion(fitted, said))
    if fitted.order is not None:
        found["truncation"] = ("Loss where only the last events of every sequence are visible", truncation(fitted))
        found["horizon"] = ("Gradient to the state, by events back from the end", horizon(fitted))
    return found


def learning(fitted: Fitted) -> Any:
    """Curves of every seed, the chosen one strong, its best round marked."""
    picture, (axes,) = panels(1, width=8, height=3.6)
    main = fitted.learned[fitted.main]
    rounds = np.arange(1, main.train.shape[1] + 1)
    ends = []
    for curves, colour, text in ((main.train, GREY, "training"), (main.validation, BLUE, "validation")):
        for seed, curve in enumerate(curves):
            axes.plot(rounds, curve, color=colour, linewidth=2 if seed == main.chosen else 0.8, alpha=0.9)
        last = curves[main.chosen][np.isfinite(curves[main.chosen])]
        ends.append((float(last[-1]), text, colour))
    best = main.best_round[main.chosen]
    axes.plot(best, main.best_loss[main.chosen], "o", color=BLUE)
    level(axes, constant_loss(fitted), "always the same answer")
    axes.set(xlabel="rounds through the training sequences", ylabel=loss_name(fitted).strip(","))
    axes.set_xlim(1 if len(rounds) > 1 else 0.5, max(len(rounds), 1.5))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    label_ends(axes, ends)
    return picture


def constant_loss(fitted: Fitted) -> float:
    """The training loss of always the same answer: entropy of the classes, variance 1 of standardised numbers."""
    if not fitted.prepared.question.classes:
        return 1.0
    shares = class_shares(fitted.prepared)
    return float(-(shares[shares > 0] * np.log(shares[shares > 0])).sum())


def reliability(said: Answered) -> Any:
    """Ten bins, as large as what is in them."""
    picture, (axes,) = panels(1, width=4.6, height=4.2)
    bins = shown(said)
    some = bins["counts"] > 0
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--")
    sizes = 20 + 200 * bins["counts"][some] / bins["counts"].max()
    axes.scatter(bins["said"][some], bins["came"][some], sizes, color=BLUE)
    axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), xlabel="probability that was said", ylabel="share that came so")
    axes.set_title("On the dashed line, probabilities can be taken at their word", fontsize=9)
    return picture


def confusion(fitted: Fitted, said: Answered) -> Any:
    """Counts, dark where they are a large share of their class."""
    classes, table = fitted.prepared.question.classes, shown(said)["confusion"]
    size = min(1.6 + 0.6 * len(classes), 8)
    picture, (axes,) = panels(1, width=size + 1.4, height=size + 0.6)
    shares = table / np.maximum(table.sum(1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    if len(classes) <= CLASSES:
        names = [label(name) for name in classes]
        axes.set_xticks(range(len(classes)), names, rotation=45, ha="right")
        axes.set_yticks(range(len(classes)), names)
        for (row, column), count in np.ndenumerate(table):
            colour = "white" if shares[row, column] > 0.6 else "black"
            axes.text(column, row, f"{count:,}", ha="center", va="center", color=colour)
    axes.set(xlabel="answer", ylabel="truth")
    return picture


def label(name: str) -> str:
    """A class as an axis names it: what is too long cut, and nothing that an SVG must not hold."""
    seen = "".join("\ufffd" if category(letter)[0] == "C" else letter for letter in name)
    return seen if len(seen) <= 16 else f"{seen[:15]}…"


def scatter(fitted: Fitted, said: Answered) -> Any:
    """Every test answer."""
    picture, (axes,) = panels(1, width=4.6, height=4.2)
    ends = [min(said.truth.min(), said.said.min()), max(said.truth.max(), said.said.max())]
    axes.plot(ends, ends, color=GREY, linewidth=1, linestyle="--")
    axes.plot(said.said, said.truth, ".", color=BLUE, alpha=0.5, markersize=4)
    axes.set(xlabel="predicted", ylabel=f"{fitted.prepared.question.column}, as it was")
    return picture


def truncation(fitted: Fitted) -> Any:
    """Loss by how many last events are left, and with all of them."""
    picture, (axes,) = panels(1, width=8, height=3.4)
    order: Any = fitted.order
    ks = sorted(order.truncation.changes)
    after = [order.truncation.changes[k].after for k in ks]
    bars = [[-m.value + m.high for m in after], [m.value - m.low for m in after]]
    axes.errorbar(ks, [-m.value for m in after], yerr=np.abs(bars), color=BLUE, marker="o", capsize=3)
    level(axes, -order.shuffle.before.value, "with all events")
    axes.set_xscale("log", base=2)
    axes.set_xticks(ks, [str(k) for k in ks])
    axes.set(xlabel="last events that are visible", ylabel=loss_name(fitted).strip(","))
    return picture


def horizon(fitted: Fitted) -> Any:
    """Gradient against lag: the median over sequences, and all of them behind it."""
    picture, (axes,) = panels(1, width=8, height=3.4)
    order: Any = fitted.order
    lines = np.where(np.isfinite(order.log10), order.log10, np.nan)
    lags = np.arange(lines.shape[1])
    axes.plot(lags, lines.T, color=BLUE, alpha=0.12, linewidth=0.6)
    axes.plot(lags, median(lines), color=BLUE, linewidth=2)
    axes.set(
        xlim=(0, max(lags[-1], 1)), xlabel="events back from the end", ylabel="log10 of the gradient, over the end's"
    )
    if axes.get_ylim()[0] < -2:
        level(axes, -2, "a hundredth")
    return picture


def median(lines: np.ndarray) -> np.ndarray:
    """Over the rows that are not NaN, NaN where all are."""
    found = np.full(lines.shape[1], np.nan)
    some = ~np.isnan(lines).all(0)
    found[some] = np.nanmedian(lines[:, some], axis=0)
    return found
