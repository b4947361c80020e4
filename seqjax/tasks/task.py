"""What a task is: where batches come from, how an answer is judged, and what a guess would score."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
from jax import Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Batch:
    """Sequences with their targets."""

    xs: Any  # [B, T] tokens, [B, T, D] vectors, or a Pair
    targets: Any  # [B] for a task read at the last step, [B, T] for one read at every step
    lengths: Any = None  # [B]; None where every row is full
    scored: Any = None  # [B, T] bool, where an answer counts in a task read at every step; None at every valid one
    reset: Any = None  # [B, T] bool, where the state goes back to its start before the step; None nowhere


@dataclass(frozen=True)
class Task:
    """A supervised task as a record of pure functions."""

    name: str
    draw: Callable[[Array, Array, int], Batch]  # (key, update, batch) -> the training batch of one update
    held_out: Callable[[Array, int], Batch]  # (key, examples) -> data to test on
    inputs: str  # how a network takes xs: "onehot", "vector" or "pair"
    readout: str  # where it answers: "last" or "every"
    D: int  # numbers a step, or symbols; of pairs, source symbols
    K: int  # outputs; of pairs, target symbols
    loss: Callable[..., Array]  # (predictions, targets, mask) -> mean
    score: Callable[..., Array]  # the same, larger is better, at most 1
    chance: float  # score of the best answer that ignores the input
    chance_loss: float  # its loss
