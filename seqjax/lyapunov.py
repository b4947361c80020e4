"""Lyapunov spectrum: how fast small differences in the state grow or shrink along a trajectory, by direction.

    Q_t R_t = J_t Q_{t-1},   λ_i = mean over t of ln |R_t|_ii           (Benettin et al. 1980)

J_t over the whole carry times an orthonormal frame of k columns, by `jvp`: no Jacobian is ever formed. The largest
exponent says whether the recurrence forgets its state (below 0), holds it (at 0) or is chaotic (above 0); the gradient
decays by exp(λ_1) a step.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seqjax.core import Cell, Params, State, require_cell, require_sizes
from seqjax.jacobian import flat, unflat
from seqjax.sequences import add_batch, batch_first, batch_last, drop_batch, select, steps_of
from seqjax.unroll import check_state, scan


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Lyapunov:
    """The k leading exponents, natural logarithm a step, in the order of the frame, which is the largest first."""

    exponents: Array  # [.., k]
    error: Array  # [.., k] standard error of the mean, from blocks of time
    blocks: Array  # [.., blocks, k] the exponents of every block


def lyapunov(
    cell: Cell,
    params: Params,
    xs: Array,
    *,
    k: int | None = None,
    state: State | None = None,
    burn_in: int = 0,
    settle: int = 0,
    every: int = 1,
    blocks: int = 10,
    key: Array | None = None,
) -> Lyapunov:
    """The k leading exponents of a cell driven by xs [T, D] or [B, T, D]; zeros for a cell by itself.

    k        how many; None is all N numbers of the carry (2H of an LSTM)
    state    where to start from, as for `unroll`
    burn_in  first steps in which only the state moves, so that it comes to where it lives
    settle   steps after that in which the frame turns to the leading directions and is not measured
    every    steps between two orthonormalisations: more is cheaper, as long as exp(every (λ_1 - λ_k)) stays well within
             the precision
    blocks   equal parts of the rest, over which the standard error is taken
    key      draws the first frame; None is the same one every time
    Works under jit, vmap and grad. `deep(cell)` asks a whole stack. Raises ValueError as `unroll` does, for k > N, and
    where burn_in and settle leave fewer than `every` steps a block.
    """
    require_cell(cell)
    require_sizes(every=every, blocks=blocks)
    steps = steps_of(xs, rank=2)
    require_steps(steps.xs.shape[0], every * blocks, "every x blocks", burn_in=burn_in, settle=settle)
    if state is not None:
        state = add_batch(state, steps.batched)
        check_state(cell, params, state, steps.xs.shape[-1])
        state = batch_last(state)
    frame = first_frame(cell, params, k, jax.random.key(0) if key is None else key)
    logs = growth(cell, params, steps.xs, state, frame, burn_in, settle, every)
    return Lyapunov(*drop_batch(batch_first(averaged(logs, blocks)), steps.batched))


def first_frame(cell: Cell, params: Params, k: int | None, key: Array) -> Array:
    """k orthonormal columns [N, k] at random; ValueError unless 1 <= k <= N."""
    N = sum(math.prod(s.shape) for s in jax.tree.leaves(jax.eval_shape(cell.start, params)))
    k = N if k is None else k
    require_sizes(k=k)
    if k > N:
        raise ValueError(f"k must be at most N = {N}, the numbers that the carry of {cell.name!r} holds, got {k}")
    return orthonormal(jax.random.normal(key, (N, k)))[0]


def require_steps(T: int, least: int, which: str, **first: Any) -> None:
    """ValueError unless so many first steps leave at least so many to measure, and are whole numbers."""
    for name, value in first.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 0:
            raise ValueError(f"{name} must be a whole number of steps from 0, got {value!r}")
    if T - sum(first.values()) < least:
        given = f"T = {T} less {' and '.join(f'{name} {value}' for name, value in first.items())}"
        raise ValueError(f"xs must leave at least {which} = {least} steps to measure, got {given}")


def growth(
    cell: Cell,
    params: Params,
    xs: Array,
    state: Any,
    frame: Array,
    burn_in: int,
    settle: int,
    every: int,
    mask: Array | None = None,
    reset: Array | None = None,
) -> Array:
    """ln |R_ii| of every measured step, [n, k, B]; where the frame is not orthonormalised it is 0, and the next has it.
    NaN throughout for a row whose state does not stay finite. Inside layout: xs [T, D, B], mask and reset [T, B]; the
    frame is left as it is where a step is masked or reset.
    """
    T, _, B = xs.shape
    trace = scan(cell, params, xs, state, mask, reset)
    moves = mask if reset is None else ~reset if mask is None else mask & ~reset
    moves = None if moves is None else moves[burn_in:]
    us, before = jax.tree.map(lambda a: a[burn_in:], (trace.us, trace.before))
    lost = jnp.stack([~jnp.isfinite(s).all((0, *range(1, s.ndim - 1))) for s in jax.tree.leaves(trace.after)]).any(0)
    due = np.arange(1, T - burn_in + 1)
    due = (due % every == 0) | (due == settle) | (due == len(due))

    def push(state: State, u: Any, Q: Array) -> Array:  # one example: J Q, column by column
        _, push = jax.linearize(lambda s: flat(cell.step(params, unflat(state, s), u)), flat(state))
        return jax.vmap(push, 1, 1)(Q)

    def body(Q: Array, step: Any) -> tuple[Array, Array]:
        u, state, now, moved = step
        Q = select(moved, jax.vmap(push, -1, -1)(state, u, Q), Q)
        return jax.lax.cond(now, jax.vmap(orthonormal, -1, -1), lambda Q: (Q, jnp.zeros_like(Q[0])), Q)

    dtype = jnp.result_type(*jax.tree.leaves(before))
    first = jnp.broadcast_to(frame[..., None], (*frame.shape, B)).astype(dtype)
    logs = jax.lax.scan(body, first, (us, before, jnp.asarray(due), moves))[1][settle:]
    return jnp.where(jnp.broadcast_to(lost, logs.shape), jnp.nan, logs)


def orthonormal(A: Array) -> tuple[Array, Array]:
    """(Q, ln |R_ii|) of A = Q R, [N, k] and [k], by modified Gram-Schmidt, orthogonal to ε times A's condition.

    Not LAPACK's, whose batches can wait for each other for ever on the threads of a CPU, and so that it runs over a
    batch at once. A column that has vanished stays zero, with a logarithm of -inf.
    """
    columns = jnp.arange(A.shape[1])

    def column(A: Array, j: Array) -> tuple[Array, Array]:
        size = jnp.sqrt((A[:, j] ** 2).sum())
        q = (A[:, j] / jnp.where(size > 0, size, 1))[:, None]
        along = jnp.where(columns > j, (A * q).sum(0), 0)
        return jnp.where((columns == j)[None], q, A - q * along[None]), jnp.log(size)

    return jax.lax.scan(column, A, columns)


def averaged(logs: Array, blocks: int) -> tuple[Array, Array, Array]:
    """(exponents, standard error, exponents of every block), [k, B] and [blocks, k, B], of logs [n, k, B]."""
    ends = np.linspace(0, len(logs), blocks + 1).round().astype(int)
    sums = jnp.stack([logs[a:b].sum(0) for a, b in pairwise(ends)])
    lengths = np.diff(ends).reshape(-1, 1, 1).astype(float)
    each, mean = sums / lengths, sums.sum(0) / len(logs)
    spread = (((each - mean[None]) ** 2).sum(0) / max(blocks - 1, 1)) if blocks > 1 else jnp.full_like(mean, jnp.nan)
    return mean, jnp.sqrt(spread / blocks), each


def kaplan_yorke(exponents: Any) -> float:
    """Kaplan-Yorke dimension of an attractor: j + (λ_1 + ... + λ_j) / |λ_{j+1}|, j the last with a sum of at least 0.

    0 where λ_1 < 0. ValueError unless exponents [k] are finite and sum to less than 0, so that j + 1 is among them.
    """
    values = np.sort(np.asarray(exponents, np.float64))[::-1]
    if values.ndim != 1 or not np.isfinite(values).all() or not values.sum() < 0:
        raise ValueError("exponents must be finite numbers [k] that sum to less than 0: measure more of them")
    sums = np.cumsum(values)
    j = int((sums >= 0).sum())
    return j + (sums[j - 1] if j else 0.0) / abs(values[j])
