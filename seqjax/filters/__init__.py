"""Linear recursions as filters: modes and regimes, responses in closed form, and filters that adapt.

h_t = A h_{t-1} + B x_t,   y_t = C h_t            numbers stand for matrices of one row and column
"""

from seqjax.filters.lms import Adapted, autocorrelation, fir, lms, lms_bound, lms_mean
from seqjax.filters.modes import Mode, memory_horizon, modes, poles, regime
from seqjax.filters.pole import OnePolePath, adapt_one_pole, cost_surface, one_pole_gradients
from seqjax.filters.response import dc_gain, frequency_response, impulse_response, transfer

__all__ = [
    "Adapted",
    "Mode",
    "OnePolePath",
    "adapt_one_pole",
    "autocorrelation",
    "cost_surface",
    "dc_gain",
    "fir",
    "frequency_response",
    "impulse_response",
    "lms",
    "lms_bound",
    "lms_mean",
    "memory_horizon",
    "modes",
    "one_pole_gradients",
    "poles",
    "regime",
    "transfer",
]
