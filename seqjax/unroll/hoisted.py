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

from seqjax.core import Cell, State
from seqjax.gated import joined, project, recur
from seqjax.unroll.batching import batch_size, over_batch, over_time, over_vectors, vectors
from seqjax.unroll.fitting import equation_of, reads_sum
from seqjax.unroll.linear import multiplied_out
from seqjax.unroll.stepping import Drive, Fixed, around, before, dropping, product


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

    z: Callable[[Any, State], tuple[Any, ...]]  # (given, state) -> (u + a,) where that sum is all it reads, else (u, a)
    update: Callable[..., State]  # (vectors of the params, state, *z) -> state
    summed: bool  # whether z is a sum


def parts_of(cell: Cell, ahead: bool, fixed: Fixed, first: State, drive: Drive) -> Parts:
    """The parts of a cell's step; where u + a is all that a gated cell reads, one product gives it."""
    params, given = fixed.params, jax.tree.map(lambda g: jax.ShapeDtypeStruct(g.shape[1:], g.dtype), drive.given)

    def pair(given: Any, state: State) -> tuple[Any, Any]:
        u = given if ahead else over_batch(cell.project)(params, given)
        return u, product(cell, params, fixed.factor, state)

    u, a = jax.eval_shape(pair, given, first)
    equation = over_vectors(cell.update, params)
    if not reads_sum(equation_of(cell, params, first, u, a), u, a):
        return Parts(pair, equation, summed=False)

    def update(own: list[Array], state: State, z: Array) -> State:
        return equation(own, state, z, jnp.zeros_like(z))

    together = not ahead and cell.project is project and cell.recur is recur
    if together and len({w.dtype for w in (params.W_ih, params.W_hh, given, first.h)}) == 1:
        W, b = joined(params)

        def z(given: Array, state: State) -> tuple[Array]:
            product = W @ jnp.concatenate([given, dropping(fixed.factor, state).h])
            return (product if b is None else product + b[:, None],)

    else:

        def z(given: Any, state: State) -> tuple[Array]:
            return (jnp.add(*pair(given, state)),)

    return Parts(z, update, summed=True)


def rule(cell: Cell, ahead: bool, reverse: bool, primals: Any, tangents: Any) -> tuple[Any, Any]:
    """The states, and their tangents, linear in those of all that drives them."""
    fixed, first, drive = primals
    dfixed, dfirst, ddrive = tangents
    parts, B = parts_of(cell, ahead, fixed, first, drive), batch_size(first)
    (final, after), maps = forth(parts, reverse, fixed, first, drive)
    used = before(fixed, first, after, drive.fresh, reverse)
    q = added(cell, ahead, (fixed, drive, used), (dfixed, ddrive))
    q = (jax.tree.map(jnp.add, *q),) if parts.summed else q
    own, push = vectors(dfixed.params, B), pushing(cell, fixed)

    def body(dstate: State, each: Any) -> tuple[State, State]:
        surroundings, linear, state, (*q_u, q_a) = each

        def equation(ds: State) -> State:
            return linear(own, ds, *q_u, jax.tree.map(jnp.add, q_a, push(state, ds)))

        dstate = around(surroundings, dfixed.origin, dstate, equation)
        return dstate, dstate

    surroundings = replace(drive, given=None, nudge=ddrive.nudge)
    return (final, after), jax.lax.scan(body, dfirst, (surroundings, maps, used, q), reverse=reverse)


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


def added(cell: Cell, ahead: bool, at: Any, by: Any) -> tuple[Any, Any]:
    """(q_u, q_a): what the tangents of params and inputs add to u and a, for all t at once."""
    (fixed, drive, used), (dfixed, ddrive) = at, by
    states = used if fixed.factor is None else jax.vmap(partial(dropping, fixed.factor))(used)
    q_a = jax.jvp(lambda p: over_time(cell.recur)(p, states), (fixed.params,), (dfixed.params,))[1]
    if ahead:
        return ddrive.given, q_a
    primals, tangents = (fixed.params, drive.given), (dfixed.params, ddrive.given)
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
