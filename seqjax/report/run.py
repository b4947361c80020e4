"""Running one experiment from settings to a finished folder."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from seqjax.processes import first
from seqjax.report.experiment import Experiment
from seqjax.report.store import Run, points, read_run, write_run
from seqjax.report.style import styled


def run_experiment(experiment: Experiment, config: Any, out: Path) -> Run:
    """Measure, judge, draw and store; finished pieces of earlier or killed runs are reused.

    Of many processes, 0 alone draws and stores; the others return the run without a folder and an environment.
    """
    seconds: list[float] = []
    dataset = experiment.run(config, points(experiment, out, seconds))
    claims, rows = experiment.judged(config, dataset), experiment.table(config, dataset)
    if not first():
        return Run(out, asdict(config), claims, rows, {})
    with styled():
        figure = experiment.figure(config, dataset)
        folder = write_run(experiment, config, dataset, claims, rows, figure, sum(seconds), out)
    return read_run(folder)
