"""The work of a run in pieces, each done by one process and stored by itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from experiments.benchmark.config import Config


@dataclass(frozen=True)
class Piece:
    """A job, its settings, on how many cores it is done, and a title."""

    title: str
    cores: int
    job: str
    settings: dict[str, Any]


def pieces(config: Config, cores: Sequence[int]) -> list[Piece]:
    """In the order in which they are done: all of those on one core, then those on all of them.

    Sweeps take all cores, all else one; gradients, which all training consists of, are timed on both.
    """
    few, many = cores[0], cores[-1]
    parts = {
        "layer": [piece for count in cores for piece in layers(config, count, alone=count == few)],
        "sweep": sweeps(config, many),
        "stream": streams(config, few),
        "pairs": pairs(config, few),
        "probe": [probe(config, few)],
        "growth": growths(config, few),
    }
    return sorted((piece for part in config.parts for piece in parts[part]), key=lambda piece: piece.cores)


def timing(config: Config) -> dict[str, Any]:
    """How long to measure."""
    return {"rounds": config.rounds, "seconds": config.seconds}


def judged(config: Config) -> list[str]:
    """Of the cells, those that the claims are about."""
    return [cell for cell in config.cells if cell in config.judged]


def layers(config: Config, cores: int, *, alone: bool) -> list[Piece]:
    """Every size: all there is to time of every cell, or the gradient of the judged ones."""
    found = []
    for size in config.sizes:
        sizes = dict(zip("BTDH", size, strict=True))
        kinds = (
            ("forward", "gradient", *(["training"] if size[-1] in config.training else [])) if alone else ("gradient",)
        )
        for cell in config.cells if alone else judged(config):
            title = f"{cell}, H = {size[-1]}, cores: {cores}"
            found.append(Piece(title, cores, "layer", {"cell": cell, **sizes, "kinds": kinds, **timing(config)}))
    return found


def sweeps(config: Config, cores: int) -> list[Piece]:
    """Sweeps of recall."""
    sizes = {"T": config.sweep_length, "S": config.sweep_seeds, "updates": config.sweep_updates}
    return [
        Piece(f"sweep of {cell}", cores, "sweep", {"cell": cell, **sizes, **timing(config)}) for cell in judged(config)
    ]


def streams(config: Config, cores: int) -> list[Piece]:
    """Single steps."""
    return [
        Piece(f"{cell} alone, H = {H}", cores, "stream", {"cell": cell, "D": H, "H": H, **timing(config)})
        for cell in judged(config)
        for H in config.streamed
    ]


def pairs(config: Config, cores: int) -> list[Piece]:
    """Encoder-decoders."""
    return [
        Piece(f"{cell} of pairs, H = {H}", cores, "pairs", {"cell": cell, "B": B, "T": T, "H": H, **timing(config)})
        for cell in judged(config)
        for B, T, H in config.pairs
    ]


def probe(config: Config, cores: int) -> Piece:
    """One sequence of the LSTM."""
    sizes = {"B": 1, "T": config.probe_length, "H": config.probe_hidden}
    return Piece("horizon probe", cores, "probe", {"cell": "lstm", **sizes, **timing(config)})


def growths(config: Config, cores: int) -> list[Piece]:
    """One axis at a time; seeds are those of a sweep of short sequences."""
    base = dict(zip("BTDH", config.growth_base, strict=True))
    recall = {"B": 64, "T": config.sweep_length, "D": 8, "H": 32}
    return [
        Piece(
            f"growth with {axis}",
            cores,
            "growth",
            {
                "axis": axis,
                "values": getattr(config, f"growth_{axis}"),
                "base": recall if axis == "S" else base,
                "updates": 4,
                **timing(config),
            },
        )
        for axis in config.growth
    ]
