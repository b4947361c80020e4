"""The decoder: one step of it, and its steps over what it is fed.

Without attention the next symbol never waits for anything but the state, so a layer's steps run on the engine, layer by
layer. With it, or where the decoder is fed its own choices, they run one by one through all layers. Either way what the
readout sees is handed out, so that the readout is one product for all steps.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.core import Cell, State
from seqjax.dense import Dense, affine
from seqjax.dropout import Dropout, drop_between, scaled_mask
from seqjax.pairs import Pair
from seqjax.seq2seq.attention import Memory, attend
from seqjax.seq2seq.design import Design
from seqjax.seq2seq.encoder import embedded, nudged
from seqjax.seq2seq.hoisted import attended, fits
from seqjax.seq2seq.params import TranslatorParams
from seqjax.sequences import masked, select
from seqjax.stack import scan_stack
from seqjax.unroll import over_batch


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Run:
    """What happened in the decoder. Batch leads in what `Network.apply` returns, and is last inside."""

    ys: Array  # [B, T, F] what the readout sees, zero where masked: the top layer's, then the context
    after: tuple[State, ...]  # fields [B, T, H], the state of every layer after every step
    final: tuple[State, ...]  # fields [B, H]
    weights: Array | None  # [B, T, S] of the attention, zero where masked; None without


def decode(
    design: Design,
    params: TranslatorParams,
    head: Dense,
    memory: Memory | None,
    first: tuple[State, ...],
    pair: Pair,
    nudge: Any,
    key: Array | None,
) -> tuple[Run, Array]:
    """The run of a decoder over what it is fed, from its first states; and what of it the readout reads."""
    table, keys = target_table(params), [None] * 3 if key is None else jax.random.split(key, 3)
    xs = embedded(table, pair.fed, pair.mask)
    if memory is None and pair.own is None:
        xs = drop_between(design.dropout, keys[0], xs)
        options: Any = {"dropout": design.dropout, "key": keys[1]}
        stack = scan_stack(design.decoder, params.decoder, xs, first, pair.mask, None, nudge, **options)
        run = Run(stack.ys, tuple(trace.after for trace in stack.traces), stack.final, None)
        return run, drop_between(design.dropout, keys[2], run.ys)
    factors = factors_of(design.dropout, key, params, head, len(xs), xs.shape[-1])
    if memory is not None and pair.own is None and fits(design.decoder, params, memory.values, first, xs):
        final, seen = attended(design.decoder, params, memory, first, xs, pair.mask, factors[:-1], nudge)
        ys = masked(joined(seen.shown, seen.context, axis=1), pair.mask)
        run = Run(ys, seen.after, final, masked(seen.read.values, pair.mask))
    else:
        run = in_turn(design.decoder, params, head, memory, first, pair, xs, factors, nudge)
    return run, run.ys if factors[-1] is None else run.ys * factors[-1]


def target_table(params: TranslatorParams) -> Array:
    """The embedding of target symbols."""
    return params.source if params.target is None else params.target


def in_turn(
    cell: Cell,
    params: TranslatorParams,
    head: Dense,
    memory: Memory | None,
    first: tuple[State, ...],
    pair: Pair,
    xs: Array,
    factors: tuple[Array | None, ...],
    nudge: Any,
) -> Run:
    """Step by step through all layers, in one scan."""
    table = target_table(params)

    def body(carry: Any, each: Any) -> Any:
        (states, choice), (x, mask, own, drops, nudges) = carry, each
        x = select(own, embedded(table, choice[None])[0], x) if own is not None else x
        new, seen, weights = one_step(cell, params, memory, states, x, drops[:-1], nudges)
        new = select(mask, new, nudged(states, nudges))
        choice = choice if own is None else chosen(head, seen, drops[-1])
        return (new, choice), (seen, new, weights)

    start = widened(cell, params, memory, first, xs[0])
    given = (xs, pair.mask, pair.own, factors, nudge)
    (final, _), (ys, after, weights) = jax.lax.scan(body, (start, pair.fed[0]), given)
    return Run(masked(ys, pair.mask), after, final, None if weights is None else masked(weights, pair.mask))


def one_step(
    cell: Cell,
    params: TranslatorParams,
    memory: Memory | None,
    states: Any,
    x: Array,
    drops: Any = None,
    nudge: Any = None,
) -> tuple[tuple[State, ...], Array, Array | None]:
    """States after a step that reads x [E, B], what the readout sees of it [F, B], and the weights of the attention."""
    context, weights, new = None, None, []
    if memory is not None and params.align is not None:
        query = over_batch(cell.read)(params.decoder[-1].forward, states[-1])
        context, weights = attend(params.align, memory, query)
    read = joined(x, context)
    for depth, (layer, state) in enumerate(zip(params.decoder, states, strict=True)):
        own = layer.forward
        read = read if drops is None or drops[depth] is None else read * drops[depth]
        u, a = over_batch(cell.project)(own, read), over_batch(cell.recur)(own, state)
        new.append(nudged(over_batch(cell.update)(own, state, u, a), nudge and nudge[depth]))
        read = over_batch(cell.read)(own, new[-1])
    return tuple(new), joined(read, context), weights


def joined(y: Array, context: Array | None, axis: int = 0) -> Array:
    """[y; context], where there is one."""
    return y if context is None else jnp.concatenate([y, context], axis=axis)


def chosen(head: Dense, seen: Array, factor: Array | None) -> Array:
    """The likeliest symbols, [B]; no gradient goes through a choice."""
    return affine(head, seen if factor is None else seen * factor).argmax(0)


def widened(cell: Cell, params: TranslatorParams, memory: Memory | None, states: Any, x: Array) -> Any:
    """First states in the dtypes that a step returns, so that the carry keeps its type."""
    after = jax.eval_shape(lambda *given: one_step(cell, params, memory, *given)[0], states, x)
    return jax.tree.map(lambda s, n: s.astype(jnp.promote_types(s.dtype, n.dtype)), states, after)


def factors_of(
    dropout: Dropout | None, key: Array | None, params: TranslatorParams, head: Dense, T: int, B: int
) -> tuple[Array | None, ...]:
    """What every layer, and at last the readout, reads is multiplied by: [T, width, B] each."""
    widths = [*(layer.forward.W_ih.shape[1] for layer in params.decoder), head.W.shape[1]]
    if dropout is None or key is None:
        return (None,) * len(widths)
    draws = []
    for k, width in zip(jax.random.split(key, len(widths)), widths, strict=True):
        shape = (width, B) if dropout.variational else (T, width, B)
        factor = scaled_mask(k, dropout.between, shape, head.W.dtype)
        draws.append(jnp.broadcast_to(factor, (T, width, B)))
    return tuple(draws)
