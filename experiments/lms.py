"""At which step does the least-mean-squares filter converge, in the mean and on a single path?

Source   lecture, LMS and its bound 2/λ_max (B23)
Command  python -m experiments run lms
Time     seconds
Expect   with 8 taps on AR(1) noise of pole 0.9, λ_max = 6.20: the mean converges at 0.99 of the bound and not at 1.01;
         single paths already diverge at 0.2 of it, so that a step has to be about ten times smaller
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
from seqjax.report.style import GREY, label_ends, level, panels
from seqjax.statistics import rate

AR = 0.9
LOST = 1e3  # times the first distance


@dataclass(frozen=True)
class Config:
    """Settings; shares are of the bound 2/λ_max."""

    taps: int = 8
    steps: int = 20_000
    paths: int = 100
    mean_shares: tuple[float, ...] = (0.5, 0.9, 0.99, 1.01)
    path_shares: tuple[float, ...] = (0.02, 0.05, 0.1, 0.2, 0.5)


def check(config: Config) -> None:
    """ValueError for settings that cannot be run."""
    require_sizes(taps=config.taps, steps=config.steps, paths=config.paths)
    shares = (*config.mean_shares, *config.path_shares)
    if not config.mean_shares or not config.path_shares or not all(share > 0 for share in shares):
        raise ValueError(f"shares of the bound must be above 0, at least one of each kind, got {shares}")


def run(config: Config, point: Any) -> Any:
    """Distance to the wanted taps by step; dims mean_share, path_share, path, step."""
    return point(partial(measure, config), **vars(config))


def noise(key: Any, paths: int, steps: int) -> jax.Array:
    """AR(1) noise of unit variance, [paths, steps]."""
    draws = jax.random.normal(key, (steps, paths), jnp.float64) * (1 - AR**2) ** 0.5
    return jax.lax.scan(lambda x, w: (AR * x + w,) * 2, draws[0] / (1 - AR**2) ** 0.5, draws)[1].T


def measure(config: Config) -> xr.Dataset:
    """The mean recursion, and many single paths, in float64."""
    with jax.enable_x64(True):
        first, second, third = jax.random.split(jax.random.key(0), 3)
        wanted = np.asarray(jax.random.normal(first, (config.taps,), jnp.float64))
        R = filters.autocorrelation(np.asarray(noise(second, 1, 1_000_000))[0], config.taps)
        bound = 2 / float(np.linalg.eigvalsh(R)[-1])
        xs = noise(third, config.paths, config.steps)

        def path(share: float, xs: Any) -> Any:
            found = filters.lms(xs, filters.fir(jnp.asarray(wanted), xs), taps=config.taps, step=share * bound)
            return jnp.linalg.norm(found.weights - wanted, axis=1)

        single = np.stack([jax.jit(jax.vmap(partial(path, share)))(xs) for share in config.path_shares])
    size, keep = np.linalg.norm(wanted), np.unique(np.geomspace(1, config.steps, 200).astype(int)) - 1
    with np.errstate(over="ignore", invalid="ignore"):  # above the bound
        mean = [filters.lms_mean(R, wanted, step=share * bound, steps=config.steps) for share in config.mean_shares]
        distance = np.linalg.norm(np.stack(mean) - wanted, axis=2) / size
    return xr.Dataset(
        {
            "mean": (("mean_share", "step"), distance[:, keep]),
            "path": (("path_share", "run", "step"), single[:, :, keep] / size),
            "largest_eigenvalue": 2 / bound,
        },
        {"mean_share": list(config.mean_shares), "path_share": list(config.path_shares), "step": keep + 1},
    )


def lost(dataset: Any, share: float) -> Any:
    """How many paths went a thousand times as far as they began; what is not finite did."""
    paths = dataset.path.sel(path_share=share).values
    return rate(int((~(paths < LOST)).any(1).sum()), len(paths))


def claims(config: Config, dataset: Any) -> list[Claim]:
    """B23."""
    if not {0.99, 1.01} <= set(config.mean_shares) or 0.2 not in config.path_shares:
        return []
    inside, outside = (dataset["mean"].sel(mean_share=share).values for share in (0.99, 1.01))
    early, largest = lost(dataset, 0.2), float(dataset.largest_eigenvalue)
    return [
        claim(
            "B23",
            measured=f"λ_max {largest:.2f}; distance at the end {inside[-1]:.1e} at 0.99 of the bound, "
            f"{outside[-1]:.1e} at 1.01; paths lost at 0.2 of it: {early}",
            holds=abs(largest - 6.20) < 0.1 and inside[-1] < 1e-3 and outside[-1] > 1e3 and early.low > 0,
            note="; ".join(
                f"{share:g} of the bound: {lost(dataset, share)} paths lost" for share in config.path_shares
            ),
        )
    ]


def table(config: Config, dataset: Any) -> list[dict[str, str]]:
    """Distance at the end, over that at the start."""
    rows = [
        {
            "what": "mean",
            "share of 2/λ_max": f"{share:g}",
            "distance at the end": f"{float(dataset['mean'].sel(mean_share=share)[-1]):.2g}",
            "lost": "-",
        }
        for share in config.mean_shares
    ]
    for share in config.path_shares:
        ends = dataset.path.sel(path_share=share).values[:, -1]
        rows.append(
            {
                "what": "single paths",
                "share of 2/λ_max": f"{share:g}",
                "distance at the end": f"median {np.median(np.nan_to_num(ends, nan=np.inf)):.2g}",
                "lost": str(lost(dataset, share)),
            }
        )
    return rows


def figure(config: Config, dataset: Any) -> Any:
    """Distance to the wanted taps, in the mean and on single paths."""
    fig, (left, right) = panels(2, width=12, height=4.4, sharey=True)
    colours = ("#0072B2", "#009E73", "#E69F00", "#D55E00", "#CC79A7")
    ends = []
    for share, colour in zip(config.mean_shares, colours, strict=False):
        line = dataset["mean"].sel(mean_share=share).values
        left.plot(dataset.step, line, color=colour, linewidth=1.8)
        ends.append((float(np.clip(line[-1], 1e-8, 1e6)), f"{share:g}", colour))
    for share, colour in zip(config.path_shares, colours, strict=False):
        lines = dataset.path.sel(path_share=share).values
        right.plot(
            dataset.step,
            np.clip(np.nan_to_num(lines, nan=1e6, posinf=1e6), 1e-8, 1e6)[:20].T,
            color=colour,
            linewidth=0.6,
            alpha=0.5,
        )
        right.plot([], [], color=colour, label=f"{share:g}")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", ylim=(1e-8, 1e6), xlabel="step")
        level(axes, 1, "where they began")
    left.set_ylabel("distance to the wanted taps, over the first")
    left.set_title("In the mean, at shares of 2/λ_max")
    right.set_title("Twenty single paths each")
    right.legend(frameon=False, loc="lower left", labelcolor=GREY)
    label_ends(left, ends)
    return fig


EXPERIMENT = Experiment(
    name="lms",
    summary="At which step does the least-mean-squares filter converge, in the mean and on a single path?",
    config=Config,
    quick={"steps": 2000, "paths": 5},
    run=run,
    claims=claims,
    table=table,
    figure=figure,
    check=check,
)
