"""Results on disk: finished pieces and finished runs, written aside and renamed, so that none is ever half there.

runs/<experiment>/points/<hash>.nc    one finished piece of work
runs/<experiment>/<hash>/             config.json, result.nc, claims.json, table.json, figure.svg, figure.png,
                                          environment.json
"""

import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import warnings
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
import xarray as xr

from seqjax.aside import aside, discard
from seqjax.report.experiment import Claim, Experiment
from seqjax.versions import version

JSON = ("config.json", "claims.json", "table.json", "environment.json")
WHERE = ("finished", "seconds", "device", "processor", "cores", "python", "versions", "commit")
FILES = (*JSON, "result.nc", "figure.svg", "figure.png")


@dataclass(frozen=True)
class Run:
    """A finished run, as read back from its folder."""

    folder: Path
    config: dict[str, Any]
    claims: list[Claim]
    table: list[dict[str, str]]
    environment: dict[str, Any]


def fingerprint(experiment: Experiment, content: Any) -> str:
    """A short hash of what determines a result: the experiment, its version, and its settings or coordinates."""
    text = json.dumps([experiment.name, experiment.version, content], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def require_writable(out: Path) -> None:
    """Make the folder `out`; ValueError where it cannot be made or written to."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out).close()
    except OSError as error:
        raise ValueError(f"--out {out} cannot be written to ({error.strerror}): choose a folder that can") from None


def read_dataset(path: Path) -> xr.Dataset | None:
    """A stored dataset; None where there is none, and with a warning where it cannot be read."""
    if not path.exists():
        return None
    try:
        with xr.open_dataset(path, engine="netcdf4") as dataset:
            float(dataset.attrs["seconds"])
            return dataset.load()
    except Exception as error:  # whatever a damaged file makes the reader raise
        warnings.warn(f"{path} cannot be read and is computed again ({error})", stacklevel=2)
        discard(path)
        return None


def write_run(
    experiment: Experiment,
    config: Any,
    dataset: xr.Dataset,
    claims: list[Claim],
    rows: list[dict[str, str]],
    figure: Any,
    seconds: float,
    out: Path,
) -> Path:
    """Write a finished run's folder in one move; an earlier one of the same settings is replaced."""
    folder = out / experiment.name / fingerprint(experiment, asdict(config))
    contents = (asdict(config), [asdict(claim) for claim in claims], rows, environment(seconds))
    with aside(folder) as draft:
        draft.mkdir()
        for name, content in zip(JSON, contents, strict=True):
            write_json(draft / name, content)
        dataset.to_netcdf(draft / "result.nc", engine="netcdf4")
        figure.savefig(draft / "figure.svg")
        figure.savefig(draft / "figure.png", dpi=150)
    return folder


def write_json(path: Path, content: Any) -> None:
    """Indented UTF-8."""
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def environment(seconds: float) -> dict[str, Any]:
    """Where and when a run was made."""
    packages = ("seqjax", "jax", "jaxlib", "optax", "numpy")
    values = (
        datetime.now(UTC).isoformat(timespec="microseconds"),
        round(seconds, 1),
        f"{jax.device_count()} x {jax.devices()[0].device_kind}",
        processor(),
        os.cpu_count(),
        sys.version.split()[0],
        {name: version(name) for name in packages},
        commit(),
    )
    return dict(zip(WHERE, values, strict=True))


def processor() -> str:
    """The processor's name, as far as the system tells."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def commit() -> str | None:
    """The git commit of this source tree, marked where it has changes; None outside a checkout."""
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12", "--match="]
    try:
        return subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def read_runs(out: Path) -> list[Run]:
    """Every finished run under `out`, newest first; folders that cannot be read are named in a warning."""
    runs = []
    for folder in sorted(path for path in out.glob("*/*") if path.is_dir() and path.name != "points"):
        if folder.name.startswith("."):
            continue
        try:
            runs.append(read_run(folder))
        except (OSError, ValueError, TypeError) as error:
            warnings.warn(f"{folder} cannot be read and is left out ({error})", stacklevel=2)
    return sorted(runs, key=lambda run: run.environment["finished"], reverse=True)


def read_run(folder: Path) -> Run:
    """A run's folder; ValueError where a file is missing or holds something else."""
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise ValueError(f"{', '.join(missing)} missing")
    config, claims, table, where = (json.loads((folder / name).read_text(encoding="utf-8")) for name in JSON)
    rows = isinstance(table, list) and all(isinstance(row, dict) for row in table)
    if not (isinstance(config, dict) and rows and isinstance(where, dict) and set(where) >= set(WHERE)):
        raise ValueError("its JSON is not that of a run")
    table = [{str(name): str(value) for name, value in row.items()} for row in table]
    return Run(folder, config, [Claim(**claim) for claim in claims], table, where)
