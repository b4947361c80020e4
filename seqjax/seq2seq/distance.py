"""How far what is written is from what it was read from: gradients from target symbols to source symbols, and to all
states between. Reversing the source changes these distances (Sutskever et al. 2014, section 3.3).
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.gradients import safe_norm
from seqjax.network import NetworkParams
from seqjax.pairs import Pair
from seqjax.seq2seq.decoding import require_decoder
from seqjax.seq2seq.encoder import Nudge, turned
from seqjax.seq2seq.model import EncoderDecoder
from seqjax.sequences import batch_first, ends
from seqjax.tasks.task import Batch


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class StateProfile:
    """log10 of the norm of a gradient to every state, over its whole carry; -inf for zero, NaN where masked."""

    encoder: Array  # [L, B, S], one L per layer and direction, where in the source the state has read last
    decoder: Array  # [L, B, T], one L per layer


def gradient_map(network: EncoderDecoder, params: NetworkParams, batch: Batch) -> Array:
    """log10 of ‖d log p(y_j) / d x_i‖, [B, T, S]: of every target symbol y_j, under teacher forcing, to every source
    vector x_i; -inf for zero, NaN where either is masked.

    One backward pass a target symbol. ValueError as `network.apply` raises it, and for what is no encoder-decoder.
    """
    pair = checked(network, params, batch)
    found = mapped(network, params, pair, jnp.asarray(batch.targets).T)
    there = pair.mask[:, None] & pair.source_mask[None]
    return batch_first(jnp.where(there, found, jnp.nan))


def state_profile(network: EncoderDecoder, params: NetworkParams, batch: Batch, *, last: bool = False) -> StateProfile:
    """log10 of ‖dL/ds‖ to every state of encoder and decoder, L being each row's own log-probability of its target, or
    of its `last` symbol alone.

    ValueError as for `gradient_map`.
    """
    pair = checked(network, params, batch)
    return profiled(network, params, pair, jnp.asarray(batch.targets).T, last)


def checked(network: EncoderDecoder, params: NetworkParams, batch: Batch) -> Pair:
    """The pair of a batch in the inside layout; ValueError for one that does not fit."""
    require_decoder(network, params, False)
    steps = network.steps(params, batch.xs)
    if not steps.batched or jnp.shape(batch.targets) != jnp.shape(batch.xs.fed):
        raise ValueError(f"targets must be [B, T] like what is fed, got {jnp.shape(batch.targets)}")
    pair: Any = steps.xs
    return pair


def log_p(network: EncoderDecoder, params: NetworkParams, pair: Pair, targets: Array, nudge: Nudge) -> Array:
    """log p of every target symbol, [T, B], 0 where masked."""
    every: Any = network.forward(params, pair, perturb=nudge).every
    found = jnp.take_along_axis(jax.nn.log_softmax(every, axis=1), jnp.where(pair.mask, targets, 0)[:, None], axis=1)
    return jnp.where(pair.mask, found[:, 0], 0)


@partial(jax.jit, static_argnames="network")
def mapped(network: EncoderDecoder, params: NetworkParams, pair: Pair, targets: Array) -> Array:
    """`gradient_map`, [T, S, B]."""
    S, B = pair.source.shape
    zero = jnp.zeros((S, params.body.source.shape[1], B), params.body.source.dtype)
    out, back = jax.vjp(lambda x: log_p(network, params, pair, targets, Nudge(source=x)), zero)
    each = jnp.broadcast_to(jnp.eye(len(out), dtype=out.dtype)[..., None], (len(out), *out.shape))
    return jax.lax.map(lambda seed: log10_norm(back(seed)[0]), each)


@partial(jax.jit, static_argnames=("network", "last"))
def profiled(network: EncoderDecoder, params: NetworkParams, pair: Pair, targets: Array, last: bool) -> StateProfile:
    """`state_profile`."""
    trace = jax.eval_shape(lambda: network.forward(params, pair).body)
    states = tuple(each.after for each in trace.encoder.traces), trace.decoder.after
    zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), states)
    counted = jnp.arange(len(targets))[:, None] == ends(pair.mask, *targets.shape)[None] - 1 if last else True

    def total(nudge: Any) -> Array:
        return jnp.where(counted, log_p(network, params, pair, targets, Nudge(None, *nudge)), 0).sum()

    encoder, decoder = jax.grad(total)(zeros)
    place = (lambda norm: turned(norm, pair.source_mask)) if network.design.reversed_source else lambda norm: norm
    return StateProfile(
        jnp.stack([judged(place(of_state(half)), pair.source_mask) for half in encoder]),
        jnp.stack([judged(of_state(layer), pair.mask) for layer in decoder]),
    )


def judged(norm: Array, mask: Array) -> Array:
    """[T, B] -> [B, T], NaN where masked."""
    return batch_first(jnp.where(mask, norm, jnp.nan))


def of_state(gradient: Any) -> Array:
    """log10 of the norm over the whole carry, fields [T, .., B] -> [T, B]."""
    fields = [field.reshape(len(field), -1, field.shape[-1]) for field in jax.tree.leaves(gradient)]
    return log10_norm(jnp.concatenate(fields, axis=1))


def log10_norm(vectors: Array) -> Array:
    """[T, F, B] -> [T, B]."""
    return jnp.log10(safe_norm(vectors, axis=1))
