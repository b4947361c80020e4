"""The encoder-decoder as a network: one unit reads and hands over its last state, a second writes from it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
from jax import Array

from seqjax.body import Body
from seqjax.core import Cell, State, factory
from seqjax.dense import Dense, affine, uniform_head
from seqjax.dropout import Dropout
from seqjax.network import Network, NetworkParams, Output
from seqjax.pairs import Pair
from seqjax.seq2seq.attention import Memory, memory_of
from seqjax.seq2seq.decoder import Run, decode
from seqjax.seq2seq.design import Design
from seqjax.seq2seq.encoder import Nudge, encode
from seqjax.seq2seq.params import TranslatorParams, handed_over, init, reads, seen
from seqjax.stack import StackTrace


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Translation:
    """The trace of an encoder-decoder."""

    encoder: StackTrace  # in the order in which it runs: of a reversed source, the reverse
    decoder: Run


@dataclass(frozen=True, repr=False)
class EncoderDecoder(Network):
    """A network of pairs, which knows its design, so that it can be decoded from."""

    design: Any = None


@factory
def encoder_decoder(
    cell: Cell,
    *,
    embedding: int,
    layers: int = 1,
    bidirectional: bool = False,
    decoder: Cell | None = None,
    decoder_layers: int | None = None,
    encoder_hidden: int | None = None,
    bridge: bool = False,
    attention: int | None = None,
    reversed_source: bool = False,
    shared: bool = False,
    dropout: Dropout | None = None,
    head: Callable[[Array, int, int], Dense] = uniform_head,
) -> EncoderDecoder:
    """A network of pairs: an encoder of one kind of cell, and a decoder that starts from its last state.

    embedding        width of both embeddings, drawn from N(0, 1); `shared` makes them one
    decoder          the decoder's cell, and `decoder_layers` its depth; None for the encoder's
    encoder_hidden   units of an encoder layer in each direction; None for those of the decoder
    bridge           learn an affine map from the encoder's states to those of each decoder layer; without it they are
                     handed over as they are, layer by layer
    attention        width of the alignment net (Bahdanau et al. 2015); None for no attention
    reversed_source  the encoder reads the source back to front (Sutskever et al. 2014)
    dropout          its `between` acts on all that is no recurrence: embeddings, what layers and readout read (Zaremba
                     et al. 2014)
    D of its init counts source symbols, K target symbols. Raises ValueError for values outside these, and for states
    that do not fit where there is no bridge.
    """
    writer, deep = decoder or cell, decoder_layers or layers
    options = (embedding, bidirectional, encoder_hidden, bridge, attention, reversed_source, shared, dropout, head)
    return network_of_pairs(Design(cell, writer, layers, deep, *options))


def network_of_pairs(design: Design) -> EncoderDecoder:
    """The network of a design."""
    body = Body(
        name=design.name,
        init=refuse,
        reads=reads,
        shows=lambda params: seen(design, params),
        run=refuse,
        about=design.about,
    )
    run = partial(forward, design)
    return EncoderDecoder(body, "pair", "every", partial(init, design), run, design.dropout, design)


def refuse(*args: Any, **options: Any) -> Any:
    """ValueError: the alphabets and the readout are the network's, and nothing is drawn or run without them."""
    raise ValueError("an encoder-decoder is drawn and run as a network: use its `init`, `apply` or `forward`")


def forward(
    design: Design,
    params: NetworkParams,
    xs: Pair,
    mask: Array | None = None,
    perturb: Nudge | None = None,
    key: Array | None = None,
    state: Any = None,
    reset: Array | None = None,
) -> Output:
    """One pass in the inside layout, over a Pair whose arrays are [S, B] and [T, B].

    `perturb` is a Nudge; ValueError for a mask, a state or a reset, which a pair does not have.
    """
    for name, given in (("mask", mask), ("state", state), ("reset", reset)):
        if given is not None:
            raise ValueError(f"{name} means nothing in an encoder-decoder, whose Pair says all of it: leave it out")
    body, nudge = params.body, perturb or Nudge()
    keys: Any = (None, None) if key is None else jax.random.split(key)
    encoder, memory, first = read(design, body, xs.source, xs.source_mask, nudge, keys[0])
    run, ys = decode(design, body, params.head, memory, first, xs, nudge.decoder, keys[1])
    return Output(jax.vmap(partial(affine, params.head))(ys), None, Translation(encoder, run))


def read(
    design: Design, params: TranslatorParams, source: Array, mask: Array, nudge: Nudge, key: Array | None = None
) -> tuple[StackTrace, Memory | None, tuple[State, ...]]:
    """All that the decoder starts from: the encoder's trace, what there is to attend to, and its own first states."""
    trace, ys = encode(design, params, source, mask, nudge, key)
    memory = None if params.align is None else memory_of(params.align, ys, mask)
    return trace, memory, handed_over(design, params, trace.final)
