"""The units as the recall experiments train them, and the settings of a training.

The lecture does not print its initialisers. An independent search found those that give its figures: a plain RNN with
an orthogonal recurrent matrix and inputs of unit scale, an LSTM with every array uniform and forget bias 2.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

import jax
import numpy as np

import seqjax
from seqjax.core import require_sizes
from seqjax.dense import gaussian_head, uniform_head
from seqjax.init import Bias, InputGaussian, Orthogonal, with_init
from seqjax.plan import plan_for
from seqjax.processes import fetch
from seqjax.train import programs, test_keys

STANDARD = (Orthogonal(gain=1.0), InputGaussian(variance=1.0), Bias(0.0))
CELLS = {
    "rnn": with_init(seqjax.rnn(), *STANDARD),
    "rnn-uniform": seqjax.rnn(),
    "lstm": seqjax.lstm(forget_bias=2.0),
    "gru": seqjax.gru(keep_bias=2.0),
}
HEADS = {name: gaussian_head if name == "rnn" else uniform_head for name in CELLS}
SIZES = ("seeds", "hidden", "updates", "batch", "examples")
SOLVED = 0.99  # accuracy above this is solved
NONE = float("inf")  # the limit that clips nothing


@dataclass(frozen=True)
class Training:
    """Settings of every training; the defaults are the lecture's, on recall."""

    seeds: int = 4
    hidden: int = 32
    updates: int = 1500
    batch: int = 64
    learning_rate: float = 3e-3


def check_training(config: Training) -> None:
    """ValueError for sizes below 1 or a learning rate that is not above 0."""
    require_sizes(**{name: value for name, value in asdict(config).items() if name in SIZES})
    require_positive(learning_rate=config.learning_rate)


def require_positive(**numbers: float) -> None:
    """ValueError unless every named number is above 0 and finite."""
    for name, number in numbers.items():
        if not 0 < number < float("inf"):
            raise ValueError(f"{name} must be above 0 and finite, got {number}")


def require_clip(clip: float) -> None:
    """ValueError unless a limit is above 0; infinity clips nothing."""
    if not clip > 0:
        raise ValueError(f"clip must be above 0, got {clip}")


def require_known(name: str, given: tuple[str, ...], known: Any) -> None:
    """ValueError unless `given` is a non-empty selection, without repeats, of the known names."""
    unknown = [value for value in given if value not in known]
    if unknown or not given or len(set(given)) < len(given):
        raise ValueError(f"{name} must be some of {', '.join(known)}, each once, got {', '.join(given) or 'none'}")


def without(config: Any, *names: str) -> dict[str, Any]:
    """Every setting but those named: what identifies a piece of work that does not depend on them."""
    return {name: value for name, value in asdict(config).items() if name not in names}


def recipe_of(
    network: seqjax.Network, task: seqjax.tasks.Task, config: Training, *, clip: float | None = None
) -> seqjax.Recipe:
    """A network on a task, trained by Adam with these settings."""
    return seqjax.Recipe(
        network,
        task,
        hidden=config.hidden,
        updates=config.updates,
        batch=config.batch,
        optimizer=seqjax.adam(config.learning_rate, clip=clip),
    )


def recall_recipe(cell: str, length: int, config: Training) -> seqjax.Recipe:
    """One unit on first-symbol recall."""
    network = seqjax.network(CELLS[cell], inputs="onehot", readout="last", head=HEADS[cell])
    return recipe_of(network, seqjax.tasks.recall(length=length), config)


def scores_on(task: seqjax.tasks.Task, recipe: seqjax.Recipe, params: Any, keys: Any, examples: int) -> np.ndarray:
    """The score of every seed on what another task of the same kind holds out."""
    other = replace(recipe, window=None, task=replace(recipe.task, held_out=task.held_out))
    return fetch(programs(other, plan_for(len(keys)))[2](examples)(params, test_keys(keys)))


def order_scores(recipe: seqjax.Recipe, params: Any, keys: Any, length: int, examples: int) -> np.ndarray:
    """Accuracy of every seed on the order of two events in sequences of one length."""
    fresh = seqjax.tasks.order(shortest=length, longest=length)
    return scores_on(fresh, recipe, params, keys, examples)


def runs_of(params: Any, runs: int) -> list[Any]:
    """The params of each of many runs, on the host."""
    fetched = fetch(params)
    return [jax.tree.map(lambda a, i=i: a[i], fetched) for i in range(runs)]


def spread(scores: np.ndarray) -> str:
    """The range over seeds."""
    return f"{scores.min():.3f} to {scores.max():.3f}"
