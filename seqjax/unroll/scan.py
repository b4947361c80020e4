"""The engine in the inside layout: every step of a recurrence, by the way that is asked for or that fits."""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.core import Cell, Params, State, at_least_float32
from seqjax.dropout import Noise
from seqjax.unroll.at_once import ALL_AT_ONCE, all_at_once
from seqjax.unroll.batching import over_batch, over_time, start
from seqjax.unroll.blocks import in_blocks
from seqjax.unroll.fitting import fits
from seqjax.unroll.hoisted import hoisted
from seqjax.unroll.plain import plain
from seqjax.unroll.stepping import Drive, Fixed, before, product, step

EVALUATORS = ("auto", "scan", "hoisted", *ALL_AT_ONCE)
BUDGET = 2**31  # bytes that one direction of one layer may keep for the way back before the scan is cut into chunks


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
    converged: Array | None = None  # [B] bool, one for all; None where every step was taken in turn
    iterations: Array | None = None  # [B] int, one for all


@partial(jax.jit, static_argnames=("cell", "reverse", "evaluator", "chunk"))
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
    evaluator: str = "auto",
    chunk: int | None = None,
) -> Trace:
    """`unroll` in the inside layout, unchecked: xs [T, D, B], state fields [H, B], mask and reset [T, B].

    `perturb`, fields [T, H, B], is added to the state after every step: the gradient to it is dL/ds_t. `noise` is what
    dropout drew.
    """
    xs = xs if mask is None else jnp.where(mask[:, None], xs, 0)
    origin = start(cell, params, xs.shape[-1])  # first, as it refuses another cell's params
    us = over_time(cell.project)(params, xs)
    flags = reset if mask is None or reset is None else reset & mask
    fresh = flags if mask is None else (~mask if flags is None else flags | ~mask)
    factor, hold = (None, None) if noise is None else (noise.factor, noise.hold)
    fixed, drive = Fixed(params, origin, factor), Drive(xs, mask, fresh, hold, perturb)
    first = widen(cell, fixed, origin if state is None else state, us)
    news: list[Array] = []
    if evaluator in ALL_AT_ONCE:
        final, after, *news = all_at_once(evaluator, cell, reverse, fixed, first, replace(drive, given=us), flags)
    else:
        run: Any = partial(in_turn, cell, evaluator, reverse)
        size = chunk or chunk_for(first, us, xs.shape[0])
        run = run if size >= len(xs) else jax.checkpoint(run, prevent_cse=False)
        final, after = in_blocks(partial(run, fixed), size, reverse, first, drive)
    ys = over_time(cell.read)(params, after)
    ys = ys if mask is None else jnp.where(mask[:, None], ys, 0)
    return Trace(us, before(fixed, first, after, flags, reverse), after, final, ys, mask, *news)


def widen(cell: Cell, fixed: Fixed, state: State, us: Any) -> State:
    """Cast the initial state, once, to the dtype that a step returns, so that the scan's carry keeps its type."""
    drive = Drive(jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), us), None, None, None, None)
    state = jax.tree.map(at_least_float32, state)
    new = jax.eval_shape(partial(step, cell, True), fixed, drive, state)
    return jax.tree.map(lambda s, n: s.astype(jnp.promote_types(s.dtype, n.dtype)), state, new)


def in_turn(cell: Cell, evaluator: str, reverse: bool, fixed: Fixed, first: State, drive: Drive) -> tuple[State, State]:
    """Step after step: (final, after). ValueError for "hoisted" and a cell that does not fit.

    On a CPU inputs are projected in the loop, where they are at hand when they are used; ahead of it, in one product,
    on accelerators, where a product is the faster the larger it is.
    """
    x = jax.ShapeDtypeStruct(drive.given.shape[1:], drive.given.dtype)
    u = jax.eval_shape(over_batch(cell.project), fixed.params, x)
    a = jax.eval_shape(partial(product, cell), fixed.params, fixed.factor, first)
    fast = evaluator != "scan" and fits(cell, fixed.params, first, u, a)
    if evaluator == "hoisted" and not fast:
        raise ValueError(
            f'evaluator "hoisted" needs a `recur`, and no matrix in `update`: not so {cell.name!r}, use "auto"'
        )
    ahead = jax.default_backend() != "cpu"
    drive = replace(drive, given=over_time(cell.project)(fixed.params, drive.given)) if ahead else drive
    return (hoisted if fast else plain)(cell, ahead, reverse, fixed, first, drive)


def chunk_for(first: State, us: Any, T: int) -> int:
    """Steps a chunk: all T, or where they would keep more than BUDGET, so many that chunks and what is kept between
    them take as little as can be.

    A step keeps about its state and three numbers for every pre-activation: linear map, gradient, and input.
    """
    state = sum(s.size * s.dtype.itemsize for s in jax.tree.leaves(first))
    kept = state + 3 * sum(u.size * u.dtype.itemsize for u in jax.tree.leaves(us)) // max(T, 1)
    return T if T * kept <= BUDGET else math.ceil((T * state / kept) ** 0.5)
