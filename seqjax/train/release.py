"""Letting go of compiled programs, of which there is no end in a long run of many recipes.

XLA maps a program into memory in some hundred pieces, and Linux lets a process have 65,530; beyond, compiling fails and
takes the process with it.
"""

from pathlib import Path

import jax

from seqjax.train.many import programs

MAPS, MOST = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")
SHARE = 1 / 3  # of the most, which leaves room for the programs of what comes next


def release() -> bool:
    """Drop all compiled programs where they take a third of the pieces that there may be; whether they did."""
    crowded = MAPS.exists() and MOST.exists() and pieces() > SHARE * int(MOST.read_text())
    if crowded:
        programs.cache_clear()
        jax.clear_caches()
    return crowded


def pieces() -> int:
    """How many pieces of memory this process has mapped."""
    return MAPS.read_bytes().count(b"\n")
