"""Which unit learns to count over 25 steps, and where do its forget gates go?

Source   book, exercise 6: convergence above 20 steps, plain RNN against LSTM, and forget gates that go to 1 (C5)
Command  python -m experiments run counting
Time     about 3 minutes on 2 CPU cores, with compilation
Expect   every LSTM is above 0.99 after 4000 updates and no RNN is, even with clipping: it climbs earlier, but swings to
         the end; the forget gates' mean rises from 0.73 to about 0.92 while the answer is still T/2, and falls to about
         0.85 as counting is learned, with one to five units of 32 above 0.95; on recall at T = 50 it ends near 0.89 in
         seeds that solve it, with a few units above 0.95, and lower in those that do not

Every array starts uniform, as in PyTorch, with forget bias 1 on counting and 2 on recall.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

import seqjax
from experiments.claims import claim
from experiments.models import CELLS as UNITS
from experiments.models import SOLVED, Training, check_training, recall_recipe, recipe_of, require_clip, without
from experiments.watch import OPEN, looks_of, watch
from seqjax.core import require_sizes
from seqjax.report import Claim, Experiment
from seqjax.report.style import COLOURS, GREY, NAMES, label_ends, level, panels
from seqjax.statistics import Rate, rate

CELLS = {"rnn": seqjax.rnn(), "lstm": seqjax.lstm(forget_bias=1.0)}
RECALL = "lstm on recall"
COLUMNS = ("mean gate, start", "peak", "end", "units, end", "values above 0.95")
FALL = 0.03  # a mean that ends this far below its peak has fallen
# An independent reproduction's seeds. A rate here is judged by whether its 95% interval overlaps the one there.
LAB_LSTM, LAB_RNN = (3, 3), (0, 3)


@dataclass(frozen=True)
class Config(Training):
    """Settings; six seeds tell 5 solved from none, which four do not."""

    seeds: int = 6
    updates: int = 4000
    length: int = 25
    clip: float = 1.0  # of the RNN
    recall_updates: int = 1500
    recall_length: int = 50
    every: int = 100  # updates between two looks
    examples: int = 2000


def check(config: Config) -> None:
    """ValueError for settings that cannot be run."""
    check_training(config)
    sizes = ("length", "recall_updates", "recall_length", "every")
    require_sizes(**{name: getattr(config, name) for name in sizes})
    require_clip(config.clip)


def run(config: Config, point: Any) -> Any:
    """Train and look again and again; dims run, seed, update (NaN after the end of a run) [, unit]."""
    ours, theirs = ("length", "updates", "clip"), ("recall_length", "recall_updates")
    options = {"seeds": config.seeds, "every": config.every, "examples": config.examples}
    parts = []
    for name, cell in CELLS.items():
        network = seqjax.network(cell, inputs="onehot", readout="last")
        clip = config.clip if name == "rnn" else None
        recipe = recipe_of(network, seqjax.tasks.counting(length=config.length), config, clip=clip)
        work = partial(watch, recipe, cell, title=f"counting: {NAMES[name]}", **options)
        parts.append(point(work, run=name, **without(config, *theirs)))
    recipe = recall_recipe("lstm", config.recall_length, replace(config, updates=config.recall_updates))
    work = partial(watch, recipe, UNITS["lstm"], title="recall: LSTM", **options)
    parts.append(point(work, run=RECALL, **without(config, *ours)))
    return xr.concat(parts, xr.Variable("run", [*CELLS, RECALL]), join="outer", combine_attrs="drop")


def of_run(config: Config, dataset: Any, name: str) -> Any:
    """One run at its own looks."""
    updates = config.recall_updates if name == RECALL else config.updates
    return dataset.sel(run=name, update=looks_of(updates, config.every))


def solved(config: Config, dataset: Any, name: str) -> Rate:
    """How many seeds end above 0.99; a failed seed does not."""
    scores = of_run(config, dataset, name).score.values[:, -1]
    return rate(int((scores > SOLVED).sum()), len(scores))


@dataclass(frozen=True)
class Gates:
    """Forget gates of one run, as medians over its seeds of what their means over sequences and steps did."""

    start: float  # mean over units
    peak: float
    end: float
    fall: float  # from each seed's own peak to its end
    least: float  # of the units, at the end
    largest: float
    above: float  # share of all values above 0.95, at the end
    units: tuple[int, int]  # fewest and most units above 0.95 in one seed, at the end


def gates_of(run: Any) -> Gates:
    """The summary of a run's `forget` [seed, update, unit]; a failed seed counts in no median and has no open unit."""
    units = run.forget.values
    mean, end = units.mean(2), units[:, -1]
    counts, share = (end > OPEN).sum(1), float(run.open_share[:, -1].median())
    every = [mean[:, 0], mean.max(1), mean[:, -1], mean.max(1) - mean[:, -1], end.min(1), end.max(1)]
    start, peak, last, fall, least, largest = np.nanmedian(every, axis=1).tolist()
    return Gates(start, peak, last, fall, least, largest, share, (int(counts.min()), int(counts.max())))


