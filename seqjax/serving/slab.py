"""States of many sequences side by side, on the host, each in a row of its own."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

ROWS = 64  # to begin with


class Slab:
    """Rows of states, of how many events they come from and of the time of the last; row 0 is the start.

    `rows` names the row of every id, the least recent first. With a limit that many ids are kept: the least recent
    gives its row to a new one, and `forgotten` counts how often.
    """

    def __init__(self, start: Any, limit: int | None) -> None:
        leaves, self.structure = jax.tree.flatten(start)
        self.states = [np.zeros((ROWS, *np.shape(leaf)), leaf.dtype) for leaf in leaves]
        for states, leaf in zip(self.states, leaves, strict=True):
            states[0] = leaf
        self.events = np.zeros(ROWS, np.int64)
        self.ticks: list[int | float | None] = [None] * ROWS
        self.rows: dict[str, int] = {}
        self.free = list(range(ROWS - 1, 0, -1))
        self.limit, self.forgotten = limit, 0

    def row(self, key: str) -> int:
        """The row of an id, the start's for a new one."""
        return self.rows.get(key, 0)

    def put(self, keys: Sequence[str], states: Sequence[np.ndarray], ticks: Sequence[int | float | None]) -> None:
        """The states [n, ..] of different ids, no more than the limit, after an event at `ticks` each."""
        self.touch(keys)  # before a new one takes the row of the least recent, which is then none of these
        events = self.events[[self.row(key) for key in keys]] + 1
        rows = [self.rows[key] if key in self.rows else self.taken(key) for key in keys]
        for ours, new in zip(self.states, states, strict=True):
            ours[rows] = new
        self.events[rows] = events
        for row, tick in zip(rows, ticks, strict=True):
            self.ticks[row] = tick
        self.touch(keys)

    def touch(self, keys: Sequence[str]) -> None:
        """Make ids the most recent, the last one the most."""
        for key in keys:
            if key in self.rows:
                self.rows[key] = self.rows.pop(key)

    def taken(self, key: str) -> int:
        """A row for a new id."""
        if len(self.rows) == self.limit:
            self.forget(next(iter(self.rows)))
            self.forgotten += 1
        if not self.free:
            self.grow()
        self.rows[key] = self.free.pop()
        return self.rows[key]

    def forget(self, key: str) -> bool:
        """Free the row of an id; whether it had one."""
        row = self.rows.pop(key, None)
        if row is None:
            return False
        self.free.append(row)
        return True

    def grow(self) -> None:
        """Twice the rows."""
        n = len(self.events)
        self.states = [np.concatenate([states, np.zeros_like(states)]) for states in self.states]
        self.events = np.concatenate([self.events, np.zeros_like(self.events)])
        self.ticks += [None] * n
        self.free += range(2 * n - 1, n - 1, -1)
