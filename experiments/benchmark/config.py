"""Settings of the benchmark."""

from dataclasses import dataclass
from typing import Any

from experiments.benchmark.peers import CELLS
from experiments.models import require_known
from seqjax.core import require_sizes

AXES = ("T", "H", "B", "S")
PARTS = ("layer", "sweep", "stream", "pairs", "probe", "growth")


@dataclass(frozen=True)
class Config:
    """Settings; the defaults are those that the targets are about. A size is B T D H."""

    parts: tuple[str, ...] = PARTS
    cells: tuple[str, ...] = CELLS
    sizes: tuple[tuple[int, int, int, int], ...] = (
        (64, 50, 8, 32),
        (32, 100, 64, 64),
        (32, 100, 128, 128),
        (32, 100, 256, 256),
        (32, 100, 300, 512),
    )
    training: tuple[int, ...] = (32, 128)
    """H of the sizes at which a whole training step is timed too."""
    judged: tuple[str, ...] = ("lstm", "gru")
    """Cells that the claims are about: they alone are also timed on all cores, in sweeps and event by event."""
    sweep_seeds: int = 16
    sweep_length: int = 50
    sweep_updates: int = 20
    streamed: tuple[int, ...] = (32, 256)
    """H of the layers that are stepped alone."""
    pairs: tuple[tuple[int, int, int], ...] = ((64, 12, 128), (128, 12, 256))
    """B T H of the encoder-decoders."""
    probe_length: int = 1000
    probe_hidden: int = 64
    growth: tuple[str, ...] = AXES
    """Along which sizes growth is measured."""
    growth_base: tuple[int, int, int, int] = (32, 100, 64, 64)
    growth_T: tuple[int, ...] = (20, 63, 200, 632, 2000)
    growth_H: tuple[int, ...] = (8, 25, 80, 253, 800)
    growth_B: tuple[int, ...] = (1, 3, 10, 32, 100)
    growth_S: tuple[int, ...] = (1, 3, 10, 32, 100)
    both: bool = True
    """Whether gradients and sweeps are timed on all cores; else all is on one, where a process can be held to one."""
    rounds: int = 5
    """Of every candidate, at least."""
    seconds: float = 1.0
    """More rounds are timed while a case has taken less."""


QUICK: dict[str, Any] = {
    "cells": ("lstm",),
    "sizes": ((2, 3, 4, 5),),
    "training": (),
    "judged": ("lstm",),
    "sweep_seeds": 2,
    "sweep_length": 3,
    "sweep_updates": 2,
    "streamed": (5,),
    "pairs": ((2, 3, 4),),
    "probe_length": 5,
    "probe_hidden": 4,
    "growth": ("T",),
    "growth_base": (2, 3, 4, 5),
    "growth_T": (2, 4),
    "both": False,
    "rounds": 2,
    "seconds": 0.0,
}


def check(config: Config) -> None:
    """ValueError for settings that cannot be run."""
    require_known("parts", config.parts, PARTS)
    require_known("cells", config.cells, CELLS)
    require_known("growth", config.growth, AXES)
    require_known("judged", config.judged, CELLS)
    lists = ("training", "streamed", *(f"growth_{axis}" for axis in ("base", *AXES)))
    flat = {f"{name}[{i}]": size for name in lists for i, size in enumerate(getattr(config, name))}
    flat |= {
        f"sizes[{i}].{name}": n for i, size in enumerate(config.sizes) for name, n in zip("BTDH", size, strict=True)
    }
    flat |= {
        f"pairs[{i}].{name}": n for i, size in enumerate(config.pairs) for name, n in zip("BTH", size, strict=True)
    }
    single = ("sweep_seeds", "sweep_length", "sweep_updates", "probe_length", "probe_hidden", "rounds")
    require_sizes(**flat, **{name: getattr(config, name) for name in single})
    for axis in AXES:
        if len(set(getattr(config, f"growth_{axis}"))) < 2:
            raise ValueError(f"growth_{axis} must name at least two sizes to fit a slope to")
    if not 0 <= config.seconds < float("inf"):
        raise ValueError(f"seconds must be 0 or more, and finite, got {config.seconds}")
