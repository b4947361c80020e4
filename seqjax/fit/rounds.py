"""The order of a round: every training sequence once, in batches of one bucket, the buckets spread evenly."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


@dataclass(frozen=True)
class Round:
    """U updates; update u of a run takes place u % U of its round u // U.

    Bucket b of n_b sequences has m_b = ⌈n_b / batch⌉ batches, of equal sizes to within one sequence. Batch j stands at
    (j + 1/2) / m_b of the round, so that no bucket is left for its end.
    """

    buckets: tuple[int, ...]  # [U] whose batch each place is
    ranks: tuple[int, ...]  # [U] which of its batches
    counts: tuple[int, ...]  # batches of every bucket
    batches: tuple[int, ...]  # sequences in each of them, at most


def round_of(sizes: Sequence[int], batch: int) -> Round:
    """The round of buckets of so many sequences; a bucket of none has no place."""
    counts = [-(-n // batch) for n in sizes]
    places = sorted(((j + 0.5) / m, b, j) for b, m in enumerate(counts) for j in range(m))
    batches = tuple(-(-n // max(m, 1)) for n, m in zip(sizes, counts, strict=True))
    return Round(tuple(b for _, b, _ in places), tuple(j for _, _, j in places), tuple(counts), batches)


def rows_of_update(key: Array, update: Array, n: int, bucket: int, whole: Round) -> Array:
    """Numbers of sequences among the n of a bucket, [batch], -1 for an empty place; a fresh order every round."""
    U, m, batch = len(whole.buckets), whole.counts[bucket], whole.batches[bucket]
    own = jax.random.fold_in(jax.random.fold_in(key, bucket), update // U)
    order = jnp.concatenate([jax.random.permutation(own, n), jnp.full(m * batch - n, -1)])
    return order.reshape(batch, m)[:, jnp.asarray(np.array(whole.ranks))[update % U]]
