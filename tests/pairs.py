"""Encoder-decoders to test, pairs for them, and their slow and obvious twin: a row, a step, a layer at a time."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from oracle import noise_like, one_step

import seqjax
from seqjax.seq2seq import Pair, encoder_decoder

B, S, T, D, H, K, E = 3, 4, 5, 7, 3, 6, 2  # all different, so that no axis passes for another
END = K - 1
SOURCES, TARGETS = np.array([S, 1, 3]), np.array([2, T - 1, 0])  # lengths, the end symbol not counted

NETWORKS = {
    "handed": encoder_decoder(seqjax.lstm(), embedding=E, layers=2, reversed_source=True),
    "bridged": encoder_decoder(
        seqjax.gru(),
        embedding=E,
        decoder=seqjax.lstm(),
        decoder_layers=2,
        bidirectional=True,
        encoder_hidden=4,
        bridge=True,
    ),
    "attending": encoder_decoder(
        seqjax.gru(), embedding=E, bidirectional=True, bridge=True, attention=5, reversed_source=True
    ),
    "shared": encoder_decoder(seqjax.lstm(peephole=True), embedding=E, attention=2, shared=True),
    "in-turn": encoder_decoder(seqjax.gru(reset_after=False), embedding=E, attention=2),
}


@cache
def params_of(name):
    """Float64 noise in the shapes of a network's params."""
    return noise_like(NETWORKS[name].init, K if name == "shared" else D, H, K, scale=0.6)


def pair_of(symbols=D, seed=5, own=None):
    """A ragged pair, with junk in the padding."""
    rng = np.random.default_rng(seed)
    source_mask, mask = np.arange(S)[None] < SOURCES[:, None], np.arange(T)[None] <= TARGETS[:, None]
    source = np.where(source_mask, rng.integers(0, symbols, (B, S)), 99)
    fed = np.where(mask, np.concatenate([np.full((B, 1), END), rng.integers(0, K - 1, (B, T - 1))], 1), -99)
    return Pair(*map(jnp.asarray, (source, source_mask, fed, mask)), own=None if own is None else jnp.asarray(own))


def slow(network, params, pair):
    """(logits [B, T, K], weights [B, T, S]) of `network.apply`, where the masks hold; elsewhere zeros."""
    logits, weights = np.zeros((B, T, K)), np.zeros((B, T, S))
    for b in range(B):
        n, m = int(pair.source_mask[b].sum()), int(pair.mask[b].sum())
        own = np.zeros(m, bool) if pair.own is None else pair.own[b]
        logits[b, :m], weights[b, :m, :n] = slow_row(network, params, pair.source[b, :n], pair.fed[b, :m], own)
    return logits, weights


def slow_row(network, params, source, fed, own):
    """One pair."""
    design, p = network.design, params.body
    hs, finals = encoded(design, p, source[::-1] if design.reversed_source else source)
    hs = hs[::-1] if design.reversed_source else hs
    states, table = first_states(design, p, finals), p.source if p.target is None else p.target
    logits, weights, choice = [], np.zeros((len(fed), len(source))), fed[0]
    for t, token in enumerate(fed):
        x, context = table[choice if own[t] else token], np.zeros(0)
        if p.align is not None:
            query = design.decoder.read(p.decoder[-1].forward, states[-1])
            e = np.array([p.align.v @ np.tanh(p.align.W @ query + p.align.U @ h) for h in hs])
            weights[t] = np.exp(e) / np.exp(e).sum()
            context = sum(a * h for a, h in zip(weights[t], hs, strict=True))
        y, new = np.concatenate([x, context]), []
        for layer, state in zip(p.decoder, states, strict=True):
            _, state, y = one_step(design.decoder, layer.forward, state, jnp.asarray(y))
            new.append(state)
        states = new
        logits.append(params.head.W @ np.concatenate([y, context]) + params.head.b)
        choice = int(np.argmax(logits[-1]))
    return np.array(logits), weights


def encoded(design, p, source):
    """What the encoder shows at every step, and its final states by layer, those of a layer's directions in a list."""
    xs, finals = [p.source[token] for token in source], []
    for layer in p.encoder:
        shown, ends = [], []
        for half, reverse in layer.halves():
            state, ys = design.cell.start(half), []
            for x in xs[::-1] if reverse else xs:
                _, state, y = one_step(design.cell, half, state, jnp.asarray(x))
                ys.append(y)
            shown.append(ys[::-1] if reverse else ys)
            ends.append(state)
        xs = [np.concatenate(each) for each in zip(*shown, strict=True)]
        finals.append(ends)
    return xs, finals


def first_states(design, p, finals):
    """The decoder's, handed over or by the bridge."""
    if p.bridge is None:
        return [ends[0] for ends in finals]
    states = []
    for depth, (dense, layer) in enumerate(zip(p.bridge, p.decoder, strict=True)):
        ends = finals[max(0, len(finals) - len(p.decoder) + depth)]
        flat = dense.W @ np.concatenate([leaf for end in ends for leaf in jax.tree.leaves(end)]) + dense.b
        leaves, tree = jax.tree.flatten(design.decoder.start(layer.forward))
        states.append(tree.unflatten(np.split(flat, len(leaves))))
    return states
