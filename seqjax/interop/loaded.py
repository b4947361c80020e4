"""What an importer returns, and which cells have an equal elsewhere."""

from typing import NamedTuple

from seqjax.cells import gru, lstm, rnn
from seqjax.core import Cell
from seqjax.stack import Layer

EXPORTED = {cell.name: cell for cell in (rnn(), rnn(activation="relu"), lstm(), gru())}


class Loaded(NamedTuple):
    """A recurrent stack from elsewhere: `unroll_stack(cell, params, xs)` gives the numbers it gave there."""

    cell: Cell
    params: tuple[Layer, ...]


def exported(cell: Cell, where: str) -> str:
    """The name in EXPORTED of a cell's equation, whatever the cell is called; ValueError where it has no equal."""
    for name, known in EXPORTED.items():
        if all(getattr(cell, part) is getattr(known, part) for part in ("project", "recur", "update", "read")):
            return name
    raise ValueError(f"cell must be one of {list(EXPORTED)} to have an equal in {where}, got {cell.name!r}")
