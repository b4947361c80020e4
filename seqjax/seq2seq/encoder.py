"""The encoder: a stack over the source, forwards, backwards or in both directions."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.core import State
from seqjax.dropout import drop_between
from seqjax.seq2seq.design import Design
from seqjax.seq2seq.params import TranslatorParams
from seqjax.sequences import ends
from seqjax.stack import StackTrace, scan_stack


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Nudge:
    """What is added on the way, batch last, so that the gradient to it is that to what it is added to."""

    source: Array | None = None  # [S, E] to the source vectors, in the order of the source
    encoder: tuple[State, ...] | None = None  # fields [S, H, B], to the states, in the order in which they are run
    decoder: tuple[State, ...] | None = None  # fields [T, H, B]


def embedded(table: Array, tokens: Array, mask: Array | None = None) -> Array:
    """Rows of a table [n, E] of tokens [T, B], as [T, E, B]; whatever a masked token is, it is read as the first."""
    tokens = tokens if mask is None else jnp.where(mask, tokens, 0)
    return jnp.moveaxis(table[tokens], -1, 1)


def nudged(state: Any, nudge: Any) -> Any:
    """States with what is added to them, where anything is, before anyone reads them."""
    return state if nudge is None else jax.tree.map(jnp.add, state, nudge)


def turned(array: Array, mask: Array) -> Array:
    """[S, .., B] with every row's steps up to its last valid one in reverse; twice is as before."""
    n, place = ends(mask, *mask.shape)[None], jnp.arange(mask.shape[0])[:, None]
    order = jnp.where(place < n, n - 1 - place, place)
    order = order.reshape(order.shape[0], *[1] * (array.ndim - 2), order.shape[1])
    return jnp.take_along_axis(array, order, axis=0)


def encode(
    design: Design, params: TranslatorParams, source: Array, mask: Array, nudge: Nudge, key: Array | None
) -> tuple[StackTrace, Array]:
    """The trace of the encoder over tokens [S, B], in the order in which it runs, and what its top layer shows, [S, F,
    B], in that of the source."""
    keys: Any = (None, None) if key is None else jax.random.split(key)
    way = mask if not design.reversed_source else turned(mask, mask)
    tokens = source if not design.reversed_source else turned(source, mask)
    xs = embedded(params.source, tokens, way)
    if nudge.source is not None:
        xs = xs + (turned(nudge.source, mask) if design.reversed_source else nudge.source)
    xs = drop_between(design.dropout, keys[0], xs)
    run = scan_stack(
        design.cell, params.encoder, xs, None, way, None, nudge.encoder, dropout=design.dropout, key=keys[1]
    )
    return run, turned(run.ys, way) if design.reversed_source else run.ys
