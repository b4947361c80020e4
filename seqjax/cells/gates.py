"""Gates one at a time: from a running sum to the LSTM, each step one more piece.

    memory()                                                    c_t = c_{t-1} + g                a sum, without bound
    memory(keep=FORGET)                                         c_t = σ(f) ⊙ c_{t-1} + g         it can let go
    memory(keep=FORGET, write=CANDIDATE)                        c_t = σ(f) ⊙ c_{t-1} + σ(i) ⊙ tanh(g)   and choose
    memory(keep=FORGET, write=CANDIDATE, show=OUTPUT)           h_t = σ(o) ⊙ tanh(c_t)           the LSTM

Every gate's pre-activation is affine, z = W_ih x + b_ih + W_hh h_{t-1} + b_hh, except in the sum, where nothing looks
back: z = W_ih x + b_ih, so its Jacobian is exactly I. Without a `show` piece the cell shows what it holds, h = c.
A variant is the LSTM with one piece exchanged.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.nn import sigmoid

from seqjax.cells.peephole import Peephole, seen, with_peepholes
from seqjax.core import Affine, Cell, Hidden, factory, require_switches
from seqjax.gated import gated, normalise

ORDER = "ifgo"  # PyTorch's


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class LSTMState:
    """The whole carry of a memory cell, N = 2H: what it shows and what it holds."""

    h: Array  # [H]
    c: Array  # [H]


@dataclass(frozen=True)
class Piece:
    """One part of a memory cell: the gates it reads, and what it makes of their pre-activations {gate: [H]}.

    `value(z)` of a `keep` or `write` piece, and `value(z, c)` of a `show` piece, which also gets the new cell.
    """

    gates: str
    value: Callable[..., Any]
    sign: int = 1  # of a `keep` piece: -1 where a larger pre-activation keeps less


EVERYTHING = Piece("", lambda z: 1.0)
FORGET = Piece("f", lambda z: sigmoid(z["f"]))
COUPLED = Piece("i", lambda z: sigmoid(-z["i"]), sign=-1)  # 1 - σ(i)

SUM = Piece("g", lambda z: z["g"])
CANDIDATE = Piece("ig", lambda z: sigmoid(z["i"]) * jnp.tanh(z["g"]))
UNGATED_CANDIDATE = Piece("g", lambda z: jnp.tanh(z["g"]))
LINEAR_CANDIDATE = Piece("ig", lambda z: sigmoid(z["i"]) * z["g"])

OUTPUT = Piece("o", lambda z, c: sigmoid(z["o"]) * jnp.tanh(c))
UNGATED_OUTPUT = Piece("", lambda z, c: jnp.tanh(c))
LINEAR_OUTPUT = Piece("o", lambda z, c: sigmoid(z["o"]) * c)


@factory
def memory(
    *,
    keep: Piece = EVERYTHING,
    write: Piece = SUM,
    show: Piece | None = None,
    peephole: bool = False,
    norm: str | None = None,
    forget_bias: float | None = None,
    name: str = "memory",
) -> Cell:
    """The cell c_t = keep ⊙ c_{t-1} + write, h_t = show(c_t), made of pieces.

    peephole     gates see the cell as well, through a vector each, which starts uniform as the weights do
    norm         "layer" normalises every gate's pre-activation, inside the loop
    forget_bias  effective initial bias: σ(forget_bias) of the cell is kept; None keeps the uniform draw
    name         what messages call it
    Raises ValueError for another norm, for pieces that read gates which are not theirs, and for a forget bias or
    peepholes where no one gate could have them.
    """
    require_switches(peephole=peephole)
    gates = gates_of(keep, write, show)
    if forget_bias is not None and len(keep.gates) != 1:
        raise ValueError(f"forget_bias must be None where no one gate keeps the cell, got {forget_bias}")
    if peephole and gates == "g":
        raise ValueError("peephole must be False in a memory without gates")
    cell = gated(
        name,
        gates=gates,
        state=Hidden if show is None else LSTMState,
        update=equation(gates, keep, write, show),
        bias={} if forget_bias is None else {keep.gates: keep.sign * forget_bias},
        recurrent=not (write is SUM and gates == "g"),
        norm=norm,
        kind=Peephole if peephole else Affine,
    )
    if (keep, write, show) == (EVERYTHING, SUM, None):
        cell = replace(cell, coefficients=running_sum)
    return with_peepholes(cell) if peephole else cell


def gates_of(keep: Piece, write: Piece, show: Piece | None) -> str:
    """The letters that pieces read, in order; ValueError where a piece reads a gate that it cannot see."""
    own = (("keep", keep, "ifg"), ("write", write, "ifg")) + (() if show is None else (("show", show, "o"),))
    for name, piece, visible in own:
        if not set(piece.gates) <= set(visible):
            raise ValueError(f"{name} may read the gates {list(visible)}, got a piece that reads {list(piece.gates)}")
    return "".join(gate for gate in ORDER if any(gate in piece.gates for _, piece, _ in own))


@cache
def equation(gates: str, keep: Piece, write: Piece, show: Piece | None) -> Callable[..., Any]:
    """`update` of the pieces, the same function for the same pieces."""

    def update(params: Affine, state: Any, u: Array, a: Any) -> Any:
        raw = dict(zip(gates, jnp.split(u if isinstance(a, tuple) else u + a, len(gates)), strict=True))
        old = state.h if show is None else state.c
        z = seen(params, gates, raw, "ifg", old)
        c = keep.value(z) * old + write.value(z)
        if show is None:
            return Hidden(h=c)
        return LSTMState(h=show.value(seen(params, gates, raw, "o", c), c), c=c)

    return update


def running_sum(params: Affine, u: Array) -> tuple[Hidden, Hidden]:
    """decay = 1, write = g."""
    g = normalise(params, 0, u)
    return Hidden(jnp.ones_like(g)), Hidden(g)
