"""The recurrence with all but the recurrence taken out of the loop, on the way back as well.

Differentiating a scan adds up the gradient of every weight step by step. Here only the tangent of the state is left in
the loop: the linear map of the equation is kept from the way forward, and what the params add to the pre-activations
is one product over all T·B; so is its transpose, the gradient of the weights. For a = recur(p, s), u = project(p, x)
and s' = update(p, s, u, a),
    ds' = update_s ds + update_a (W dh + q_a) + update_u q_u + update_p dp
    q_a = (d recur / dp) dp and q_u = d project, for all t at once
JAX transposes that where a gradient is wanted, so that jvp, grad, vmap and whatever is made of them all hold.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.core import Affine, Cell, Params, State
from seqjax.gated import joined, project, recur
from seqjax.unroll.batching import batch_size, is_vector, over_batch, over_time, over_vectors, vectors
from seqjax.unroll.blocks import in_blocks
from seqjax.unroll.fitting import equation_of
from seqjax.unroll.linear import multiplied_out
from seqjax.unroll.meeting import Meeting, meeting_of
from seqjax.unroll.stepping import Drive, Fixed, around, before, dropping, product

BLOCK = 10  # steps
FEW = 3 * 2**17  # bytes of weights


def hoisted(cell: Cell, ahead: bool, reverse: bool, fixed: Fixed, first: State, drive: Drive) -> tuple[State, State]:
    """(final, after), fields [H, B] and [T, H, B], of a cell without a product in its `update`."""
    return with_rule(cell, ahead, reverse)(fixed, first, drive)


@lru_cache(maxsize=256)
def with_rule(cell: Cell, ahead: bool, reverse: bool) -> Callable[[Fixed, State, Drive], tuple[State, State]]:
    """The recurrence of one cell, with its own rule for tangents."""

    @jax.custom_jvp
    def run(fixed: Fixed, first: State, drive: Drive) -> tuple[State, State]:
        parts, own = parts_of(cell, ahead, fixed, first, drive), vectors(fixed.params, batch_size(first))

        def body(state: State, each: Drive) -> tuple[State, State]:
            state = around(each, fixed.origin, state, lambda s: parts.update(own, s, *parts.z(each.given, s)))
            return state, state

        return jax.lax.scan(body, first, drive, reverse=reverse)

    run.defjvp(partial(rule, cell, ahead, reverse))
    return run


@dataclass(frozen=True)
class Parts:
    """A cell's step of a batch, as the loop takes it: the products, and the equation of what they give."""

    z: Callable[[Any, State], tuple[Any, ...]]  # (given, state) -> z
    update: Callable[..., State]  # (vectors of the params, state, *z) -> state
    meeting: Meeting
    u: Any  # its shape


def parts_of(cell: Cell, ahead: bool, fixed: Fixed, first: State, drive: Drive) -> Parts:
    """The parts of a cell's step; where u + a is all that a gated cell reads, one product gives it."""
    params, given = fixed.params, jax.tree.map(lambda g: jax.ShapeDtypeStruct(g.shape[1:], g.dtype), drive.given)

    def pair(given: Any, state: State) -> tuple[Any, Any]:
        u = given if ahead else over_batch(cell.project)(params, given)
        return u, product(cell, params, fixed.factor, state)

    u, a = jax.eval_shape(pair, given, first)
    equation, meeting = over_vectors(cell.update, params), meeting_of(equation_of(cell, params, first, u, a), u, a)

    def update(own: list[Array], state: State, *z: Any) -> State:
        return equation(own, state, *meeting.apart(z))

    def two_products(given: Any, state: State) -> tuple[Any, ...]:
        return meeting.z(*pair(given, state))

    gates = all(meeting.summed) and not ahead and cell.project is project and cell.recur is recur
    if not gates or not joinable(params.W_ih, params.W_hh, given, first.h):
        return Parts(two_products, update, meeting, u)
    W, b = joined(params)

    def one_product(given: Array, state: State) -> tuple[Array]:
        z = W @ jnp.concatenate([given, dropping(fixed.factor, state).h])
        return (z if b is None else z + b[:, None],)

    return Parts(one_product, update, meeting, u)


def joinable(W_ih: Array, W_hh: Array, *operands: Any) -> bool:
    """Whether one product is worth it: putting [x; h] together costs D + H numbers, and saves a sum of G*H."""
    return len({w.dtype for w in (W_ih, W_hh, *operands)}) == 1 and len(W_ih) >= W_ih.shape[1] + W_hh.shape[1]


