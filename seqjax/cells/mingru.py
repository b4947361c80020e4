"""The minimal GRU (Feng et al. 2024): a gated average whose gate never looks back, so it is linear in its state."""

from dataclasses import replace

from jax import Array
from jax.nn import sigmoid

from seqjax.core import Affine, Cell, Hidden, factory, linear_step
from seqjax.gated import gated, preactivations


def coefficients(params: Affine, u: Array) -> tuple[Hidden, Hidden]:
    """h_t = z ⊙ h_{t-1} + (1 - z) ⊙ n: z is the keep gate, as in our GRU (Feng et al. swap z and 1 - z). This is the
    paper's plain form; its form in log space passes n through a positive function."""
    z, n = preactivations(params, 2, u)
    return Hidden(sigmoid(z)), Hidden(sigmoid(-z) * n)


def update(params: Affine, state: Hidden, u: Array, a: tuple[()]) -> Hidden:
    """One step by the coefficients."""
    decay, write = coefficients(params, u)
    return linear_step(decay, state, write)


@factory
def mingru(*, keep_bias: float | None = None, norm: str | None = None) -> Cell:
    """minGRU cell with gates z, n, both affine in x alone; a step is elementwise-linear in h.

    keep_bias     the effective initial bias of the keep gate z; None keeps the uniform draw
    norm="layer"  normalises both pre-activations; ValueError for another
    """
    cell = gated("mingru", gates="zn", state=Hidden, update=update, bias={"z": keep_bias}, recurrent=False, norm=norm)
    return replace(cell, coefficients=coefficients)
