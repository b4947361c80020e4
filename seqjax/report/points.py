"""Finished pieces of an experiment: computed once, and read back ever after."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xarray as xr

from seqjax.aside import aside, discard
from seqjax.checkpoint import Checkpoints
from seqjax.processes import first
from seqjax.report.common import common
from seqjax.report.experiment import Experiment
from seqjax.report.store import fingerprint, read_dataset
from seqjax.train.release import release


@dataclass
class Points:
    """The `point` of an experiment's `run`."""

    experiment: Experiment
    out: Path
    minutes: float = 0.5  # between two checkpoints of a piece
    seconds: list[float] = field(default_factory=list)  # what each piece took when it was computed

    def __call__(self, compute: Callable[[], xr.Dataset], **coordinates: Any) -> xr.Dataset:
        """A piece at its coordinates, stored as soon as it is finished.

        All processes compute it together, process 0 stores it, and all go on with what is stored.
        """
        path = self.path(coordinates)
        stored = common(read_dataset(path) if first() else None, path)
        if stored is None:
            began = time.monotonic()
            stored = compute().load()
            stored.attrs["seconds"] = time.monotonic() - began
            if first():
                with aside(path) as draft:
                    stored.to_netcdf(draft, engine="netcdf4")
            stored = common(stored, path)
            release()
        self.seconds.append(float(stored.attrs["seconds"]))
        return stored

    def resumable(self, compute: Callable[..., xr.Dataset], **coordinates: Any) -> xr.Dataset:
        """A piece that can stop half way: `compute(checkpoints=...)` goes on where a killed run stood."""
        folder = self.path(coordinates).with_suffix(".checkpoints")
        stored = self(lambda: compute(checkpoints=Checkpoints(folder, minutes=self.minutes)), **coordinates)
        if first():
            discard(folder)
        return stored

    def path(self, coordinates: dict[str, Any]) -> Path:
        """Where a piece is stored."""
        return self.out / self.experiment.name / "points" / f"{fingerprint(self.experiment, coordinates)}.nc"
