"""The states of many sequences in one file: a .safetensors of arrays, and their ids and times as JSON among them."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from seqjax.aside import aside
from seqjax.model import Model
from seqjax.serving.slab import Slab

FORMAT = 1  # of what is written; raised where older files could not be read as they were meant


def save(path: Path, model: Model, slab: Slab) -> None:
    """Write the states, the least recent first; ValueError where the file cannot be written."""
    from safetensors.numpy import save as packed

    rows = list(slab.rows.values())
    said = {
        "format": FORMAT,
        "model": model.checksum(),
        "ids": list(slab.rows),
        "ticks": [slab.ticks[row] for row in rows],
        "forgotten": slab.forgotten,
    }
    arrays = {"about": np.frombuffer(json.dumps(said).encode(), np.uint8), "events": slab.events[rows]}
    arrays |= {f"state.{i}": states[rows] for i, states in enumerate(slab.states)}
    if not path.parent.is_dir() or path.is_dir():
        raise ValueError(f"states cannot be written to {path}: name a file in a folder that is there")
    try:
        with aside(path) as draft:
            draft.write_bytes(packed(arrays, metadata={"sha256": checksum(arrays)}))
    except OSError as error:
        raise ValueError(f"states cannot be written to {path} ({error.strerror or error})") from None


def checksum(arrays: dict[str, np.ndarray]) -> str:
    """SHA-256 of the names, dtypes, shapes and bytes of arrays."""
    found = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        found.update(f"{name} {array.dtype} {array.shape} ".encode() + array.tobytes())
    return found.hexdigest()


def restored(path: Path, model: Model, slab: Slab) -> Slab:
    """An empty slab, filled from a file; ValueError for what is not that of this model, or not as it was saved."""
    said, arrays = read(path)
    if said["format"] != FORMAT:
        raise ValueError(f"{path} has format {said['format']}, this seqjax reads {FORMAT}: use the one that wrote it")
    if said["model"] != model.checksum():
        raise ValueError(f"{path} holds the states of another model, by the checksum of its weights: name another file")
    first = max(0, len(said["ids"]) - (slab.limit or len(said["ids"])))
    slab.forgotten = said["forgotten"] + first
    ids, states = said["ids"][first:], [arrays[f"state.{i}"][first:] for i in range(len(slab.states))]
    slab.put(ids, states, said["ticks"][first:])
    slab.events[list(slab.rows.values())] = arrays["events"][first:]
    return slab


def read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What a file says and its arrays; ValueError unless they are as they were saved."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise ValueError(f"states {path} are not there: name a file that was saved")
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            wanted = (file.metadata() or {}).get("sha256")
    except OSError as error:
        raise ValueError(f"states {path} cannot be read ({error.strerror or error})") from None
    except SafetensorError:
        wanted, arrays = None, {}
    if wanted is None or checksum(arrays) != wanted:
        raise ValueError(f"states {path} are not as they were saved, by their checksum: restore the file or remove it")
    return json.loads(arrays["about"].tobytes()), arrays
