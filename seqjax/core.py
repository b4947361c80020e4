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

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, wraps
from inspect import signature
from numbers import Integral
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

Params = Any
State = Any
Options = ParamSpec("Options")
Made = TypeVar("Made")


@dataclass(frozen=True, repr=False)
class Cell:
    """A recurrence as a record of pure functions of one example at one time; no batch axis, no time axis, no flags.

    `name` names the equation; every params container has the input matrix `W_ih` [.., D]. `gates` names the row blocks
    of the weights in order ("ifgo" for an LSTM), "" for a cell without them. A cell whose transition is
    elementwise-linear gives `coefficients`, so that s_t = decay ⊙ s_{t-1} + write could be evaluated for all t at once.
    `start` raises ValueError for another cell's params.
    """

    name: str
    init: Callable[[Array, int, int], Params]  # (key, D, H) -> p
    start: Callable[[Params], State]  # p -> s_0, sized by the params
    project: Callable[[Params, Array], Any]  # (p, x) -> u, no recurrence: the engine may hoist it
    recur: Callable[[Params, State], Any]  # (p, s) -> a, the recurrent affine map, or () where there is none
    update: Callable[[Params, State, Any, Any], State]  # (p, s, u, a) -> s, the equation
    read: Callable[[Params, State], Array]  # (p, s) -> y, what the readout sees
    gates: str = ""
    coefficients: Callable[[Params, Any], tuple[State, State]] | None = None  # (p, u) -> (decay, write), like a state

    def __repr__(self) -> str:
        return f"<Cell {self.name}{', gates ' if self.gates else ''}{self.gates}>"

    def step(self, params: Params, state: State, u: Any) -> State:
        """One step of the recurrence from the projected input: s_t = update(p, s, u, recur(p, s))."""
        return self.update(params, state, u, self.recur(params, state))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Affine:
    """Weights of a gated layer, one block of H rows per gate, in PyTorch's layout and gate order.

    Where there is a `gain`, LayerNorm acts on every gate's pre-activation, and `b_ih` is added after it.
    """

    W_ih: Array  # [G*H, D]
    W_hh: Any  # [G*H, H]; None where no gate looks back
    b_ih: Any  # [G*H]; None without biases
    b_hh: Any  # [G*H]; None without biases, and under LayerNorm, where one bias is all there is
    gain: Any = None  # [G*H]; None without LayerNorm


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Hidden:
    """State of a cell that carries its output and nothing else."""

    h: Array  # [H]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Complex:
    """A complex array as two real ones, so that every carry is real whatever the cell."""

    re: Array
    im: Array

    def __mul__(self, other: "Complex") -> "Complex":
        return Complex(self.re * other.re - self.im * other.im, self.re * other.im + self.im * other.re)

    def __add__(self, other: "Complex") -> "Complex":
        return Complex(self.re + other.re, self.im + other.im)


def linear_step(decay: State, state: State, write: State) -> State:
    """s_t = decay ⊙ s_{t-1} + write, field by field; fields are arrays or `Complex`."""
    return jax.tree.map(lambda d, s, w: d * s + w, decay, state, write, is_leaf=lambda x: isinstance(x, Complex))


def factory(make: Callable[Options, Made]) -> Callable[Options, Made]:
    """Make each value once: the same options, spelled out or left to their defaults, give the same object, so that jit
    does not trace again. ValueError for an option that is not hashable, such as an array."""
    known = signature(make)
    made = cache(lambda switches, args, options: make(*args, **dict(options)))  # apart by switches, as True == 1

    @wraps(make)
    def once(*args: Options.args, **options: Options.kwargs) -> Made:
        bound = known.bind(*args, **options)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            try:
                hash(value)
            except TypeError:
                raise ValueError(f"{name} must be a plain, hashable value, got {type(value).__name__}") from None
        switches = tuple(name for name, value in bound.arguments.items() if isinstance(value, bool))
        return made(switches, bound.args, tuple(bound.kwargs.items()))

    return once


def require_cell(cell: Any) -> None:
    """Raise ValueError unless a cell is a Cell, such as a factory returns."""
    if not isinstance(cell, Cell):
        what = getattr(cell, "__name__", type(cell).__name__)
        fix = ": a factory has to be called" if callable(cell) else ""
        raise ValueError(f"cell must be a Cell, such as lstm(), got {what}{fix}")


def require_sizes(**sizes: Any) -> None:
    """Raise ValueError unless every named size is an integer of at least 1."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, Integral) or size < 1:
            raise ValueError(f"{name} must be an integer of at least 1, got {size!r}")


def require_switches(**switches: Any) -> None:
    """Raise ValueError unless every named switch is True or False."""
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be True or False, got {value!r}")


def at_least_float32(x: Array) -> Array:
    """Floating-point numbers in float32 or wider; others as they are."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32)) if jnp.issubdtype(x.dtype, jnp.floating) else x


def carry_dtype(params: Params) -> Any:
    """The dtype a state starts in: that of the params, or float32 where they are narrower."""
    return jnp.result_type(jnp.float32, *jax.tree.leaves(params))


def require_width(params: Params, x: Array) -> None:
    """ValueError unless x [D] is as wide as the input matrix of the params."""
    D = params.W_ih.shape[1]
    if x.shape != (D,):
        raise ValueError(f"xs must hold D = {D} numbers a step, as the params do, got {x.shape[0]}")
