"""One vector pulled back along a trace, in log scale: v_t = J_{t+1}^T v_{t+1} + c_t, the gradient to s_t.

No Jacobian is formed. A masked step hands the gradient on; a step that is reset lets none of it through, which a trace
does not tell, so `reset` has to be given again.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.core import Cell, Params, State
from seqjax.gradients import compensated, safe_norm
from seqjax.sequences import add_batch, batch_first, batch_last, checked_flags, drop_batch, select
from seqjax.unroll import Trace


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Adjoints:
    """Gradients to the state: exp(log_norm) · direction, whose norm over the whole carry is 1; zero is 0 and -inf."""

    direction: State  # fields [.., T, H]
    log_norm: Array  # [.., T]


def pullback(
    cell: Cell,
    params: Params,
    trace: Trace,
    cotangent: State,
    *,
    cotangents: State | None = None,
    reverse: bool = False,
    reset: Any = None,
) -> Adjoints:
    """dL/ds_t for all t in one pass over a trace of `unroll`, in log scale.

    cotangent   dL/ds of the final state, fields [.., H]
    cotangents  what else reaches every s_t from above, fields [.., T, H]
    reverse     where the trace is of a reverse scan
    Raises ValueError where a cotangent is not shaped like the state, and for a reset of the wrong shape.
    """
    batched = trace.ys.ndim == 3
    flags = flags_of(trace, reset)
    for name, given, state in (("cotangent", cotangent, trace.final), ("cotangents", cotangents, trace.after)):
        if given is not None and jax.tree.map(jnp.shape, given) != jax.tree.map(jnp.shape, state):
            raise ValueError(f"{name} must be shaped like the state, got {jax.tree.map(jnp.shape, given)}")
    given = like(trace.final, cotangent), None if cotangents is None else unscaled(like(trace.after, cotangents))
    parts = (trace.us, trace.before, trace.mask, flags, *given)
    found = pull(cell, params, *batch_last(add_batch(parts, batched)), reverse=reverse)
    after = batch_last(add_batch(trace.after, batched))
    found = Adjoints(found.direction, poisoned(found.log_norm, after, reverse=reverse))
    return drop_batch(batch_first(found), batched)


def unscaled(vectors: State) -> tuple[State, Array]:
    """Vectors at every step, fields [.., T, H], with a logarithm of 0."""
    first = jax.tree.leaves(vectors)[0]
    return vectors, jnp.zeros(first.shape[: first.ndim - 1], first.dtype)


def like(state: State, given: State) -> State:
    """A tree with the dtypes of a state."""
    return jax.tree.map(lambda s, g: jnp.asarray(g, s.dtype), state, given)


def poisoned(log_norm: Array, after: State, *, reverse: bool = False) -> Array:
    """Logarithms [T, B], NaN wherever a gradient came by way of a state, fields [T, .., B], that is not finite: relu,
    and anything flat out there, would make zero of it."""
    lost = [~jnp.isfinite(s).reshape(len(s), -1, s.shape[-1]).all(1) for s in jax.tree.leaves(after)]
    reached = jax.lax.cummax(jnp.stack(lost).any(0).astype(int), reverse=not reverse)
    return jnp.where(reached > 0, jnp.nan, log_norm)


def pull(
    cell: Cell,
    params: Params,
    us: Any,
    before: State,
    mask: Array | None,
    reset: Array | None,
    final: State,
    arriving: tuple[State, Array] | None = None,
    *,
    reverse: bool = False,
) -> Adjoints:
    """`pullback` in the inside layout, unchecked: us and before [T, .., B], mask and reset [T, B]; what arrives is over
    the exponential of its logarithm [T, B]."""

    def back(state: State, u: Any, v: State) -> State:
        return jax.vjp(lambda s: cell.step(params, s, u), state)[1](v)[0]

    def body(carry: Any, step: Any) -> Any:
        u, state, valid, fresh, arrives = step
        here, lost = plus(carry[0], carry[1], arrives)
        passed = select(valid, jax.vmap(back, -1, -1)(state, u, here.direction), here.direction)
        if fresh is not None:
            passed = select(fresh, jax.tree.map(jnp.zeros_like, passed), passed)
        return rescaled(passed, here.log_norm, lost), here

    zero = jnp.zeros(jax.tree.leaves(final)[0].shape[-1], jnp.result_type(*jax.tree.leaves(final)))
    return jax.lax.scan(body, rescaled(final, zero, zero), (us, before, mask, reset, arriving), reverse=not reverse)[1]


def rescaled(v: State, log_scale: Array, lost: Array) -> tuple[Adjoints, Array]:
    """A vector of every example, fields [.., B], with its norm taken into the logarithm [B]; and what that lost."""
    norm = whole_norm(v)
    scale, lost = compensated(log_scale, lost + jnp.log(norm))
    return Adjoints(times(v, 1 / jnp.where(norm > 0, norm, 1)), scale), lost


def plus(v: Adjoints, lost: Array, arrives: tuple[State, Array] | None) -> tuple[Adjoints, Array]:
    """The sum with what arrives, at the scale of the larger."""
    if arrives is None:
        return v, lost
    given, log = arrives
    scale = jnp.maximum(v.log_norm, log + jnp.log(whole_norm(given)))
    scale = jnp.where(jnp.isneginf(scale), 0, scale)
    old, new = times(v.direction, jnp.exp(v.log_norm - scale)), times(given, jnp.exp(log - scale))
    return rescaled(jax.tree.map(jnp.add, old, new), scale, lost)


def times(v: State, factor: Array) -> State:
    """A vector of every example, fields [.., B], each times its own number [B]."""
    return jax.tree.map(lambda f: f * jnp.broadcast_to(factor, f.shape).astype(f.dtype), v)


def whole_norm(v: State) -> Array:
    """Norm over the whole carry of every example, fields [.., B] -> [B]."""
    leaves = jax.tree.leaves(v)
    return safe_norm(jnp.concatenate([leaf.reshape(-1, leaf.shape[-1]) for leaf in leaves]))


def flags_of(trace: Trace, reset: Any) -> Array | None:
    """Reset flags at valid steps, [.., T]; ValueError for another shape."""
    if reset is None:
        return None
    flags = checked_flags("reset", reset, trace.ys.shape[:-1])
    return flags if trace.mask is None else flags & trace.mask
