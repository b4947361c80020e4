"""What an encoder-decoder is made of."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
from jax import Array

from seqjax.core import Cell, State, require_cell, require_sizes, require_switches
from seqjax.dense import Dense
from seqjax.dropout import Dropout

SIZES = ("embedding", "layers", "decoder_layers", "encoder_hidden", "attention")
SWITCHES = ("bidirectional", "bridge", "reversed_source", "shared")
OPTIONAL = ("encoder_hidden", "attention")


@dataclass(frozen=True)
class Design:
    """The options of `encoder_decoder`."""

    cell: Cell
    decoder: Cell
    layers: int
    decoder_layers: int
    embedding: int
    bidirectional: bool
    encoder_hidden: int | None
    bridge: bool
    attention: int | None
    reversed_source: bool
    shared: bool
    dropout: Dropout | None
    head: Callable[[Array, int, int], Dense]

    def __post_init__(self) -> None:
        require_cell(self.cell)
        require_cell(self.decoder)
        sizes = {name: getattr(self, name) for name in SIZES}
        require_sizes(**{name: n for name, n in sizes.items() if n is not None or name not in OPTIONAL})
        require_switches(**{name: getattr(self, name) for name in SWITCHES})
        require_between(self.dropout)
        if not self.bridge and (reason := misfit(self)):
            raise ValueError(f"{reason}, so its state cannot be handed over as it is: give bridge=True")

    @property
    def name(self) -> str:
        """In words."""
        marks = {
            "-bidirectional": self.bidirectional,
            f"-{self.layers}": self.layers > 1,
            f"-to-{self.decoder.name}": True,
            f"-{self.decoder_layers}": self.decoder_layers > 1,
            "-bridge": self.bridge,
            "-attention": self.attention is not None,
            "-reversed": self.reversed_source,
            "-shared": self.shared,
            "-dropout": self.dropout is not None,
        }
        return self.cell.name + "".join(mark for mark, holds in marks.items() if holds)

    @property
    def about(self) -> str:
        """What it is made of, as JSON, cells by their names."""
        options = {name: getattr(self, name) for name in (*SIZES, *SWITCHES)}
        cells = {"cell": self.cell.name, "decoder": self.decoder.name}
        return json.dumps({"body": "encoder_decoder", "cells": cells, "options": options})


def require_between(dropout: Dropout | None) -> None:
    """ValueError for a dropout of anything but what lies between recurrences."""
    if dropout is None:
        return
    if not isinstance(dropout, Dropout):
        raise ValueError(f"dropout must be a Dropout, such as Dropout(between=0.5), got {dropout!r}")
    for name in ("recurrent", "zoneout"):
        if getattr(dropout, name):
            raise ValueError(f"dropout of an encoder-decoder is its between alone, got {name}={getattr(dropout, name)}")


def misfit(design: Design) -> str:
    """Why the encoder's states are not such as the decoder starts from, but for their size; "" where they are."""
    if design.bidirectional:
        return "the encoder runs in both directions, the decoder in one"
    if design.layers != design.decoder_layers:
        return f"the encoder has {design.layers} layers, the decoder {design.decoder_layers}"
    if not same_state(design.cell, design.decoder):
        return f"a {design.cell.name!r} cell's state is not one of {design.decoder.name!r}"
    return ""


def same_state(cell: Cell, decoder: Cell) -> bool:
    """Whether two cells' states are of one structure."""

    def state(cell: Cell) -> Any:
        shapes = jax.eval_shape(partial(drawn_state, cell))
        return jax.tree.structure(shapes), [leaf.shape for leaf in jax.tree.leaves(shapes)]

    return state(cell) == state(decoder)


def drawn_state(cell: Cell) -> State:
    """The start of a small instance of a cell."""
    return cell.start(cell.init(jax.random.key(0), 3, 2))
