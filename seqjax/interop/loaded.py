"""What an importer returns, and which cells have an equal elsewhere."""

from typing import Any, NamedTuple

from seqjax.cells import gru, lstm, rnn
from seqjax.core import Affine, Cell
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


def require_plain(half: Any, where: str, place: str = "") -> None:
    """ValueError unless the params of one layer and direction are an Affine and nothing more."""
    if type(half) is not Affine or half.gain is not None:
        what = "a LayerNorm gain" if type(half) is Affine else type(half).__name__
        raise ValueError(f"params must be plain Affine to have an equal in {where}, got {what}{place}")
