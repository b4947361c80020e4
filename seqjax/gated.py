"""What gated cells share: one affine map per gate, PyTorch's draw, biases by gate, and LayerNorm inside the loop."""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seqjax.core import Affine, Cell, at_least_float32, carry_dtype, require_sizes, require_width
from seqjax.sequences import concrete

NORMS = (None, "layer")
EPSILON = 1e-5  # inside the root, so that the gradient of a constant pre-activation is finite; PyTorch's value


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
    if params.b_ih is None:
        raise ValueError(f"gate {gate!r} has no bias to set: these params were made without biases")
    if concrete(value) and not np.isfinite(value).all():
        raise ValueError(f"the bias of gate {gate!r} must be finite, got {value}")
    H = params.b_ih.size // len(gates)
    rows = slice(gates.index(gate) * H, (gates.index(gate) + 1) * H)
    value = jnp.asarray(value, params.b_ih.dtype)
    b_hh = None if params.b_hh is None else params.b_hh.at[rows].set(0)
    return replace(params, b_ih=params.b_ih.at[rows].set(value), b_hh=b_hh)


def plus(product: Array, bias: Array | None) -> Array:
    """product + bias, where there is one."""
    return product if bias is None else product + bias


def project(params: Affine, x: Array) -> Array:
    """u = W_ih x + b_ih, for all gates at once: [D] -> [G*H]. ValueError where x has another width."""
    require_width(params, x)
    return plus(params.W_ih @ x, params.b_ih if params.gain is None else None)


def recur(params: Affine, state: Any) -> Array:
    """a = W_hh h + b_hh, for all gates at once: [H] -> [G*H]. Narrow weights meet the float32 state as float32."""
    return plus(params.W_hh @ state.h, params.b_hh)


def joined(params: Affine) -> tuple[Array, Array | None]:
    """(W, b) with u + a = W [x; h] + b: [G*H, D+H] and [G*H], or None without biases."""
    W, b_ih = jnp.concatenate([params.W_ih, params.W_hh], axis=1), params.b_ih if params.gain is None else None
    return W, b_ih if params.b_hh is None else plus(params.b_hh, b_ih)


def no_product(params: Affine, state: Any) -> tuple[()]:
    """a = (), for a cell whose products are not one affine map of the state and so stand in its `update`."""
    return ()


def shown(params: Any, state: Any) -> Array:
    """y = h."""
    return state.h


def normalise(params: Affine, k: int, z: Array) -> Array:
    """LayerNorm of the pre-activation of gate k, gain ⊙ (z - mean) / √(variance + ε) + bias; z itself where the params
    hold no gain; in float32 or wider. Ba et al. (2016) normalise W x, U h and c apart, here it is once, around the sum.
    """
    z = at_least_float32(z)
    if params.gain is None:
        return z
    rows = slice(k * z.size, (k + 1) * z.size)
    z = (z - z.mean()) * jax.lax.rsqrt(z.var() + EPSILON)
    return plus(params.gain[rows] * z, None if params.b_ih is None else params.b_ih[rows])


def preactivations(params: Affine, gates: int, z: Array) -> list[Array]:
    """One [H] per gate of z = u + a, normalised where the params hold a gain."""
    return [normalise(params, k, part) for k, part in enumerate(jnp.split(z, gates))]


def gated(
    name: str,
    *,
    gates: str,
    state: type,
    update: Callable[[Any, Any, Array, Any], Any],
    bias: Mapping[str, float | None] | None = None,
    recur: Callable[[Affine, Any], Any] = recur,
    recurrent: bool = True,
    norm: str | None = None,
    kind: type = Affine,
) -> Cell:
    """A cell with one affine map per gate, given only its equation.

    state      a container of [H] arrays with a field `h`, which is what the cell shows
    bias       the effective initial bias of a gate (None keeps the draw of `uniform`)
    recurrent  False where no gate looks back: W_hh and b_hh are then None, and a is ()
    norm       "layer" gives the params a gain, of ones, for `update` to use by way of `preactivations`
    kind       the container of the params, where `init` is replaced by one that returns more than an Affine
    """
    if norm not in NORMS:
        raise ValueError(f"norm must be one of {list(NORMS)}, got {norm!r}")
    has, name = {"W_hh": recurrent, "gain": norm is not None}, name + ("-norm" if norm else "")

    def init(key: Array, D: int, H: int) -> Affine:
        params = uniform(key, len(gates), D, H)
        if norm:
            require_several(name, H)
        params = params if recurrent else replace(params, W_hh=None, b_hh=None)
        params = params if norm is None else replace(params, b_hh=None, gain=jnp.ones_like(params.b_ih))
        for gate, value in (bias or {}).items():
            params = params if value is None else set_bias(gates, params, gate, value)
        return params

    def start(params: Affine) -> Any:
        require_own(name, params, kind, has)
        H = hidden_units(name, len(gates), params)
        return state(**{field.name: jnp.zeros(H, carry_dtype(params)) for field in fields(state)})

    return Cell(name, init, start, project, recur if recurrent else no_product, update, shown, gates)


def require_several(name: str, H: int) -> None:
    """ValueError for one unit alone, whose LayerNorm is blind to its input."""
    if H == 1:
        raise ValueError(f"H must be at least 2 in {name}: LayerNorm over one unit is blind to its input")


def require_own(name: str, params: Any, kind: type, has: Mapping[str, bool]) -> None:
    """ValueError unless params are of a cell's kind, and have just those optional arrays that the cell uses."""
    if type(params) is not kind:
        raise ValueError(
            f"params of {name} must be {kind.__name__}, got {type(params).__name__}: are they another cell's?"
        )
    for field, wanted in has.items():
        if (getattr(params, field) is not None) != wanted:
            words = ("a", "none") if wanted else ("no", "one")
            raise ValueError(f"params of {name} must have {words[0]} {field}, got {words[1]}: are they another cell's?")


def hidden_units(name: str, gates: int, params: Affine) -> int:
    """H; ValueError where the matrices do not have that many rows for every gate."""
    rows = params.W_ih.shape[0]
    H = rows // gates if params.W_hh is None else params.W_hh.shape[1]
    if rows != gates * H or (params.W_hh is not None and params.W_hh.shape[0] != rows):
        kind = "W_ih" if params.W_hh is None else "W_hh"
        shape = list(getattr(params, kind).shape)
        raise ValueError(f"params have {kind} {shape}, but {name} has {gates} gates: are they another cell's?")
    return H
