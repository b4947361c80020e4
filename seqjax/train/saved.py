"""A trained network out of a checkpoint."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from itertools import product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from seqjax.bodies import BODIES
from seqjax.cells import cells_called
from seqjax.checkpoint import about, leaves, name_of, reading
from seqjax.core import Cell, Params
from seqjax.dropout import Dropout
from seqjax.network import Network, network
from seqjax.seq2seq import encoder_decoder

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
    Cells and bodies are known by their names, so this is for those of seqjax. Raises ValueError where there are no
    checkpoints, or none of that step, for a run that is not there, and for a cell or a body that seqjax does not have.
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
    made = rebuilt(said, found)
    if made is None:
        made_with = [said["cell"]] if "cell" in said else list(said.get("cells", {}).values())
        what = f"a cell {' or '.join(map(repr, made_with))}" if made_with else f"a body {said.get('body')!r}"
        raise ValueError(f"{folder} is of {what} that seqjax does not have: restore it by a template")
    return Saved(*made, at)


def about_network(network: Network) -> dict[str, Any]:
    """What a network is beside its sizes, as JSON has it: what it is rebuilt from."""
    return {
        **json.loads(network.body.about),
        "inputs": network.inputs,
        "readout": network.readout,
        "dropout": None if network.dropout is None else asdict(network.dropout),
    }


def rebuilt(said: Mapping[str, Any], found: Mapping[str, np.ndarray]) -> tuple[Network, Params] | None:
    """The network that `about_network` and the sizes D, K and hidden tell of, and its params, out of their leaves by
    name; None where nothing in seqjax has this name and such leaves."""
    for made in candidates(said, found):
        key = jax.random.key(0)
        template = jax.eval_shape(lambda key, made=made: made.init(key, said["D"], said["hidden"], said["K"]), key)
        paths, structure = jax.tree_util.tree_flatten_with_path(template)
        if {name_of(path): leaf.shape for path, leaf in paths} == {name: leaf.shape for name, leaf in found.items()}:
            return made, structure.unflatten(jnp.asarray(found[name_of(path)]) for path, _ in paths)
    return None


def candidates(said: Mapping[str, Any], found: Mapping[str, np.ndarray]) -> list[Network]:
    """The networks that this may tell of, by what it says and by the params."""
    options: dict[str, Any] = {name: said[name] for name in ("inputs", "readout")}
    options["embedding"] = found["embed"].shape[1] if "embed" in found else None
    if said["dropout"] is not None:
        options["dropout"] = Dropout(**said["dropout"])
    if said.get("body") == "encoder_decoder":
        return of_pairs(said, options)
    if "cell" not in said:
        made = {name: tuple(v) if isinstance(v, list) else v for name, v in said.get("options", {}).items()}
        return [BODIES[said["body"]](**made, **options)] if said.get("body") in BODIES else []
    return [made_of(cell, said, found, options) for cell in cells_called(said["cell"])]


def of_pairs(said: Mapping[str, Any], options: Mapping[str, Any]) -> list[Network]:
    """Encoder-decoders."""
    kinds = product(*(cells_called(said["cells"][name]) for name in ("cell", "decoder")))
    given: dict[str, Any] = said["options"] | {"dropout": options.get("dropout")}
    return [encoder_decoder(cell, decoder=decoder, **given) for cell, decoder in kinds]


def made_of(cell: Cell, said: Mapping[str, Any], found: Mapping[str, np.ndarray], options: dict[str, Any]) -> Network:
    """A recurrent network: depth and direction by the params."""
    return network(
        cell,
        layers=len({name.split(".")[1] for name in found if name.startswith("body.")}),
        bidirectional=any(".backward." in name for name in found),
        residual=said["residual"],
        **options,
    )
