"""What an importer returns."""

from typing import NamedTuple

from seqjax.core import Cell
from seqjax.stack import Layer


class Loaded(NamedTuple):
    """A recurrent stack from elsewhere: `unroll_stack(cell, params, xs)` gives the numbers it gave there."""

    cell: Cell
    params: tuple[Layer, ...]
