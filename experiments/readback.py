"""What is left of the gradient at each step of a trained network, in total and along its gates alone?

Source   lecture, the gradient read back at T = 50 (C4), in its configuration: every array uniform, forget bias 2
Command  python -m experiments run readback
Time     about 1 minute on 2 CPU cores, with compilation
Expect   the RNN's gradient is 1e-7 or less at step 1; the LSTM's forget-gate product is 1e-4 or more, and 0.04 to 0.1
         where it solved the task; there its total gradient rises again towards step 1, where the symbol is written
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from experiments.claims import claim
from experiments.horizon import check, measure, median, relative
from experiments.models import SOLVED, Training, without
from seqjax.report import Claim, Experiment
from seqjax.report.style import COLOURS, GREY, panels
from seqjax.sweep import gather

RATIO = 1e6  # what an independent reproduction found at the least
LINES = {"rnn-uniform": ("total",), "lstm": ("total", "direct")}  # cells, and the paths that are read


@dataclass(frozen=True)
class Config(Training):
    """Settings; the defaults are the source's."""

    length: int = 50
    examples: int = 2000

    @property
    def cells(self) -> tuple[str, ...]:
        """The two that the source compares."""
        return tuple(LINES)


def run(config: Config, point: Any) -> Any:
    """Train both cells and read their gradients; dims cell, moment, path, seed, lag."""
    parts = [point.resumable(partial(measure, config, cell), cell=cell, **without(config)) for cell in LINES]
    return gather(parts, {"cell": tuple(LINES)})


def claims(config: Config, dataset: Any) -> list[Claim]:
    """C4: the forget-gate product keeps what the plain unit's product of Jacobians loses."""
    gates, plain = relative(dataset, "lstm", "direct")[:, -1], relative(dataset, "rnn-uniform", "total")[:, -1]
    total = relative(dataset, "lstm", "total")[:, -1]
    solved = dataset.score.sel(cell="lstm").values > SOLVED
    ratio = median(gates) / median(plain)
    note = f"{solved.sum()} of {len(solved)} LSTM seeds solved recall"
    if solved.any():
        note += f": {median(gates[solved]):.2g} along their gates, {median(total[solved]):.2g} in total, which rises "
        note += "again towards step 1, where the symbol is written"
    measured = f"ratio {ratio:.1e}: {median(gates):.1e} against {median(plain):.1e}, medians of {len(plain)} seeds"
    return [claim("C4", measured=measured, holds=bool(ratio >= RATIO), note=note)]


def steps(config: Config) -> list[int]:
    """The steps that are printed, as far as there are any, the last first."""
    return [step for step in (45, 40, 30, 20, 10, 1) if step < config.length]


def table(config: Config, dataset: Any) -> list[dict[str, str]]:
    """Every seed after training, relative to one step back from the end."""
    rows = []
    for cell, paths in LINES.items():
        scores = dataset.score.sel(cell=cell).values
        for path in paths:
            for seed, (line, score) in enumerate(zip(relative(dataset, cell, path), scores, strict=True)):
                what = {"total": "total", "direct": "gates alone"}[path]
                row = {"cell, seed, path": f"{cell} {seed}, {what}", "score": f"{score:.2f}"}
                rows.append(row | {f"at {t}": f"{line[config.length - t - 1]:.0e}" for t in steps(config)})
    return rows


def figure(config: Config, dataset: Any) -> Any:
    """Gradient by step, every seed; of the LSTM in total and along its gates."""
    fig, both = panels(2, width=11, height=4.4, sharey=True)
    titles = {"rnn-uniform": "tanh RNN, uniform start", "lstm": "LSTM, forget bias 2"}
    for axes, (cell, paths) in zip(both, LINES.items(), strict=True):
        solved = dataset.score.sel(cell=cell).values > SOLVED
        for path in paths:
            for line, done in zip(relative(dataset, cell, path), solved, strict=True):
                style = {"color": COLOURS[cell] if path == "total" else GREY, "alpha": 1.0 if done else 0.35}
                axes.plot(config.length - 1 - np.arange(len(line)), line, linewidth=1.4, **style)
        axes.set(yscale="log", xlim=(config.length, 0), xlabel="step", title=f"{titles[cell]}, after training")
        axes.grid(axis="y", color="#e5e5e5")
    both[0].set_ylabel("gradient reaching the state,\nrelative to one step back from the end")
    note = {"xy": (0.98, 0.03), "xycoords": "axes fraction", "ha": "right", "color": GREY, "fontsize": 9}
    both[1].annotate("grey: along the forget gates alone\nfaint: a seed that did not solve the task", **note)
    return fig


EXPERIMENT = Experiment(
    name="readback",
    summary="What is left of the gradient at each step of a trained network?",
    config=Config,
    quick={"length": 12, "seeds": 2, "updates": 60, "examples": 100, "hidden": 8},
    run=run,
    claims=claims,
    table=table,
    figure=figure,
    check=check,
)
