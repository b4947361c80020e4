"""Jacobians of a recurrence along a trace, over the whole carry, and their products without overflow or underflow.

    J_t = ds_t/ds_{t-1} = direct_t + slopes_t @ matrix         what `update` passes on, and what goes through `recur`
    P_t = J_T J_{T-1} ... J_t = ds_T/ds_{t-1}                  the later step on the left
    v_t = J_{t+1}^T v_{t+1} + c_t                              the gradient to s_t, one vector a step

Long products are carried as a mantissa and a natural logarithm. A masked step holds the state: its Jacobian is I. A
step that is reset forgets what came before: its Jacobian is 0. A trace does not tell, so `reset` has to be given again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree

from seqjax.core import Cell, Params, State
from seqjax.gradients import safe_norm
from seqjax.sequences import add_batch, batch_first, batch_last, checked_flags, drop_batch, select
from seqjax.unroll import Trace


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Parts:
    """A step Jacobian split where the cell is split: J_t = direct_t + slopes_t @ matrix_t, A pre-activations."""

    direct: Array  # [.., T, N, N] what `update` passes straight through: the forget gates of an LSTM
    slopes: Array  # [.., T, N, A] of `update` in its pre-activations: φ'(z) of a plain RNN, on the diagonal
    matrix: Array  # [.., T, A, N] of `recur`: W_hh, the same at every step


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Product:
    """exp(log_scale) · mantissa, the largest entry of the mantissa being 1 in size; zero is 0 and -inf."""

    mantissa: Array  # [.., T, N, N]
    log_scale: Array  # [.., T]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Adjoints:
    """Gradients to the state: exp(log_norm) · direction, whose norm over the whole carry is 1; zero is 0 and -inf."""

    direction: State  # fields [.., T, H]
    log_norm: Array  # [.., T]


def step_jacobians(cell: Cell, params: Params, trace: Trace, *, reset: Any = None) -> Array:
    """J_t = ds_t/ds_{t-1} over the whole carry, [.., T, N, N] for a trace of `unroll`, exact by `jacfwd`.

    N counts all fields in their order: (h, c) of an LSTM, N = 2H. ValueError for a reset of the wrong shape.
    """

    def one(state: State, u: Any) -> Array:
        return jax.jacfwd(lambda s: flat(cell.step(params, unflat(state, s), u)))(flat(state))

    Js = over_steps(one, trace)(trace.before, trace.us)
    identity = jnp.broadcast_to(jnp.eye(Js.shape[-1], dtype=Js.dtype), Js.shape)
    Js = Js if trace.mask is None else jnp.where(trace.mask[..., None, None], Js, identity)
    flags = flags_of(trace, reset)
    return Js if flags is None else jnp.where(flags[..., None, None], 0, Js)


def split_jacobians(cell: Cell, params: Params, trace: Trace) -> Parts:
    """The parts of J_t at every step as if none were masked or reset; ValueError where the cell has no `recur`."""

    def one(state: State, u: Any) -> Parts:
        s, (a, a_of) = flat(state), ravel_pytree(cell.recur(params, state))
        if not a.size:
            raise ValueError(f"cell {cell.name!r} has no recurrent product of its own (in `recur`) to split off")

        def update(s: Array, a: Array) -> Array:
            return flat(cell.update(params, unflat(state, s), u, a_of(a)))

        matrix = jax.jacfwd(lambda s: flat(cell.recur(params, unflat(state, s))))(s)
        direct, slopes = jax.jacfwd(update, (0, 1))(s, a)
        return Parts(direct, slopes, matrix)

    return over_steps(one, trace)(trace.before, trace.us)


def suffix_products(Js: Array) -> Product:
    """P_t = J_T ... J_t for every t, of Jacobians [.., T, N, N] in the order of time.

    Exact to rounding at any T: 1.5^300 and 0.5^2000 are fine. ValueError unless the matrices are square.
    """
    if jnp.ndim(Js) < 3 or Js.shape[-1] != Js.shape[-2]:
        raise ValueError(f"Js must be square matrices in the order of time, [.., T, N, N], got {list(jnp.shape(Js))}")
    if jnp.ndim(Js) > 3:
        return jax.vmap(suffix_products)(Js)

    def multiply(carry: Any, J: Array) -> Any:
        P, lost = carry
        M = jnp.matmul(P.mantissa, J, precision="highest")
        size = jnp.abs(M).max()
        scale, lost = compensated(P.log_scale, lost + jnp.log(size))
        P = Product(M / jnp.where(size > 0, size, 1), scale)
        return (P, lost), P

    zero = jnp.zeros((), Js.dtype)
    return jax.lax.scan(multiply, (Product(jnp.eye(Js.shape[-1], dtype=Js.dtype), zero), zero), Js, reverse=True)[1]


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
    for name, given, like in (("cotangent", cotangent, trace.final), ("cotangents", cotangents, trace.after)):
        if given is not None and jax.tree.map(jnp.shape, given) != jax.tree.map(jnp.shape, like):
            raise ValueError(f"{name} must be shaped like the state, got {jax.tree.map(jnp.shape, given)}")
    parts = (trace.us, trace.before, trace.mask, flags, cotangent, cotangents)
    found = pull(cell, params, *batch_last(add_batch(parts, batched)), reverse=reverse)
    return drop_batch(batch_first(found), batched)


def pull(
    cell: Cell,
    params: Params,
    us: Any,
    before: State,
    mask: Array | None,
    reset: Array | None,
    final: State,
    arriving: State | None = None,
    *,
    reverse: bool = False,
    nudged: Callable[[Params, State, Any, State], State] | None = None,
) -> Adjoints:
    """`pullback` in the inside layout, unchecked: us and before [T, .., B], mask and reset [T, B].

    Where a step within a step reads what another one leaves, as in a stack, `nudged(params, state, u, nudge)` adds
    nudge to all that are left; what is returned is then the gradient to it, whose norm is not 1.
    """

    def back(state: State, u: Any, v: State) -> tuple[State, State]:
        if nudged is None:
            return jax.vjp(lambda s: cell.step(params, s, u), state)[1](v)[0], v
        step: Any = partial(nudged, params)
        to_state, _, to_nudge = jax.vjp(step, state, u, jax.tree.map(jnp.zeros_like, v))[1](v)
        return to_state, to_nudge

    def body(carry: Any, step: Any) -> Any:
        u, state, valid, fresh, arrives = step
        here, lost = plus(carry[0], carry[1], arrives)
        passed, seen = jax.vmap(back, -1, -1)(state, u, here.direction)
        passed = select(valid, passed, here.direction)
        if fresh is not None:
            passed = select(fresh, jax.tree.map(jnp.zeros_like, passed), passed)
        return rescaled(passed, here.log_norm, lost), Adjoints(seen, here.log_norm)

    zero = jnp.zeros(jax.tree.leaves(final)[0].shape[-1], jnp.result_type(*jax.tree.leaves(final)))
    return jax.lax.scan(body, rescaled(final, zero, zero), (us, before, mask, reset, arriving), reverse=not reverse)[1]


def rescaled(v: State, log_scale: Array, lost: Array) -> tuple[Adjoints, Array]:
    """A vector of every example, fields [.., B], with its norm taken into the logarithm [B]; and what that lost."""
    norm = whole_norm(v)
    scale, lost = compensated(log_scale, lost + jnp.log(norm))
    return Adjoints(times(v, 1 / jnp.where(norm > 0, norm, 1)), scale), lost


def compensated(total: Array, more: Array) -> tuple[Array, Array]:
    """(total + more, what rounding lost of it), so that a hundred thousand terms add up to all digits (Knuth 1969)."""
    both = total + more
    added = both - total
    lost = (total - (both - added)) + (more - added)
    return both, jnp.where(jnp.isfinite(both), lost, 0)


def plus(v: Adjoints, lost: Array, arrives: State | None) -> tuple[Adjoints, Array]:
    """The sum with what arrives, at the scale of the larger."""
    if arrives is None:
        return v, lost
    scale = jnp.maximum(v.log_norm, jnp.log(whole_norm(arrives)))
    scale = jnp.where(jnp.isneginf(scale), 0, scale)
    old, new = times(v.direction, jnp.exp(v.log_norm - scale)), times(arrives, jnp.exp(-scale))
    return rescaled(jax.tree.map(jnp.add, old, new), scale, lost)


def times(v: State, factor: Array) -> State:
    """A vector of every example, fields [.., B], each times its own number [B]."""
    return jax.tree.map(lambda f: f * jnp.broadcast_to(factor, f.shape).astype(f.dtype), v)


def whole_norm(v: State) -> Array:
    """Norm over the whole carry of every example, fields [.., B] -> [B]."""
    leaves = jax.tree.leaves(v)
    return safe_norm(jnp.concatenate([leaf.reshape(-1, leaf.shape[-1]) for leaf in leaves]))


def flat(tree: Any) -> Array:
    """All arrays of a tree as one vector, [N] of a state."""
    return ravel_pytree(tree)[0]


def unflat(like: State, vector: Array) -> State:
    """A vector [N] as the state it was ravelled from."""
    return ravel_pytree(like)[1](vector)


def over_steps(one: Callable[..., Any], trace: Trace) -> Callable[..., Any]:
    """A function of one example at one time over every step of a trace, one sequence's or a batch's."""
    return jax.vmap(jax.vmap(one)) if trace.ys.ndim == 3 else jax.vmap(one)


def flags_of(trace: Trace, reset: Any) -> Array | None:
    """Reset flags at valid steps, [.., T]; ValueError for another shape."""
    if reset is None:
        return None
    flags = checked_flags("reset", reset, trace.ys.shape[:-1])
    return flags if trace.mask is None else flags & trace.mask
