"""What does a one-pole filter remember, and what does it do to each frequency?

Source   lecture, one-pole filter: horizons, DC gain, the four regimes, frequency response (B1, B2)
Command  python -m experiments run filters
Time     seconds
Expect   horizons of 9.49, 99.5 and 999.5 steps and DC gains of 10, 100 and 1000 at poles 0.9, 0.99 and 0.999, from the
         engine as well as in closed form
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

import seqjax
from experiments.claims import all_agree, claim
from seqjax import filters
from seqjax.report import Claim, Experiment
from seqjax.report.style import GREY, label_ends, panels

COLOURS = ("#0072B2", "#009E73", "#D55E00", "#CC79A7", "#E69F00")


@dataclass(frozen=True)
class Config:
    """Settings; `steps` of the constant input that measures the DC gain, in horizons."""

    poles: tuple[float, ...] = (0.9, 0.99, 0.999)
    regimes: tuple[float, ...] = (0.9, 1.0, 1.05, -0.9)
    steps: int = 30
    frequencies: int = 400


def check(config: Config) -> None:
    """ValueError for settings that cannot be run."""
    if not config.poles or not all(0 < pole < 1 for pole in config.poles):
        raise ValueError(f"poles must lie in (0, 1), at least one, got {config.poles}")
    if not config.regimes or config.steps < 30 or config.frequencies < 2:
        raise ValueError("regimes must name a pole, steps be at least 30 and frequencies at least 2")


def run(config: Config, point: Any) -> Any:
    """Dims pole (horizon, gain, response by frequency), regime and lag (impulse responses)."""
    return point(
        partial(measure, config),
        poles=config.poles,
        regimes=config.regimes,
        steps=config.steps,
        frequencies=config.frequencies,
    )


def through_engine(poles: Any, xs: Any) -> np.ndarray:
    """What the cell `one_pole` makes of one input [T], a column per pole, in float64."""
    with jax.enable_x64(True):
        cell = seqjax.one_pole()
        params = replace(
            cell.init(jax.random.key(0), 1, len(poles)), α=jnp.asarray(poles), W_ih=jnp.ones((len(poles), 1))
        )
        return np.asarray(seqjax.unroll(cell, params, jnp.asarray(xs, float)[:, None]).ys)


def measure(config: Config) -> xr.Dataset:
    """Horizons by the impulse response of the engine, gains by its answer to a constant, responses in closed form."""
    slowest = int(config.steps * filters.memory_horizon(max(config.poles)))
    impulse = through_engine(config.poles, np.eye(1, slowest)[0])
    steps = np.arange(slowest)
    fitted = [-1 / np.polyfit(steps[:50], np.log(line[:50]), 1)[0] for line in impulse.T]
    gains = through_engine(config.poles, np.ones(slowest))[-1]
    frequencies = np.logspace(-4, 0, config.frequencies) * np.pi
    responses = [filters.frequency_response(pole, 1 - pole, frequencies=frequencies) for pole in config.poles]
    lags = np.arange(41)
    return xr.Dataset(
        {
            "horizon": ("pole", np.array(fitted)),
            "closed_horizon": ("pole", np.array([filters.memory_horizon(pole) for pole in config.poles])),
            "gain": ("pole", gains),
            "closed_gain": ("pole", np.array([float(filters.dc_gain(pole, 1.0)) for pole in config.poles])),
            "magnitude": (("pole", "frequency"), np.abs(responses)),
            "phase": (("pole", "frequency"), np.degrees(np.angle(responses))),
            "impulse": (("regime", "lag"), through_engine(config.regimes, np.eye(1, 41)[0]).T),
        },
        {"pole": list(config.poles), "regime": list(config.regimes), "frequency": frequencies, "lag": lags},
    )


def claims(config: Config, dataset: Any) -> list[Claim]:
    """B1 and B2, from the engine."""
    if config.poles != Config().poles:
        return []
    horizons, gains = dataset.horizon.values, dataset.gain.values
    return [
        claim(
            "B1",
            measured=", ".join(f"{h:.4f}" for h in horizons),
            holds=all_agree(horizons, ("9.4912", "99.4992", "999.4999")),
        ),
        claim(
            "B2", measured=", ".join(f"{g:.4f}" for g in gains), holds=all_agree(gains, ("10.00", "100.00", "1000.00"))
        ),
    ]


def table(config: Config, dataset: Any) -> list[dict[str, str]]:
    """Measured beside closed forms."""
    rows = []
    for pole in config.poles:
        at = dataset.sel(pole=pole)
        half_power = float(dataset.frequency[np.abs(at.magnitude.values - 0.5**0.5).argmin()])
        rows.append(
            {
                "pole": f"{pole:g}",
                "horizon, engine": f"{float(at.horizon):.4f}",
                "-1/ln a": f"{float(at.closed_horizon):.4f}",
                "DC gain, engine": f"{float(at.gain):.3f}",
                "1/(1 - a)": f"{float(at.closed_gain):.3f}",
                "half power at": f"{half_power:.2g} rad a step",
            }
        )
    return rows


def figure(config: Config, dataset: Any) -> Any:
    """Impulse responses of the regimes, and magnitude and phase by frequency."""
    fig, (left, middle, right) = panels(3, width=14, height=4.2)
    ends = []
    for pole, colour in zip(config.regimes, COLOURS, strict=False):
        line = dataset.impulse.sel(regime=pole).values
        left.plot(dataset.lag, line, color=colour, marker=".", markersize=4, linewidth=1.2)
        ends.append((float(line[-1]), f"{pole:g}, {filters.regime(pole)}", colour))
    left.axhline(0, color=GREY, linewidth=0.8)
    left.set(xlim=(0, 40), xlabel="steps after a 1", ylabel="output")
    left.set_title("What a pole does")
    label_ends(left, ends)
    for pole, colour in zip(config.poles, COLOURS, strict=False):
        at = dataset.sel(pole=pole)
        middle.plot(dataset.frequency, at.magnitude, color=colour, linewidth=1.8, label=f"a = {pole:g}")
        right.plot(dataset.frequency, at.phase, color=colour, linewidth=1.8)
    middle.set(xscale="log", yscale="log", xlabel="frequency, radians a step", ylabel="gain, of b = 1 - a")
    middle.set_title("Frequency response")
    middle.legend(frameon=False)
    right.set(xscale="log", xlabel="frequency, radians a step", ylabel="phase, degrees")
    right.set_title("Delay")
    return fig


EXPERIMENT = Experiment(
    name="filters",
    summary="What does a one-pole filter remember, and what does it do to each frequency?",
    config=Config,
    quick={"poles": (0.9, 0.99)},
    run=run,
    claims=claims,
    table=table,
    figure=figure,
    check=check,
)
