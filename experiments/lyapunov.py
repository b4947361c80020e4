"""Is the horizon of a network the inverse of its leading Lyapunov exponent?

Source   Engelken 2023, exponents of driven recurrent networks
Command  python -m experiments run lyapunov
Time     about 3 minutes on 2 CPU cores, with compilation
Expect   below the gain at which the leading exponent crosses 0 the gradient decays by exp(λ1) a step, so that the
         horizon from the exponent is the measured one; gates hold the LSTM and the GRU near 0 over a wide range

Recurrent blocks are orthogonal times a gain, inputs N(0, I) with variance 0.1 in the pre-activation, no bias but a keep
or forget bias of 1.
"""

from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import jax
import numpy as np
import xarray as xr

import seqjax
from experiments.claims import claim
from experiments.models import require_known, without
from seqjax.core import require_sizes
from seqjax.init import Bias, GateBias, InputGaussian, Orthogonal
from seqjax.report import Claim, Experiment
from seqjax.report.style import COLOURS, GREY, NAMES, label_ends, level, panels
from seqjax.statistics import mean
from seqjax.sweep import gather, seed_keys

CELLS = {"rnn": seqjax.rnn(), "lstm": seqjax.lstm(), "gru": seqjax.gru()}
GATE = {"lstm": "f", "gru": "z"}
INPUTS = 8
BURN_IN, SETTLE = 100, 200


@dataclass(frozen=True)
class Config:
    """Settings; k exponents over `length` steps, gradients over `lags`."""

    cells: tuple[str, ...] = ("rnn", "lstm", "gru")
    gains: tuple[float, ...] = (0.5, 0.7, 0.9, 1.0, 1.1, 1.3, 1.6, 2.0, 3.0)
    seeds: int = 5
    hidden: int = 64
    length: int = 2000
    lags: int = 200
    k: int = 8


def check(config: Config) -> None:
    """ValueError for settings that cannot be run."""
    require_known("cells", config.cells, CELLS)
    require_sizes(seeds=config.seeds, hidden=config.hidden, k=config.k)
    if config.k > config.hidden:
        raise ValueError(f"k must be at most hidden = {config.hidden}, got {config.k}")
    if config.length < BURN_IN + SETTLE + config.lags or config.lags < 20:
        least = BURN_IN + SETTLE + config.lags
        raise ValueError(f"lags must be at least 20 and length at least {least}, got {config.lags}, {config.length}")
    if not config.gains or not all(gain > 0 for gain in config.gains):
        raise ValueError(f"gains must be above 0, at least one, got {config.gains}")


def run(config: Config, point: Any) -> Any:
    """Every cell at every gain; dims cell, gain, seed [, rank]."""
    settings = without(config, "cells", "gains")
    parts = [
        point(partial(measure, config, cell, gain), cell=cell, gain=gain, **settings)
        for cell in config.cells
        for gain in config.gains
    ]
    return gather(parts, {"cell": config.cells, "gain": config.gains})


def measure(config: Config, name: str, gain: float) -> xr.Dataset:
    """Exponents, and the decay of the gradient along the end of the same trajectory, of every seed."""
    numbers, keys = seed_keys(config.seeds)
    program = compiled(name, config.length, config.lags, config.k, config.hidden)
    exponents, errors, logs = (np.asarray(each, np.float64) for each in program(keys, gain))
    slopes = [np.polyfit(np.arange(config.lags), line, 1)[0] for line in logs]
    return xr.Dataset(
        {
            "exponent": (("seed", "rank"), exponents),
            "error": (("seed", "rank"), errors),
            "gradient": ("seed", np.array(slopes)),
        },
        {"seed": numbers, "rank": np.arange(1, config.k + 1)},
    )


@cache
def compiled(*sizes: Any) -> Any:
    """One program for all gains and seeds of a cell."""
    return jax.jit(jax.vmap(partial(probe, *sizes), (0, None)))


