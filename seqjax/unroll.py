"""The engine: project every input, scan the recurrence, read every state.

Inside, time leads and the batch is the last axis, the layout in which XLA's CPU products are fastest:
W_hh [G*H, H] @ h [H, B]. Nothing but the recurrence is in the loop; XLA drops what nobody reads.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.core import Cell, Params, State, at_least_float32
from seqjax.dropout import Noise, dropped, zoned
from seqjax.sequences import Steps, add_batch, batch_first, batch_last, drop_batch, select, steps_of


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Trace:
    """All that happened in an unroll, indexed by time whatever the direction of the scan.

    Batch leads in what `unroll` returns and is last inside; one sequence has no batch axis.
    """

    us: Any  # [B, T, G*H] projected inputs, of zeros where masked
    before: State  # fields [B, T, H], the state that entered step t
    after: State  # fields [B, T, H], the state that left step t
    final: State  # fields [B, H], the state after the last step scanned
    ys: Array  # [B, T, H] outputs, zero where masked
    mask: Array | None  # [B, T] bool


def unroll(
    cell: Cell,
    params: Params,
    xs: Array,
    *,
    lengths: Any = None,
    mask: Any = None,
    state: State | None = None,
    reverse: bool = False,
    reset: Any = None,
) -> Trace:
    """Run a cell over one sequence [T, D] or a batch [B, T, D]; every array of the Trace has the layout of `xs`.

    A masked step holds the state and outputs zero, and nothing that stands in it matters: NaN, infinity or junk.
    lengths   [B] integers, the valid prefix of every row
    mask      [B, T] booleans instead of lengths; holes are allowed, the state skips them
    state     where to start from, such as `trace.final` of the part before; None is the cell's own start
    reverse   scan from each row's own last valid step back to the first
    reset     [T] or [B, T] booleans: put the state back to the cell's own start before a flagged (valid) step
    The state is carried in float32 or wider, whatever the dtype of the params. Raises ValueError for wrong shapes or
    dtypes, and, where values can be looked at (not inside jit), for lengths outside 0..T and NaN or infinity in valid
    steps.
    """
    steps = steps_of(xs, rank=2, lengths=lengths, mask=mask, reset=reset)
    if state is not None:
        state = add_batch(state, steps.batched)
        check_state(cell, params, state, steps.xs.shape[-1])
        state = batch_last(state)
    trace = scan(cell, params, steps.xs, state, steps.mask, steps.reset, reverse=reverse)
    return outside(trace, steps)


def outside(trace: Any, steps: Steps) -> Any:
    """Take a trace to the layout of the caller's input."""
    return drop_batch(batch_first(trace), steps.batched)


def check_state(cell: Cell, params: Params, state: State, B: int) -> None:
    """Raise ValueError unless `state` has the structure and shapes of the cell's own, with batch B first."""
    want = jax.tree.map(lambda s: (B, *s.shape), jax.eval_shape(cell.start, params))
    got = jax.tree.map(jnp.shape, state)
    if got != want:
        raise ValueError(f"state must be like the cell's start(params), [B, H] in a batch of {B}: got shapes {got}")


def start(cell: Cell, params: Params, B: int) -> State:
    """The cell's own initial state for a batch, batch last."""
    return jax.tree.map(lambda s: jnp.broadcast_to(s[..., None], (*s.shape, B)), cell.start(params))


def over_batch(function: Any) -> Any:
    """A cell function of params and one example as one of a batch whose last axis is the batch."""
    return lambda params, *examples: jax.vmap(partial(function, params), -1, -1)(*examples)


def over_time(function: Any) -> Any:
    """A cell function of params and one example as one of [T, ..., B] arrays."""
    return lambda params, *examples: jax.vmap(partial(over_batch(function), params))(*examples)


def widen(cell: Cell, params: Params, state: State, us: Any) -> State:
    """Cast the initial state, once, to the dtype that a step returns, so that the scan's carry keeps its type."""
    u = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), us)
    state = jax.tree.map(at_least_float32, state)
    new = jax.eval_shape(partial(step, cell), params, state, u)
    return jax.tree.map(lambda s, n: s.astype(jnp.promote_types(s.dtype, n.dtype)), state, new)


def step(cell: Cell, params: Params, state: State, u: Any, factor: Array | None = None) -> State:
    """One step of a batch, batch last; `factor` [H, B] acts on the h that enters the recurrent product."""
    if factor is None:
        return over_batch(cell.step)(params, state, u)
    a = over_batch(cell.recur)(params, dropped(factor, state))
    return over_batch(cell.update)(params, state, u, a)


@partial(jax.jit, static_argnames=("cell", "reverse"))
def scan(
    cell: Cell,
    params: Params,
    xs: Array,
    state: State | None = None,
    mask: Array | None = None,
    reset: Array | None = None,
    perturb: State | None = None,
    noise: Noise | None = None,
    *,
    reverse: bool = False,
) -> Trace:
    """`unroll` in the inside layout, unchecked: xs [T, D, B], state fields [H, B], mask and reset [T, B].

    `perturb`, fields [T, H, B], is added to the state after every step: the gradient to it is dL/ds_t. `noise` is what
    dropout drew.
    """
    xs = xs if mask is None else jnp.where(mask[:, None], xs, 0)
    origin = start(cell, params, xs.shape[-1])
    us = over_time(cell.project)(params, xs)
    first = widen(cell, params, origin if state is None else state, us)
    flags = reset if mask is None or reset is None else reset & mask
    factor, holds = (None, None) if noise is None else (noise.factor, noise.hold)

    def body(s: State, inputs: Any) -> tuple[State, State]:
        u, m, flag, nudge, hold = inputs
        s = entering(flag, origin, s)
        used = s if m is None else entering(~m, origin, s)  # a NaN held at a masked step must stay out of gradients
        s = select(m, zoned(hold, step(cell, params, used, u, factor), used), s)
        s = s if nudge is None else jax.tree.map(jnp.add, s, nudge)
        return s, s

    final, after = jax.lax.scan(body, first, (us, mask, flags, perturb, holds), reverse=reverse)
    before = shifted(first, after, reverse)
    before = before if flags is None else jax.vmap(entering, (0, None, 0))(flags, origin, before)
    ys = over_time(cell.read)(params, after)
    ys = ys if mask is None else jnp.where(mask[:, None], ys, 0)
    return Trace(us, before, after, final, ys, mask)


def entering(flag: Array | None, origin: State, state: State) -> State:
    """The state that enters a step: the origin where the step is flagged, by `where`, so that a NaN is cleared."""
    return state if flag is None else select(flag, jax.tree.map(lambda o, s: o.astype(s.dtype), origin, state), state)


def shifted(first: State, after: State, reverse: bool) -> State:
    """The states [T, ...] one step earlier in the order of the scan, led by the first."""

    def shift(s: Array, ss: Array) -> Array:
        parts = (ss[1:], s[None]) if reverse else (s[None], ss[:-1])
        return jnp.concatenate(parts) if len(ss) else ss

    return jax.tree.map(shift, first, after)
