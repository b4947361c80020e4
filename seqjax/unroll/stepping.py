"""One step of a batch, batch last, with all that may stand around a cell's equation: masks, resets, noise."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.core import Cell, Params, State
from seqjax.dropout import dropped, zoned
from seqjax.sequences import select
from seqjax.unroll.batching import over_batch


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Drive:
    """What drives the recurrence, stacked over time in the inside layout; None where there is nothing of a kind."""

    given: Any  # xs [T, D, B], zero where masked, or what `project` made of them
    mask: Array | None  # [T, B] bool, the valid steps
    fresh: Array | None  # [T, B] bool: the equation starts from the origin, at a flagged or a masked step
    hold: State | None  # what zoneout drew
    nudge: State | None  # fields [T, H, B], added to the state after every step


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Fixed:
    """What is the same at every step."""

    params: Params
    origin: State  # fields [H, B], the cell's own start
    factor: Array | None  # [H, B] on the h that enters the recurrent product


def entering(flag: Array | None, origin: State, state: State) -> State:
    """The state that enters a step: the origin where the step is flagged, by `where`, so that a NaN is cleared."""
    return state if flag is None else select(flag, jax.tree.map(lambda o, s: o.astype(s.dtype), origin, state), state)


def around(drive: Drive, origin: State, state: State, equation: Callable[[State], State]) -> State:
    """One step: the equation with all that stands around it.

    That is linear in the state, so with tangents of origin, state and nudge, and the equation's linear map, it gives
    the tangent of the step. At a masked step the equation sees the origin, so that a NaN in the state that is held
    there stays out of the gradients.
    """
    used = entering(drive.fresh, origin, state)
    new = select(drive.mask, zoned(drive.hold, equation(used), used), state)
    return new if drive.nudge is None else jax.tree.map(jnp.add, new, drive.nudge)


def dropping(factor: Array | None, state: State) -> State:
    """The state that enters the recurrent product."""
    return state if factor is None else dropped(factor, state)


def product(cell: Cell, params: Params, factor: Array | None, state: State) -> Any:
    """a, of a batch."""
    return over_batch(cell.recur)(params, dropping(factor, state))


def step(cell: Cell, ahead: bool, fixed: Fixed, drive: Drive, state: State) -> State:
    """One step as the contract has it; `ahead` where the inputs were projected before the loop."""

    def equation(used: State) -> State:
        u = drive.given if ahead else over_batch(cell.project)(fixed.params, drive.given)
        return over_batch(cell.update)(fixed.params, used, u, product(cell, fixed.params, fixed.factor, used))

    return around(drive, fixed.origin, state, equation)


def shifted(first: State, after: State, reverse: bool) -> State:
    """The states [T, ...] one step earlier in the order of the scan, led by the first."""

    def shift(s: Array, ss: Array) -> Array:
        parts = (ss[1:], s[None]) if reverse else (s[None], ss[:-1])
        return jnp.concatenate(parts) if len(ss) else ss

    return jax.tree.map(shift, first, after)


def before(fixed: Fixed, first: State, after: State, fresh: Array | None, reverse: bool) -> State:
    """The states that entered the steps."""
    states = shifted(first, after, reverse)
    return states if fresh is None else jax.vmap(entering, (0, None, 0))(fresh, fixed.origin, states)
