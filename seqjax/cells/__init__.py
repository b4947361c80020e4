"""Every cell the package knows, by name; one family per file."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from seqjax.cells.accumulators import running_max, running_mean, running_sum
from seqjax.cells.gates import memory
from seqjax.cells.gru import gru
from seqjax.cells.linear import linear, one_pole
from seqjax.cells.lru import lru
from seqjax.cells.lstm import lstm
from seqjax.cells.mgu import mgu
from seqjax.cells.mingru import mingru
from seqjax.cells.rnn import rnn
from seqjax.cells.variants import VARIANTS, variant
from seqjax.core import Cell

CELLS: dict[str, Callable[..., Cell]] = {
    "running-sum": running_sum,
    "running-mean": running_mean,
    "running-max": running_max,
    "one-pole": one_pole,
    "linear": linear,
    "rnn": rnn,
    "lstm": lstm,
    "gru": gru,
    "memory": memory,
    "lru": lru,
    "mgu": mgu,
    "mingru": mingru,
    **{f"lstm-{name}": partial(variant, name) for name in VARIANTS},
}


def cell_named(name: str) -> Callable[..., Cell]:
    """The factory of a cell; ValueError lists the known names."""
    if name not in CELLS:
        raise ValueError(f"unknown cell {name!r}: known cells are {', '.join(sorted(CELLS))}")
    return CELLS[name]


MARKS = {
    "relu": "activation",
    "norm": "norm",
    "peephole": "peephole",
    "coupled": "coupled",
    "reset-before": "reset_after",
}
VALUES = {"relu": "relu", "norm": "layer", "peephole": True, "coupled": True, "reset-before": False}


def cells_called(name: str) -> list[Cell]:
    """The cells whose `name` this is, apart from how they are drawn: `rnn-relu` is `rnn(activation="relu")`."""
    base, marks = name.partition("-")[0], f"{name.partition('-')[2]}-"
    options = {MARKS[mark]: value for mark, value in VALUES.items() if f"{mark}-" in marks}
    made = [CELLS[name]()] if name in CELLS else []
    with suppress(TypeError):  # an option that the base has not
        made += [CELLS[base](**options)] if base in CELLS and options else []
    return [cell for cell in made if cell.name == name]
