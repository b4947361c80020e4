"""Does the order of events matter, and how far back? The same rows, changed, through the same trained network.

Every row is its own unit: its score, and its output at its last step, before and after what is done to its valid steps.
A difference of scores is taken row by row, and its interval is Student's over rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seqjax.core import require_sizes
from seqjax.network import Network, NetworkParams
from seqjax.sequences import mask_of
from seqjax.statistics import Mean, mean
from seqjax.tasks.task import Batch

Score = Callable[..., Array]  # (predictions, targets) -> mean, such as `Task.score` or `seqjax.losses.accuracy`
Moved = tuple[Array, Array]  # of every row, which steps in which order, [B, T], and how many of them, [B]


@dataclass(frozen=True, eq=False)
class Whole:
    """Rows as they are, and how they are judged with their steps moved."""

    run: Callable[..., tuple[Array, Array]]  # (order, lengths) -> outputs and scores
    lengths: Array  # [B]
    output: np.ndarray  # [B, K]
    score: np.ndarray  # [B]


@dataclass(frozen=True)
class Change:
    """What a change of the rows did."""

    before: Mean  # score of the rows as they are
    after: Mean  # of the changed rows; of several draws, of every row's mean over them
    difference: Mean  # after less before, row by row
    largest: float  # of |output after - before|, over rows and outputs
    typical: float  # its mean
    rows: int  # rows that had enough steps to be changed

    def __str__(self) -> str:
        return f"{self.before} to {self.after}, {self.difference:+}; outputs move by {self.typical:.2g}"


@dataclass(frozen=True)
class Truncation:
    """What is left where only the last k events of every row are visible."""

    changes: dict[int, Change]  # by k

    def needed(self, tolerance: float = 0.01) -> int | None:
        """The least k from which on the score is within `tolerance` of that of whole rows, at the lower end of its
        interval; None where it is at no k."""
        enough = None
        for k in sorted(self.changes, reverse=True):
            if not self.changes[k].difference.low >= -tolerance:
                break
            enough = k
        return enough


def shuffle_test(
    network: Network, params: NetworkParams, batch: Batch, score: Score, key: Array, *, draws: int = 8
) -> Change:
    """Every row's valid steps in a random order, in so many independent draws; outputs are those of all draws.

    A network that knows no order moves by rounding at most. Raises ValueError as `network.apply` does, for a network
    that reads no last step, for a batch of less than two rows, and for one that is cut into segments by resets.
    """
    require_sizes(draws=draws)
    whole, T = unchanged(network, params, batch, score), batch.xs.shape[1]
    lengths = whole.lengths

    def drawn(key: Array) -> Moved:
        places = jnp.where(mask_of(lengths, T), jax.random.uniform(key, (len(lengths), T)), 2)
        return jnp.argsort(places, axis=1), lengths  # stable, so that padding stays where it is

    moves = [drawn(k) for k in jax.random.split(key, draws)]
    return compared(whole, moves, lengths >= 2)


def reversal_test(network: Network, params: NetworkParams, batch: Batch, score: Score) -> Change:
    """Every row's valid steps in reverse; errors as for `shuffle_test`."""
    whole, steps = unchanged(network, params, batch, score), jnp.arange(batch.xs.shape[1])[None]
    back = whole.lengths[:, None] - 1 - steps
    return compared(whole, [(jnp.where(back >= 0, back, steps), whole.lengths)], whole.lengths >= 2)


def truncation_test(
    network: Network, params: NetworkParams, batch: Batch, score: Score, ks: Sequence[int] = (1, 2, 4, 8, 16, 32)
) -> Truncation:
    """Only the last k events of every row, as rows of k steps, for every k of `ks`: how far back the answers need to
    look. A row of at most k stays as it is. Errors as for `shuffle_test`, and for a k below 1 and no k."""
    require_sizes(ks=len(ks), **{f"ks[{i}]": k for i, k in enumerate(ks)})
    whole, changes = unchanged(network, params, batch, score), {}
    for k in ks:
        kept = jnp.minimum(whole.lengths, k)
        changes[int(k)] = compared(whole, [from_step(batch, whole.lengths - kept, kept)], whole.lengths > k)
    return Truncation(changes)


def ablation_test(network: Network, params: NetworkParams, batch: Batch, score: Score, *, event: str) -> Change:
    """Every row without its "first" or its "last" event; a row of one event is then empty. Errors as for
    `shuffle_test`, and for another event."""
    if event not in ("first", "last"):
        raise ValueError(f'event must be "first" or "last", got {event!r}')
    whole = unchanged(network, params, batch, score)
    some = (whole.lengths > 0).astype(whole.lengths.dtype)
    moved = from_step(batch, some if event == "first" else jnp.zeros_like(some), whole.lengths - some)
    return compared(whole, [moved], whole.lengths > 0)


def lengths_of(network: Network, batch: Batch) -> Array:
    """Valid steps of every row, [B]; ValueError for a network or a batch that no test here is for."""
    if not isinstance(network, Network) or network.readout not in ("last", "both"):
        raise ValueError(f'network must read "last" or "both", as rows are judged at their last step, got {network!r}')
    if batch.reset is not None:
        raise ValueError("batch must hold whole sequences, and its resets cut them: give every segment a row")
    if jnp.ndim(batch.targets) != 1 or len(batch.targets) < 2:
        raise ValueError(f"batch must hold two rows or more, one target each, got targets {jnp.shape(batch.targets)}")
    B, T = batch.xs.shape[:2]
    return jnp.full(B, T) if batch.lengths is None else jnp.asarray(batch.lengths)


def from_step(batch: Batch, first: Array, lengths: Array) -> Moved:
    """Rows that begin at their step `first`, [B]; what comes after their ends is padding."""
    T = batch.xs.shape[1]
    return jnp.minimum(first[:, None] + jnp.arange(T)[None], T - 1), lengths


def unchanged(network: Network, params: NetworkParams, batch: Batch, score: Score) -> Whole:
    """The rows as they are; errors as for `shuffle_test`."""
    lengths = lengths_of(network, batch)
    network.steps(params, batch.xs, lengths=lengths)
    run = partial(judged, network, score, params, jnp.asarray(batch.xs), jnp.asarray(batch.targets))
    still = jnp.broadcast_to(jnp.arange(batch.xs.shape[1]), batch.xs.shape[:2])
    return Whole(run, lengths, *(np.asarray(a, np.float64) for a in run(still, lengths)))


def compared(whole: Whole, moves: list[Moved], changed: Array) -> Change:
    """The rows as they are, against the same rows with their steps moved."""
    run, output, before = whole.run, whole.output, whole.score
    outputs, after = (np.asarray(a, np.float64) for a in zip(*(run(*moved) for moved in moves), strict=True))
    moved_by, difference = np.abs(outputs - output), (after - before).mean(0)  # of what is equal, exactly 0
    return Change(
        before=mean(before),
        after=mean(before + difference),
        difference=mean(difference),
        largest=float(moved_by.max()),
        typical=float(moved_by.mean()),
        rows=int(changed.sum()),
    )


@partial(jax.jit, static_argnames=("network", "score"))
def judged(
    network: Network, score: Score, params: NetworkParams, xs: Any, targets: Array, order: Array, lengths: Array
) -> tuple[Array, Array]:
    """Outputs [B, K] at the last steps of rows whose steps are taken in an order, and every row's score [B]."""
    moved = jnp.take_along_axis(xs, order if xs.ndim == 2 else order[..., None], axis=1)
    last: Any = network.apply(params, moved, lengths=lengths).last
    return last, jax.vmap(lambda output, target: score(output[None], target[None]))(last, targets)
