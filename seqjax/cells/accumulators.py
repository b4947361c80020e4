"""Order-free summaries of a sequence as cells: the running sum, mean and maximum of u = W_ih x.

They are recurrences with nothing to tune in the loop, and what pooling over time computes, one step at a time.
`with_init(running_mean(), InputIdentity())` gives those of x itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.core import Cell, Hidden, carry_dtype, factory, linear_step, require_sizes, require_width
from seqjax.gated import no_product, require_own, shown


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Projection:
    """The input matrix, and nothing else."""

    W_ih: Array  # [H, D]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Tally:
    """A summary and how many inputs it is of, N = H + 1."""

    h: Array  # [H]
    count: Array  # [1]


def init(key: Array, D: int, H: int) -> Projection:
    """W_ih from N(0, 1/D): inputs of unit variance give projections of unit variance."""
    require_sizes(D=D, H=H)
    return Projection(jax.random.normal(key, (H, D), jnp.float32) * D**-0.5)


def start(name: str, state: type, params: Projection) -> Any:
    """Zeros, a count of zero among them; ValueError for another cell's params."""
    require_own(name, params, Projection, {})
    H, dtype = params.W_ih.shape[0], carry_dtype(params)
    return state(jnp.zeros(H, dtype), *([jnp.zeros(1, dtype)] if state is Tally else []))


def project(params: Any, x: Array) -> Array:
    """u = W_ih x; ValueError where x has another width."""
    require_width(params, x)
    return params.W_ih @ x


def accumulator(name: str, state: type, update: Callable[..., Any], **options: Any) -> Cell:
    """A cell of one input matrix and an equation without products."""
    return Cell(name, init, partial(start, name, state), project, no_product, update, shown, **options)


def summed(params: Projection, u: Array) -> tuple[Hidden, Hidden]:
    """decay = 1, write = u."""
    return Hidden(jnp.ones(u.shape, carry_dtype(params))), Hidden(u)


def add(params: Projection, state: Hidden, u: Array, a: tuple[()]) -> Hidden:
    """h_t = h_{t-1} + u_t."""
    decay, write = summed(params, u)
    return linear_step(decay, state, write)


def average(params: Projection, state: Tally, u: Array, a: tuple[()]) -> Tally:
    """n_t = n_{t-1} + 1, h_t = h_{t-1} + (u_t - h_{t-1}) / n_t: the exact mean of all so far (Welford 1962)."""
    count = state.count + 1
    return Tally(state.h + (u - state.h) / count, count)


def greatest(params: Projection, state: Tally, u: Array, a: tuple[()]) -> Tally:
    """h_t = max(h_{t-1}, u_t), the first input whatever its sign."""
    return Tally(jnp.where(state.count > 0, jnp.maximum(state.h, u), u.astype(state.h.dtype)), state.count + 1)


@factory
def running_sum() -> Cell:
    """h_t = h_{t-1} + W_ih x_t: an integrator, whose every step Jacobian is the identity."""
    return accumulator("running-sum", Hidden, add, coefficients=summed)


@factory
def running_mean() -> Cell:
    """h_t = mean of W_ih x_1..t, exact as it carries its count."""
    return accumulator("running-mean", Tally, average)


@factory
def running_max() -> Cell:
    """h_t = maximum of W_ih x_1..t, unit by unit; 0 before the first step."""
    return accumulator("running-max", Tally, greatest)