def claims(config: Config, dataset: Any) -> list[Claim]:
    """C5a by rates with 95% Wilson intervals, C5b and V4 by the median seed on counting."""
    lstm, rnn = (solved(config, dataset, name) for name in ("lstm", "rnn"))
    gates, swings = gates_of(of_run(config, dataset, "lstm")), of_run(config, dataset, "rnn").score[:, -10:]
    mean = f"mean {gates.start:.3f} at the start, {gates.peak:.3f} at its peak, {gates.end:.3f} at the end"
    return [
        claim(
            "C5a",
            measured=f"LSTM {lstm}; RNN with clipping {rnn}",
            holds=rnn.high < lstm.low and lstm.overlaps(rate(*LAB_LSTM)) and rnn.overlaps(rate(*LAB_RNN)),
            note=f"The RNN does not settle: its last ten looks lie between {float(swings.min()):.2f} and "
            f"{float(swings.max()):.2f}.",
        ),
        claim("C5b", measured=mean, holds=gates.end > OPEN, note=on_recall(of_run(config, dataset, RECALL))),
        claim(
            "V4",
            measured=f"largest unit {gates.largest:.3f}; {mean}",
            holds=gates.largest > OPEN and gates.fall > FALL,
            note=f"At the end {gates.units[0]} to {gates.units[1]} of {config.hidden} units are above {OPEN}, and the "
            f"least is at {gates.least:.2f}.",
        ),
    ]


def on_recall(run: Any) -> str:
    """Where the gates end on recall, in seeds that solve it and in those that do not."""
    parts, done = [], run.score.values[:, -1] > SOLVED
    for word, chosen in (("solved", done), ("not solved", ~done)):
        if chosen.any():
            found = gates_of(run.isel(seed=np.flatnonzero(chosen)))
            part = f"{chosen.sum()} of {len(done)} seeds {word}, mean {found.end:.3f}, largest unit {found.largest:.3f}"
            parts.append(f"{part}, {found.above:.0%} of all values above {OPEN}")
    return f"At the end of recall: {'; '.join(parts)}."


def table(config: Config, dataset: Any) -> list[dict[str, str]]:
    """Success and accuracy at the end, and the forget gates as medians over seeds."""
    rows = []
    for name in dataset.run.values:
        run = of_run(config, dataset, name)
        scores = run.score.fillna(0).values[:, -1]
        row = {"run": (NAMES | {RECALL: "LSTM on recall"})[name], "solved": str(solved(config, dataset, name))}
        row["accuracy"] = f"{scores.min():.3f} to {scores.max():.3f}"
        rows.append(row | dict(zip(COLUMNS, cells_of(run), strict=True)))
    return rows


def cells_of(run: Any) -> list[str]:
    """A run's gates as a row of the table."""
    if np.isnan(run.forget.values).all():
        return ["-"] * len(COLUMNS)
    found = gates_of(run)
    means = [f"{value:.3f}" for value in (found.start, found.peak, found.end)]
    return [*means, f"{found.least:.2f} to {found.largest:.2f}", f"{found.above:.0%}"]


def figure(config: Config, dataset: Any) -> Any:
    """Accuracy of every seed on the way, and the forget gates of both LSTMs."""
    fig, (left, *both) = panels(3, width=14, height=4.4)
    draw_accuracy(left, config, dataset)
    titles = (f"Forget gates, counting at T = {config.length}", f"Forget gates, recall at T = {config.recall_length}")
    for axes, name, title in zip(both, ("lstm", RECALL), titles, strict=True):
        draw_gates(axes, of_run(config, dataset, name))
        axes.set_title(title)
    both[1].set_title("dashed: not solved", loc="right", color=GREY, fontsize=9)
    return fig


def draw_accuracy(axes: Any, config: Config, dataset: Any) -> None:
    """Every seed of both units, and the score of one constant answer."""
    ends = []
    for name, width in (("rnn", 0.8), ("lstm", 1.8)):
        run = of_run(config, dataset, name)
        axes.plot(run["update"], run.score.values.T, color=COLOURS[name], alpha=0.7, linewidth=width)
        ends.append((float(run.score[:, -1].median()), NAMES[name], COLOURS[name]))
    axes.set(xlim=(0, config.updates), ylim=(-0.02, 1.03), xlabel="update", ylabel="counts right, fresh sequences")
    axes.set_title(f"Counting ones in {config.length} bits, every seed")
    level(axes, seqjax.tasks.counting(length=config.length).chance, f"always {config.length // 2}")
    label_ends(axes, ends)


def draw_gates(axes: Any, run: Any) -> None:
    """Every unit of every seed faint; a seed's mean and largest unit bold, dashed where it is not solved."""
    units, ends = run.forget.values, []
    axes.plot(run["update"], units.swapaxes(0, 1).reshape(units.shape[1], -1), color=GREY, alpha=0.15, linewidth=0.6)
    for values, text, colour in ((units.max(2), "largest\nunit", COLOURS["rnn"]), (units.mean(2), "mean", "black")):
        for line, score in zip(values, run.score.values[:, -1], strict=True):
            style = "-" if score > SOLVED else (0, (2, 1))
            axes.plot(run["update"], line, color=colour, linewidth=1.6, linestyle=style)
        ends.append((float(np.nanmedian(values[:, -1])), text, colour))
    axes.set(xlim=(0, int(run["update"][-1])), xlabel="update", ylabel="σ(f), mean over sequences and steps")
    level(axes, OPEN, str(OPEN))
    label_ends(axes, ends)


EXPERIMENT = Experiment(
    name="counting",
    summary="Which unit learns to count over 25 steps, and where do its forget gates go?",
    config=Config,
    quick={
        "length": 6,
        "recall_length": 6,
        "updates": 60,
        "recall_updates": 40,
        "every": 20,
        "hidden": 8,
        "seeds": 2,
        "examples": 200,
    },
    run=run,
    claims=claims,
    table=table,
    figure=figure,
    check=check,
)
