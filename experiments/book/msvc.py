"""The random numbers of the book's programs: `rand` of the Microsoft C runtime, a linear congruential generator.

The book names no runtime. Of the common ones only this one gives the numbers it prints.
"""

from collections.abc import Iterator
from itertools import islice
from math import prod

import numpy as np

RAND_MAX = 32767


def rand(seed: int) -> Iterator[int]:
    """The endless stream after `srand(seed)`: x = 214013 x + 2531011 mod 2³², of which bits 16 to 30 are returned."""
    x = seed
    while True:
        x = (214013 * x + 2531011) % 2**32
        yield (x >> 16) & RAND_MAX


def uniform(stream: Iterator[int], *shape: int, bound: float) -> np.ndarray:
    """The next draws as float32 numbers in [-bound, bound], the last axis of `shape` drawn first."""
    draws = np.fromiter(islice(stream, prod(shape)), np.float32, prod(shape)).reshape(shape)
    return draws / np.float32(RAND_MAX) * np.float32(2 * bound) - np.float32(bound)
