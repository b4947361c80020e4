"""What does depth do to a gradient: how many paths, and how far back do they reach, with a residual stream and without?

Source   lecture, paths in depth and time (B13), residual connections
Command  python -m experiments run depth
Time     about 1 minute on 2 CPU cores, with compilation
Expect   a stack of L layers has C(T + L - 2, L - 1) paths of T + L - 2 factors each, which is what autodiff finds in a
         linear one; a residual stream brings the gradient to the bottom layer whatever L is
"""

import math
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

import seqjax
from experiments.claims import claim
from experiments.models import without
from seqjax.core import Affine, require_sizes
from seqjax.dense import Dense
from seqjax.report import Claim, Experiment
from seqjax.report.style import label_ends, panels
from seqjax.stack import Layer
from seqjax.sweep import gather, seed_keys

FACTOR = 0.9  # every Jacobian of the linear stack
STEPS, LAYERS = 12, 4
INPUTS, CLASSES = 8, 4
STREAMS = {"plain": False, "residual": True}
PALETTE = ("#0072B2", "#56B4E9", "#009E73", "#E69F00", "#D55E00", "#CC79A7")


@dataclass(frozen=True)
class Config:
    """Settings of the LSTM stacks."""

    layers: tuple[int, ...] = (2, 4, 8)
    seeds: int = 5
    hidden: int = 32
    length: int = 100
    rows: int = 32
    forget_bias: float = 1.0


def check(config: Config) -> None:
    """ValueError for settings that cannot be run."""
    require_sizes(seeds=config.seeds, hidden=config.hidden, rows=config.rows)
    if not config.layers or min(config.layers) < 2 or config.length < 4:
        raise ValueError(f"layers must be at least 2 and length at least 4, got {config.layers}, {config.length}")


def run(config: Config, point: Any) -> Any:
    """Gradients to the bottom and the top layer; dims depth, stream, seed, lag."""
    settings = without(config, "layers")
    parts = [
        point(partial(measure, config, L, stream), layers=L, stream=stream, **settings)
        for L in config.layers
        for stream in STREAMS
    ]
    return gather(parts, {"depth": config.layers, "stream": tuple(STREAMS)})


def measure(config: Config, L: int, stream: str) -> xr.Dataset:
    """log10 of the gradient by lag in the bottom and in the top layer, and all that is at the one over the other."""
    network = seqjax.network(
        seqjax.lstm(forget_bias=config.forget_bias), readout="last", layers=L, residual=STREAMS[stream]
    )
    numbers, keys = seed_keys(config.seeds)

    @jax.jit
    @jax.vmap
    def probe(key: Any) -> Any:
        first, second, third = jax.random.split(key, 3)
        params = network.init(first, INPUTS, config.hidden, CLASSES)
        xs = jax.random.normal(second, (config.rows, config.length, INPUTS))
        targets = jax.random.randint(third, (config.rows,), 0, CLASSES)
        return seqjax.gradient_profile(network, params, xs, targets).mean_log10

    lines = np.asarray(probe(keys), np.float64)  # [S, L, T]
    total = np.log10((10.0 ** (2 * lines)).sum(2)) / 2
    return xr.Dataset(
        {
            "bottom": (("seed", "lag"), lines[:, 0]),
            "top": (("seed", "lag"), lines[:, -1]),
            "share": ("seed", total[:, 0] - total[:, -1]),
        },
        {"seed": numbers, "lag": np.arange(config.length)},
    )


@cache
def through_a_linear_stack() -> float:
    """The gradient from the top at the end to the bottom at the start where every Jacobian is 0.9, by the library."""
    one = jnp.full((1, 1), FACTOR, jnp.float32)
    network = seqjax.network(seqjax.linear(), readout="last", layers=LAYERS)
    params = network.init(jax.random.key(0), 1, 1, 1)
    layers = tuple(Layer(Affine(one, one, None, None)) for _ in range(LAYERS))
    params = replace(params, body=layers, head=Dense(jnp.ones((1, 1)), jnp.zeros(1)))
    loss = lambda predictions, targets, mask: predictions.sum()  # noqa: E731
    profile = seqjax.gradient_profile(network, params, jnp.zeros((1, STEPS, 1)), jnp.zeros(1), loss=loss)
    return float(profile.whole[0, 0, -1])


