"""How long work takes, and how much of that is compiling."""

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import jax

TIMES = ("compile_seconds", "run_seconds")


@contextmanager
def stopwatch() -> Iterator[dict[str, float]]:
    """Yield a dict that holds the wall time at the end: `compile_seconds` of tracing, lowering and compiling, by
    whichever thread, and `run_seconds` of all the rest."""
    spans, taken = [], {}

    def note(event: str, start_time: float, end_time: float, **about: Any) -> None:
        if event.startswith("/jax/core/compile/"):
            spans.append((start_time, end_time))

    jax.monitoring.register_event_time_span_listener(note)
    began = time.time()
    try:
        yield taken
    finally:
        jax.monitoring.unregister_event_time_span_listener(note)
        compiling = covered(spans)
        taken |= zip(TIMES, (compiling, time.time() - began - compiling), strict=True)


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """How much of the line the spans cover, where they overlap once."""
    total, reached = 0.0, -math.inf
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
