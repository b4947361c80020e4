"""What networks of many seeds say of sequences, block by block: one program for each width."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax import Array

from seqjax.events.targets import known
from seqjax.fit.prepare import Prepared
from seqjax.network import Network
from seqjax.plan import Plan, staffed
from seqjax.processes import fetch


@dataclass(frozen=True, eq=False)
class Speaker:
    """A network over prepared events, for params with the seeds [S] in front."""

    network: Network
    prepared: Prepared
    plan: Plan
    block: int  # sequences at a time

    @cached_property
    def program(self) -> Callable[..., Any]:
        """(params, codes, numbers, lengths), seeds in front, -> outputs [S, B, K] or [S, B, T, K]."""

        def outputs(params: Any, codes: Array, numbers: Array, lengths: Array) -> Any:
            xs = self.prepared.encoding.dense(codes, numbers)
            return getattr(self.network.apply(params, xs, lengths=lengths), self.network.readout)

        return staffed(outputs, self.plan)

    def outputs(self, params: Any, rows: np.ndarray) -> np.ndarray:
        """Outputs [S, units, K] of some sequences, or of their events, in their order."""
        prepared, S = self.prepared, len(jax.tree.leaves(params)[0])
        counts = prepared.events.lengths[rows] if prepared.question.per_event else np.ones(len(rows), np.int64)
        starts = np.cumsum(counts) - counts
        found = np.empty((S, counts.sum(), prepared.question.K), np.float64)
        own = prepared.bucket(rows)
        for bucket, width in enumerate(prepared.widths):
            places = np.flatnonzero(own == bucket)
            for first in range(0, len(places), self.block):
                block = places[first : first + self.block]
                filled = np.resize(block, self.block)  # its first ones again, to fill up
                batch = prepared.padded(rows[filled], width)[0]
                said = fetch(self.program(params, *(np.broadcast_to(a, (S, *a.shape)) for a in batch)))
                said = said[:, : len(block)].reshape(S, len(block), -1, prepared.question.K)
                there = np.arange(said.shape[2]) < counts[block, None]
                found[:, (starts[block, None] + np.arange(said.shape[2]))[there]] = said[:, there]
        return found

    def losses(self, params: Any, rows: np.ndarray) -> np.ndarray:
        """The mean loss of some sequences by each seed, [S], in float64; not finite where an output is not."""
        prepared = self.prepared
        answers, outputs = prepared.answers[prepared.units(rows)], self.outputs(params, rows)
        there = known(answers)
        return mean_loss(outputs[:, there], answers[there], bool(prepared.question.classes))


def mean_loss(outputs: np.ndarray, answers: np.ndarray, classes: bool) -> np.ndarray:
    """Mean cross-entropy, or squared error, of outputs [S, n, K], [S]."""
    with np.errstate(invalid="ignore", over="ignore"):
        if not classes:
            return ((outputs[..., 0] - answers) ** 2).mean(1)
        return -log_softmax(outputs)[:, np.arange(len(answers)), answers].mean(1)


def log_softmax(outputs: np.ndarray) -> np.ndarray:
    """Log probabilities [.., K]."""
    shifted = outputs - outputs.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
