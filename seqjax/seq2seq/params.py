"""The params of an encoder-decoder, their draw, and the state that is handed over."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.body import require_params
from seqjax.core import Cell, State, require_sizes
from seqjax.dense import Dense, uniform_head
from seqjax.network import NetworkParams
from seqjax.seq2seq.attention import Alignment, init_alignment
from seqjax.seq2seq.design import Design
from seqjax.stack import Layer, init_stack


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TranslatorParams:
    """Params of an encoder-decoder, in the order in which the data meets them; the readout is the network's head."""

    source: Array  # [D, E] one row per source symbol
    target: Array | None  # [K, E] one row per target symbol; None where both share `source`
    encoder: tuple[Layer, ...]
    bridge: tuple[Dense, ...] | None  # one per decoder layer; None where the states are handed over as they are
    decoder: tuple[Layer, ...]
    align: Alignment | None  # None without attention


def init(design: Design, key: Array, D: int, H: int, K: int) -> NetworkParams:
    """Draw everything: D source symbols, K target symbols, H units a layer of the decoder, and of the encoder unless
    `encoder_hidden` says otherwise. ValueError for sizes that do not go together."""
    require_sizes(D=D, H=H, K=K)
    own = H if design.encoder_hidden is None else design.encoder_hidden
    if own != H and not design.bridge:
        raise ValueError(
            f"the encoder has {own} units, the decoder {H}, so its state cannot be handed over as it is: "
            "give bridge=True"
        )
    if design.shared and D != K:
        raise ValueError(f"shared embeddings need one alphabet, got {D} source symbols and {K} target symbols")
    keys, E = jax.random.split(key, 7), design.embedding
    source, target = (jax.random.normal(k, (n, E), jnp.float32) for k, n in zip(keys, (D, K), strict=False))
    encoder = init_stack(keys[2], design.cell, E, own, layers=design.layers, bidirectional=design.bidirectional)
    F = shown(design.cell, encoder)
    width = E if design.attention is None else E + F
    decoder = init_stack(keys[3], design.decoder, width, H, layers=design.decoder_layers)
    top = shown(design.decoder, decoder)
    align = None if design.attention is None else init_alignment(keys[4], design.attention, top, F)
    bridge = init_bridge(keys[5], design, encoder, decoder) if design.bridge else None
    body = TranslatorParams(source, None if design.shared else target, encoder, bridge, decoder, align)
    return NetworkParams(None, body, design.head(keys[6], K, seen(design, body)))


def seen(design: Design, params: TranslatorParams) -> int:
    """How many numbers a step the readout sees: the decoder's top layer, and the context."""
    top = shown(design.decoder, params.decoder)
    return top if params.align is None else top + params.align.U.shape[1]


def reads(params: TranslatorParams) -> int:
    """How many source symbols it knows; ValueError for another body's params."""
    require_params(params, TranslatorParams, "encoder_decoder")
    return len(params.source)


def shown(cell: Cell, layers: tuple[Layer, ...]) -> int:
    """How many numbers a step the top layer shows, both directions together."""
    halves = layers[-1].halves()
    return len(halves) * jax.eval_shape(lambda half: cell.read(half, cell.start(half)), halves[0][0]).shape[0]


def init_bridge(key: Array, design: Design, encoder: tuple[Layer, ...], decoder: tuple[Layer, ...]) -> Any:
    """One affine map a decoder layer, from all numbers of the encoder layer's states that it reads."""
    maps = []
    for depth, (k, layer) in enumerate(zip(jax.random.split(key, len(decoder)), decoder, strict=True)):
        halves = encoder[read_by(depth, len(encoder), len(decoder))].halves()
        N = sum(state_size(design.cell, half) for half, _ in halves)
        maps.append(uniform_head(k, state_size(design.decoder, layer.forward), N))
    return tuple(maps)


def state_size(cell: Cell, params: Any) -> int:
    """N, the numbers in a state."""
    return sum(s.size for s in jax.tree.leaves(jax.eval_shape(cell.start, params)))


def read_by(depth: int, layers: int, decoder_layers: int) -> int:
    """Which encoder layer a decoder layer starts from: that as far below the top as it is itself, or the lowest."""
    return max(0, layers - decoder_layers + depth)


def handed_over(design: Design, params: TranslatorParams, final: tuple[State, ...]) -> tuple[State, ...]:
    """The decoder's first states, fields [H, B], one per layer, of the encoder's last."""
    starts = [jax.eval_shape(design.decoder.start, layer.forward) for layer in params.decoder]
    if params.bridge is None:
        leaves = [jax.tree.leaves(state) for state in final]
        return tuple(jax.tree.structure(like).unflatten(own) for like, own in zip(starts, leaves, strict=True))
    each = len(final) // len(params.encoder)
    states = []
    for depth, (dense, like) in enumerate(zip(params.bridge, starts, strict=True)):
        first = each * read_by(depth, len(params.encoder), len(params.decoder))
        flat = ravelled(final[first : first + each])
        states.append(unravelled(dense.W @ flat + dense.b[:, None], like))
    return tuple(states)


def ravelled(state: Any) -> Array:
    """All numbers of a state, fields [.., B], as [N, B]."""
    return jnp.concatenate([s.reshape(-1, s.shape[-1]) for s in jax.tree.leaves(state)])


def unravelled(flat: Array, like: State) -> State:
    """[N, B] as a state in the structure of a cell's own, batch last."""
    leaves, structure = jax.tree.flatten(like)
    ends = [sum(leaf.size for leaf in leaves[: i + 1]) for i in range(len(leaves) - 1)]
    parts = jnp.split(flat, ends)
    shapes = [(*leaf.shape, flat.shape[-1]) for leaf in leaves]
    return structure.unflatten(part.reshape(shape) for part, shape in zip(parts, shapes, strict=True))
