"""`predict`: the answers for all sequences of a file, in blocks of similar lengths."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seqjax.core import carry_dtype
from seqjax.events import Encoding, Events, Padded, buckets, encode, padded
from seqjax.model import Model
from seqjax.network import Network, NetworkParams
from seqjax.sequences import batch_last, mask_of
from seqjax.serving.answers import answers

WIDTHS = 4  # programs that are compiled, at most
NUMBERS = 2**23  # that a block may hold at once, about, or one sequence's
ROWS = 1024  # of a block, at most


@dataclass(frozen=True, eq=False)
class Predictions:
    """The answers of n sequences in the file's order, or of their n events, sequence by sequence in their order."""

    model: Model
    ids: np.ndarray  # [n] of sequences
    events: np.ndarray  # [n] number of the event in its sequence, from 1, or how many events the answer comes from
    values: np.ndarray  # [n] class numbers, or numbers
    probabilities: np.ndarray  # [n, K] of the classes, [n, 0] without them

    def frame(self) -> Any:
        """A polars table: the id under its own name, `events`, `prediction`, and `probability_` of every class.

        ValueError where the column of ids has the name of another one.
        """
        import polars as pl

        classes, sequence = self.model.question.classes, self.model.encoding.sequence
        answer = pl.Series(np.array(classes, object)[self.values], dtype=pl.String) if classes else self.values
        columns: dict[str, Any] = {"events": self.events, "prediction": answer}
        columns |= {f"probability_{name}": self.probabilities[:, k] for k, name in enumerate(classes)}
        if sequence in columns:
            raise ValueError(f"sequence ids are in a column {sequence!r}, the name of a column of answers: rename it")
        ids = self.ids if self.ids.dtype.kind == "i" else pl.Series(self.ids, dtype=pl.String)
        return pl.DataFrame({sequence: ids, **columns})


def predict(model: Model, events: Events) -> Predictions:
    """The answers for sequences of any lengths; those without events are answered from nothing.

    Rows of similar lengths go through the network together, in few shapes, and in blocks of bounded memory. Raises
    ValueError unless the events have the model's fields (see `read_like`), and naming a sequence for which the network
    gives no finite numbers.
    """
    encoded, lengths = encode(model.encoding, events), events.lengths
    program = program_of(model.network, model.encoding)
    starts = np.concatenate([[0], np.cumsum(lengths)]) if model.question.per_event else np.arange(len(lengths) + 1)
    outputs = np.empty((starts[-1], model.question.K))
    for rows, B, T in blocks(lengths, model.encoding.D + 8 * model.hidden):
        found = np.asarray(program(model.params, filled(padded(encoded, rows, T), B)))[: len(rows)]
        bad = ~np.isfinite(found).all(tuple(range(1, found.ndim)))
        if bad.any():
            raise ValueError(f"the network is not finite on sequence {events.ids[rows[bad.argmax()]]!r}")
        if model.question.per_event:
            inside = np.arange(T) < lengths[rows][:, None]
            outputs[(starts[rows][:, None] + np.arange(T))[inside]] = found[inside]
        else:
            outputs[rows] = found
    if not model.question.per_event:
        return Predictions(model, events.ids, lengths, *answers(model, outputs))
    number = np.arange(starts[-1]) - np.repeat(starts[:-1], lengths) + 1
    return Predictions(model, np.repeat(events.ids, lengths), number, *answers(model, outputs))


def blocks(lengths: np.ndarray, width: int) -> Iterator[tuple[np.ndarray, int, int]]:
    """(rows, B, T): every sequence once, sorted by length, in blocks of at most B rows and T steps of `width` numbers.

    There is one B for every T, and few T.
    """
    order, low = np.argsort(lengths, kind="stable"), -1
    for T in buckets(lengths, WIDTHS):
        rows = order[(lengths[order] > low) & (lengths[order] <= T)]
        B = min(ROWS, max(1, NUMBERS // (T * width)), len(rows))
        for first in range(0, len(rows), B):
            yield rows[first : first + B], B, T
        low = T


def filled(batch: Padded, B: int) -> Padded:
    """A batch of B rows, the last ones without events."""
    return Padded(*(np.concatenate([each, np.zeros((B - len(each), *each.shape[1:]), each.dtype)]) for each in batch))


@lru_cache(maxsize=8)
def program_of(network: Network, encoding: Encoding) -> Callable[[NetworkParams, Padded], Array]:
    """A compiled (params, batch) -> outputs [B, K], or [B, T, K] of a network that reads every step."""

    def run(params: NetworkParams, batch: Padded) -> Array:
        xs = encoding.dense(batch.codes, batch.numbers.astype(carry_dtype(params)))
        output = network.forward(params, *batch_last((xs, mask_of(batch.lengths, xs.shape[1]))))
        read: Any = output.last if output.every is None else output.every
        return jnp.moveaxis(read, -1, 0)

    return jax.jit(run)
