"""Answers of an encoder-decoder: greedy, sampled, and by beam search; jitted, in batches, each row on its own."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seqjax.core import require_sizes
from seqjax.dense import affine
from seqjax.network import NetworkParams
from seqjax.pairs import Pair, checked_source
from seqjax.seq2seq.beam import searched
from seqjax.seq2seq.decoder import one_step, target_table
from seqjax.seq2seq.encoder import Nudge, embedded
from seqjax.seq2seq.model import EncoderDecoder, read
from seqjax.seq2seq.writing import (
    Decoded,
    drawing,
    is_number,
    likeliest,
    require_sampling,
    require_writing,
    row_keys,
    written,
)
from seqjax.sequences import add_batch, batch_last, checked_mask, drop_batch


def greedy(
    network: EncoderDecoder,
    params: NetworkParams,
    source: Any,
    *,
    lengths: Any = None,
    limit: int,
    end: int,
    weights: bool = False,
) -> Decoded:
    """The likeliest symbol at every step, for sources [B, S] of their lengths [B], or one [S].

    limit    steps at most; a target of n symbols takes n + 1, its end symbol among them
    end      the number of the end symbol, which the decoder starts from as well
    weights  return those of the attention too
    Raises ValueError for a network that is no encoder-decoder, a limit below 1, an end that is no target symbol, an
    empty source, tokens outside the alphabet, and for weights of a network without attention.
    """
    K = require_decoder(network, params, weights)
    require_writing(limit, end, K)
    return answered(network, params, source, lengths, weights, (), limit=limit, end=end)


def sample(
    network: EncoderDecoder,
    params: NetworkParams,
    source: Any,
    key: Array,
    *,
    lengths: Any = None,
    limit: int,
    end: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    weights: bool = False,
) -> Decoded:
    """A draw from the model at every step; the rest as for `greedy`.

    key          one, which the number of the row is folded into, or one for every row [B]
    temperature  what the logits are divided by: towards 0 that is greedy decoding
    top_k        draw from so many of the likeliest symbols alone (and from those that tie with the last of them)
    top_p        and of these from the fewest that have such a probability together (Holtzman et al. 2020)
    The log-probability is the model's, whatever the temperature. Raises ValueError for a temperature of 0 or below, and
    for a top_k or top_p that keeps no symbol or more than all.
    """
    K = require_decoder(network, params, weights)
    require_writing(limit, end, K)
    how = require_sampling(temperature, top_k, top_p, K)
    return answered(network, params, source, lengths, weights, (key, how), limit=limit, end=end)


def beam(
    network: EncoderDecoder,
    params: NetworkParams,
    source: Any,
    *,
    lengths: Any = None,
    width: int,
    alpha: float = 1.0,
    limit: int,
    end: int,
    weights: bool = False,
) -> Decoded:
    """The best hypothesis of a beam search, by log p / length^alpha, the end symbol counted; the rest as for `greedy`.

    width  hypotheses that are kept, finished ones among them: 1 is greedy decoding
    Raises ValueError for a width below 1 and an alpha below 0. One that the limit cut short may be the best of all:
    `finished` tells.
    """
    K = require_decoder(network, params, weights)
    require_writing(limit, end, K)
    require_sizes(width=width)
    if not is_number(alpha) or not 0 <= alpha < float("inf"):
        raise ValueError(f"alpha must be a number from 0, got {alpha!r}")
    return answered(network, params, source, lengths, weights, (float(alpha),), limit=limit, end=end, width=width)


def require_decoder(network: Any, params: NetworkParams, weights: bool) -> int:
    """How many target symbols there are; ValueError for what cannot be decoded from, or has no weights."""
    if not isinstance(network, EncoderDecoder):
        raise ValueError(f"network must be such as encoder_decoder(lstm(), ...) returns, got {network!r}")
    network.width(params)
    if weights and params.body.align is None:
        raise ValueError(f"weights are those of an attention, and {network.name!r} has none: leave them out")
    return params.head.W.shape[0]


def answered(
    network: EncoderDecoder,
    params: NetworkParams,
    source: Any,
    lengths: Any,
    weights: bool,
    how: tuple[Any, ...],
    *,
    limit: int,
    end: int,
    width: int | None = None,
) -> Decoded:
    """Check the sources, and decode; `how` holds a key and a Sampling, an alpha, or nothing."""
    if np.ndim(source) not in (1, 2) or 0 in np.shape(source)[:-1]:
        raise ValueError(f"source must be tokens [S] or [B, S] of at least one row, got shape {np.shape(source)}")
    shape, batched = np.shape(source), np.ndim(source) == 2
    mask = checked_mask(lengths, None, shape[:-1], shape[-1])
    mask = checked_source(source, jnp.ones(shape, bool) if mask is None else mask, network.width(params))
    given = batch_last(add_batch((jnp.asarray(source), mask), batched))
    if how and width is None:
        top_k = how[1].top_k
        how = (row_keys(how[0], given[0].shape[-1]), replace(how[1], top_k=None))
    else:
        top_k = None
    found = decoded(network, params, *given, how, limit=limit, end=end, width=width, top_k=top_k, weights=weights)
    return drop_batch(found, batched)


@partial(jax.jit, static_argnames=("network", "limit", "end", "width", "top_k", "weights"))
def decoded(
    network: EncoderDecoder,
    params: NetworkParams,
    source: Array,
    mask: Array,
    how: tuple[Any, ...],
    *,
    limit: int,
    end: int,
    width: int | None,
    top_k: int | None,
    weights: bool,
) -> Decoded:
    """What is decoded of sources [S, B]: greedily, by keys and a Sampling, or by a beam of some alpha."""
    design, body = network.design, params.body
    _, memory, first = read(design, body, source, mask, Nudge())
    token = jnp.full(source.shape[-1], end)

    def step(memory: Any, states: Any, token: Array) -> tuple[Any, Array]:
        x = embedded(target_table(body), token[None])[0]
        states, seen, _ = one_step(design.decoder, body, memory, states, x)
        return states, affine(params.head, seen)

    if width is not None:
        found = searched(step, memory, first, token, width=width, alpha=how[0], limit=limit, end=end)
    else:
        choose = drawing(how[0], replace(how[1], top_k=top_k)) if how else likeliest
        found, _ = written(step, memory, first, token, choose, limit=limit, end=end)
    return replace(found, weights=weights_of(network, params, source, mask, found, end)) if weights else found


def weights_of(
    network: EncoderDecoder, params: NetworkParams, source: Array, mask: Array, found: Decoded, end: int
) -> Array:
    """The attention's weights [B, T, S] at what was written: those of the decoder that is fed it."""
    fed = jnp.roll(found.tokens, 1, axis=1).at[:, 0].set(end).T
    steps = jnp.arange(len(fed))[:, None] < (found.lengths + found.finished)[None]
    run = network.forward(params, Pair(source, mask, fed, steps)).body.decoder
    return jnp.moveaxis(run.weights, -1, 0)
