"""The recurrence as it is written: a scan of steps that JAX differentiates. The oracle of every other way."""

import jax

from seqjax.core import Cell, State
from seqjax.unroll.stepping import Drive, Fixed, step


def plain(cell: Cell, ahead: bool, reverse: bool, fixed: Fixed, first: State, drive: Drive) -> tuple[State, State]:
    """(final, after), fields [H, B] and [T, H, B]."""

    def body(state: State, each: Drive) -> tuple[State, State]:
        state = step(cell, ahead, fixed, each, state)
        return state, state

    return jax.lax.scan(body, first, drive, reverse=reverse)
