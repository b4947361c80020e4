"""A model in use: a whole file at once, or one event at a time with the state of every sequence kept."""

from seqjax.serving.answers import Prediction
from seqjax.serving.live import Live
from seqjax.serving.predict import Predictions, predict
