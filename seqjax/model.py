"""A network trained on events in a folder, with all that it takes to use it, and nothing that is ever run.

FOLDER/weights.safetensors    every array of the params, by its place, such as body.0.forward.W_hh
FOLDER/model.json             the network, the encoding, the question, versions, and the checksums of both files
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np

from seqjax.aside import aside
from seqjax.checkpoint import name_of
from seqjax.events import Encoding, Question
from seqjax.interop.tensors import read_safetensors, write
from seqjax.network import Network, NetworkParams, require_recurrent
from seqjax.train.saved import about_network, rebuilt
from seqjax.versions import version

FORMAT = 1  # of what is written; raised where older folders could not be read as they were meant
WEIGHTS, SPEC = "weights.safetensors", "model.json"


@dataclass(frozen=True, eq=False)
class Model:
    """A network trained on events, and all that it takes to use it.

    network   of vectors, one direction; reads "last" for a question asked once a sequence, "every" for one per event
    answer    mean and standard deviation by which a regression's targets were standardised; (0, 1) for classes
    about     for people, in what JSON has: settings, scores; not looked at
    Raises ValueError for parts that do not fit each other.
    """

    network: Network
    params: NetworkParams
    encoding: Encoding
    question: Question
    answer: tuple[float, float] = (0.0, 1.0)
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        network, readout = self.network, "every" if self.question.per_event else "last"
        require_recurrent(network, "a model of events")
        if network.inputs != "vector" or network.readout != readout:
            raise ValueError(f'network must have inputs="vector" and readout="{readout}" here, got {network!r}')
        if any(layer.backward is not None for layer in self.params.body):
            raise ValueError("network must be of one direction: a backward half would need events still to come")
        for what, ours, its in (
            ("inputs, the encoding's columns", self.params.body[0].forward.W_ih.shape[1], self.encoding.D),
            ("outputs, one per class or one number", self.params.head.b.shape[0], self.question.K),
        ):
            if ours != its:
                raise ValueError(f"params must have {its} {what}, got {ours}")
        mean, sd = self.answer
        if not (np.isfinite(mean) and 0 < sd < np.inf) or (self.question.classes and self.answer != (0, 1)):
            raise ValueError(f"answer must be a mean and a deviation above 0, for classes (0, 1), got {self.answer}")

    @property
    def hidden(self) -> int:
        """Units of a layer."""
        cell, first = self.network.cell, self.params.body[0].forward
        return jax.eval_shape(lambda p: cell.read(p, cell.start(p)), first).shape[0]

    def weights(self) -> dict[str, np.ndarray]:
        """Every array of the params, by its place."""
        return {name_of(path): np.asarray(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(self.params)}

    def checksum(self) -> str:
        """SHA-256 of the weights: of their names, dtypes, shapes and bytes."""
        found = hashlib.sha256()
        for name, array in sorted(self.weights().items()):
            found.update(f"{name} {array.dtype} {array.shape} ".encode() + array.tobytes())
        return found.hexdigest()


def save_model(folder: str | os.PathLike[str], model: Model) -> None:
    """Write a folder, new or empty or of a model before, which it replaces; whole or not at all.

    ValueError for a folder that holds other things or cannot be written, for a cell that is not one of seqjax's, from
    whose name it could not be rebuilt, and for an `about` that JSON cannot hold.
    """
    folder = Path(folder).resolve()
    weights, network = model.weights(), said_of(model)
    if rebuilt(network, weights) is None:
        raise ValueError(f"network must be of a cell of seqjax, as it is rebuilt from its name, got {model.network!r}")
    if folder.exists() and not (folder.is_dir() and {path.name for path in folder.iterdir()} <= {WEIGHTS, SPEC}):
        raise ValueError(f"{folder} holds other things: name a new folder, or one of a model alone")
    try:
        with aside(folder) as draft:
            draft.mkdir()
            write(draft / WEIGHTS, weights)
            sums = {WEIGHTS: sha256((draft / WEIGHTS).read_bytes()), SPEC: ""}
            (draft / SPEC).write_bytes(signed(model, network, sums))
    except OSError as error:
        raise ValueError(f"{folder} cannot be written ({error.strerror or error})") from None


def said_of(model: Model) -> dict[str, Any]:
    """What the network is rebuilt from."""
    sizes = {"layers": len(model.params.body), "hidden": model.hidden, "D": model.encoding.D, "K": model.question.K}
    return about_network(model.network) | sizes


def signed(model: Model, network: Mapping[str, Any], sums: dict[str, str]) -> bytes:
    """The bytes of model.json; its own checksum is that of the same bytes without it."""
    content = {
        "format": FORMAT,
        "checksums": sums,
        "versions": {name: version(name) for name in ("seqjax", "jax")},
        "network": network,
        "question": asdict(model.question),
        "answer": list(model.answer),
        "encoding": asdict(model.encoding),
        "about": dict(model.about),
    }
    try:
        text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise ValueError(f"about must hold what JSON can: {error}") from None
    blank = f'"{SPEC}": "'
    return text.replace(blank, blank + sha256(text.encode()), 1).encode()


def load_model(folder: str | os.PathLike[str]) -> Model:
    """The model of a folder.

    ValueError of one line for what is not the folder of a model, for one of another format, for a file that is not as
    it was saved, and for weights that this process would cast.
    """
    folder = Path(folder)
    if not (folder / SPEC).is_file() or not (folder / WEIGHTS).is_file():
        raise ValueError(f"{folder} is not the folder of a model: it has no {SPEC} and {WEIGHTS}")
    said = checked(folder)
    weights = read_safetensors(folder / WEIGHTS)
    if any(jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype for array in weights.values()):
        raise ValueError(f"{folder} has float64 weights: set jax_enable_x64, as where it was trained")
    made = rebuilt(said["network"], weights)
    if made is None:
        raise ValueError(f"{folder} is of a cell {said['network']['cell']!r} that this seqjax does not have")
    encoding, question = (json.dumps(said[name]) for name in ("encoding", "question"))
    mean, sd = said["answer"]
    return Model(*made, Encoding.from_json(encoding), Question.from_json(question), (mean, sd), said["about"])


def checked(folder: Path) -> dict[str, Any]:
    """What model.json says; ValueError unless it is of this format and both files are as they were saved."""
    try:
        raw, weights = (folder / SPEC).read_bytes(), (folder / WEIGHTS).read_bytes()
    except OSError as error:
        raise ValueError(f"{folder} cannot be read ({error.strerror or error})") from None
    try:
        said = json.loads(raw)
        form, sums = said["format"], (str(said["checksums"][SPEC]), str(said["checksums"][WEIGHTS]))
        by = dict(said.get("versions", {})).get("seqjax", "of another version")
    except (ValueError, KeyError, TypeError, RecursionError):
        raise changed(folder / SPEC) from None
    if form != FORMAT:
        raise ValueError(f"{folder} has format {form}, this seqjax reads {FORMAT}: use the seqjax that wrote it, {by}")
    if sha256(raw.replace(sums[0].encode(), b"", 1)) != sums[0]:
        raise changed(folder / SPEC)
    if sha256(weights) != sums[1]:
        raise changed(folder / WEIGHTS)
    return said


def changed(path: Path) -> ValueError:
    """The error of a file that is not as it was saved."""
    return ValueError(f"{path} is not as it was saved, by its checksum: restore the folder, or train again")


def sha256(content: bytes) -> str:
    """The checksum of bytes."""
    return hashlib.sha256(content).hexdigest()
