"""The configurations, the runs of one program, and what is read off them before and after training."""

from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import jax
import numpy as np
import xarray as xr

import seqjax
from experiments.models import Training, check_training, recipe_of, require_known
from seqjax.checkpoint import Checkpoints
from seqjax.core import require_sizes
from seqjax.init import Bias, GateBias, Gaussian, InputGaussian, Orthogonal, ScaledIdentity, Uniform
from seqjax.plan import plan_for, spread
from seqjax.processes import fetch
from seqjax.progress import progress_bar
from seqjax.sweep import seed_keys
from seqjax.train import programs, test_keys

CELLS = {"rnn": seqjax.rnn(), "lstm": seqjax.lstm(), "gru": seqjax.gru()}
GATE = {"lstm": "f", "gru": "z"}
STARTS = {
    "rnn": ("orthogonal", "gaussian", "identity"),
    "lstm": ("uniform", "orthogonal"),
    "gru": ("uniform", "orthogonal"),
}
PROBE = 2025  # seed of the sequences whose gradients are read


@dataclass(frozen=True)
class Config(Training):
    """Settings; `gains`, `forget` and `keep` set the memory of the RNN, the LSTM and the GRU."""

    seeds: int = 1
    cells: tuple[str, ...] = ("rnn", "lstm", "gru")
    lengths: tuple[int, ...] = (10, 20, 50)
    gains: tuple[float, ...] = (0.9, 1.0, 1.1)
    forget: tuple[float, ...] = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)
    keep: tuple[float, ...] = (0.0, 1.0, 2.0, 3.0, 4.0)
    rnn_variances: tuple[float, ...] = (0.01, 0.1, 1.0)
    variances: tuple[float, ...] = (0.1, 1.0)
    examples: int = 2000
    probes: int = 200


def check(config: Config) -> None:
    """ValueError for settings that cannot be run."""
    require_known("cells", config.cells, CELLS)
    check_training(config)
    require_sizes(probes=config.probes, **{f"lengths[{i}]": length for i, length in enumerate(config.lengths)})
    if min(config.lengths, default=0) < 3:
        raise ValueError(f"lengths must be at least 3, at least one, got {config.lengths}")
    for name in ("rnn_variances", "variances"):
        if not getattr(config, name) or not all(value > 0 for value in getattr(config, name)):
            raise ValueError(f"{name} must be above 0, at least one, got {getattr(config, name)}")
    if not (config.gains and config.forget and config.keep):
        raise ValueError("gains, forget and keep must each name at least one value")


def pieces(config: Config) -> list[tuple[str, str, int]]:
    """What is one program each: cell, start, T."""
    return [(cell, start, T) for cell in config.cells for start in STARTS[cell] for T in config.lengths]


def memories(config: Config, cell: str) -> tuple[float, ...]:
    """The values of what sets a cell's memory."""
    return {"rnn": config.gains, "lstm": config.forget, "gru": config.keep}[cell]


def edit(cell: str, start: str, key: Any, params: Any, hyper: Any) -> Any:
    """Draw the cell again as the hyperparameters say."""
    kind, memory = CELLS[cell], hyper["memory"]
    layer, keys = params.body[0], jax.random.split(key, 4)
    gain = memory if cell == "rnn" else 1.0
    recurrent: dict[str, Any] = {
        "orthogonal": Orthogonal(gain),
        "gaussian": Gaussian(variance=gain**2),
        "identity": ScaledIdentity(gain),
        "uniform": Uniform(),
    }
    edits = [recurrent[start], InputGaussian(variance=hyper["variance"])]
    edits += [Bias(0.0)] if cell == "rnn" else [GateBias(GATE[cell], memory)]
    half = layer.forward
    for each, own in zip(edits, keys, strict=False):
        half = each(own, kind, half)
    return replace(params, body=(replace(layer, forward=half),))


def measure(
    config: Config, cell: str, start: str, length: int, first: int, *, checkpoints: Checkpoints | None = None
) -> xr.Dataset:
    """All runs of one program: what reaches step 1 before training, and the score after it."""
    variances = config.rnn_variances if cell == "rnn" else config.variances
    points = list(product(memories(config, cell), variances, range(config.seeds)))
    memory, variance, _ = (np.array(column, np.float32) for column in zip(*points, strict=True))
    numbers, keys = seed_keys([first + i for i in range(len(points))])
    hyper = {"memory": memory, "variance": variance}
    network = seqjax.network(CELLS[cell], inputs="onehot", readout="last")
    base = recipe_of(network, seqjax.tasks.recall(length=length), config)
    recipe = replace(base, edit=partial(edit, cell, start))
    begun = seqjax.begin_many(recipe, keys, hyper).params
    share, straight = (reaching(recipe, kind, config, begun) for kind in (CELLS[cell], path(cell)))
    with progress_bar(f"trainability: {cell}, {start}, T = {length}") as show:
        states, _ = seqjax.train_many(recipe, keys, hyper, progress=show, checkpoints=checkpoints)
    scores = programs(recipe, plan_for(len(keys)))[2](config.examples)(states.params, test_keys(keys))
    scores, failed = fetch((scores, states.failed_at))
    return xr.Dataset(
        {
            "score": ("run", np.where(failed < 0, scores, np.nan)),
            "failed_at": ("run", failed),
            "share": ("run", share),
            "direct": ("run", np.full(len(points), np.nan) if cell == "rnn" else straight),
            "cell": ("run", [cell] * len(points)),
            "start": ("run", [start] * len(points)),
            "memory": ("run", memory),
            "variance": ("run", variance),
            "length": ("run", [length] * len(points)),
            "seed": ("run", numbers),
        }
    )


def path(cell: str) -> Any:
    """The cell with the gradient along its gates alone; an RNN has none, and is asked whole."""
    return CELLS[cell] if cell == "rnn" else seqjax.direct_path(CELLS[cell])


def reaching(recipe: seqjax.Recipe, cell: Any, config: Config, params: Any) -> np.ndarray:
    """log10 of ‖dL/ds_1‖ over ‖dL/ds_{T-1}‖, the median over probe sequences, of every run."""
    examples = recipe.task.held_out(jax.random.key(PROBE), config.probes)
    net = seqjax.network(cell, inputs="onehot", readout="last")
    probe = lambda p: seqjax.gradient_profile(net, p, examples.xs, examples.targets).log10[0]  # noqa: E731
    lines = fetch(jax.jit(spread(probe, plan_for(len(jax.tree.leaves(params)[0]))))(params)).astype(np.float64)
    return np.median(lines[:, :, -1] - lines[:, :, 1], axis=1)
