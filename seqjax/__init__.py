"""seqjax: recurrent sequence models in JAX; how far back they can learn, measured."""

from seqjax import events, filters, fit, init, processes, seq2seq, tasks
from seqjax.adjoints import Adjoints, pullback
from seqjax.bodies import convolutional, cut_rows, pooled, wavenet, windowed
from seqjax.body import Body
from seqjax.cells import (
    CELLS,
    cell_named,
    gru,
    linear,
    lru,
    lstm,
    memory,
    mgu,
    mingru,
    one_pole,
    rnn,
    running_max,
    running_mean,
    running_sum,
    variant,
)
from seqjax.checkpoint import Checkpoints
from seqjax.clipping import adam, clip, clip_limits
from seqjax.conv import Conv, convolve, measured_field, receptive_field
from seqjax.core import Affine, Cell, Complex, Hidden
from seqjax.cost import cost
from seqjax.deep import deep
from seqjax.dropout import Dropout
from seqjax.gated import gated
from seqjax.horizon import Decay, fit_decay, half_life, horizon, reachable_steps
from seqjax.jacobian import Parts, Product, split_jacobians, step_bounds, step_jacobians, suffix_products
from seqjax.lyapunov import Lyapunov, kaplan_yorke, lyapunov
from seqjax.model import Model, load_model, save_model
from seqjax.network import Network, network, network_of
from seqjax.pair_survey import PairSurvey, pair_survey
from seqjax.plan import Plan
from seqjax.profile import Profile, direct_path, gradient_profile, input_profile
from seqjax.remedies import FlossHistory, floss, floss_first, flossing, omega, soft_constraint
from seqjax.sensitivity import Change, Truncation, ablation_test, reversal_test, shuffle_test, truncation_test
from seqjax.seq2seq import Vocabulary, encoder_decoder
from seqjax.serving import Live, Prediction, Predictions, predict
from seqjax.spectrum import recurrent_blocks, singular_values, spectral_radius, with_spectral_radius
from seqjax.stack import Layer, init_stack, unroll_stack
from seqjax.statistics import rate
from seqjax.streaming import Stream, streaming
from seqjax.superposition import superposition
from seqjax.survey import Survey, survey
from seqjax.train import Recipe, begin_many, evaluate, saved, sweep, sweep_recipe, train, train_many
from seqjax.unroll import Trace, unroll

__version__ = "0.1.0"
