"""How far can recall be pushed, by training on longer and longer sequences?

Source   lecture and article: what a loop can hold, and what training finds (C2); chrono biases, Tallec and Ollivier
         2018
Command  python -m experiments run long_recall
Time     41 minutes on 2 idle CPU cores, with compilation
Expect   see the README: the furthest T that at least 19 of 20 seeds solve

First-symbol recall by an LSTM, H = 32, whose forget biases start as ln U(1, 99), those of its input gates as their
negative. It is trained at T = 100, then goes on, optimiser and all, at every greater length, and is tested at all of
them after each. Beside it, the same unit with chrono biases for T = 200, which is trained there from the start.
"""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import seqjax
from experiments.claims import claim
from experiments.models import SOLVED, Training, check_training, recipe_of, require_positive
from seqjax.checkpoint import Checkpoints
from seqjax.core import require_sizes
from seqjax.init import Chrono, with_init
from seqjax.plan import plan_for
from seqjax.processes import fetch
from seqjax.progress import progress_bar
from seqjax.report import Claim, Experiment
from seqjax.report.style import COLOURS, beside, level, panels
from seqjax.statistics import Rate, rate
from seqjax.sweep import seed_keys
from seqjax.train import programs, test_keys

MOST = 19 / 20  # of the seeds have to solve a length


@dataclass(frozen=True)
class Config(Training):
    """Settings; `updates` and `learning_rate` are those of the first length, `more` and `later_rate` of all others."""

    seeds: int = 20
    lengths: tuple[int, ...] = (100, 200, 500, 1000)
    updates: int = 3000
    more: int = 1000
    later_rate: float = 1e-3
    direct: int = 200  # the length of the training from the start
    clip: float = 1.0
    examples: int = 1000


def check(config: Config) -> None:
    """ValueError for settings that cannot be run."""
    check_training(config)
    require_sizes(more=config.more, **{f"lengths[{i}]": length for i, length in enumerate(config.lengths)})
    if min(*config.lengths, config.direct) < 3 or list(config.lengths) != sorted(set(config.lengths)):
        raise ValueError(f"lengths must grow from at least 3, for chrono biases, got {config.lengths}, {config.direct}")
    require_positive(clip=config.clip, later_rate=config.later_rate)


def recipe(config: Config, longest: int, length: int, *, later: bool = False) -> seqjax.Recipe:
    """One length, by a unit with chrono biases for `longest`; `later` as one that is gone on to."""
    network = seqjax.network(with_init(seqjax.lstm(forget_bias=None), Chrono(longest)), inputs="onehot")
    if later:
        config = replace(config, updates=config.more, learning_rate=config.later_rate)
    return recipe_of(network, seqjax.tasks.recall(length=length), config, clip=config.clip)


def run(config: Config, point: Any) -> Any:
    """pushed [trained, test, seed] and direct [test, seed], accuracies."""
    pushed = point.resumable(partial(trained, config, config.lengths), way="pushed", **vars(config))
    direct = point.resumable(partial(trained, config, (config.direct,)), way="direct", **vars(config))
    return xr.Dataset({"pushed": pushed.score, "direct": direct.score.isel(trained=0, drop=True)})


def trained(config: Config, stages: tuple[int, ...], *, checkpoints: Checkpoints) -> xr.Dataset:
    """score [trained, test, seed], at every length after every stage; a failed seed's is NaN."""
    numbers, keys = seed_keys(config.seeds)
    states, scores = None, []
    for i, length in enumerate(stages):
        stage = recipe(config, stages[0], length, later=i > 0)
        own = replace(checkpoints, folder=Path(checkpoints.folder) / str(length))
        with progress_bar(f"long_recall: T = {length}") as show:
            states, _ = seqjax.train_many(stage, keys, states=states, progress=show, checkpoints=own)
        tests = [tested(recipe(config, stages[0], test), config, states.params, keys) for test in config.lengths]
        scores.append(np.where(fetch(states.failed_at) < 0, np.stack(tests), np.nan))
    axes = {"trained": list(stages), "test": list(config.lengths), "seed": numbers}
    return xr.Dataset({"score": (list(axes), np.stack(scores))}, axes)


