"""Experiments as values, their results on disk, their figures, and the page that shows them."""

from seqjax.report.experiment import Claim, Experiment
from seqjax.report.page import write_page
from seqjax.report.run import run_experiment
from seqjax.report.store import Run, read_runs, require_writable

__all__ = ["Claim", "Experiment", "Run", "read_runs", "require_writable", "run_experiment", "write_page"]
