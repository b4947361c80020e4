"""What stands between a network's embedding and its readout, as a value; and what bodies without a state share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.core import Cell, Params, State
from seqjax.sequences import ends, masked


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Shown:
    """What a body shows that is no recurrence. Batch leads in what `Network.apply` returns and is last inside."""

    ys: Array  # [B, T, F] at every step, zero where masked
    last: Array  # [B, F] at each row's own last step
    cut: Array | None = None  # [B] bool, rows longer than a window; None in a body that cuts none


def own_last(params: Params, shown: Shown) -> Array:
    """What a body says itself that it shows at each row's last step."""
    return shown.last


@dataclass(frozen=True)
class Body:
    """A record of pure functions of batches in the inside layout, one event at a time in its streaming form.

    run    (params, xs [T, D, B], mask= [T, B] or None, key=) -> a trace with ys [T, F, B], zero where masked, such as
           `Shown`; a recurrence takes `state`, `reset` and `perturb` as well. Padding may hold anything
    start  params -> what is remembered before the first event, without a batch axis; None for what cannot stream
    step   (params, state, x [D]) -> (state, y [F]), equal to what `run` shows at the last step of every prefix
    about  what it is made of, a JSON object, by which a checkpoint knows it
    `reads` raises ValueError for another body's params, and so do `start` and `step` for what they cannot take.
    """

    name: str
    init: Callable[[Array, int, int], Params]  # (key, D, H) -> params
    reads: Callable[[Params], int]  # params -> D
    shows: Callable[[Params], int]  # params -> F
    run: Callable[..., Any]
    last: Callable[[Params, Any], Array] = own_last  # (params, trace) -> [F, B] at each row's own last step
    start: Callable[[Params], State] | None = None
    step: Callable[[Params, State, Array], tuple[State, Array]] | None = None
    about: str = "{}"
    cell: Cell | None = None  # of a recurrence
    residual: bool = False

    def __repr__(self) -> str:
        return f"<Body {self.name}>"


def at_ends(ys: Array, mask: Array | None) -> Array:
    """[T, F, B] at each row's last valid step, [F, B]; zeros for an empty row."""
    T, F, B = ys.shape
    if T == 0:
        return jnp.zeros((F, B), ys.dtype)
    if mask is None:
        return ys[-1]
    last = jnp.maximum(ends(mask, T, B) - 1, 0)
    return jnp.take_along_axis(masked(ys, mask), last[None, None], axis=0)[0]


def require_params(params: Any, kind: type, name: str) -> None:
    """ValueError unless params are of a body's own kind."""
    if not isinstance(params, kind):
        raise ValueError(f"params must be {kind.__name__}, such as {name} draws, got {type(params).__name__}")


def require_state(state: Any, fresh: Any) -> None:
    """ValueError unless a state has the structure and the shapes of a fresh one."""
    given, wanted = jax.tree.map(jnp.shape, state), jax.tree.map(jnp.shape, fresh)
    if given != wanted:
        raise ValueError(f"state must be shaped as `start` gives it, {wanted}, got {given}")
