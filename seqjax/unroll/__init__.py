"""The engine: project every input, take every step of the recurrence, read every state.

Inside, time leads and the batch is the last axis, the layout in which XLA's CPU products are fastest:
W_hh [G*H, H] @ h [H, B]. XLA drops what nobody reads.
"""

from seqjax.unroll.batching import batch_size, over_batch, over_time, start
from seqjax.unroll.door import check_state, outside, require_engine, unroll
from seqjax.unroll.scan import Trace, scan

__all__ = [
    "Trace",
    "batch_size",
    "check_state",
    "outside",
    "over_batch",
    "over_time",
    "require_engine",
    "scan",
    "start",
    "unroll",
]
