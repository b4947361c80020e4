"""Unroll a cell over people's own sequences: the checks, and the way to the inside layout and back."""

from numbers import Integral
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.core import Cell, Params, State
from seqjax.sequences import Steps, add_batch, batch_first, batch_last, drop_batch, steps_of
from seqjax.unroll.at_once import ALL_AT_ONCE
from seqjax.unroll.scan import EVALUATORS, Trace, scan


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
    evaluator: str = "auto",
    chunk: int | None = None,
) -> Trace:
    """Run a cell over one sequence [T, D] or a batch [B, T, D]; every array of the Trace has the layout of `xs`.

    A masked step holds the state and outputs zero, and nothing that stands in it matters: NaN, infinity or junk.
    lengths    [B] integers, the valid prefix of every row
    mask       [B, T] booleans instead of lengths; holes are allowed, the state skips them
    state      where to start from, such as `trace.final` of the part before; None is the cell's own start
    reverse    scan from each row's own last valid step back to the first
    reset      [T] or [B, T] booleans: put the state back to the cell's own start before a flagged (valid) step
    evaluator  "auto" is "hoisted" where a cell fits, else "scan", a plain scan; opt-in for accelerators: "associative"
               for cells with `coefficients`, "newton" and "quasi-newton" (see `seqjax.parallel`)
    chunk      steps between two states that a gradient keeps, from which it takes the steps again: less memory for a
               third more time; None keeps every step, unless that takes more than 2 GiB
    The state is carried in float32 or wider, whatever the dtype of the params. Raises ValueError for wrong shapes or
    dtypes, for an evaluator that the cell does not have, and, where values can be looked at (not inside jit), for
    lengths outside 0..T and NaN or infinity in valid steps.
    """
    require_engine(cell, evaluator, chunk)
    steps = steps_of(xs, rank=2, lengths=lengths, mask=mask, reset=reset)
    if state is not None:
        state = add_batch(state, steps.batched)
        check_state(cell, params, state, steps.xs.shape[-1])
        state = batch_last(state)
    trace = scan(
        cell, params, steps.xs, state, steps.mask, steps.reset, reverse=reverse, evaluator=evaluator, chunk=chunk
    )
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


def require_engine(cell: Cell, evaluator: str, chunk: int | None) -> None:
    """ValueError for an evaluator that is not known or that the cell does not have, and for a chunk that is none."""
    if evaluator not in EVALUATORS:
        raise ValueError(f"evaluator must be one of {list(EVALUATORS)}, got {evaluator!r}")
    if evaluator == "associative" and cell.coefficients is None:
        raise ValueError(f'evaluator "associative" needs a cell with coefficients, such as lru(), got {cell.name!r}')
    if chunk is not None and (isinstance(chunk, bool) or not isinstance(chunk, Integral) or chunk < 1):
        raise ValueError(f"chunk must be a whole number of steps from 1, or None, got {chunk!r}")
    if chunk is not None and evaluator in ALL_AT_ONCE:
        raise ValueError(f"chunk cuts a scan, and evaluator {evaluator!r} has none: leave one of them out")
