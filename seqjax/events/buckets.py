"""Buckets of lengths: few widths to pad sequences to, with as little padding as can be."""

from typing import Any

import numpy as np

from seqjax.core import require_sizes


def buckets(lengths: Any, most: int = 3) -> list[int]:
    """At most so many widths, rising, the last the largest length, that minimise the sum of what each length is padded
    by to the next width; at least 1, and as few of them as reach the minimum.

    Exact, by dynamic programming: with lengths l_1 < ... < l_U of n_i sequences each and C_j = n_1 + ... + n_j,
    cost_k(j) = min_i cost_{k-1}(i) + (C_j - C_i) l_j, of k widths up to l_j.
    """
    require_sizes(most=most)
    lengths = np.asarray(lengths)
    if lengths.ndim != 1 or not lengths.size or lengths.dtype.kind not in "iu" or lengths.min() < 0:
        raise ValueError(
            f"lengths must be whole numbers [n], at least one, none below 0, got {lengths.dtype} {lengths.shape}"
        )
    values, counts = np.unique(np.maximum(lengths, 1).astype(np.int64), return_counts=True)
    ends = np.concatenate([[0], values])
    before = np.concatenate([[0], np.cumsum(counts)])
    cost = np.where(np.arange(len(ends)) == 0, 0, np.iinfo(np.int64).max // 2)
    best, totals = [], []
    for _ in range(min(most, len(values))):
        steps = [cheapest(cost[: j + 1] + (before[j] - before[: j + 1]) * ends[j]) for j in range(len(ends))]
        best.append([i for i, _ in steps])
        cost = np.array([least for _, least in steps])
        totals.append(int(cost[-1]))
    j, widths = len(values), []
    for choice in reversed(best[: totals.index(min(totals)) + 1]):
        widths.append(int(ends[j]))
        j = choice[j]
    return widths[::-1]


def cheapest(costs: np.ndarray) -> tuple[int, int]:
    """The place of the smallest cost, and the cost."""
    place = int(costs.argmin())
    return place, int(costs[place])
