"""Running one experiment from settings to a finished folder."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from seqjax.processes import first
from seqjax.report.experiment import Experiment
from seqjax.report.points import Points
from seqjax.report.store import Run, read_run, write_run
from seqjax.report.style import styled


def run_experiment(experiment: Experiment, config: Any, out: Path, *, minutes: float = 0.5) -> Run:
    """Measure, judge, draw and store. Finished pieces of earlier or killed runs are reused; one that was being trained
    goes on from its last checkpoint, of which there is one every so many minutes.

    Of many processes, 0 alone draws and stores; the others return the run without a folder and an environment.
    """
    point = Points(experiment, out, minutes)
    dataset = experiment.run(config, point)
    claims, rows = experiment.judged(config, dataset), experiment.table(config, dataset)
    if not first():
        return Run(out, asdict(config), claims, rows, {})
    with styled():
        figure = experiment.figure(config, dataset)
        folder = write_run(experiment, config, dataset, claims, rows, figure, sum(point.seconds), out)
    return read_run(folder)
