"""Running one experiment from settings to a finished folder."""

from pathlib import Path
from typing import Any

from seqjax.report.experiment import Claim, Experiment
from seqjax.report.store import points, write_run
from seqjax.report.style import styled


def run_experiment(experiment: Experiment, config: Any, out: Path) -> tuple[Path, list[Claim]]:
    """Measure, judge, draw and store; finished pieces of earlier or killed runs are reused."""
    seconds: list[float] = []
    dataset = experiment.run(config, points(experiment, out, seconds))
    claims = experiment.judged(config, dataset)
    with styled():
        figure = experiment.figure(config, dataset)
        folder = write_run(experiment, config, dataset, claims, figure, sum(seconds), out)
    return folder, claims
