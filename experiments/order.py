"""Does a model know what came first? A refund after a failed payment, or before it.

Source   article, "order is what matters" and "four events and four hundred with the same weights" (D1, D2, D8)
Command  python -m experiments run order
Time     about 4 minutes on 2 CPU cores, with compilation
Expect   the mean and the sum of the events stay at chance at every length; a tanh RNN and a GRU, trained on 4 to 40
         events, are right on all of 400; shuffled, their answers are as good as a guess, and the mean's do not move

Eight kinds of events, one failed payment and one refund at random places, 4 to 40 events to train on. Embedding of 16
numbers, H = 32, Adam at 3e-3 behind a clip at norm 1, 64 fresh sequences an update, 500 updates, 300 for the GRU.
"""

from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
import xarray as xr

import seqjax
from experiments.claims import claim
from experiments.models import (
    SOLVED,
    Training,
    check_training,
    order_scores,
    recipe_of,
    require_clip,
    require_known,
    spread,
    without,
)
from seqjax.checkpoint import Checkpoints
from seqjax.core import require_sizes
from seqjax.processes import fetch
from seqjax.progress import progress_bar
from seqjax.report import Claim, Experiment
from seqjax.report.style import COLOURS, GREY, beside, level, panels
from seqjax.sensitivity import shuffle_test
from seqjax.statistics import mean, rate
from seqjax.sweep import gather, seed_keys

BODIES = {
    "mean": lambda **inputs: seqjax.pooled("mean", **inputs),
    "sum": lambda **inputs: seqjax.pooled("sum", **inputs),
    "rnn": lambda **inputs: seqjax.network(seqjax.rnn(), **inputs),
    "gru": lambda **inputs: seqjax.network(seqjax.gru(), **inputs),
}
FREE = ("mean", "sum")  # of order
NAMES = {"mean": "mean pool", "sum": "sum pool", "rnn": "tanh RNN", "gru": "GRU"}
COLOUR = {"mean": GREY, "sum": "#000000", "rnn": COLOURS["rnn"], "gru": COLOURS["gru"]}


@dataclass(frozen=True)
class Config(Training):
    """Settings; the defaults are those of an independent reproduction of the article, with more seeds."""

    seeds: int = 5
    bodies: tuple[str, ...] = tuple(BODIES)
    updates: int = 500
    gru_updates: int = 300
    shortest: int = 4
    longest: int = 40
    tests: tuple[int, ...] = (12, 40, 100, 400)
    embedding: int = 16
    clip: float = 1.0
    examples: int = 1000
    draws: int = 4  # shuffles of every test sequence


def check(config: Config) -> None:
    """ValueError for settings that cannot be run."""
    check_training(config)
    require_known("bodies", config.bodies, BODIES)
    sizes = {f"tests[{i}]": size for i, size in enumerate(config.tests)}
    require_sizes(gru_updates=config.gru_updates, embedding=config.embedding, draws=config.draws, **sizes)
    require_clip(config.clip)


def run(config: Config, point: Any) -> Any:
    """score [body, test, seed], and shuffled and moved [body, seed] at the longest length of training."""

    def piece(body: str) -> Any:
        settings = without(config, "bodies", *(("gru_updates",) if body != "gru" else ("updates",)))
        return point.resumable(lambda checkpoints: trained(config, body, checkpoints), body=body, **settings)

    return gather([piece(body) for body in config.bodies], {"body": config.bodies})


def trained(config: Config, body: str, checkpoints: Checkpoints) -> xr.Dataset:
    """Every seed of one body."""
    network = BODIES[body](inputs="embedding", embedding=config.embedding)
    task = seqjax.tasks.order(shortest=config.shortest, longest=config.longest)
    recipe = recipe_of(network, task, config, clip=config.clip)
    recipe = replace(recipe, updates=config.gru_updates) if body == "gru" else recipe
    numbers, keys = seed_keys(config.seeds)
    with progress_bar(f"order: {NAMES[body]}") as show:
        states, _ = seqjax.train_many(recipe, keys, progress=show, checkpoints=checkpoints)
    failed = fetch(states.failed_at) >= 0
    scores = [order_scores(recipe, states.params, keys, T, config.examples) for T in config.tests]
    changes = [shuffled(config, recipe, jax.tree.map(lambda a, i=i: a[i], states.params)) for i in range(len(keys))]
    found = {
        "score": (("test", "seed"), np.where(failed, np.nan, scores)),
        "shuffled": ("seed", np.where(failed, np.nan, [change.after.value for change in changes])),
        "moved": ("seed", [change.largest for change in changes]),
    }
    return xr.Dataset(found, {"test": list(config.tests), "seed": numbers})


