"""Gradients to the state of every layer and direction of a stack, from the top down, in log scale.

A layer's own recurrence is pulled back step by step, in the direction of its scan; what it hands to the layer below is
one product for all steps. Each gradient is carried with a logarithm of its own at every step, so that none overflows or
underflows at any length, whichever way the layers run.
"""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.adjoints import Adjoints, poisoned, pull, times
from seqjax.core import Cell, Params, State
from seqjax.dropout import zoned
from seqjax.stack import Layer, StackTrace
from seqjax.unroll import Trace, over_time

Scaled = tuple[Any, Array]  # a gradient, fields [T, .., B], over exp of its logarithm [T, B]


def layerwise(
    cell: Cell,
    params: tuple[Layer, ...],
    xs: Array,
    trace: StackTrace,
    mask: Array | None,
    to_ys: Array | None,
    to_final: tuple[State, ...],
    *,
    residual: bool = False,
    zoneout: float = 0.0,
) -> list[Adjoints]:
    """dL/ds_t of every layer and direction, in the order of the traces, in the inside layout: xs [T, D, B].

    to_ys      dL/dys of what the top layer shows, [T, F, B]; None where nothing reads it
    to_final   dL/ds of every final state, as the trace holds them
    NaN from where a state is not finite on.
    """
    cell = cell if not zoneout else held(cell, zoneout)
    reads, rest, finals = inputs(params, xs, trace, residual), list(trace.traces), list(to_final)
    reaching = None if to_ys is None else (to_ys, jnp.zeros((len(xs), xs.shape[-1]), to_ys.dtype))
    found: list[Adjoints] = []
    for depth in reversed(range(len(params))):
        halves = params[depth].halves()
        traces, ends = ([each.pop() for _ in halves][::-1] for each in (rest, finals))
        own, below = [], []
        for i, ((half, reverse), one, end) in enumerate(zip(halves, traces, ends, strict=True)):
            given = None if reaching is None else to_state(cell, half, one, mask, part(reaching, i, len(halves)))
            own.append(of_half(cell, half, one, mask, end, given, reverse))
            if depth:
                below.append(to_input(cell, half, one, mask, reads[depth], own[-1]))
        if depth:
            reaching = summed(below + ([reaching] if residual and reaching is not None else []))
        found = own + found
    return found


def held(cell: Cell, rate: float) -> Cell:
    """The cell under zoneout's expectation: a step keeps that much of the old state."""

    def update(params: Params, state: State, u: Any, a: Any) -> State:
        hold = jax.tree.map(lambda s: jnp.asarray(rate, s.dtype), state)
        return zoned(hold, cell.update(params, state, u, a), state)

    return replace(cell, update=update)


def inputs(params: tuple[Layer, ...], xs: Array, trace: StackTrace, residual: bool) -> list[Array]:
    """What every layer reads, [T, .., B]."""
    reads, traces = [xs], iter(trace.traces)
    for depth, layer in enumerate(params[:-1]):
        shown = jnp.concatenate([next(traces).ys for _ in layer.halves()], axis=1)
        reads.append(shown + reads[-1] if residual and depth else shown)
    return reads


def part(gradient: Scaled, i: int, parts: int) -> Scaled:
    """What reaches one direction of what a layer shows."""
    return jnp.split(gradient[0], parts, axis=1)[i], gradient[1]


def to_state(cell: Cell, half: Params, trace: Trace, mask: Array | None, gradient: Scaled) -> Scaled:
    """The gradient to the states, of that to what they show; a masked step shows nothing."""
    given = gradient[0] if mask is None else jnp.where(mask[:, None], gradient[0], 0)

    def back(params: Params, state: State, v: Array) -> State:
        y, read = jax.vjp(lambda s: cell.read(params, s), state)
        return read(v.astype(y.dtype))[0]

    return over_time(back)(half, trace.after, given), gradient[1]


def of_half(
    cell: Cell, half: Params, trace: Trace, mask: Array | None, final: State, arriving: Scaled | None, reverse: bool
) -> Adjoints:
    """One direction's own recurrence, pulled back."""
    found = pull(cell, half, trace.us, trace.before, mask, None, final, arriving, reverse=reverse)
    return Adjoints(found.direction, poisoned(found.log_norm, trace.after, reverse=reverse))


def to_input(cell: Cell, half: Params, trace: Trace, mask: Array | None, xs: Array, adjoints: Adjoints) -> Scaled:
    """The gradient to what a layer reads, of that to its states; nothing at a masked step."""

    def back(params: Params, x: Array, state: State, v: State) -> Array:
        return jax.vjp(lambda x: cell.step(params, state, cell.project(params, x)), x)[1](v)[0]

    found = over_time(back)(half, xs, trace.before, adjoints.direction)
    return found if mask is None else jnp.where(mask[:, None], found, 0), adjoints.log_norm


def summed(gradients: list[Scaled]) -> Scaled:
    """Their sum, at the largest scale among them."""
    scale = jnp.stack([log for _, log in gradients]).max(0)
    scale = jnp.where(jnp.isneginf(scale), 0, scale)
    parts = [jax.vmap(times)(part, jnp.exp(log - scale)) for part, log in gradients]
    return sum(parts[1:], parts[0]), scale
