"""Trees on disk, by orbax: saved on the way, beside the training, and read back leaf by leaf or not at all.

    FOLDER/<step>/    one checkpoint: every leaf under its own name, and what the run was, as JSON

orbax writes a step aside and renames it when it is whole. It casts on reading and turns containers into others (orbax
issues 2972, 2561), so what is read is compared with a template first.
"""

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from seqjax.core import require_sizes

if TYPE_CHECKING:
    from orbax.checkpoint import CheckpointManager
    from orbax.checkpoint.options import MultiprocessingOptions

FORMAT = 1  # of what is written; raised where older checkpoints could not be read as they were meant
PATIENCE = 600  # seconds in which a save that runs beside the training has to end


@dataclass(frozen=True)
class Checkpoints:
    """Where a training is saved on its way, how often, and how many are kept.

    updates, minutes  save where so many updates, or minutes, have passed since the last time; None for not by that
    keep              the latest so many stay, and the one of the lowest loss
    Saves fall on the end of a chunk of 100 updates, and on the end of the run.
    """

    folder: str | os.PathLike[str]
    updates: int | None = None
    minutes: float | None = 0.5
    keep: int = 2

    def __post_init__(self) -> None:
        require_sizes(keep=self.keep, **({} if self.updates is None else {"updates": self.updates}))
        if self.minutes is not None and not self.minutes >= 0:
            raise ValueError(f"minutes between checkpoints must be at least 0, or None, got {self.minutes}")


@dataclass
class Saver:
    """Checkpoints of one run, open for reading and writing; made by `opened`."""

    at: Checkpoints
    manager: "CheckpointManager"
    about: Mapping[str, Any]  # what the run is, in what JSON has
    last: tuple[int, float] = field(default_factory=lambda: (0, time.monotonic()))  # step and time of the last save

    def due(self, step: int) -> bool:
        """Whether it is time to save again."""
        updates, seconds = step - self.last[0], time.monotonic() - self.last[1]
        enough = self.at.updates is not None and updates >= self.at.updates
        return enough or (self.at.minutes is not None and seconds >= 60 * self.at.minutes)

    def save(self, step: int, tree: Any, *, loss: float) -> None:
        """Write a tree beside the training. What goes wrong is raised by the next save, or at the end."""
        from orbax.checkpoint import args

        leaves = named(tree)
        about = {**self.about, "format": FORMAT, "leaves": {name: kind(leaf) for name, leaf in leaves.items()}}
        items = args.Composite(tree=args.StandardSave(leaves), about=args.JsonSave(about))
        metrics = {"loss": loss if np.isfinite(loss) else float("inf")}
        with said_of(self.at.folder):
            self.manager.save(step, args=items, metrics=metrics, force=True)
        self.last = (step, time.monotonic())

    def latest(self) -> int | None:
        """The last step that is whole."""
        return self.manager.latest_step()

    def restore(self, step: int, like: Any) -> Any:
        """The tree of a step, on the host, in the structure of the template `like`.

        ValueError names the first thing that is said about the run, or the first leaf, that differs from what is there.
        """
        require_same(self.at.folder, self.about, about(self.manager, step))
        self.last = (step, time.monotonic())
        return restored(self.manager, step, like)


@contextmanager
def opened(at: Checkpoints, about: Mapping[str, Any]) -> Iterator[Saver]:
    """Checkpoints of a run; at the end all of them are on disk. ValueError where the folder cannot be written."""
    from orbax.checkpoint import AsyncOptions, CheckpointManager, CheckpointManagerOptions
    from orbax.checkpoint.checkpoint_managers import AnyPreservationPolicy, BestN, LatestN

    best = BestN(get_metric_fn=lambda found: found["loss"], reverse=True, n=1)
    kept, patience = AnyPreservationPolicy([LatestN(at.keep), best]), AsyncOptions(timeout_secs=PATIENCE)
    options = CheckpointManagerOptions(
        preservation_policy=kept, async_options=patience, create=False, multiprocessing_options=alone()
    )
    with said_of(at.folder):
        Path(at.folder).mkdir(parents=True, exist_ok=True)
        manager = CheckpointManager(Path(at.folder).resolve(), options=options)
    try:
        yield Saver(at, manager, about)
        with said_of(at.folder):
            manager.wait_until_finished()
    finally:
        with suppress(Exception):  # of which the reason is on its way already
            manager.close()


def alone() -> "MultiprocessingOptions":
    """For orbax: that of many processes, this one alone reads and writes."""
    from orbax.checkpoint.options import MultiprocessingOptions

    if jax.process_count() == 1:
        return MultiprocessingOptions()
    own = jax.process_index()
    return MultiprocessingOptions(primary_host=own, active_processes={own}, barrier_sync_key_prefix=f"only{own}")


