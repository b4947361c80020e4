"""Jacobians of a recurrence along a trace, over the whole carry, and their products without overflow or underflow.

    J_t = ds_t/ds_{t-1} = direct_t + slopes_t @ matrix         what `update` passes on, and what goes through `recur`
    P_t = J_T J_{T-1} ... J_t = ds_T/ds_{t-1}                  the later step on the left

Long products are carried as a mantissa and a natural logarithm. A masked step holds the state: its Jacobian is I. A
step that is reset forgets what came before: its Jacobian is 0. A trace does not tell, so `reset` has to be given again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from seqjax.adjoints import flags_of
from seqjax.core import Cell, Params, State
from seqjax.gradients import compensated
from seqjax.unroll import Trace


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Parts:
    """A step Jacobian split where the cell is split: J_t = direct_t + slopes_t @ matrix_t, A pre-activations."""

    direct: Array  # [.., T, N, N] what `update` passes straight through: the forget gates of an LSTM
    slopes: Array  # [.., T, N, A] of `update` in its pre-activations: φ'(z) of a plain RNN, on the diagonal
    matrix: Array  # [.., T, A, N] of `recur`: W_hh, the same at every step


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Product:
    """exp(log_scale) · mantissa, the largest entry of the mantissa being 1 in size; zero is 0 and -inf."""

    mantissa: Array  # [.., T, N, N]
    log_scale: Array  # [.., T]


def step_jacobians(cell: Cell, params: Params, trace: Trace, *, reset: Any = None) -> Array:
    """J_t = ds_t/ds_{t-1} over the whole carry, [.., T, N, N] for a trace of `unroll`, exact by `jacfwd`.

    N counts all fields in their order: (h, c) of an LSTM, N = 2H. ValueError for a reset of the wrong shape.
    """

    def one(state: State, u: Any) -> Array:
        return jax.jacfwd(lambda s: flat(cell.step(params, unflat(state, s), u)))(flat(state))

    Js = over_steps(one, trace)(trace.before, trace.us)
    identity = jnp.broadcast_to(jnp.eye(Js.shape[-1], dtype=Js.dtype), Js.shape)
    Js = Js if trace.mask is None else jnp.where(trace.mask[..., None, None], Js, identity)
    flags = flags_of(trace, reset)
    return Js if flags is None else jnp.where(flags[..., None, None], 0, Js)


def split_jacobians(cell: Cell, params: Params, trace: Trace) -> Parts:
    """The parts of J_t at every step as if none were masked or reset; ValueError where the cell has no `recur`."""

    def one(state: State, u: Any) -> Parts:
        s, (a, a_of) = flat(state), ravel_pytree(cell.recur(params, state))
        if not a.size:
            raise ValueError(f"cell {cell.name!r} has no recurrent product of its own (in `recur`) to split off")

        def update(s: Array, a: Array) -> Array:
            return flat(cell.update(params, unflat(state, s), u, a_of(a)))

        matrix = jax.jacfwd(lambda s: flat(cell.recur(params, unflat(state, s))))(s)
        direct, slopes = jax.jacfwd(update, (0, 1))(s, a)
        return Parts(direct, slopes, matrix)

    return over_steps(one, trace)(trace.before, trace.us)


def step_bounds(parts: Parts) -> np.ndarray:
    """How much a step can stretch a gradient at the most, ‖direct‖ + ‖slopes‖ ‖matrix‖ in spectral norms, [.., T].

    Of a tanh RNN that is max φ' · σ_max(W_hh), which bounds the γ of its decay (Pascanu et al. 2013). On the host, in
    float64.
    """
    arrays = (parts.direct, parts.slopes, parts.matrix)
    direct, slopes, matrix = (np.linalg.norm(np.asarray(part, np.float64), 2, (-2, -1)) for part in arrays)
    return direct + slopes * matrix


def suffix_products(Js: Array) -> Product:
    """P_t = J_T ... J_t for every t, of Jacobians [.., T, N, N] in the order of time.

    Exact to rounding at any T: 1.5^300 and 0.5^2000 are fine. ValueError unless the matrices are square.
    """
    if jnp.ndim(Js) < 3 or jnp.shape(Js)[-1] != jnp.shape(Js)[-2]:
        raise ValueError(f"Js must be square matrices in the order of time, [.., T, N, N], got {list(jnp.shape(Js))}")
    Js = jnp.asarray(Js)
    Js = Js if jnp.issubdtype(Js.dtype, jnp.inexact) else Js.astype(float)
    if jnp.ndim(Js) > 3:
        return jax.vmap(suffix_products)(Js)

    def multiply(carry: Any, J: Array) -> Any:
        P, lost = carry
        top = jnp.abs(J).max()
        root = jax.lax.rsqrt(jnp.where(top > 0, top, 1))  # as 1/top may be too small to hold
        M = jnp.matmul(P.mantissa, J * root * root, precision="highest")
        size = jnp.abs(M).max()
        scale, lost = compensated(P.log_scale, lost + jnp.log(size) + jnp.log(top))
        P = Product(M / jnp.where(size > 0, size, 1), scale)
        return (P, lost), P

    zero = jnp.zeros((), Js.dtype)
    return jax.lax.scan(multiply, (Product(jnp.eye(Js.shape[-1], dtype=Js.dtype), zero), zero), Js, reverse=True)[1]


def flat(tree: Any) -> Array:
    """All arrays of a tree as one vector, [N] of a state."""
    return ravel_pytree(tree)[0]


def unflat(like: State, vector: Array) -> State:
    """A vector [N] as the state it was ravelled from."""
    return ravel_pytree(like)[1](vector)


def over_steps(one: Callable[..., Any], trace: Trace) -> Callable[..., Any]:
    """A function of one example at one time over every step of a trace, one sequence's or a batch's."""
    return jax.vmap(jax.vmap(one)) if trace.ys.ndim == 3 else jax.vmap(one)
