"""Every experiment by name; `python -m experiments` runs them."""

from experiments import horizon, recall, vowels
from seqjax.report import Experiment

EXPERIMENTS: dict[str, Experiment] = {each.EXPERIMENT.name: each.EXPERIMENT for each in (recall, horizon, vowels)}