def paths(T: int, L: int) -> int:
    """How many ways lead from the top at step T to the bottom at step 1, each step going down or back."""
    return math.comb(T + L - 2, L - 1)


def claims(config: Config, dataset: Any) -> list[Claim]:
    """B13, and that a residual stream keeps the gradient of the bottom layer."""
    found, wanted = through_a_linear_stack(), paths(STEPS, LAYERS) * FACTOR ** (STEPS + LAYERS - 2)
    counts = [paths(T, L) for T, L in ((4, 3), (50, 4), (100, 8))]
    shares = [f"{stream} {float(10 ** dataset.share.sel(stream=stream)[-1].median()):.2g}" for stream in STREAMS]
    return [
        claim(
            "B13",
            measured=f"{found:.4f} at T = {STEPS}, L = {LAYERS}; {', '.join(f'{count:,}' for count in counts)} paths",
            holds=abs(found - wanted) < 1e-3 and counts == [10, 22_100, 24_370_067_800],
            note=f"In {config.layers[-1]} LSTM layers the bottom gets, of what the top gets: {', '.join(shares)}.",
        )
    ]


def table(config: Config, dataset: Any) -> list[dict[str, str]]:
    """What reaches the bottom layer, and how fast it shrinks with time there."""
    rows = []
    for L in config.layers:
        for stream in STREAMS:
            at = dataset.sel(depth=L, stream=stream)
            factor = [seqjax.fit_decay(line[None], last=config.length - 1).factor for line in at.bottom.values]
            share = 10**at.share.values
            rows.append(
                {
                    "layers": str(L),
                    "stream": stream,
                    "paths": f"{paths(config.length, L):.2g}",
                    "factors each": str(config.length + L - 2),
                    "bottom over top": f"{np.median(share):.2g} ({share.min():.2g} to {share.max():.2g})",
                    "factor a step, bottom": f"{np.median(factor):.3f}",
                }
            )
    return rows


def figure(config: Config, dataset: Any) -> Any:
    """Gradient to the bottom layer by lag, and its share by depth."""
    fig, (left, right) = panels(2, width=12, height=4.4)
    ends, lags = [], dataset.lag.values
    for i, L in enumerate(config.layers):
        for j, stream in enumerate(STREAMS):
            colour = PALETTE[(2 * i + j) % len(PALETTE)]
            lines = dataset.bottom.sel(depth=L, stream=stream).values
            left.plot(lags, lines.T, color=colour, alpha=0.2, linewidth=0.6)
            left.plot(lags, np.median(lines, 0), color=colour, linewidth=1.8, linestyle="-" if j else "--")
            ends.append((float(np.median(lines, 0)[-1]), f"{L} layers, {stream}", colour))
    left.set(xlim=(0, lags[-1]), xlabel="steps back", ylabel="log10 of the gradient to the bottom layer")
    left.set_title("Gradient to the bottom layer")
    label_ends(left, ends, gap=0.07)
    for stream, colour in zip(STREAMS, ("#D55E00", "#0072B2"), strict=True):
        share = dataset.share.sel(stream=stream).values
        right.plot(config.layers, share, "o", color=colour, alpha=0.5, markersize=4)
        right.plot(config.layers, np.median(share, 1), color=colour, linewidth=2, label=stream)
    right.set(xlabel="layers", ylabel="log10 of bottom over top, all lags")
    right.set_xticks(config.layers, [str(L) for L in config.layers])
    right.set_title("What is left of it at the bottom")
    right.legend(frameon=False)
    return fig


EXPERIMENT = Experiment(
    name="depth",
    summary="What does depth do to a gradient, with a residual stream and without?",
    config=Config,
    quick={"layers": (2,), "seeds": 2, "hidden": 4, "length": 12, "rows": 2},
    run=run,
    claims=claims,
    table=table,
    figure=figure,
    check=check,
)
