"""What fits through the last state: answers against the length of the source, with and without a second way in.

Source   lecture, the encoder-decoder and what it hands over (S21); Sutskever et al. 2014, section 3.3, the source back
         to front; Bahdanau et al. 2015, attention
Command  python -m experiments run bottleneck
Time     33 minutes on 2 cores of an AMD EPYC, with other work beside it
Expect   the longer the source, the fewer are right, the sooner the smaller H; with attention length costs little, where
         it is found at all: at H = 256 two of three seeds that read back to front do not

Copying of up to 20 random symbols out of ten. A GRU of H units reads, and hands over its last state, from which
another writes. Adam at 3e-3 behind a clip at norm 1, 64 fresh pairs an update. Right is what is right as a whole, end
symbol and all.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

import seqjax
from experiments.claims import claim
from experiments.models import Training, check_training, recipe_of, require_clip, require_known, scores_on, without
from seqjax.checkpoint import Checkpoints
from seqjax.core import require_sizes
from seqjax.processes import fetch
from seqjax.progress import progress_bar
from seqjax.report import Claim, Experiment
from seqjax.report.style import COLOURS, GREY, panels
from seqjax.seq2seq import gradient_map
from seqjax.statistics import Rate, rate
from seqjax.sweep import gather, seed_keys

VARIANTS = {
    "plain": {},
    "reversed": {"reversed_source": True},
    "attention": {"attention": 64},
    "both": {"attention": 64, "reversed_source": True},
}
NAMES = {
    "plain": "last state alone",
    "reversed": "source back to front",
    "attention": "attention",
    "both": "attention, back to front",
}
COLOUR = {"plain": GREY, "reversed": COLOURS["rnn"], "attention": COLOURS["lstm"], "both": COLOURS["gru"]}
BEYOND = 10  # lengths above it are compared


@dataclass(frozen=True)
class Config(Training):
    """Settings; those of `Training` but `hidden`, for which there are `sizes`."""

    seeds: int = 3
    sizes: tuple[int, ...] = (32, 64, 128, 256)
    variants: tuple[str, ...] = tuple(VARIANTS)
    updates: int = 3000
    symbols: int = 10
    longest: int = 20
    tests: tuple[int, ...] = (2, 4, 6, 8, 10, 12, 14, 16, 18, 20)
    embedding: int = 32
    clip: float = 1.0
    examples: int = 500


def check(config: Config) -> None:
    """ValueError for settings that cannot be run."""
    check_training(config)
    require_known("variants", config.variants, VARIANTS)
    many = {"sizes": config.sizes, "tests": config.tests}
    require_sizes(**{f"{name}[{i}]": size for name, each in many.items() for i, size in enumerate(each)})
    require_sizes(symbols=config.symbols, longest=config.longest, embedding=config.embedding)
    require_clip(config.clip)


def copying(config: Config, shortest: int, longest: int) -> seqjax.tasks.Task:
    """Sources of these lengths. Its score is right as a whole under teacher forcing, and so is what greedy decoding
    writes: what is right up to a step is what is fed back there."""
    return seqjax.tasks.copying(symbols=config.symbols, shortest=shortest, longest=longest)


def recipe(config: Config, size: int, variant: str) -> seqjax.Recipe:
    """One model of one size."""
    network = seqjax.encoder_decoder(seqjax.gru(), embedding=config.embedding, **VARIANTS[variant])
    return recipe_of(network, copying(config, 1, config.longest), replace(config, hidden=size), clip=config.clip)


def run(config: Config, point: Any) -> Any:
    """score [variant, size, test, seed], and reach [variant, size, position] before training."""

    def train(size: int, variant: str) -> Any:
        settings = without(config, "sizes", "variants", "hidden")
        return point.resumable(partial(trained, config, size, variant), size=size, variant=variant, **settings)

    axes = {"variant": config.variants, "size": config.sizes}
    return gather([train(size, variant) for variant in config.variants for size in config.sizes], axes)


def trained(config: Config, size: int, variant: str, *, checkpoints: Checkpoints) -> xr.Dataset:
    """Every seed of one model."""
    model, (numbers, keys) = recipe(config, size, variant), seed_keys(config.seeds)
    with progress_bar(f"bottleneck: {NAMES[variant]}, H = {size}") as show:
        states, _ = seqjax.train_many(model, keys, progress=show, checkpoints=checkpoints)
    failed = fetch(states.failed_at) >= 0
    tests = [copying(config, length, length) for length in config.tests]
    scores = [scores_on(test, model, states.params, keys, config.examples) for test in tests]
    found = {
        "score": (("test", "seed"), np.where(failed, np.nan, scores)),
        "reach": ("position", reach(config, model)),
    }
    return xr.Dataset(found, {"test": list(config.tests), "seed": numbers})


def reach(config: Config, model: seqjax.Recipe) -> np.ndarray:
    """log10 of the gradient from every symbol of the longest targets to the one it copies, before training: medians."""
    T = config.longest
    params = model.network.init(jax.random.key(0), model.task.D, model.hidden, model.task.K)
    batch = copying(config, T, T).held_out(jax.random.key(1), 64)
    network: Any = model.network
    found = gradient_map(network, params, batch)
    return np.asarray(jnp.median(jnp.diagonal(found[:, :T, :T], axis1=1, axis2=2), axis=0))


def beyond(config: Config, dataset: Any, variant: str, size: int) -> Rate:
    """How many sources of more than ten symbols are copied, all seeds together; a failed seed copies none."""
    scores = dataset.score.sel(variant=variant, size=size)
    return counted(config, scores.sel(test=[test for test in config.tests if test > BEYOND]))


def counted(config: Config, scores: Any) -> Rate:
    """Shares of sources as a rate."""
    scores = scores.fillna(0).values
    return rate(round(float(scores.sum()) * config.examples), scores.size * config.examples)


def claims(config: Config, dataset: Any) -> list[Claim]:
    """V16, V17, V18, of the variants that were run."""
    found = []
    if {"plain", "attention"} <= set(config.variants) and max(config.tests) > BEYOND:
        pairs = [[beyond(config, dataset, each, size) for each in ("plain", "attention")] for size in config.sizes]
        told = "; ".join(f"H = {size}: {a} against {b}" for size, (b, a) in zip(config.sizes, pairs, strict=True))
        found.append(claim("V16", measured=told, holds=all(b.high < a.low for b, a in pairs)))
    if "plain" in config.variants:
        smallest = dataset.score.sel(variant="plain", size=min(config.sizes))
        short, long = (counted(config, smallest.sel(test=pick(config.tests))) for pick in (min, max))
        told = f"H = {min(config.sizes)}: {short} at {min(config.tests)} symbols, {long} at {max(config.tests)}"
        found.append(claim("V17", measured=told, holds=long.high < short.low))
    if {"plain", "reversed"} <= set(config.variants):
        found.append(distances(config, dataset))
    return found


def distances(config: Config, dataset: Any) -> Claim:
    """V18."""
    first, last = (
        {each: dataset.reach.sel(variant=each).isel(position=at) for each in ("plain", "reversed")} for at in (0, -1)
    )
    nearer = float((first["reversed"] - first["plain"]).min())
    further = float((last["plain"] - last["reversed"]).min())
    told = f"at least 10^{nearer:.1f} times at the first symbol, at most 10^{-further:.1f} times at the last"
    return claim("V18", measured=told, holds=nearer > 0 and further > 0)


def table(config: Config, dataset: Any) -> list[dict[str, str]]:
    """The share of sources copied, means over seeds and their range, at some lengths."""
    shown = [test for test in config.tests if test in (4, 10, 20)] or [max(config.tests)]
    return [
        {"H": str(size), "model": NAMES[variant]}
        | {f"{test} symbols": ranged(dataset.score.sel(variant=variant, size=size, test=test)) for test in shown}
        for size in config.sizes
        for variant in config.variants
    ]


def ranged(scores: Any) -> str:
    """A mean over seeds, and the range."""
    scores = scores.fillna(0).values
    return f"{scores.mean():.2f} ({scores.min():.2f} to {scores.max():.2f})"


def figure(config: Config, dataset: Any) -> Any:
    """Accuracy by length, a panel for every size, every seed behind the median; and how far gradients reach."""
    fig, axes = panels(len(config.sizes) + 1, width=3.2 * (len(config.sizes) + 1))
    for one, size in zip(axes, config.sizes, strict=False):
        for variant in config.variants:
            scores = dataset.score.sel(variant=variant, size=size).transpose("test", "seed").fillna(0).values
            one.plot(config.tests, scores, color=COLOUR[variant], alpha=0.3, linewidth=0.8)
            one.plot(config.tests, np.median(scores, 1), "o-", ms=3, color=COLOUR[variant])
        one.set(ylim=(-0.03, 1.03), xlabel="symbols of the source", title=f"H = {size}")
    axes[0].set_ylabel("share copied as a whole")
    for variant in config.variants:
        line = dataset.reach.sel(variant=variant, size=max(config.sizes)).values
        axes[-1].plot(1 + np.arange(config.longest), line, color=COLOUR[variant], label=NAMES[variant])
    axes[-1].set(xlabel="symbol of the target", ylabel="log10 of the gradient to the symbol it copies")
    axes[-1].set_title(f"Before training, H = {max(config.sizes)}")
    axes[-1].legend(frameon=False, labelcolor=GREY, loc="lower left", fontsize=8)
    return fig


EXPERIMENT = Experiment(
    name="bottleneck",
    summary="What fits through the last state of an encoder?",
    config=Config,
    quick={
        "seeds": 2,
        "sizes": (8,),
        "variants": ("both",),
        "updates": 20,
        "longest": 6,
        "tests": (6,),
        "embedding": 4,
        "examples": 50,
    },
    run=run,
    claims=claims,
    table=table,
    figure=figure,
    check=check,
)
