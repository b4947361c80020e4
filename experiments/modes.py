"""How long does each mode of a matrix recursion last, and which way does it turn?

Source   lecture, the matrix recursions A1, A2 and A3 (B3 to B5)
Command  python -m experiments run modes
Time     seconds
Expect   A1 two real poles inside the circle, 0.862 and 0.638; A2 a pair at radius 0.949 that turns once in 19.5 steps;
         A3 one pole outside, which grows e-fold in 5.96 steps
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

import seqjax
from experiments.claims import agrees, claim
from experiments.models import require_known
from seqjax import filters
from seqjax.core import Affine, Hidden, require_sizes
from seqjax.report import Claim, Experiment
from seqjax.report.style import GREY, panels

MATRICES = {
    "A1": ((0.8, 0.1), (0.1, 0.7)),
    "A2": ((0.9, -0.3), (0.3, 0.9)),
    "A3": ((1.1, 0.2), (0.2, 0.7)),
}


@dataclass(frozen=True)
class Config:
    """Settings."""

    matrices: tuple[str, ...] = ("A1", "A2", "A3")
    starts: int = 12
    steps: int = 40


def check(config: Config) -> None:
    """ValueError for settings that cannot be run."""
    require_known("matrices", config.matrices, MATRICES)
    require_sizes(starts=config.starts, steps=config.steps)


def run(config: Config, point: Any) -> Any:
    """Trajectories of the engine from a circle of starts, and the poles; dims matrix, start, step, axis; pole."""
    return point(partial(measure, config), matrices=config.matrices, starts=config.starts, steps=config.steps)


def measure(config: Config) -> xr.Dataset:
    """Every matrix, in float64."""
    angles = np.linspace(0, 2 * np.pi, config.starts, endpoint=False)
    with jax.enable_x64(True):
        first = Hidden(jnp.asarray(np.stack([np.cos(angles), np.sin(angles)], 1)))
        still = jnp.zeros((config.starts, config.steps, 1))
        paths = [
            seqjax.unroll(
                seqjax.linear(), Affine(jnp.zeros((2, 1)), jnp.asarray(MATRICES[name]), None, None), still, state=first
            ).ys
            for name in config.matrices
        ]
    paths = np.concatenate([np.broadcast_to(first.h, (len(paths), config.starts, 2))[:, :, None], np.stack(paths)], 2)
    poles = np.stack([filters.poles(MATRICES[name]) for name in config.matrices])
    parts = np.stack([np.real(poles), np.imag(poles)], -1)
    return xr.Dataset(
        {
            "path": (("matrix", "start", "step", "axis"), paths),
            "pole": (("matrix", "rank", "part"), parts),
        },
        {"matrix": list(config.matrices), "part": ["re", "im"]},
    )


def modes_of(name: str) -> list[filters.Mode]:
    """The modes of one matrix."""
    return filters.modes(MATRICES[name])


def claims(config: Config, dataset: Any) -> list[Claim]:
    """B3 to B5, to every printed digit."""
    found = []
    if "A1" in config.matrices:
        slow, fast = modes_of("A1")
        holds = agrees(slow.radius, "0.86180") and agrees(fast.radius, "0.63820")
        holds = holds and agrees(slow.horizon, "6.72") and agrees(fast.horizon, "2.23")
        measured = f"poles {slow.radius:.5f}, {fast.radius:.5f}; horizons {slow.horizon:.2f}, {fast.horizon:.2f}"
        found.append(claim("B3", measured=measured, holds=holds))
    if "A2" in config.matrices:
        (pair,) = modes_of("A2")
        values = (pair.radius, pair.angle, pair.period, pair.horizon)
        holds = all(map(agrees, values, ("0.948683", "18.4349", "19.5281", "18.982")))
        measured = "r = {:.6f}, {:.4f} degrees, period {:.4f}, horizon {:.3f}".format(*values)
        found.append(claim("B4", measured=measured, holds=holds))
    if "A3" in config.matrices:
        out, inside = modes_of("A3")
        values = (out.radius, inside.radius, out.time_constant, inside.horizon)
        holds = all(map(agrees, values, ("1.18284", "0.61716", "5.96", "2.07")))
        measured = "poles {:.5f}, {:.5f}; grows e-fold in {:.2f} steps, decays in {:.2f}".format(*values)
        found.append(claim("B5", measured=measured, holds=holds))
    return found


def table(config: Config, dataset: Any) -> list[dict[str, str]]:
    """Every mode."""
    return [
        {
            "matrix": name,
            "pole": f"{mode.pole.real:.5f}" + (f" ± {mode.pole.imag:.5f}i" if mode.pole.imag else ""),
            "radius": f"{mode.radius:.6f}",
            "regime": mode.regime,
            "degrees a step": f"{mode.angle:.4f}",
            "period": f"{mode.period:.4f}",
            "e-fold, steps": f"{mode.time_constant:.3f} {'up' if mode.radius > 1 else 'down'}",
        }
        for name in config.matrices
        for mode in modes_of(name)
    ]


def figure(config: Config, dataset: Any) -> Any:
    """A phase portrait for every matrix, and all poles in the plane."""
    fig, axes = panels(len(config.matrices) + 1, width=4 * len(config.matrices) + 4, height=4.2)
    colours = dict(zip(MATRICES, ("#0072B2", "#009E73", "#D55E00"), strict=True))
    for place, name in zip(axes, config.matrices, strict=False):
        for path in dataset.path.sel(matrix=name).values:
            place.plot(*path.T, color=colours[name], marker=".", markersize=3, linewidth=0.8, alpha=0.8)
        place.plot(*dataset.path.sel(matrix=name, step=0).values.T, "o", color=GREY, markersize=4, fillstyle="none")
        place.set(xlim=(-2, 2), ylim=(-2, 2), xlabel="first unit", ylabel="second unit", aspect="equal")
        place.set_title(f"{name}: {', '.join(mode.regime for mode in modes_of(name))}")
        re, im = dataset.pole.sel(matrix=name).values.T
        axes[-1].plot(re, im, "x", color=colours[name], markersize=9, markeredgewidth=2, label=name)
    turn = np.linspace(0, 2 * np.pi, 200)
    axes[-1].plot(np.cos(turn), np.sin(turn), color=GREY, linewidth=0.8)
    axes[-1].set(xlim=(-1.4, 1.4), ylim=(-1.4, 1.4), xlabel="real part", ylabel="imaginary part", aspect="equal")
    axes[-1].set_title("Poles and the unit circle")
    axes[-1].legend(frameon=False, loc="upper left")
    return fig


EXPERIMENT = Experiment(
    name="modes",
    summary="How long does each mode of a matrix recursion last, and which way does it turn?",
    config=Config,
    quick={"starts": 4},
    run=run,
    claims=claims,
    table=table,
    figure=figure,
    check=check,
)
