"""Linear recursions: a bank of one-pole filters, and the matrix recursion of which they are the diagonal case."""

from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.cells.accumulators import project
from seqjax.core import Affine, Cell, Hidden, carry_dtype, factory, linear_step, require_sizes
from seqjax.gated import gated, no_product, require_own, set_bias, shown


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class OnePole:
    """A pole and a row of input weights for every unit."""

    α: Array  # [H]
    W_ih: Array  # [H, D]


def init(pole: float, key: Array, D: int, H: int) -> OnePole:
    """Every pole the same, W_ih from N(0, 1/D)."""
    require_sizes(D=D, H=H)
    return OnePole(jnp.full(H, pole, jnp.float32), jax.random.normal(key, (H, D), jnp.float32) * D**-0.5)


def start(params: OnePole) -> Hidden:
    """h_0 = 0; ValueError for another cell's params."""
    require_own("one-pole", params, OnePole, {})
    return Hidden(jnp.zeros(params.α.shape, carry_dtype(params)))


def coefficients(params: OnePole, u: Array) -> tuple[Hidden, Hidden]:
    """decay = α, write = u."""
    return Hidden(params.α), Hidden(u)


def filtered(params: OnePole, state: Hidden, u: Array, a: tuple[()]) -> Hidden:
    """h_t = α ⊙ h_{t-1} + u_t."""
    decay, write = coefficients(params, u)
    return linear_step(decay, state, write)


def recursion(params: Affine, state: Hidden, u: Array, a: Array) -> Hidden:
    """h_t = A h_{t-1} + B x_t + b."""
    return Hidden(h=u + a)


@factory
def one_pole(*, pole: float = 0.9) -> Cell:
    """h_t = α ⊙ h_{t-1} + W_ih x_t, one real pole a unit, all of them `pole` at first; it remembers for -1/ln|α| steps.

    Nothing keeps a trained pole inside the unit circle; `seqjax.filters.adapt_one_pole` does. ValueError unless `pole`
    is a finite number.
    """
    if isinstance(pole, bool) or not isinstance(pole, int | float) or not abs(pole) < float("inf"):
        raise ValueError(f"pole must be a finite number, got {pole!r}")
    draw = partial(init, float(pole))
    return Cell("one-pole", draw, start, project, no_product, filtered, shown, coefficients=coefficients)


@factory
def linear() -> Cell:
    """The matrix recursion h_t = A h_{t-1} + B x_t + b: A is W_hh, B is W_ih, and the bias starts at 0.

    A gated cell with one gate and no nonlinearity, so that every initialiser of recurrent blocks applies.
    """
    cell = gated("linear", gates="h", state=Hidden, update=recursion)
    return replace(cell, init=lambda key, D, H: set_bias("h", cell.init(key, D, H), "h", 0.0))