@contextmanager
def said_of(folder: str | os.PathLike[str]) -> Iterator[None]:
    """A full disk, a folder without permission and the like as a ValueError that names the folder."""
    try:
        yield
    except (OSError, ValueError) as error:
        told = re.search(r"([^:]+) \[os_error_code", str(error))  # as tensorstore tells it, in a ValueError
        if isinstance(error, ValueError) and told is None:
            raise
        reason = told[1].strip() if told else getattr(error, "strerror", None) or error
        raise ValueError(
            f"checkpoints cannot be written to {folder} ({reason}): earlier ones are kept, and a run goes on from them"
        ) from error


@contextmanager
def reading(folder: str | os.PathLike[str]) -> Iterator["CheckpointManager"]:
    """The checkpoints of a folder, for reading; ValueError where there are none."""
    from orbax.checkpoint import CheckpointManager, CheckpointManagerOptions

    if not any((path / "about").is_dir() for path in Path(folder).glob("[0-9]*")):
        raise ValueError(f"{folder} holds no checkpoints: name the folder that a training was given")
    with CheckpointManager(Path(folder).resolve(), options=CheckpointManagerOptions(read_only=True)) as manager:
        yield manager


def about(manager: "CheckpointManager", step: int) -> dict[str, Any]:
    """What a checkpoint says of its run; ValueError for one of another format."""
    from orbax.checkpoint import args

    found = part(manager, step, "about", args.JsonRestore())
    if found.get("format") != FORMAT:
        raise ValueError(
            f"{place(manager, step)} has format {found.get('format')}, this seqjax reads {FORMAT}: use the one that "
            "wrote it"
        )
    return found


def restored(manager: "CheckpointManager", step: int, like: Any) -> Any:
    """The leaves of one checkpoint in the structure of a template; ValueError names the first that differs."""
    paths, structure = jax.tree_util.tree_flatten_with_path(like)
    wanted = {name_of(path): jax.eval_shape(plain, leaf) for path, leaf in paths}
    said = about(manager, step)
    require_leaves(place(manager, step), said["leaves"], wanted)
    found = leaves(manager, step, said)
    return structure.unflatten(as_before(found[name_of(path)], leaf) for path, leaf in paths)


def leaves(manager: "CheckpointManager", step: int, said: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Every leaf of one checkpoint, by its place, as it says itself."""
    from orbax.checkpoint import args

    blank = {name: np.empty(*kind) for name, kind in said["leaves"].items()}
    return part(manager, step, "tree", args.StandardRestore(blank))


def part(manager: "CheckpointManager", step: int, name: str, how: Any) -> Any:
    """One part of a checkpoint; ValueError where it is not as it was saved."""
    from orbax.checkpoint import args

    try:
        return manager.restore(step, args=args.Composite(**{name: how}))[name]
    except Exception as error:  # orbax, tensorstore and JSON have errors of their own, of many lines
        where, kind = place(manager, step), type(error).__name__
        raise ValueError(f"{where} is not as it was saved ({kind}): remove it to go on from what was before") from error


def place(manager: "CheckpointManager", step: int) -> str:
    """The folder of one checkpoint."""
    return f"{manager.directory}/{step}"


def require_leaves(where: str, stored: Mapping[str, list], wanted: Mapping[str, Any]) -> None:
    """ValueError for the first leaf that is missing, too many, or of another shape or dtype."""
    for name in [*wanted, *stored]:
        there, here = stored.get(name), kind(wanted[name]) if name in wanted else None
        if there != here:
            given, asked = (f"{each[1]} {each[0]}" if each else "nothing" for each in (there, here))
            raise ValueError(f"{where} holds {given} as {name}, and {asked} is asked for: it is another run's")


def require_same(folder: str | os.PathLike[str], ours: Mapping[str, Any], its: Mapping[str, Any]) -> None:
    """ValueError for the first thing about a run that is another in a checkpoint."""
    for name, value in ours.items():
        if its.get(name) != value:
            raise ValueError(
                f"checkpoints in {folder} are of a run with {name} {its.get(name)!r}, this one has {value!r}: "
                "give each run a folder of its own"
            )


def named(tree: Any) -> dict[str, np.ndarray]:
    """Every leaf on the host, by its place in the tree."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {name_of(path): np.asarray(plain(leaf)) for path, leaf in leaves}


def name_of(path: Any) -> str:
    """A leaf's place, such as params.body.0.forward.W_hh."""
    return jax.tree_util.keystr(path, simple=True, separator=".")


def kind(leaf: Any) -> list:
    """Shape and dtype, as JSON has them."""
    return [list(leaf.shape), str(leaf.dtype)]


def is_key(leaf: Any) -> bool:
    """Whether an array holds typed PRNG keys."""
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def plain(leaf: Any) -> Any:
    """Keys as their numbers, other arrays as they are."""
    return jax.random.key_data(leaf) if is_key(leaf) else leaf


def as_before(found: Any, like: Any) -> Any:
    """Numbers as keys where the template has keys."""
    return jax.random.wrap_key_data(found, impl=jax.random.key_impl(like)) if is_key(like) else found
