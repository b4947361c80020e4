"""Recurrent models on real ragged data: which of nine speakers says /ae/ (JapaneseVowels).

Source   Kudo, Toyama and Shimbo 1999; the usual split, 270 utterances to train on and 370 to test on
Command  python -m experiments run vowels
Time     about 1 minute on 2 CPU cores, with compilation
Expect   mean test accuracy of 0.95 to 0.99 for all; at least one at or above 0.97

The start (orthogonal recurrent blocks, zero biases) was chosen by 3-fold cross-validation on the training utterances:
0.97 for the bidirectional GRU, where PyTorch's uniform start gave 0.956.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import seqjax
from experiments.claims import claim
from experiments.models import STANDARD, Training, check_training, recipe_of, require_clip, require_known, without
from seqjax.core import Cell
from seqjax.init import with_init
from seqjax.report import Claim, Experiment
from seqjax.report.style import COLOURS, NAMES, beside, label_ends, level, panels
from seqjax.sweep import gather
from seqjax.tasks import series, vowels

BODIES = {
    "rnn": (seqjax.rnn(), False),
    "lstm": (seqjax.lstm(), False),
    "gru": (seqjax.gru(), False),
    "bigru": (seqjax.gru(), True),
}
GOAL = 0.97


@dataclass(frozen=True)
class Config(Training):
    """Settings; `updates` of `batch` utterances make about 36 epochs."""

    seeds: int = 5
    hidden: int = 64
    updates: int = 300
    batch: int = 32
    clip: float = 1.0
    models: tuple[str, ...] = ("rnn", "lstm", "gru", "bigru")


def check(config: Config) -> None:
    """ValueError for settings that cannot be run, and where the data is not installed."""
    require_known("models", config.models, BODIES)
    check_training(config)
    require_clip(config.clip)
    rows = len(series("JapaneseVowels")[0].targets)
    if config.batch > rows:
        raise ValueError(f"batch must be at most the {rows} training utterances, got {config.batch}")


def recipe(cell: Cell, config: Training, *, clip: float, bidirectional: bool = False) -> seqjax.Recipe:
    """A cell on the vowels from its standard start; the gradient is clipped."""
    network = seqjax.network(with_init(cell, *STANDARD), bidirectional=bidirectional)
    return recipe_of(network, vowels(), config, clip=clip)


def run(config: Config, point: Any) -> Any:
    """Train every model on every seed; dims model, seed [, update]."""
    settings = without(config, "models")

    def train(model: str) -> Any:
        cell, bidirectional = BODIES[model]
        training = recipe(cell, config, clip=config.clip, bidirectional=bidirectional)
        options = {"seeds": config.seeds, "title": f"vowels: {model}"}
        return point.resumable(partial(seqjax.sweep_recipe, training, **options), model=model, **settings)

    return gather([train(model) for model in config.models], {"model": config.models})


def claims(config: Config, dataset: Any) -> list[Claim]:
    """V1: a recurrent model reaches the goal; a failed seed counts as 0."""
    means = dataset.score.fillna(0).mean("seed")
    best = str(means.model.values[int(means.values.argmax())])
    spread = float(dataset.score.fillna(0).sel(model=best).std("seed", ddof=1)) if config.seeds > 1 else float("nan")
    measured = f"{NAMES[best]}: {float(means.max()):.4f} (sd {spread:.4f} over {config.seeds} seeds)"
    return [claim("V1", measured=measured, holds=means.max() >= GOAL)]


def table(config: Config, dataset: Any) -> list[dict[str, str]]:
    """Test accuracy over seeds."""
    rows = []
    for model in config.models:
        scores = dataset.score.sel(model=model).fillna(0).values
        spread = f"{scores.std(ddof=1):.4f}" if len(scores) > 1 else "-"
        ends = f"{scores.min():.4f} to {scores.max():.4f}"
        rows.append({"model": NAMES[model], "mean accuracy": f"{scores.mean():.4f}", "sd": spread, "range": ends})
    return rows


def figure(config: Config, dataset: Any) -> Any:
    """Test accuracy of every seed, and the loss on the way there."""
    fig, (left, right) = panels(2, width=11)
    ends = []
    for place, model in enumerate(config.models):
        scores = dataset.score.sel(model=model).values
        left.plot(place + beside(len(scores), 0.12), scores, "o", color=COLOURS[model], alpha=0.6)
        left.plot([place - 0.25, place + 0.25], [np.nanmean(scores)] * 2, color=COLOURS[model], linewidth=2.5)
        left.annotate(
            f"{np.nanmean(scores):.3f}", (place + 0.28, np.nanmean(scores)), color=COLOURS[model], va="center"
        )
        losses = dataset.loss.sel(model=model).values
        right.plot(losses.T, color=COLOURS[model], alpha=0.15, linewidth=0.8)
        middle = np.nanmedian(losses, axis=0)
        right.plot(middle, color=COLOURS[model], linewidth=1.8)
        ends.append((middle[-20:].mean(), NAMES[model], COLOURS[model]))
    left.set_xticks(range(len(config.models)), [NAMES[model].replace(" ", "\n", 1) for model in config.models])
    left.set(xlim=(-0.5, len(config.models) - 0.2), ylabel="accuracy on 370 test utterances")
    left.set_title(f"Every seed, and the mean of {config.seeds} (chance: {vowels().chance:.2f})")
    level(left, GOAL, "goal, 0.97")
    left.margins(y=0.15)
    right.set(yscale="log", xlabel="update", ylabel="training loss of a batch, nats", xlim=(0, config.updates))
    right.set_title("Loss on the way (every seed; median bold)")
    level(right, vowels().chance_loss, "a guess, ln 9")
    label_ends(right, ends)
    return fig


EXPERIMENT = Experiment(
    name="vowels",
    summary="Recurrent models on real ragged data: which of nine speakers says /ae/?",
    config=Config,
    quick={"models": ("bigru",), "seeds": 2, "updates": 40, "hidden": 16},
    run=run,
    claims=claims,
    table=table,
    figure=figure,
    check=check,
    version=2,
)
