"""All states at once, by the evaluators that are parallel in time."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.core import Cell, Complex, State, linear_step
from seqjax.parallel import associative, newton
from seqjax.unroll.batching import over_time
from seqjax.unroll.stepping import Drive, Fixed, around, step

ALL_AT_ONCE = ("associative", "newton", "quasi-newton")


def all_at_once(
    evaluator: str, cell: Cell, reverse: bool, fixed: Fixed, first: State, drive: Drive, flags: Array | None
) -> tuple[State, State, Array, Array]:
    """(final, after, converged [B], iterations [B]); the drive gives projected inputs."""
    B = jax.tree.leaves(first)[0].shape[-1]
    if evaluator == "associative":
        decay, write = total_coefficients(cell, fixed, first, drive)
        final, after = associative(decay, write, first, fresh=flags, reverse=reverse)
        return final, after, jnp.ones(B, bool), jnp.ones(B, jnp.int32)
    found = newton(
        lambda state, each: step(cell, True, fixed, each, state),
        first,
        drive,
        diagonal=evaluator == "quasi-newton",
        reverse=reverse,
    )
    return found.final, found.after, jnp.broadcast_to(found.converged, B), jnp.broadcast_to(found.iterations, B)


def total_coefficients(cell: Cell, fixed: Fixed, first: State, drive: Drive) -> tuple[State, State]:
    """(decay, write), fields [T, H, B], of whole steps: of the cell's equation with all that stands around it.

    A step is linear in the state, element by element: its decay is what it makes of ones without a write.
    """
    coefficients: Any = cell.coefficients  # there, as the door has seen
    decays, writes = over_time(coefficients)(fixed.params, drive.given)
    nothing = jax.tree.map(jnp.zeros_like, first)
    ones = jax.tree.map(one, first, is_leaf=lambda field: isinstance(field, Complex))

    def decay(each: Drive, d: State) -> State:
        return around(each, nothing, ones, lambda s: linear_step(d, s, nothing))

    def write(each: Drive, d: State, w: State) -> State:
        return around(each, fixed.origin, nothing, lambda s: linear_step(d, s, w))

    return jax.vmap(decay)(replace(drive, nudge=None), decays), jax.vmap(write)(drive, decays, writes)


def one(field: Any) -> Any:
    """Ones, real or complex, in the shape of a field."""
    if isinstance(field, Complex):
        return Complex(jnp.ones_like(field.re), jnp.zeros_like(field.im))
    return jnp.ones_like(field)
