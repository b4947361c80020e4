"""Every experiment by name; `python -m experiments` runs them."""

from experiments import benchmark, book, cell_step, costs, counting, horizon, recall, variants, vowels
from seqjax.report import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    each.EXPERIMENT.name: each.EXPERIMENT
    for each in (recall, horizon, vowels, variants, counting, book, cell_step, costs, benchmark)
}