def shuffled(config: Config, recipe: seqjax.Recipe, params: Any) -> Any:
    """What shuffling the events of fresh sequences does to one seed."""
    batch = recipe.task.held_out(jax.random.key(1), config.examples)
    return shuffle_test(recipe.network, params, batch, recipe.task.score, jax.random.key(2), draws=config.draws)


def claims(config: Config, dataset: Any) -> list[Claim]:
    """D1 and D2."""
    free, known = ([body for body in config.bodies if (body in FREE) == is_free] for is_free in (True, False))
    found = [order_matters(dataset, free, known)] if free and known else []
    if known:
        longest = dataset.score.sel(body=known, test=max(config.tests)).fillna(0).values
        told = f"lowest of {longest.size} at {max(config.tests)} events: {longest.min():.3f}"
        found.append(claim("D2", measured=told, holds=bool((longest > 0.995).all())))
    return found


def order_matters(dataset: Any, free: list[str], known: list[str]) -> Claim:
    """D1."""
    scores = dataset.score.fillna(0)
    blind = {body: mean(scores.sel(body=body).mean("test").values) for body in free}
    lowest = scores.sel(body=known).min("test").values
    right = rate(int((lowest > SOLVED).sum()), lowest.size)
    told = ", ".join(f"{NAMES[body]} {each}" for body, each in blind.items())
    return claim(
        "D1",
        measured=f"{told}; recurrent: solved at every length {right}",
        holds=all(abs(each.value - 0.5) < 0.02 for each in blind.values()) and right.value == 1,
        note=f"Shuffled, the recurrent ones score {mean(dataset.shuffled.sel(body=known).fillna(0).values.ravel())}; "
        f"outputs of the order-free ones move by {float(dataset.moved.sel(body=free).max()):.1g} at most.",
    )


def table(config: Config, dataset: Any) -> list[dict[str, str]]:
    """Accuracies, lowest to highest of the seeds."""
    rows = []
    for body in config.bodies:
        row = {"model": NAMES[body]}
        for length in config.tests:
            row[f"{length} events"] = spread(dataset.score.sel(body=body, test=length).fillna(0).values)
        rows.append(row | {"shuffled": spread(dataset.shuffled.sel(body=body).fillna(0).values)})
    return rows


def figure(config: Config, dataset: Any) -> Any:
    """Accuracy of every seed against the length that is tested, and with the events shuffled."""
    fig, (left, right) = panels(2, width=10, sharey=True)
    for shift, body in zip(beside(len(config.bodies), 0.2), config.bodies, strict=True):
        scores = dataset.score.sel(body=body).fillna(0).values
        places = np.arange(len(config.tests))[:, None] + shift + np.zeros(scores.shape)
        left.plot(places.ravel(), scores.ravel(), "o", color=COLOUR[body], alpha=0.7, label=NAMES[body])
    places = np.arange(len(config.bodies))[:, None] + beside(config.seeds, 0.15)[None]
    for place, body in zip(places, config.bodies, strict=True):
        right.plot(place, dataset.shuffled.sel(body=body).fillna(0).values, "o", color=COLOUR[body], alpha=0.7)
    left.set_xticks(range(len(config.tests)), [str(length) for length in config.tests])
    left.set(ylim=(-0.03, 1.05), xlabel="length of the sequences tested, events", ylabel="accuracy on fresh sequences")
    left.set_title(f"Trained on {config.shortest} to {config.longest} events, every seed")
    left.legend(frameon=False, loc="lower right", labelcolor=GREY)
    right.set_xticks(range(len(config.bodies)), [NAMES[body] for body in config.bodies])
    right.set_title("The same, with the events of every sequence shuffled")
    for axes in (left, right):
        level(axes, seqjax.tasks.order().chance, "chance, 1/2")
    return fig


EXPERIMENT = Experiment(
    name="order",
    summary="Does a model know what came first?",
    config=Config,
    quick={
        "seeds": 2,
        "updates": 30,
        "gru_updates": 30,
        "hidden": 6,
        "bodies": ("mean", "gru"),
        "longest": 8,
        "tests": (20,),
        "examples": 100,
    },
    run=run,
    claims=claims,
    table=table,
    figure=figure,
    check=check,
)
