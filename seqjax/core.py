"""The alphabet, the cell contract, and the weights that gated cells share.

Sizes    T time, B batch, D input width, H hidden units, G gates, K outputs, N state size (ravelled), L layers, S seeds
Values   x input, u projected input, a recurrent pre-activation, h, c state fields, s state, y output,
         p params, m mask, J step Jacobian, P product, key; a plural is stacked over time: xs, us, ss
Order    every signature reads `cell, params, state, input`; options are keyword-only

A cell is a value: pure functions of ONE example at ONE time, split where a recurrent network's Jacobian is split,
    a_t = recur(p, s_{t-1})            the only matrix product in the loop
    s_t = update(p, s_{t-1}, u_t, a_t) the equation, pointwise
so that ds_t/ds_{t-1} is what `update` passes straight through plus (slopes of `update`) @ (matrix of `recur`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from numbers import Integral
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

Params = Any
State = Any


@dataclass(frozen=True)
class Cell:
    """A recurrence as a record of pure functions of one example at one time; no batch axis, no time axis, no flags.

    `gates` names the row blocks of the weights in order ("ifgo" for an LSTM), "" for a cell without them.
    """

    name: str
    init: Callable[[Array, int, int], Params]  # (key, D, H) -> p
    start: Callable[[Params], State]  # p -> s_0, sized by the params
    project: Callable[[Params, Array], Any]  # (p, x) -> u, no recurrence: the engine may hoist it
    recur: Callable[[Params, State], Any]  # (p, s) -> a, the recurrent affine map, or () where there is none
    update: Callable[[Params, State, Any, Any], State]  # (p, s, u, a) -> s, the equation
    read: Callable[[Params, State], Array]  # (p, s) -> y, what the readout sees
    gates: str = ""

    def step(self, params: Params, state: State, u: Any) -> State:
        """One step of the recurrence from the projected input: s_t = update(p, s, u, recur(p, s))."""
        return self.update(params, state, u, self.recur(params, state))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Affine:
    """Weights of a gated layer, one block of H rows per gate, in PyTorch's layout and gate order."""

    W_ih: Array  # [G*H, D]
    W_hh: Array  # [G*H, H]
    b_ih: Array  # [G*H]
    b_hh: Array  # [G*H]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Hidden:
    """State of a cell that carries its output and nothing else."""

    h: Array  # [H]


def require_sizes(**sizes: Any) -> None:
    """Raise ValueError unless every named size is an integer of at least 1."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, Integral) or size < 1:
            raise ValueError(f"{name} must be an integer of at least 1, got {size!r}")


def uniform(key: Array, gates: int, D: int, H: int) -> Affine:
    """Every array from U(-1/√H, 1/√H), PyTorch's default for recurrent layers."""
    require_sizes(D=D, H=H)
    bound, rows = H**-0.5, gates * H
    shapes = ((rows, D), (rows, H), (rows,), (rows,))
    draws = (
        jax.random.uniform(k, shape, jnp.float32, -bound, bound)
        for k, shape in zip(jax.random.split(key, 4), shapes, strict=True)
    )
    return Affine(*draws)


def set_bias(gates: str, params: Affine, gate: str, value: Array | float) -> Affine:
    """Make the effective bias b_ih + b_hh of one gate equal to `value` (a number or [H]): all of it in b_ih."""
    if gate not in list(gates):
        raise ValueError(f"gate must be one of {list(gates)}, got {gate!r}: this cell has no such gate")
    H = params.W_hh.shape[1]
    rows = slice(gates.index(gate) * H, (gates.index(gate) + 1) * H)
    value = jnp.asarray(value, params.b_ih.dtype)
    return replace(params, b_ih=params.b_ih.at[rows].set(value), b_hh=params.b_hh.at[rows].set(0))


def carry_dtype(params: Params) -> Any:
    """The dtype a state starts in: that of the params, or float32 where they are narrower."""
    return jnp.result_type(jnp.float32, *jax.tree.leaves(params))


def project(params: Affine, x: Array) -> Array:
    """u = W_ih x + b_ih, for all gates at once: [D] -> [G*H]. ValueError where x has another width."""
    if x.shape != params.W_ih.shape[1:]:
        raise ValueError(f"xs must hold D = {params.W_ih.shape[1]} numbers a step, as the params do, got {x.shape[0]}")
    return params.W_ih @ x + params.b_ih


def recur(params: Affine, state: Any) -> Array:
    """a = W_hh h + b_hh, for all gates at once: [H] -> [G*H]. Narrow weights meet the float32 state as float32."""
    return params.W_hh @ state.h + params.b_hh


def gated(
    name: str,
    *,
    gates: str,
    state: type,
    update: Callable[[Affine, Any, Array, Any], Any],
    bias: Mapping[str, float | None] | None = None,
    recur: Callable[[Affine, Any], Any] = recur,
) -> Cell:
    """A cell with one affine map per gate, given only its equation.

    `state` is a container of [H] arrays with a field `h`, which is what the cell shows; `bias` gives the effective
    initial bias of a gate (None keeps the draw of `uniform`).
    """

    def init(key: Array, D: int, H: int) -> Affine:
        params = uniform(key, len(gates), D, H)
        for gate, value in (bias or {}).items():
            params = params if value is None else set_bias(gates, params, gate, value)
        return params

    def start(params: Affine) -> Any:
        rows, H = params.W_hh.shape
        if rows != len(gates) * H:
            raise ValueError(
                f"params have W_hh [{rows}, {H}], but {name} has {len(gates)} gates: are they another cell's?"
            )
        shape, dtype = (H,), carry_dtype(params)
        return state(**{field.name: jnp.zeros(shape, dtype) for field in fields(state)})

    return Cell(name, init, start, project, recur, update, lambda params, state: state.h, gates)
