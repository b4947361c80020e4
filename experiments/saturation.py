"""Where does a gate stop learning, and from where on is it one exactly?

Source   lecture, what saturation costs (B18, B19)
Command  python -m experiments run saturation
Time     about 10 seconds on 2 CPU cores, with compilation
Expect   σ(1) = 0.73, σ(2) = 0.88, slope 0.01 at σ = 0.99; σ(z) is exactly 1 from z = 16.6355324 on in float32, from
         7.625 in float16 and from 5.5625 in bfloat16, and its slope is 0 there
"""

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.nn import sigmoid
from jax.scipy.special import logit

from experiments.claims import agrees, all_agree, claim
from experiments.models import require_known
from seqjax.report import Claim, Experiment
from seqjax.report.style import level, panels

FULL = 64  # a gate is full there, in every dtype
DTYPES = {"float32": 24, "float16": 11, "bfloat16": 8}  # bits of the significand
COLOURS = dict(zip(DTYPES, ("#0072B2", "#E69F00", "#CC79A7"), strict=True))


@dataclass(frozen=True)
class Config:
    """Settings: where to look for the first σ(z) = 1, and how many slopes to draw."""

    dtypes: tuple[str, ...] = tuple(DTYPES)
    points: int = 2000


def check(config: Config) -> None:
    """ValueError for settings that cannot be run."""
    require_known("dtypes", config.dtypes, DTYPES)
    if config.points < 10:
        raise ValueError(f"points must be at least 10, got {config.points}")


def run(config: Config, point: Any) -> Any:
    """The first full gate and the slope of σ by pre-activation; dims dtype, z."""
    return point(partial(measure, config), **asdict(config))


def measure(config: Config) -> xr.Dataset:
    """Every dtype."""
    z = np.linspace(0, 20, config.points)
    slopes = [jax.vmap(jax.grad(sigmoid))(jnp.asarray(z, dtype)) for dtype in config.dtypes]
    return xr.Dataset(
        {
            "full": ("dtype", [first_full(dtype) for dtype in config.dtypes]),
            "slope": (("dtype", "z"), np.array([np.asarray(slope, np.float64) for slope in slopes])),
        },
        {"dtype": list(config.dtypes), "z": z},
    )


def first_full(dtype: str) -> float:
    """The smallest z >= 0 with σ(z) = 1 exactly, by bisection over the dtype's floats, which lie in the order of their
    bits."""
    kind = jnp.dtype(dtype)
    bits = np.dtype(f"uint{8 * kind.itemsize}")
    low, high = 0, int(np.array(FULL, kind).view(bits))
    while high - low > 1:
        middle = (low + high) // 2
        full = sigmoid(np.array(middle, bits).view(kind)) == 1
        low, high = (low, middle) if full else (middle, high)
    return float(np.array(high, bits).view(kind))


def first_at_least(z: float, dtype: str) -> float:
    """The smallest number of a dtype that is not below z."""
    near = np.array(z, jnp.dtype(dtype))
    return float(near if near >= z else np.nextafter(near, np.array(np.inf, near.dtype)))


def claims(config: Config, dataset: Any) -> list[Claim]:
    """B18, and B19 where every dtype was asked."""
    slope = float(jax.grad(sigmoid)(logit(0.99)))
    values = (float(sigmoid(1.0)), float(sigmoid(2.0)), slope)
    measured = "{:.5f}, {:.5f}, {:.5f}".format(*values)
    found = [claim("B18", measured=measured, holds=all_agree(values, ("0.73", "0.88", "0.01")))]
    return found + ([rounding(dataset)] if set(config.dtypes) == set(DTYPES) else [])


def rounding(dataset: Any) -> Claim:
    """B19: σ(z) is 1 where exp(-z) is lost beside 1, from b ln 2 on, b being the bits of the significand."""
    full = {dtype: float(dataset.full.sel(dtype=dtype)) for dtype in DTYPES}
    wanted = {dtype: first_at_least(bits * np.log(2), dtype) for dtype, bits in DTYPES.items()}
    measured = ", ".join(f"{dtype} {z:.7f}" for dtype, z in full.items())
    return claim("B19", measured=measured, holds=full == wanted and agrees(full["float32"], "16.6355324"))


def table(config: Config, dataset: Any) -> list[dict[str, str]]:
    """From where on a gate is full."""
    return [
        {
            "dtype": dtype,
            "bits of the significand": str(DTYPES[dtype]),
            "σ(z) = 1 from z =": f"{float(dataset.full.sel(dtype=dtype)):.7f}",
        }
        for dtype in config.dtypes
    ]


def figure(config: Config, dataset: Any) -> Any:
    """The slope on a logarithmic axis, and where there is none at all."""
    fig, (axes,) = panels(1, width=8, height=4.4)
    for row, dtype in enumerate(config.dtypes):
        slope, full = dataset.slope.sel(dtype=dtype).values, float(dataset.full.sel(dtype=dtype))
        axes.plot(dataset.z, np.where(slope > 0, slope, np.nan), color=COLOURS[dtype], linewidth=2)
        axes.axvline(full, color=COLOURS[dtype], linewidth=0.8, linestyle=":")
        text = f"{dtype}: 1 from {full:.6g}"
        height = 1e-5 * 0.1**row  # each on a line of its own, below the curve
        axes.annotate(text, (full, height), xytext=(3, 0), textcoords="offset points", color=COLOURS[dtype], fontsize=9)
    axes.set(yscale="log", ylim=(1e-9, 2), xlim=(0, 20), xlabel="z, pre-activation of a gate", ylabel="slope of σ")
    axes.set_title("What is left of a gate's gradient")
    level(axes, 0.0099, "σ = 0.99")
    return fig


EXPERIMENT = Experiment(
    name="saturation",
    summary="Where does a gate stop learning, and from where on is it one exactly?",
    config=Config,
    quick={"dtypes": ("float32",), "points": 50},
    run=run,
    claims=claims,
    table=table,
    figure=figure,
    check=check,
)
