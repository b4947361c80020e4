"""How far back does the gradient reach, before training and after it?

Source   lecture, the gradient read back at T = 50, in its configuration: every array uniform, forget bias 2 (the claim
         itself, C4, is judged by `readback`)
Command  python -m experiments run horizon
Time     about 2 minutes on 2 CPU cores, with compilation
Expect   after training, the RNN's gradient is 1e-7 or less at step 1; the LSTM's forget-gate product is 1e-4 or more,
         and 0.04 to 0.1 where it solved the task; there its total gradient rises again towards step 1, where the
         symbol is written
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
import xarray as xr

import seqjax
from experiments.models import CELLS, Training, check_training, recall_recipe, require_known, without
from seqjax.checkpoint import Checkpoints
from seqjax.core import Cell
from seqjax.plan import plan_for, spread
from seqjax.processes import fetch
from seqjax.progress import progress_bar
from seqjax.report import Experiment
from seqjax.report.style import COLOURS, GREY, NAMES, label_ends, panels
from seqjax.sweep import gather, seed_keys
from seqjax.train import test_keys

MOMENTS = {"initial": "At initialisation", "trained": "After training"}
GATES = tuple("hifgorzn")
PROBE = 2024  # seed of the sequences whose gradients are read


@dataclass(frozen=True)
class Config(Training):
    """Settings; the defaults are the source's."""

    cells: tuple[str, ...] = ("rnn", "rnn-uniform", "lstm", "gru")
    length: int = 50
    examples: int = 2000


def check(config: Config) -> None:
    """ValueError for settings that cannot be run."""
    require_known("cells", config.cells, CELLS)
    check_training(config)
    if isinstance(config.length, bool) or config.length < 4:
        raise ValueError(f"length must be at least 4 to fit a decay, got {config.length}")


def run(config: Config, point: Any) -> Any:
    """Train every cell and read its gradients before and after; dims cell, moment, path, seed, lag, gate."""
    settings = without(config, "cells")
    parts = [point.resumable(partial(measure, config, cell), cell=cell, **settings) for cell in config.cells]
    return gather(parts, {"cell": config.cells})


def measure(config: Any, name: str, *, checkpoints: Checkpoints | None = None) -> xr.Dataset:
    """One cell, every seed: gradients by lag (the mean norm over sequences), their decay, spectra and score."""
    recipe, cell = recall_recipe(name, config.length, config), CELLS[name]
    numbers, keys = seed_keys(config.seeds)
    with progress_bar(f"horizon: {name} at T = {config.length}") as show:
        states, _ = seqjax.train_many(recipe, keys, progress=show, checkpoints=checkpoints)
    params = fetch({"initial": seqjax.begin_many(recipe, keys).params, "trained": states.params})
    failed_at = fetch(states.failed_at)
    failed = failed_at >= 0
    total = {moment: norms(recipe, cell, config, params[moment]) for moment in MOMENTS}
    direct = {moment: norms(recipe, seqjax.direct_path(cell), config, params[moment]) for moment in MOMENTS}
    total["trained"][failed] = direct["trained"][failed] = np.nan
    gradient = np.array([[path[moment].mean(1) for path in (total, direct)] for moment in MOMENTS])
    factor = np.array([[decay(seed) for seed in total[moment]] for moment in MOMENTS])
    spectra = np.array([[blocks(cell, params[moment], seed) for seed in range(len(numbers))] for moment in MOMENTS])
    tests = test_keys(keys)
    scores = [float(seqjax.evaluate(recipe, at(params["trained"], i), tests[i])) for i in range(len(numbers))]
    return xr.Dataset(
        {
            "gradient": (("moment", "path", "seed", "lag"), gradient),
            "factor": (("moment", "seed"), factor),
            "spectral_radius": (("moment", "seed", "gate"), spectra[..., 0]),
            "sigma_max": (("moment", "seed", "gate"), spectra[..., 1]),
            "score": ("seed", np.where(failed, np.nan, scores)),
            "failed_at": ("seed", failed_at),
        },
        {
            "moment": list(MOMENTS),
            "path": ["total", "direct"],
            "seed": numbers,
            "lag": np.arange(config.length),
            "gate": list(GATES),
        },
    )


def norms(recipe: seqjax.Recipe, cell: Cell, config: Config, params: Any) -> np.ndarray:
    """‖dL/ds_t‖ of the probe sequences over the whole carry, [S, examples, lag]."""
    examples = recipe.task.held_out(jax.random.key(PROBE), config.examples)
    net = seqjax.network(cell, inputs="onehot", readout="last")
    profile = spread(
        lambda p: seqjax.gradient_profile(net, p, examples.xs, examples.targets).whole[0], plan_for(config.seeds)
    )
    return fetch(jax.jit(profile)(params)).astype(np.float64)


