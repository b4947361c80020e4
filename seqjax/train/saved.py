"""A trained network out of a checkpoint."""

import os
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from seqjax.cells import cells_called
from seqjax.checkpoint import about, leaves, name_of, reading
from seqjax.core import Cell, Params
from seqjax.dropout import Dropout
from seqjax.network import Network, network

PARAMS = "0.params."  # where a training's checkpoint holds them


class Saved(NamedTuple):
    """One run of a training at one step."""

    network: Network
    params: Params
    step: int


def saved(folder: str | os.PathLike[str], *, run: int = 0, step: int | None = None) -> Saved:
    """The network and the params of one run of a training, in the folder that `Checkpoints` gave it.

    run   which of the runs, in their order
    step  updates done; None is the last that was saved
    Cells are known by their names, so this is for those of seqjax. Raises ValueError where there are no checkpoints, or
    none of that step, for a run that is not there, and for a cell that seqjax does not have.
    """
    with reading(folder) as manager:
        steps = sorted(manager.all_steps())
        at = steps[-1] if step is None else step
        if at not in steps:
            raise ValueError(f"{folder} holds checkpoints of the steps {steps}, got step {step}")
        said = about(manager, at)
        found = leaves(manager, at, said)
    found = {name.removeprefix(PARAMS): leaf for name, leaf in found.items() if name.startswith(PARAMS)}
    if not 0 <= run < len(said["keys"]):
        raise ValueError(f"{folder} holds runs 0..{len(said['keys']) - 1}, got run {run}")
    found = {name: leaf[run] for name, leaf in found.items()}
    for made in (made_of(cell, said, found) for cell in cells_called(said["cell"])):
        key = jax.random.key(0)
        template = jax.eval_shape(lambda key, made=made: made.init(key, said["D"], said["hidden"], said["K"]), key)
        paths, structure = jax.tree_util.tree_flatten_with_path(template)
        if {name_of(path): leaf.shape for path, leaf in paths} == {name: leaf.shape for name, leaf in found.items()}:
            return Saved(made, structure.unflatten(jnp.asarray(found[name_of(path)]) for path, _ in paths), at)
    raise ValueError(f"{folder} is of a cell {said['cell']!r} that seqjax does not have: restore it by a template")


def made_of(cell: Cell, said: dict[str, Any], found: dict[str, np.ndarray]) -> Network:
    """The network that a checkpoint tells of: depth, direction and embedding by its params."""
    dropout = None if said["dropout"] is None else Dropout(**said["dropout"])
    return network(
        cell,
        inputs=said["inputs"],
        readout=said["readout"],
        layers=len({name.split(".")[1] for name in found if name.startswith("body.")}),
        bidirectional=any(".backward." in name for name in found),
        embedding=found["embed"].shape[1] if "embed" in found else None,
        residual=said["residual"],
        dropout=dropout,
    )
