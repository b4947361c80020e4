"""How time grows: forward and gradient of one LSTM layer against T, H and B, and an update of a sweep against S."""

from typing import Any

import jax

import seqjax
from experiments.benchmark.layer import gradient, inputs
from experiments.benchmark.peers.seqjax import layer
from experiments.benchmark.timing import Call, interleaved
from experiments.models import Training, recall_recipe
from seqjax.sweep import seed_keys

CELL = "lstm"
SWEPT = ("S",)  # grows in a sweep of recall; other sizes grow in one layer


def measure(
    *, axis: str, values: tuple[int, ...], base: dict[str, int], updates: int, rounds: int, seconds: float
) -> list[dict[str, Any]]:
    """A case for every value of one axis: T, H or B of a layer of the base's sizes, or S seeds of a sweep.

    Seconds of a sweep are those of so many updates of all seeds.
    """
    sizes = [base | {axis: value} for value in values]
    calls = {str(size[axis]): many(size, updates) if axis in SWEPT else one(size) for size in sizes}
    times = interleaved(calls, rounds=rounds, seconds=seconds)
    return [
        {
            "part": "growth",
            "kind": axis,
            "cell": CELL,
            **size,
            "candidates": {"seqjax": {"note": "", **times[str(size[axis])]}},
        }
        for size in sizes
    ]


def one(size: dict[str, int]) -> Call:
    """Forward and gradient of a layer."""
    params, xs = inputs(CELL, **size)
    call, _ = gradient(*layer(CELL, params), xs)
    return call


def many(size: dict[str, int], updates: int) -> Call:
    """A sweep of recall."""
    config = Training(hidden=size["H"], batch=size["B"], updates=updates)
    recipe, keys = recall_recipe(CELL, size["T"], config), seed_keys(size["S"])[1]

    def call() -> None:
        jax.block_until_ready(seqjax.train_many(recipe, keys))

    call()
    return call
