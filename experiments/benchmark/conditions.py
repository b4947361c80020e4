"""What a measurement depends on beside its settings: where it is made, and of which sources and versions."""

import hashlib
from pathlib import Path
from typing import Any

import jax

import seqjax
from experiments.benchmark.peers import versions
from experiments.benchmark.worker import PINS, cores
from seqjax.report.store import processor

SOURCES = (Path(seqjax.__file__).parent, Path(__file__).parent)


def conditions() -> dict[str, Any]:
    """The machine, the versions of everyone, and a fingerprint of the sources that are timed and that time them."""
    digest = hashlib.sha256()
    for folder in SOURCES:
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.read_bytes())
    machine = {"device": jax.devices()[0].device_kind, "processor": processor(), "cores": cores()}
    return {**machine, "versions": versions(), "sources": digest.hexdigest()[:12]}


def passes() -> tuple[int, ...]:
    """On how many cores to measure: one alone where a process can be held to it, then all."""
    alone = PINS and jax.default_backend() == "cpu"
    return tuple(sorted({1, cores()} if alone else {cores()}))


def where(count: int) -> dict[str, Any]:
    """The labels of what is measured on so many cores.

    Held to one core, seconds of the processor count: they leave out what other programs take. Elsewhere those of the
    clock do.
    """
    if jax.default_backend() != "cpu":
        return {"place": jax.devices()[0].device_kind, "clock": "wall", "cores": 0}
    held = PINS and count == 1
    return {"place": f"{count} core{'s' * (count > 1)}", "clock": "cpu" if held else "wall", "cores": count}
