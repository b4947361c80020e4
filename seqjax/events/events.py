"""Events of many sequences as flat columns: N sequences, E events, those of a sequence side by side in their order."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from seqjax.events.clock import Clock
from seqjax.events.fields import Field
from seqjax.events.targets import Targets


@dataclass(frozen=True, eq=False)
class Events:
    """What a file tells. Sequence n holds the events offsets[n] to offsets[n + 1]; there may be none."""

    path: str
    sequence: str  # the column of the ids
    ids: np.ndarray  # [N] int64, or text, in the order in which the file first names them
    offsets: np.ndarray  # [N + 1] int64
    fields: tuple[Field, ...]
    clock: Clock | None
    times: np.ndarray | None  # [E] int64 or float64, in the clock's ticks
    targets: Targets | None
    reordered: int  # events that the file has after a later event of their sequence
    equal: int  # events at the same time as the one before, which keep the file's order
    ignored: tuple[str, ...]  # columns of the file that were not read

    @property
    def lengths(self) -> np.ndarray:
        """Events of each sequence, [N]."""
        return np.diff(self.offsets)

    def within(self, rows: Any) -> np.ndarray:
        """The events of these sequences, bool [E]; ValueError for rows outside 0..N-1."""
        chosen = np.zeros(len(self.ids), bool)
        chosen[checked_rows(rows, len(self.ids))] = True
        return np.repeat(chosen, self.lengths)


def checked_rows(rows: Any, N: int) -> np.ndarray:
    """Numbers of sequences, [n]; ValueError unless they are whole and lie in 0..N-1."""
    rows = np.asarray(rows)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu") or (rows.size and not rows.min() >= 0):
        raise ValueError(f"rows must be numbers of sequences, [n] of integers, got {rows.dtype} {list(rows.shape)}")
    if rows.size and rows.max() >= N:
        raise ValueError(f"rows must lie in 0..{N - 1}, the number of sequences less one, got {rows.max()}")
    return rows.astype(np.int64)