def probe(name: str, T: int, lags: int, k: int, H: int, key: Any, gain: Any) -> tuple[Any, Any, Any]:
    """One network: exponents [k], their errors [k], and the natural logarithm of the gradient by lag [lags]."""
    cell, keys = CELLS[name], jax.random.split(key, 5)
    params = cell.init(keys[0], INPUTS, H)
    for edit, own in zip((Orthogonal(gain), InputGaussian(0.1), Bias(0.0)), keys[1:4], strict=True):
        params = edit(own, cell, params)
    params = GateBias(GATE[name], 1.0)(keys[3], cell, params) if name in GATE else params
    xs = jax.random.normal(keys[4], (T, INPUTS))
    found = seqjax.lyapunov(cell, params, xs, k=k, burn_in=BURN_IN, settle=SETTLE)
    start = seqjax.unroll(cell, params, xs[: T - lags]).final
    trace = seqjax.unroll(cell, params, xs[T - lags :], state=start)
    ones = jax.tree.map(lambda s: jax.random.normal(keys[3], s.shape), trace.final)
    return found.exponents, found.error, seqjax.pullback(cell, params, trace, ones).log_norm[::-1]


def claims(config: Config, dataset: Any) -> list[Claim]:
    """V6: the exponent is the decay of the gradient, where it decays."""
    first, decay = dataset.exponent.isel(rank=0).values.ravel(), dataset.gradient.values.ravel()
    decays = first < -0.02
    if not decays.any():
        return []
    ratio = decay[decays] / first[decays]
    worst = float(np.abs(np.log(ratio)).max()) if (ratio > 0).all() else float("inf")
    measured = f"ratio of the two {mean(ratio)} over {decays.sum()} networks, at the worst off by {np.expm1(worst):.0%}"
    return [claim("V6", measured=measured, holds=bool(abs(ratio.mean() - 1) < 0.05))]


def table(config: Config, dataset: Any) -> list[dict[str, str]]:
    """Leading exponent as a factor a step, and the factor by which the gradient decays; medians over seeds."""
    rows = []
    for gain in config.gains:
        row = {"gain": f"{gain:g}"}
        for cell in config.cells:
            at = dataset.sel(cell=cell, gain=gain)
            row[f"{cell}: exp(λ1)"] = f"{float(np.exp(at.exponent.isel(rank=0).median())):.3f}"
            row[f"{cell}: gradient"] = f"{float(np.exp(at.gradient.median())):.3f}"
        rows.append(row)
    return rows


def figure(config: Config, dataset: Any) -> Any:
    """Leading exponents against the gain, and horizon from the exponent against horizon from the gradient."""
    fig, (left, right) = panels(2, width=12, height=4.6)
    ends = []
    for cell in config.cells:
        first = dataset.exponent.sel(cell=cell).isel(rank=0).values
        left.plot(config.gains, first, "o", color=COLOURS[cell], alpha=0.4, markersize=4)
        left.plot(config.gains, np.median(first, 1), color=COLOURS[cell], linewidth=2)
        ends.append((float(np.median(first[-1])), NAMES[cell], COLOURS[cell]))
        slopes = dataset.gradient.sel(cell=cell).values
        decays = (first < 0) & (slopes < 0)
        right.plot(-1 / first[decays], -1 / slopes[decays], "o", color=COLOURS[cell], alpha=0.5, markersize=4)
    left.set(xscale="log", xlabel="gain of the recurrent blocks", ylabel="leading exponent a step")
    left.set_xticks(config.gains, [f"{gain:g}" for gain in config.gains])
    left.minorticks_off()
    left.set_title(f"Leading Lyapunov exponent, every seed, H = {config.hidden}")
    level(left, 0, "holds")
    label_ends(left, ends)
    right.set(xscale="log", yscale="log", xlabel="-1/λ1, steps", ylabel="e-fold of the gradient, steps")
    ends_at = [1, 1000]
    right.plot(ends_at, ends_at, color=GREY, linewidth=0.8, linestyle=":")
    right.set_title("Horizon from the exponent, and measured")
    return fig


EXPERIMENT = Experiment(
    name="lyapunov",
    summary="Is the horizon of a network the inverse of its leading Lyapunov exponent?",
    config=Config,
    quick={"cells": ("gru",), "gains": (0.7, 1.5), "seeds": 2, "hidden": 8, "length": 400, "lags": 50, "k": 2},
    run=run,
    claims=claims,
    table=table,
    figure=figure,
    check=check,
)
