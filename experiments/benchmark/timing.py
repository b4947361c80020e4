"""Timing side by side: every round times each candidate once, in a new order, so that a drift of the machine cancels.

A ratio is taken within a round and the median over rounds is what is reported and judged: what slows a round down
slows both sides of it, where two minima may come from different moments.
"""

import random
import time
from collections.abc import Callable, Mapping
from math import ceil
from typing import Any

CLOCKS = {"cpu": time.process_time, "wall": time.perf_counter}  # seconds; cpu is that of all threads
MOST = 40  # rounds
SHORTEST = 0.02  # seconds: what takes less is called several times in a row, after a call that finds its memory cold

Call = Callable[[], Any]
Times = dict[str, list[float]]  # clock -> seconds of one call, a number a round


def interleaved(
    calls: Mapping[str, Call], *, rounds: int, seconds: float, clocks: Mapping[str, Callable[[], float]] = CLOCKS
) -> dict[str, Times]:
    """Seconds of one call of each candidate, by clock and round.

    At least `rounds` rounds, and more of them (up to 40) while less than so many `seconds` have passed. The calls must
    have run once, so that nothing is left to do for the first time, and return only when their work is done.
    """
    repeats = {name: repeats_of(call, clocks["wall"]) for name, call in calls.items()}
    times: dict[str, Times] = {name: {clock: [] for clock in clocks} for name in calls}
    order, shuffle, began = list(calls), random.Random(0).shuffle, clocks["wall"]()
    done = 0
    while done < rounds or (done < MOST and clocks["wall"]() - began < seconds):
        shuffle(order)
        for name in order:
            for clock, took in once(calls[name], repeats[name], clocks).items():
                times[name][clock].append(took)
        done += 1
    return times


def repeats_of(call: Call, clock: Callable[[], float]) -> int:
    """How often to call in a row, from one call that is not counted."""
    began = clock()
    call()
    return ceil(SHORTEST / max(clock() - began, 1e-9))


def once(call: Call, repeats: int, clocks: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """Seconds of one call by every clock, the mean of so many in a row; before several, one is not counted."""
    if repeats > 1:
        call()
    began = {name: clock() for name, clock in clocks.items()}
    for _ in range(repeats):
        call()
    return {name: (clock() - began[name]) / repeats for name, clock in clocks.items()}
