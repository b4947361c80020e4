"""Training as one pure function of a key, and sweeps of whole trainings as one program."""

from seqjax.train.many import begin_many, programs, test_keys, train_many
from seqjax.train.recipe import Recipe, judge
from seqjax.train.run import CAUSES, History, TrainState, advance, begin, evaluate, purposes, train
from seqjax.train.saved import Saved, saved
from seqjax.train.sweep import sweep, sweep_recipe
