"""Noise for training, every draw from an explicit key: dropout between layers, on the recurrent state, and zoneout."""

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.core import Cell, Complex, Params, State, require_switches

RATES = ("between", "recurrent", "zoneout")


@dataclass(frozen=True)
class Dropout:
    """What to drop, as rates in [0, 1). Without a key there is no noise, and zoneout takes its expectation.

    between      of what a layer reads from the layer below, a mask a step, as `nn.LSTM(dropout=)`
    recurrent    of the h that enters the recurrent product, one mask over time (Gal and Ghahramani 2016)
    zoneout      of every field of the state, which there keeps its old value at a step (Krueger et al. 2017)
    variational  one mask over time for `between` as well
    Kept numbers are scaled by 1/(1 - rate). Raises ValueError for rates outside [0, 1), and where nothing is dropped.
    """

    between: float = 0.0
    recurrent: float = 0.0
    zoneout: float = 0.0
    variational: bool = False

    def __post_init__(self) -> None:
        for name in RATES:
            rate: Any = getattr(self, name)
            if isinstance(rate, bool) or not isinstance(rate, Real) or not 0 <= float(rate) < 1:
                raise ValueError(f"{name} must be a rate in [0, 1), got {rate!r}")
        require_switches(variational=self.variational)
        if not any(getattr(self, name) for name in RATES):
            raise ValueError(f"a Dropout without a rate does nothing: give one of {', '.join(RATES)}, or leave it out")
        if self.variational and not self.between:
            raise ValueError("variational is about the masks of between, which is 0: give between a rate")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Noise:
    """The draws for one direction of one layer, batch last."""

    factor: Array | None  # [H, B] on the h that enters the recurrent product
    hold: State | None  # per field, where the old value is kept: [T, H, B] bool, or its expectation [T]


def require_use(dropout: Dropout, cell: Cell, layers: int) -> None:
    """ValueError where a rate would do nothing: between the layers of one, or before a product that is not there."""
    if not isinstance(dropout, Dropout):
        raise ValueError(f"dropout must be a Dropout, such as Dropout(between=0.5), got {dropout!r}")
    if dropout.between and layers == 1:
        raise ValueError(f"between={dropout.between} drops nothing in 1 layer: add layers, or leave it out")
    if dropout.recurrent and not jax.tree.leaves(jax.eval_shape(lambda key: product_of(cell, key), jax.random.key(0))):
        why = "has no recurrent product, or has it in `update`, where dropout does not reach"
        fix = "use between or zoneout"
        raise ValueError(f"recurrent={dropout.recurrent} cannot act in cell {cell.name!r}, which {why}: {fix}")


def product_of(cell: Cell, key: Array) -> Any:
    """The recurrent product of a small instance of a cell."""
    params = cell.init(key, 2, 2)
    return cell.recur(params, cell.start(params))


def scaled_mask(key: Array, rate: float, shape: tuple[int, ...], dtype: Any) -> Array:
    """1/(1 - rate) where kept, 0 where dropped."""
    return jnp.where(jax.random.bernoulli(key, 1 - rate, shape), 1 / (1 - float(rate)), 0).astype(dtype)


def drop_between(dropout: Dropout | None, key: Array | None, xs: Array) -> Array:
    """What a layer reads, [T, D, B], of the layer below it."""
    if dropout is None or key is None or not dropout.between:
        return xs
    shape = xs.shape[1:] if dropout.variational else xs.shape
    return xs * jnp.broadcast_to(scaled_mask(key, dropout.between, shape, xs.dtype), xs.shape)


def noise_of(dropout: Dropout | None, key: Array | None, cell: Cell, params: Params, T: int, B: int) -> Noise | None:
    """Draws for T steps of a batch of B, or what stands for them without a key."""
    if dropout is None or (key is None and not dropout.zoneout):
        return None
    state = jax.eval_shape(cell.start, params)
    if key is None:
        return Noise(None, jax.tree.map(lambda s: jnp.full(T, dropout.zoneout, s.dtype), state))
    first, second = jax.random.split(key)
    factor = scaled_mask(first, dropout.recurrent, (*state.h.shape, B), state.h.dtype) if dropout.recurrent else None
    return Noise(factor, held(second, dropout.zoneout, state, T, B) if dropout.zoneout else None)


def held(key: Array, rate: float, state: State, T: int, B: int) -> State:
    """Where every number of a state keeps its old value, [T, .., B] bool; the parts of a complex number together."""
    fields, tree = jax.tree.flatten(state, is_leaf=is_complex)
    draws = []
    for k, field in zip(jax.random.split(key, len(fields)), fields, strict=True):
        shape = jax.tree.leaves(field)[0].shape
        draw = jax.random.bernoulli(k, rate, (T, *shape, B))
        draws.append(Complex(draw, draw) if is_complex(field) else draw)
    return tree.unflatten(draws)


def is_complex(field: Any) -> bool:
    """Whether a field is one complex array in two parts."""
    return isinstance(field, Complex)


def zoned(hold: State | None, new: State, old: State) -> State:
    """The new state, but the old one where it is held."""
    if hold is None:
        return new
    return jax.tree.map(lambda z, n, o: jnp.where(z, o, n) if z.dtype == bool else n + z * (o - n), hold, new, old)


def dropped(factor: Array, state: State) -> State:
    """The state whose h enters the recurrent product."""
    return replace(state, h=state.h * factor)
