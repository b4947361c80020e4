"""A character model without a network: interpolated n-grams by Witten and Bell (1991), the baseline of a generator.

    p_n(s | h) = (c(h s) + d(h) p_{n-1}(s | h')) / (c(h) + d(h))

with c how often something was read, d(h) how many different symbols followed h, and h' the context without its first
symbol; below the empty context p is uniform. Where a context was never read, the shorter one answers.
"""

from collections import Counter, defaultdict

import numpy as np

Counts = list[defaultdict[bytes, Counter[int]]]


def count(tokens: np.ndarray, order: int) -> Counts:
    """What followed every context of 0..order-1 symbols in a text."""
    counts: Counts = [defaultdict(Counter) for _ in range(order)]
    read = packed(tokens)
    for n, seen in enumerate(counts):
        for at in range(n, len(read)):
            seen[read[at - n : at].tobytes()][int(read[at])] += 1
    return counts


def packed(tokens: np.ndarray) -> np.ndarray:
    """Tokens whose slices can be looked up."""
    return np.ascontiguousarray(tokens, np.int32)


def bits_per_symbol(counts: Counts, tokens: np.ndarray, K: int) -> np.ndarray:
    """Mean of -log2 p over a text of K different symbols, by n-grams of every order [order]."""
    read, bits = packed(tokens), np.zeros(len(counts))
    for at in range(len(read)):
        p = 1 / K
        for n, seen in enumerate(counts):
            followed = seen.get(read[at - n : at].tobytes()) if n <= at else None
            if followed is not None:
                different = len(followed)
                p = (followed[int(read[at])] + different * p) / (followed.total() + different)
            bits[n] -= np.log2(p)
    return bits / len(read)