def tested(recipe: seqjax.Recipe, config: Config, params: Any, keys: Any) -> np.ndarray:
    """Accuracy of every seed on fresh sequences."""
    return fetch(programs(recipe, plan_for(len(keys)))[2](config.examples)(params, test_keys(keys)))


def solved(scores: Any) -> Rate:
    """How many seeds are above 99%; a failed one is not."""
    return rate(int((scores.fillna(0).values > SOLVED).sum()), scores.sizes["seed"])


def most(config: Config, dataset: Any, *, ahead: bool = False) -> int:
    """The longest length that at least 19 of 20 seeds solve when they have just been trained at it, or, where asked for
    what is `ahead`, before they are; 0 for none."""
    pairs = [(t, T) for t in config.lengths for T in config.lengths if (t < T if ahead else t == T)]
    found = [T for t, T in pairs if solved(dataset.pushed.sel(trained=t, test=T)).value >= MOST]
    return max(found, default=0)


def claims(config: Config, dataset: Any) -> list[Claim]:
    """V11, where the length of the training from the start is among those that are gone on to."""
    T = config.direct
    if T not in config.lengths[1:]:
        return []
    direct, pushed = solved(dataset.direct.sel(test=T)), solved(dataset.pushed.sel(trained=T, test=T))
    each = ", ".join(f"{t}: {solved(dataset.pushed.sel(trained=t, test=t))}" for t in config.lengths)
    return [
        claim(
            "V11",
            measured=f"T = {T} solved by {pushed}; trained there from the start: {direct}",
            holds=pushed.value >= MOST and direct.high < pushed.low,
            note=f"The furthest T that 19 of 20 seeds solve: {most(config, dataset) or 'none'} ({each}); the furthest "
            f"that they solve without having been trained at it: {most(config, dataset, ahead=True) or 'none'}.",
        )
    ]


def table(config: Config, dataset: Any) -> list[dict[str, str]]:
    """Seeds solved, with 95% Wilson intervals."""

    def row(name: str, scores: Any) -> dict[str, str]:
        return {"trained": name} | {f"at T = {T}": str(solved(scores.sel(test=T))) for T in config.lengths}

    pushed = [row(f"up to T = {T}", dataset.pushed.sel(trained=T)) for T in config.lengths]
    return [*pushed, row(f"at T = {config.direct} from the start", dataset.direct)]


def figure(config: Config, dataset: Any) -> Any:
    """Accuracy of every seed at every length, a panel for each training."""
    names = {f"trained up to T = {T}": dataset.pushed.sel(trained=T) for T in config.lengths}
    names[f"trained at T = {config.direct} only"] = dataset.direct
    fig, axes = panels(len(names), width=2.7 * len(names), height=3.6, sharey=True)
    places = np.arange(len(config.lengths))
    for one, (name, scores) in zip(axes, names.items(), strict=True):
        for place, length in zip(places, config.lengths, strict=True):
            values = scores.sel(test=length).fillna(0).values
            dots = place + beside(len(values), 0.3)
            one.plot(dots, values, "o", color=COLOURS["lstm"], markersize=4, alpha=0.7)
            one.annotate(str(solved(scores.sel(test=length))).split()[0], (place, 1.03), ha="center", fontsize=8)
        one.set_xticks(places, [str(length) for length in config.lengths])
        one.set(ylim=(-0.03, 1.1), xlabel="T, length tested", title=name)
        level(one, seqjax.tasks.recall(length=2).chance, "chance, 1/8")
    axes[0].set_ylabel("accuracy on fresh sequences, every seed")
    return fig


EXPERIMENT = Experiment(
    name="long_recall",
    summary="How far can recall be pushed, by training on longer and longer sequences?",
    config=Config,
    quick={"seeds": 2, "updates": 20, "more": 10, "hidden": 6, "lengths": (4, 6), "direct": 6, "examples": 100},
    run=run,
    claims=claims,
    table=table,
    figure=figure,
    check=check,
)