def decay(norms: np.ndarray) -> float:
    """Fitted per-step factor of one seed, [examples, lag]; NaN where its training failed."""
    return float("nan") if np.isnan(norms).all() else seqjax.fit_decay(np.log10(norms)).factor


def at(tree: Any, seed: int) -> Any:
    """One seed's part of a tree of [S, ...] arrays."""
    return jax.tree.map(lambda a: a[seed], tree)


def blocks(cell: Cell, params: Any, seed: int) -> np.ndarray:
    """Spectral radius and σ_max of every gate's recurrent block, [gate, 2]; NaN for gates the cell lacks."""
    found = seqjax.recurrent_blocks(cell, at(params, seed).body[0].forward)
    return np.array([[found[g].spectral_radius, found[g].sigma_max] if g in found else [np.nan] * 2 for g in GATES])


def relative(dataset: Any, cell: str, path: str, moment: str = "trained") -> np.ndarray:
    """Gradient by lag against one step back, where it has entered the memory: [S, lag >= 1]."""
    lines = dataset.gradient.sel(cell=cell, moment=moment, path=path).values[:, 1:]
    return lines / np.where(lines[:, :1] > 0, lines[:, :1], np.nan)


def median(values: np.ndarray) -> np.ndarray:
    """Over seeds, of the logarithm, as geometric decay asks for; 0 where a gradient has underflowed."""
    sound = values[~np.isnan(values.reshape(len(values), -1)).all(1)]
    if not len(sound):
        return np.full(values.shape[1:], np.nan)
    with np.errstate(divide="ignore"):
        return np.exp(np.median(np.log(sound), axis=0))


def table(config: Config, dataset: Any) -> list[dict[str, str]]:
    """Fitted decay, horizon and spectra, as medians over seeds; the largest gate block stands for a cell's spectra."""
    rows = []
    for cell in config.cells:
        for moment in MOMENTS:
            at = dataset.sel(cell=cell, moment=moment)
            factor = at.factor.values[~np.isnan(at.factor.values)]
            width = f"{np.median(factor):.3f} ({factor.min():.3f} to {factor.max():.3f})" if len(factor) else "-"
            reach = f"{np.median([seqjax.horizon(f) for f in factor]):.0f}" if len(factor) else "-"
            rows.append(
                {
                    "cell": cell,
                    "when": moment,
                    "seeds": f"{len(factor)} of {config.seeds}",
                    "per-step factor": width,
                    "steps to 1e-6": reach,
                    "spectral radius": f"{float(at.spectral_radius.max('gate').median('seed')):.2f}",
                    "σ_max": f"{float(at.sigma_max.max('gate').median('seed')):.2f}",
                }
            )
    return rows


def figure(config: Config, dataset: Any) -> Any:
    """Gradient against lag on a log axis, at initialisation and after training, with the LSTM's gate product."""
    fig, both = panels(2, width=11, height=4.6, sharey=True)
    lags = dataset.lag.values[1:]
    for axes, (moment, title) in zip(both, MOMENTS.items(), strict=True):
        ends = []
        lines = [(cell, "total") for cell in config.cells] + ([("lstm", "direct")] if "lstm" in config.cells else [])
        for cell, path in lines:
            curves, style = relative(dataset, cell, path, moment), {"total": "-", "direct": "--"}[path]
            middle = median(curves)
            axes.plot(lags, curves.T, style, color=COLOURS[cell], alpha=0.3, linewidth=1)
            axes.plot(lags, middle, style, color=COLOURS[cell], linewidth=2.2)
            name = NAMES[cell] if path == "total" else "LSTM, forget\ngates only"
            ends += [(last, name, COLOURS[cell]) for last in middle[middle > 0][-1:]]
        axes.set(yscale="log", xlim=(1, lags[-1]), title=title, xlabel="steps back from the loss")
        axes.grid(axis="y", color="#e5e5e5")
        if moment == "trained":
            label_ends(axes, ends, gap=0.085)
    both[1].set_title(f"{config.seeds} seeds, median bold", loc="right", color=GREY, fontsize=9)
    both[0].set_ylabel("gradient reaching the state, ‖dL/ds‖,\nrelative to one step back")
    return fig


EXPERIMENT = Experiment(
    name="horizon",
    summary="How far back does the gradient reach, before training and after it?",
    config=Config,
    quick={"cells": ("lstm",), "length": 20, "seeds": 2, "updates": 100, "examples": 200},
    run=run,
    claims=lambda config, dataset: [],
    table=table,
    figure=figure,
    check=check,
    version=2,
)
