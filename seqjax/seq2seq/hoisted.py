"""The decoder with attention, with all but the recurrence taken out of the loop, on the way back as well.

Differentiating a scan adds up the gradient of every weight step by step. Here what a product of weights gives gets a
number of its own added at every step, which is zero: the gradient to that is all that is left in the loop, and that of
the weights is one product for all steps. The encoder's states, which every context is a mixture of, are such weights as
well. For c = W x, at all steps at once,
    dc = W dx + δ        δ = dW x
JAX transposes that where a gradient is wanted, so that jvp, grad, vmap and whatever is made of them all hold.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.core import Cell, State
from seqjax.gated import project, recur
from seqjax.gated import shown as show
from seqjax.seq2seq.attention import Memory, masked_softmax, score
from seqjax.seq2seq.encoder import nudged
from seqjax.seq2seq.params import TranslatorParams
from seqjax.sequences import batch_first, select
from seqjax.unroll import over_batch, over_time


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Weights:
    """What enters products in the loop; a delta has the same fields, of what the products give, over time."""

    query: Array  # W of the alignment [A, H]
    values: Array  # [S, F, B]
    context: Array  # the columns of the first layer's W_ih that read it [G*H, F]
    inputs: tuple[Any, ...]  # (W_ih, b_ih) of every layer above the first
    recurrent: tuple[Any, ...]  # (W_hh, b_hh) of every layer


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rest:
    """What else is differentiated, batch last."""

    first: tuple[State, ...]
    us: Array  # [T, G*H, B] of what the first layer reads beside the context
    keys: Array  # [S, A, B]
    v: Array  # [A]
    vectors: tuple[Any, ...]  # those of the params of every layer, for its equation
    drops: tuple[Array | None, ...]  # [T, width, B] on the context, and on what each layer above the first reads
    nudge: Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Seen:
    """What the loop hands out, over time."""

    after: tuple[State, ...]
    shown: Array  # [T, H, B] by the top layer
    context: Array  # [T, F, B]
    read: Weights  # by each product: of the values, the weights of the attention [T, S, B]


def fits(cell: Cell, *trees: Any) -> bool:
    """Whether a cell's products are those of a gated one, so that they can be taken apart from its equation; and all
    numbers are of one type."""
    gates = cell.project is project and cell.recur is recur and cell.read is show
    return gates and len({a.dtype for a in jax.tree.leaves(trees)}) == 1


def attended(
    cell: Cell,
    params: TranslatorParams,
    memory: Memory,
    first: tuple[State, ...],
    xs: Array,
    mask: Array,
    drops: tuple[Array | None, ...],
    nudge: Any,
) -> tuple[tuple[State, ...], Seen]:
    """The decoder over what it is fed, xs [T, E, B]: its final states, and what happened."""
    own, E = [layer.forward for layer in params.decoder], xs.shape[1]
    align: Any = params.align
    drop = drops[0]
    below = replace(own[0], W_ih=own[0].W_ih[:, :E])
    us = over_time(cell.project)(below, times(xs, None if drop is None else drop[:, :E]))
    weights = Weights(
        align.W,
        memory.values,
        own[0].W_ih[:, E:],
        tuple((p.W_ih, p.b_ih if p.gain is None else None) for p in own[1:]),
        tuple((p.W_hh, p.b_hh) for p in own),
    )
    vectors = tuple(jax.tree.map(lambda p: p if p.ndim == 1 else None, each) for each in own)
    above = (None if drop is None else drop[:, E:], *drops[1:])
    rest = Rest(first, us, memory.keys, align.v, vectors, above, nudge)
    return with_rule(cell)(weights, rest, (memory.mask, mask))


@cache
def with_rule(cell: Cell) -> Callable[..., tuple[tuple[State, ...], Seen]]:
    """(weights, rest, (source mask, mask)) -> (final states, what the loop hands out), with a rule for tangents."""

    @jax.custom_jvp
    def run(weights: Weights, rest: Rest, masks: tuple[Array, Array]) -> tuple[tuple[State, ...], Seen]:
        return scanned(cell, weights, masks, rest, None)

    @run.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        (weights, rest, masks), (dweights, drest, _) = primals, tangents
        out, linear = jax.linearize(partial(scanned, cell, weights, masks), rest, nothing(weights, rest))
        return out, linear(drest, at_once(dweights, out[1].read))

    return run


def nothing(weights: Weights, rest: Rest) -> Weights:
    """Zeros for all that products give, over time."""
    T, B = len(rest.us), rest.us.shape[-1]
    rows = lambda pair: jnp.zeros((T, len(pair[0]), B), rest.us.dtype)  # noqa: E731
    return Weights(
        jnp.zeros((T, len(weights.query), B), rest.us.dtype),
        jnp.zeros((T, *weights.values.shape[1:]), rest.us.dtype),
        jnp.zeros_like(rest.us),
        tuple(map(rows, weights.inputs)),
        tuple(map(rows, weights.recurrent)),
    )


def at_once(dweights: Weights, read: Weights) -> Weights:
    """What tangents of the weights make of all that was read."""
    affine = lambda pair, x: plus(jnp.einsum("gh,thb->tgb", pair[0], x), pair[1])  # noqa: E731
    return Weights(
        jnp.einsum("ah,thb->tab", dweights.query, read.query),
        jnp.einsum("sfb,tsb->tfb", dweights.values, read.values),
        jnp.einsum("gf,tfb->tgb", dweights.context, read.context),
        tuple(map(affine, dweights.inputs, read.inputs)),
        tuple(map(affine, dweights.recurrent, read.recurrent)),
    )


def plus(z: Array, bias: Array | None) -> Array:
    """z [.., G*H, B] with a bias [G*H], where there is one."""
    return z if bias is None else z + jnp.broadcast_to(bias[:, None], z.shape)


@jax.custom_jvp
def pushed(W: Array, W_T: Array, x: Array) -> Array:
    """W x, whose transpose is a product with Wᵀ as it lies; no gradient reaches W this way."""
    return W @ x


@pushed.defjvp
def pushed_rule(primals: Any, tangents: Any) -> tuple[Array, Array]:
    """The tangent of x alone."""
    W, W_T, x = primals
    y = W @ x
    return y, jax.lax.dot_general(W_T.astype(y.dtype), tangents[2].astype(y.dtype), (((0,), (0,)), ((), ())))


def scanned(
    cell: Cell, weights: Weights, masks: tuple[Array, Array], rest: Rest, delta: Weights | None
) -> tuple[tuple[State, ...], Seen]:
    """Every step in turn."""
    turned = jax.tree.map(lambda W: W.T if W.ndim == 2 else W, replace(weights, values=batch_first(weights.values)))
    turned = jax.lax.optimization_barrier(turned)

    def body(states: Any, each: Any) -> Any:
        u, mask, drops, nudge, delta = each
        new, seen = one_step(cell, weights, turned, rest, masks[0], states, u, drops, nudge, delta)
        new = select(mask, new, nudged(states, nudge))
        return new, replace(seen, after=new)

    us = add(rest.us, delta and delta.context)
    return jax.lax.scan(
        body, rest.first, (us, masks[1], rest.drops, rest.nudge, delta and replace(delta, context=None))
    )


def one_step(
    cell: Cell,
    weights: Weights,
    turned: Weights,
    rest: Rest,
    source_mask: Array,
    states: tuple[State, ...],
    u: Array,
    drops: tuple[Array | None, ...],
    nudge: tuple[State, ...] | None,
    delta: Weights | None,
) -> tuple[tuple[State, ...], Seen]:
    """One step through all layers."""
    shown = over_batch(cell.read)(rest.vectors[-1], states[-1])
    q = add(pushed(weights.query, turned.query, shown), delta and delta.query)
    α = masked_softmax(score(rest.v, rest.keys, q), source_mask)
    context = add(jnp.einsum("bsf,bs->bf", turned.values, α.T).T, delta and delta.values)
    reads, used, new, y = [times(context, drops[0])], [], [], shown
    u = u + pushed(weights.context, turned.context, reads[0])
    for depth, state in enumerate(states):
        if depth:
            reads.append(times(y, drops[depth]))
            u = product(weights.inputs, turned.inputs, delta and delta.inputs, depth - 1, reads[-1])
        a = product(weights.recurrent, turned.recurrent, delta and delta.recurrent, depth, state.h)
        used.append(state.h)
        new.append(nudged(over_batch(cell.update)(rest.vectors[depth], state, u, a), nudge and nudge[depth]))
        y = over_batch(cell.read)(rest.vectors[depth], new[-1])
    read = Weights(shown, α, reads[0], tuple(reads[1:]), tuple(used))
    return tuple(new), Seen((), y, context, read)


def add(x: Array, delta: Array | None) -> Array:
    """x with its delta, where there is one."""
    return x if delta is None else x + delta


def times(x: Array, factor: Array | None) -> Array:
    """x with what dropout multiplies it by, where it does."""
    return x if factor is None else x * factor


def product(pairs: Any, turned: Any, delta: Any, k: int, x: Array) -> Array:
    """W x + b of the pair number k."""
    (W, b), W_T = pairs[k], turned[k][0]
    return add(plus(pushed(W, W_T, x), b), delta and delta[k])
