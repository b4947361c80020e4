"""Where does a one-pole filter that learns its own pole go, and what keeps it from leaving the circle?

Source   lecture, adaptive one-pole filter and its cost surface (B24)
Command  python -m experiments run adaptive_pole
Time     seconds
Expect   the gradient by its own recursion equals autodiff's; small steps come to the plant from anywhere inside; at a
         large step the guard keeps every trajectory finite, and without it some diverge
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from experiments.claims import claim
from seqjax import filters
from seqjax.core import require_sizes
from seqjax.report import Claim, Experiment
from seqjax.report.style import GREY, panels
from seqjax.statistics import rate

PLANT = (0.8, 0.5)
STARTS = ((-0.8, 0.0), (0.0, 0.0), (0.0, 1.0), (0.5, -0.5), (0.95, 1.0))
GUARD = 0.99


@dataclass(frozen=True)
class Config:
    """Settings; `small` and `large` are steps of the descent, `check_steps` those over which gradients are compared."""

    steps: int = 4000
    paths: int = 50
    small: float = 0.01
    large: float = 0.05
    check_steps: int = 200
    grid: int = 81


def check(config: Config) -> None:
    """ValueError for settings that cannot be run."""
    require_sizes(steps=config.steps, paths=config.paths, check_steps=config.check_steps, grid=config.grid)
    if not 0 < config.small < config.large:
        raise ValueError(f"steps must be 0 < small < large, got {config.small}, {config.large}")


def run(config: Config, point: Any) -> Any:
    """Surface, trajectories, and what diverges; dims alpha, beta; start, step, axis; run."""
    return point(partial(measure, config), **vars(config))


def measure(config: Config) -> xr.Dataset:
    """All of it, in float64."""
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(0), config.paths + 1)
        xs = jax.random.normal(keys[0], (config.steps,), jnp.float64)
        target = filters.one_pole_gradients(xs, *PLANT)[0]
        alphas, betas = np.linspace(-0.95, 0.95, config.grid), np.linspace(-1, 1.5, config.grid)
        surface = np.asarray(filters.cost_surface(xs, target, alphas, betas))
        walks = [filters.adapt_one_pole(xs, target, alpha=a, beta=b, step=config.small) for a, b in STARTS]
        paths = np.stack([np.stack([walk.alpha, walk.beta], 1) for walk in walks])
        kept, loose = (np.asarray(finite(config, guard, keys[1:])) for guard in (GUARD, None))
        gradients = compared(xs[: config.check_steps])
    return xr.Dataset(
        {
            "surface": (("alpha", "beta"), surface),
            "path": (("start", "step", "axis"), paths),
            "finite": (("guard", "run"), np.stack([kept, loose])),
            "gradient": (("by", "parameter"), gradients),
        },
        {
            "alpha": alphas,
            "beta": betas,
            "guard": ["guard", "no guard"],
            "by": ["recursion", "autodiff"],
            "parameter": ["alpha", "beta"],
        },
    )


def finite(config: Config, guard: float | None, keys: Any) -> jax.Array:
    """Whether each of many inputs leaves all outputs finite at the large step, [paths]."""

    def one(key: Any) -> Any:
        xs = jax.random.normal(key, (config.steps,), jnp.float64)
        target = filters.one_pole_gradients(xs, *PLANT)[0]
        return jnp.isfinite(filters.adapt_one_pole(xs, target, step=config.large, guard=guard).ys).all()

    return jax.jit(jax.vmap(one))(keys)


def compared(xs: Any) -> np.ndarray:
    """Gradients of the summed squares to pole and gain at (0.9, 0.5), by recursion and by autodiff, [2, 2]."""
    ys, by_alpha, by_beta = filters.one_pole_gradients(xs, 0.9, 0.5)
    square = lambda a, b: (filters.one_pole_gradients(xs, a, b)[0] ** 2).sum()  # noqa: E731
    return np.array([[(2 * ys * by_alpha).sum(), (2 * ys * by_beta).sum()], jax.grad(square, (0, 1))(0.9, 0.5)], float)


def claims(config: Config, dataset: Any) -> list[Claim]:
    """B24, and that the guard holds."""
    ours, theirs = dataset.gradient.values
    kept, loose = (rate(int(row.sum()), len(row)) for row in dataset.finite.values)
    return [
        claim(
            "B24",
            measured=f"α: {ours[0]:.8g} and {theirs[0]:.8g}; β: {ours[1]:.8g} and {theirs[1]:.8g}",
            holds=bool(np.allclose(ours, theirs, rtol=1e-10, atol=0)),
            note=f"At a step of {config.large:g}, finite throughout: {kept} with a guard at {GUARD}, {loose} without.",
        )
    ]


def table(config: Config, dataset: Any) -> list[dict[str, str]]:
    """Where every trajectory ends."""
    rows = []
    for start, path in zip(STARTS, dataset.path.values, strict=True):
        end = path[-1]
        rows.append(
            {
                "from α, β": f"{start[0]:g}, {start[1]:g}",
                "to": f"{end[0]:.4f}, {end[1]:.4f}",
                "plant": f"{PLANT[0]:g}, {PLANT[1]:g}",
            }
        )
    return rows


def figure(config: Config, dataset: Any) -> Any:
    """The cost surface with trajectories on it."""
    fig, (axes,) = panels(1, width=7.5, height=5)
    levels = np.geomspace(1e-2, max(float(dataset.surface.max()), 1), 14)
    lines = axes.contour(
        dataset.alpha, dataset.beta, dataset.surface.values.T, levels=levels, cmap="Greys_r", linewidths=0.8
    )
    axes.clabel(lines, fmt="%.2g", fontsize=7)
    for start, path in zip(STARTS, dataset.path.values, strict=True):
        axes.plot(*path.T, color="#0072B2", linewidth=1)
        axes.plot(*start, "o", color="#0072B2", markersize=5)
    axes.plot(*PLANT, "*", color="#D55E00", markersize=14)
    axes.annotate("plant", PLANT, xytext=(6, 6), textcoords="offset points", color="#D55E00")
    axes.set(xlabel="α, pole", ylabel="β, gain", xlim=(-0.95, 1.0), ylim=(-1, 1.5))
    axes.set_title(f"J(α, β), and where a step of {config.small:g} goes")
    axes.axvline(GUARD, color=GREY, linewidth=0.8, linestyle="--")
    return fig


EXPERIMENT = Experiment(
    name="adaptive_pole",
    summary="Where does a one-pole filter that learns its own pole go, and what keeps it inside the circle?",
    config=Config,
    quick={"steps": 500, "paths": 4, "grid": 21},
    run=run,
    claims=claims,
    table=table,
    figure=figure,
    check=check,
)