def rule(cell: Cell, ahead: bool, reverse: bool, primals: Any, tangents: Any) -> tuple[Any, Any]:
    """The states, and their tangents, linear in those of all that drives them."""
    fixed, first, drive = primals
    dfixed, dfirst, ddrive = tangents
    parts, B = parts_of(cell, ahead, fixed, first, drive), batch_size(first)
    (final, after), maps = forth(parts, reverse, fixed, first, drive)
    used = before(fixed, first, after, drive.fresh, reverse)
    own, push, no_u = vectors(dfixed.params, B), pushing(cell, fixed), jax.tree.map(jnp.zeros_like, parts.u)

    def body(dstate: State, each: Any) -> tuple[State, State]:
        surroundings, linear, state, q = each

        def equation(ds: State) -> State:
            return linear(own, ds, *jax.tree.map(jnp.add, q, parts.meeting.z(no_u, push(state, ds))))

        dstate = around(surroundings, dfixed.origin, dstate, equation)
        return dstate, dstate

    def block(dstate: State, part: Any) -> tuple[State, State]:
        drive, dgiven, dnudge, maps, used = part
        q = driving(cell, ahead, parts.meeting, (fixed, drive.given, used), (dfixed, dgiven))
        return jax.lax.scan(body, dstate, (replace(drive, given=None, nudge=dnudge), maps, used, q), reverse=reverse)

    everything = (drive, ddrive.given, ddrive.nudge, maps, used)
    return (final, after), in_blocks(block, block_for(fixed.params, maps, after, ahead), reverse, dfirst, everything)


def block_for(params: Params, maps: Any, after: State, ahead: bool) -> int | None:
    """Steps at a time whose part in the weight gradients is one product; None is all of them, the fastest product.

    Where the weights are few and the linear maps are more than the states, moving numbers weighs more than products,
    and is faster among those that are still in the cache.
    """
    weights = sum(p.size * p.dtype.itemsize for p in jax.tree.leaves(params) if not is_vector(p))
    moved, states = (sum(a.size for a in jax.tree.leaves(tree)) for tree in (maps, after))
    return BLOCK if not ahead and weights <= FEW and moved > states else None


def forth(parts: Parts, reverse: bool, fixed: Fixed, first: State, drive: Drive) -> tuple[Any, Any]:
    """(final, after), and the linear map of every step's equation: of the vectors, the state and z."""
    own = vectors(fixed.params, batch_size(first))

    def body(state: State, each: Drive) -> tuple[State, Any]:
        maps = []

        def equation(state: State) -> State:
            new, linear = multiplied_out(parts.update, own, state, *parts.z(each.given, state))
            maps.append(linear)
            return new

        state = around(each, fixed.origin, state, equation)
        return state, (state, maps[0])

    pairs = 2 if len(drive.given) % 2 == 0 else 1  # two steps an iteration are a little faster; a remainder is copied
    final, (after, maps) = jax.lax.scan(body, first, drive, reverse=reverse, unroll=pairs)
    return (final, after), maps


def driving(cell: Cell, ahead: bool, meeting: Meeting, at: Any, by: Any) -> tuple[Any, ...]:
    """What the tangents of params and inputs add to z, for many t at once.

    Where a gated cell sums some gates alone, its weights are taken apart, so that their gradients need no array of
    all gates.
    """
    (fixed, given, used), (dfixed, dgiven) = at, by
    affine = type(fixed.params) is Affine and cell.project is project and cell.recur is recur
    if ahead or not affine or not meeting.mixed:
        return meeting.z(*added(cell, ahead, at, by))
    some, others = (
        added(cell, ahead, (replace(fixed, params=p), given, used), (replace(dfixed, params=dp), dgiven))
        for p, dp in zip(sorted_params(meeting, fixed.params), sorted_params(meeting, dfixed.params), strict=True)
    )
    return jnp.add(*some), *others


def sorted_params(meeting: Meeting, params: Params) -> tuple[Params, Params]:
    """The weights of the gates that are summed, and of the others."""
    leaves, tree = jax.tree.flatten(params)
    some, others = zip(*map(meeting.sorted, leaves), strict=True)
    return tree.unflatten(some), tree.unflatten(others)


def added(cell: Cell, ahead: bool, at: Any, by: Any) -> tuple[Any, Any]:
    """(q_u, q_a): what the tangents of params and inputs add to u and a, for many t at once."""
    (fixed, given, used), (dfixed, dgiven) = at, by
    states = used if fixed.factor is None else jax.vmap(partial(dropping, fixed.factor))(used)
    q_a = jax.jvp(lambda p: over_time(cell.recur)(p, states), (fixed.params,), (dfixed.params,))[1]
    if ahead:
        return dgiven, q_a
    primals, tangents = (fixed.params, given), (dfixed.params, dgiven)
    return jax.jvp(over_time(cell.project), primals, tangents)[1], q_a


def pushing(cell: Cell, fixed: Fixed) -> Callable[[State, State], Any]:
    """(state, its tangent) -> the tangent of a: W dh, so written that its transpose is a product with Wᵀ as it lies."""
    if cell.recur is not recur:
        a = partial(product, cell, fixed.params, fixed.factor)
        return lambda state, dstate: jax.jvp(a, (state,), (dstate,))[1]
    W_T = jax.lax.optimization_barrier(fixed.params.W_hh.T)  # without a barrier XLA folds it into every step's product

    def push(_: State, dstate: State) -> Array:
        dh = dropping(fixed.factor, dstate).h
        return jax.lax.dot_general(W_T.astype(dh.dtype), dh, (((0,), (0,)), ((), ())))

    return push
