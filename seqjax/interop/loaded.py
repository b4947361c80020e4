"""What an importer returns, and which cells have an equal elsewhere."""

from typing import NamedTuple

from seqjax.cells import gru, lstm, rnn
from seqjax.core import Cell
from seqjax.stack import Layer

EQUATION = ("project", "recur", "update", "read")
EXPORTED = {cell.name: cell for cell in (rnn(), rnn(activation="relu"), lstm(), gru())}


class Loaded(NamedTuple):
    """A recurrent stack from elsewhere: `unroll_stack(cell, params, xs)` gives the numbers it gave there."""

    cell: Cell
    params: tuple[Layer, ...]


def exported(cell: Cell, where: str) -> str:
    """The name of a cell in EXPORTED; ValueError where its equation is not that of the cell of this name."""
    known = EXPORTED.get(cell.name)
    if known is None or any(getattr(cell, part) is not getattr(known, part) for part in EQUATION):
        raise ValueError(f"cell must be one of {list(EXPORTED)} to have an equal in {where}, got {cell.name!r}")
    return cell.name
