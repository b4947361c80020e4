"""How fast is training here, beside every other library that one could pick? Each ratio is of times of one run.

Source   this project's own targets (P1 to P6)
Command  python -m experiments run benchmark
         (peers: pip install '.[bench]'; a missing one is listed as such, and never counted as beaten)
Time     about 15 minutes on 2 CPU cores
Expect   LSTM and GRU at least level with the best peer at every size; a 16-seed sweep 4 times as fast as PyTorch's
         loop; a horizon probe at most 1.5 times a gradient; time in proportion to T

Two processes measure: one held to a single core, where everyone has one thread and seconds of the processor are
compared, and one with all cores, where seconds of the clock are. On a GPU there is one, and no claim is judged. A
finished piece is reused as long as the sources, the versions and the machine are the same; `--out` another folder
measures anew.
"""

from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from typing import Any

from experiments.benchmark.bar import shown
from experiments.benchmark.cases import dataset_of, joined, select
from experiments.benchmark.conditions import conditions, passes, where
from experiments.benchmark.config import QUICK, Config, check
from experiments.benchmark.figure import figure
from experiments.benchmark.peers import IN_JAX, LIBRARIES
from experiments.benchmark.pieces import Piece, pieces
from experiments.benchmark.table import table
from experiments.benchmark.verdicts import at_least, at_most, in_proportion, together
from experiments.benchmark.worker import Ask, worker
from experiments.claims import claim
from seqjax.report import Claim, Experiment

PEERS = LIBRARIES[1:]
WIDE = (256, 512)  # H
LOOPS = ("torch", "torch, 1 thread")
PROBE = 1.5
SLOPES = (0.9, 1.1)


def run(config: Config, point: Any) -> Any:
    """Measure piece by piece; dims case, candidate, round."""
    counts, same, parts = passes()[: None if config.both else 1], conditions(), []
    with ExitStack() as stack:
        asks = {count: stack.enter_context(worker(count)) for count in counts}
        for piece in shown(pieces(config, counts)):
            settings = {"job": piece.job, "on": piece.cores, **piece.settings}
            parts.append(point(partial(measured, asks[piece.cores], piece), **settings, **same))
    return joined(parts)


def measured(ask: Ask, piece: Piece) -> Any:
    """One piece."""
    return dataset_of(ask(piece.job, **piece.settings), where(piece.cores))


def claims(config: Config, dataset: Any) -> list[Claim]:
    """P1 to P6, as far as they were measured."""
    of = partial(select, dataset)
    gradients = [case for cell in config.judged for case in of(part="layer", kind="gradient", cell=cell, cores=1)]
    wide = [case for case in gradients if case.H in WIDE]
    sweeps = [case for case in of(part="sweep") if case.cores > 1]
    probes, growth = list(of(part="probe", cores=1)), list(of(part="growth", kind="T", cores=1))
    verdicts = {
        "P1": at_least(1, gradients, PEERS),
        "P2": at_least(1.3, wide, IN_JAX),
        "P3": together(at_least(4, sweeps, LOOPS), at_least(2, sweeps, ("linen",))),
        "P4": at_most(PROBE, probes, "forward+backward"),
        "P5": in_proportion(growth, *SLOPES),
        "P6": at_least(1, list(of(part="pairs", kind="training", cores=1)), PEERS),
    }
    return [claim(id, **asdict(verdict)) for id, verdict in verdicts.items() if verdict is not None]


EXPERIMENT = Experiment(
    name="benchmark",
    summary="How fast is training here, beside every other library that one could pick?",
    config=Config,
    quick=QUICK,
    run=run,
    claims=claims,
    table=table,
    figure=figure,
    check=check,
)
