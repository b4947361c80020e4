"""Every experiment by name; `python -m experiments` runs them."""

from experiments import (
    adaptive_pole,
    baselines,
    benchmark,
    book,
    bottleneck,
    cell_step,
    clipping,
    copy_translate,
    costs,
    counting,
    depth,
    filters,
    flossing,
    g2p,
    generator,
    horizon,
    jacobian_decay,
    latch,
    lms,
    long_recall,
    lyapunov,
    modes,
    order,
    readback,
    recall,
    receptive_field,
    remedies,
    saturation,
    streaming,
    trainability,
    truncation,
    variants,
    vowels,
)
from seqjax.report import Experiment

REMEDIES = (clipping, truncation, remedies, flossing, long_recall)
COMPARED = (order, baselines, receptive_field, streaming)
WRITTEN = (generator, copy_translate, bottleneck, g2p)
TRAINED = (recall, horizon, readback, vowels, variants, counting, latch, *REMEDIES, trainability, *COMPARED, *WRITTEN)
ANALYSED = (filters, modes, lms, adaptive_pole, jacobian_decay, depth, saturation, lyapunov)
COUNTED = (book, cell_step, costs, benchmark)
EXPERIMENTS: dict[str, Experiment] = {each.EXPERIMENT.name: each.EXPERIMENT for each in (*TRAINED, *ANALYSED, *COUNTED)}
