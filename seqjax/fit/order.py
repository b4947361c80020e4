"""Does the order of events matter to a fitted network, and how far back?"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seqjax.events.targets import known
from seqjax.fit.prepare import Prepared
from seqjax.fit.task import loss_of
from seqjax.horizon import Decay, fit_decay, horizon
from seqjax.network import Network, network_of
from seqjax.profile import gradient_profile
from seqjax.sensitivity import Change, Truncation, ablation_test, reversal_test, shuffle_test, truncation_test
from seqjax.tasks.task import Batch

ROWS = 128  # test sequences that are looked at, at most
KS = (1, 2, 4, 8, 16, 32, 64, 128, 256)  # last events that are left
DRAWS = 4  # random orders of each
TOLERANCE = 0.01  # of the loss


@dataclass(frozen=True, eq=False)
class Order:
    """The diagnostics of one network on some test sequences; all scores are losses with their sign turned."""

    rows: int
    shuffle: Change
    reversal: Change
    truncation: Truncation
    ablations: dict[str, Change]  # "first" and "last" event
    log10: np.ndarray  # [rows, lag] gradient to the state, over that at the end
    decay: Decay | None  # None where no gradient reaches back, or every sequence is too short

    @property
    def needed(self) -> int | None:
        """The least number of last events that is enough, of those tried; None for none of them."""
        return self.truncation.needed(TOLERANCE)

    @property
    def horizon(self) -> float | None:
        """Events back to where the gradient has shrunk to a hundredth."""
        return None if self.decay is None else horizon(self.decay.factor, 1e-2)


def order_of(network: Network, params: Any, prepared: Prepared) -> Order | None:
    """Diagnose a recurrent network, at the last answer of each sequence; None with fewer than two to look at.

    The same params serve a network that is read at every event.
    """
    batch = last_answers(prepared)
    if batch is None:
        return None
    last, loss = last_readout(network), loss_of(bool(prepared.question.classes))
    score = negated(loss)
    ks = [k for k in KS if k < batch.xs.shape[1]] or [1]
    log10 = np.asarray(of_top(last, loss, params, batch), np.float64)
    with np.errstate(invalid="ignore"):  # of a gradient that is zero at the end
        log10 = log10 - log10[:, :1]
    return Order(
        rows=len(batch.targets),
        shuffle=shuffle_test(last, params, batch, score, jax.random.key(0), draws=DRAWS),
        reversal=reversal_test(last, params, batch, score),
        truncation=truncation_test(last, params, batch, score, ks),
        ablations={event: ablation_test(last, params, batch, score, event=event) for event in ("first", "last")},
        log10=log10,
        decay=decay_of(log10),
    )


@partial(jax.jit, static_argnames=("network", "loss"))
def of_top(network: Network, loss: Callable[..., Array], params: Any, batch: Batch) -> Array:
    """log10 of the norm of the gradient to the top layer's state, [rows, lag]."""
    profile = gradient_profile(network, params, batch.xs, batch.targets, lengths=batch.lengths, loss=loss)
    return profile.log10[-1]


def last_readout(network: Network) -> Network:
    """The same network, read at the last step; without the noise of training."""
    return network_of(network.body, readout="last")


@cache
def negated(loss: Callable[..., Array]) -> Callable[..., Array]:
    """A loss as a score, of which more is better."""
    return lambda outputs, targets: -loss(outputs, targets)


def last_answers(prepared: Prepared) -> Batch | None:
    """Some test sequences, up to their last answer, at least two; None where there are not so many with events."""
    rows, starts = prepared.parts.test, prepared.events.offsets
    ends = prepared.events.lengths[rows]
    if prepared.question.per_event:
        told = [np.flatnonzero(known(prepared.answers[starts[n] : starts[n + 1]])) for n in rows]
        ends = np.array([places[-1] + 1 if len(places) else 0 for places in told])
    some = np.flatnonzero(ends > 0)
    some = np.sort(np.random.default_rng(0).permutation(some)[:ROWS])
    if len(some) < 2:
        return None
    rows, ends = rows[some], ends[some]
    answers = prepared.answers[starts[rows] + ends - 1 if prepared.question.per_event else rows]
    batch = prepared.padded(rows, int(prepared.events.lengths[rows].max()))[0]
    xs = prepared.encoding.dense(batch.codes, batch.numbers)
    return Batch(xs, jnp.asarray(answers), jnp.asarray(ends.astype(np.int32)))


def decay_of(log10: np.ndarray) -> Decay | None:
    """The fitted decay of the rows whose gradient is not zero at the end; None where there is nothing to fit."""
    try:
        return fit_decay(log10[np.isfinite(log10[:, 0])])
    except ValueError:
        return None
