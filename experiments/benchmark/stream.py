"""One event in, one answer out, of a batch of one: a layer and an affine readout, the state kept between calls.

Every call takes a NumPy vector [D] and returns when the answer [K] is there.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import seqjax
from experiments.benchmark.peers import absence, module_of
from experiments.benchmark.peers.seqjax import CELLS
from experiments.benchmark.timing import interleaved

CLOSE = 1e-5
K = 8
PEERS = ("torch", "linen")


def measure(*, cell: str, D: int, H: int, rounds: int, seconds: float) -> list[dict[str, Any]]:
    """One case: seconds of one event."""
    params = seqjax.network(CELLS[cell]).init(jax.random.key(0), D, H, K)
    facts: dict[str, dict[str, Any]] = {name: {"note": absence(name, cell)} for name in ("seqjax", *PEERS)}
    steps = {name: module_of(name).step(cell, params) for name, fact in facts.items() if not fact["note"]}
    xs = np.random.default_rng(1).normal(size=(3, D)).astype(np.float32)
    answers = {name: np.array([step(x) for x in xs]) for name, step in steps.items()}
    for name, theirs in answers.items():
        if not np.abs(theirs - answers["seqjax"]).max() <= CLOSE:
            raise RuntimeError(f"{name} answers a stream of {cell} with other numbers than seqjax")
    calls: dict[str, Callable[[], Any]] = {name: lambda step=step: step(xs[0]) for name, step in steps.items()}
    for name, times in interleaved(calls, rounds=rounds, seconds=seconds).items():
        facts[name] |= times
    return [{"part": "stream", "kind": "event", "cell": cell, "B": 1, "D": D, "H": H, "candidates": facts}]
