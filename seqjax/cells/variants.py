"""The eight variants of the peephole LSTM that Greff et al. (2017) compare, each with one piece exchanged."""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.nn import sigmoid

from seqjax.cells.gates import (
    CANDIDATE,
    COUPLED,
    EVERYTHING,
    FORGET,
    LINEAR_CANDIDATE,
    LINEAR_OUTPUT,
    OUTPUT,
    UNGATED_CANDIDATE,
    UNGATED_OUTPUT,
    LSTMState,
    memory,
)
from seqjax.cells.peephole import Peephole, seen
from seqjax.core import Cell, carry_dtype, factory
from seqjax.gated import hidden_units, recur, require_own

BASELINE = {"keep": FORGET, "write": CANDIDATE, "show": OUTPUT, "peephole": True}
EXCHANGED: dict[str, dict[str, Any]] = {
    "no-input-gate": {"write": UNGATED_CANDIDATE},
    "no-forget-gate": {"keep": EVERYTHING},
    "no-output-gate": {"show": UNGATED_OUTPUT},
    "no-input-activation": {"write": LINEAR_CANDIDATE},
    "no-output-activation": {"show": LINEAR_OUTPUT},
    "no-peepholes": {"peephole": False},
    "coupled": {"keep": COUPLED},
}
VARIANTS = (*EXCHANGED, "full-gate-recurrence")


@factory
def variant(name: str, *, forget_bias: float | None = None) -> Cell:
    """One of VARIANTS, by its name in the paper. The baseline is `lstm(peephole=True, forget_bias=None)`.

    forget_bias  the effective initial bias of what keeps the cell; None keeps the uniform draw
    Raises ValueError for an unknown name, and for a forget bias where there is no forget gate.
    """
    if name not in VARIANTS:
        raise ValueError(f"name must be one of {list(VARIANTS)}, got {name!r}")
    pieces = BASELINE | EXCHANGED.get(name, {})
    cell = replace(memory(**pieces, forget_bias=forget_bias, name=f"lstm-{name}"), name=f"lstm-{name}")
    return full_gate_recurrence(cell) if name == "full-gate-recurrence" else cell


@jax.tree_util.register_dataclass
@dataclass(frozen=True, kw_only=True)
class FullGate(Peephole):
    """Weights of a peephole LSTM whose gates also see what all gates were; initialisers of recurrent blocks, which are
    those of W_hh, leave W_gates as it was drawn."""

    W_gates: Array  # [3H, 3H] from i, f, o to i, f, o


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class FullGateState(LSTMState):
    """The carry with the gates in it, N = 5H."""

    i: Array  # [H]
    f: Array  # [H]
    o: Array  # [H]


def full_gate_recurrence(cell: Cell) -> Cell:
    """A peephole LSTM with the recurrence between gates of the original (Hochreiter and Schmidhuber 1997)."""

    def init(key: Array, D: int, H: int) -> FullGate:
        params = cell.init(key, D, H)
        draw = jax.random.fold_in(key, 5)
        W = jax.random.uniform(draw, (3 * H, 3 * H), jnp.float32, -(H**-0.5), H**-0.5)
        return FullGate(**vars(params), W_gates=W)

    def start(params: FullGate) -> FullGateState:
        require_own("lstm-full-gate-recurrence", params, FullGate, {"W_hh": True, "gain": False})
        H = hidden_units("lstm-full-gate-recurrence", 4, params)
        return FullGateState(*(jnp.zeros(H, carry_dtype(params)) for _ in "hcifo"))

    return replace(cell, init=init, start=start, recur=recur_gates, update=update_gates)


def recur_gates(params: FullGate, state: FullGateState) -> Array:
    """a = W_hh h + b_hh, and W_gates [i; f; o] on the rows of the gates."""
    i, f, o = jnp.split(params.W_gates @ jnp.concatenate([state.i, state.f, state.o]), 3)
    return recur(params, state) + jnp.concatenate([i, f, jnp.zeros_like(i), o])


def update_gates(params: FullGate, state: FullGateState, u: Array, a: Array) -> FullGateState:
    """The LSTM's equation, whose gates are carried on."""
    raw = dict(zip("ifgo", jnp.split(u + a, 4), strict=True))
    z = seen(params, "ifgo", raw, "ifg", state.c)
    i, f = sigmoid(z["i"]), sigmoid(z["f"])
    c = f * state.c + i * jnp.tanh(z["g"])
    o = sigmoid(seen(params, "ifgo", raw, "o", c)["o"])
    return FullGateState(o * jnp.tanh(c), c, i, f, o)
