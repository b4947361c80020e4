"""Gates one at a time: from a running sum to the LSTM, each step one more piece.

    memory()                                                    c_t = c_{t-1} + g                a sum, without bound
    memory(keep=FORGET)                                         c_t = σ(f) ⊙ c_{t-1} + g         it can let go
    memory(keep=FORGET, write=CANDIDATE)                        c_t = σ(f) ⊙ c_{t-1} + σ(i) ⊙ tanh(g)   and choose
    memory(keep=FORGET, write=CANDIDATE, show=OUTPUT)           h_t = σ(o) ⊙ tanh(c_t)           the LSTM

Every gate's pre-activation is affine, z = W_ih x + b_ih + W_hh h_{t-1} + b_hh, except in the sum, where nothing looks
back: z = W_ih x + b_ih, so its Jacobian is exactly I. Without a `show` piece the cell shows what it holds, h = c.
A variant is the LSTM with one piece exchanged.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.nn import sigmoid

from seqjax.core import Affine, Cell, Hidden, factory
from seqjax.gated import gated, normalise

ORDER = "ifgo"  # PyTorch's


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class LSTMState:
    """The whole carry of a memory cell, N = 2H: what it shows and what it holds."""

    h: Array  # [H]
    c: Array  # [H]


@jax.tree_util.register_dataclass
@dataclass(frozen=True, kw_only=True)
class Peephole(Affine):
    """Weights of gates that also see the cell: i and f the old one, o the new one (Gers and Schmidhuber 2000)."""

    look: dict[str, Array]  # gate -> [H], by name, so that no order can be confused


@dataclass(frozen=True)
class Piece:
    """One part of a memory cell: the gates it reads, and what it makes of their pre-activations."""

    gates: str
    value: Callable[..., Any]


EVERYTHING = Piece("", lambda z: 1.0)
FORGET = Piece("f", lambda z: sigmoid(z["f"]))
COUPLED = Piece("i", lambda z: sigmoid(-z["i"]))  # 1 - σ(i)

SUM = Piece("g", lambda z: z["g"])
CANDIDATE = Piece("ig", lambda z: sigmoid(z["i"]) * jnp.tanh(z["g"]))
UNGATED_CANDIDATE = Piece("g", lambda z: jnp.tanh(z["g"]))
LINEAR_CANDIDATE = Piece("ig", lambda z: sigmoid(z["i"]) * z["g"])

OUTPUT = Piece("o", lambda z, c: sigmoid(z["o"]) * jnp.tanh(c))
UNGATED_OUTPUT = Piece("", lambda z, c: jnp.tanh(c))
LINEAR_OUTPUT = Piece("o", lambda z, c: sigmoid(z["o"]) * c)


@factory
def memory(
    name: str = "memory",
    *,
    keep: Piece = EVERYTHING,
    write: Piece = SUM,
    show: Piece | None = None,
    peephole: bool = False,
    norm: str | None = None,
    forget_bias: float | None = None,
) -> Cell:
    """The cell c_t = keep ⊙ c_{t-1} + write, h_t = show(c_t), made of pieces.

    peephole     gates see the cell as well, through a vector each, which starts uniform as the weights do
    norm         "layer" normalises every gate's pre-activation, inside the loop
    forget_bias  effective initial bias: σ(forget_bias) of the cell is kept; None keeps the uniform draw
    Raises ValueError for another norm, and for a forget bias or peepholes where no gate could have them.
    """
    parts = [keep, write] + ([] if show is None else [show])
    gates = "".join(gate for gate in ORDER if any(gate in part.gates for part in parts))
    if forget_bias is not None and not keep.gates:
        raise ValueError(f"forget_bias must be None in {name}, which keeps everything, got {forget_bias}")
    if peephole and gates == "g":
        raise ValueError(f"peephole must be False in {name}, which has no gates")

    def update(params: Affine, state: Any, u: Array, a: Any) -> Any:
        raw = dict(zip(gates, jnp.split(u if isinstance(a, tuple) else u + a, len(gates)), strict=True))
        old = state.h if show is None else state.c
        z = seen(params, gates, raw, "ifg", old)
        c = keep.value(z) * old + write.value(z)
        if show is None:
            return Hidden(h=c)
        return LSTMState(h=show.value(seen(params, gates, raw, "o", c), c), c=c)

    bias = (
        {} if not keep.gates or forget_bias is None else {keep.gates: -forget_bias if keep is COUPLED else forget_bias}
    )
    state = Hidden if show is None else LSTMState
    cell = gated(name, gates=gates, state=state, update=update, bias=bias, recurrent=gates != "g", norm=norm)
    return with_peepholes(cell) if peephole else cell


def seen(params: Affine, gates: str, raw: Mapping[str, Array], which: str, c: Array) -> dict[str, Array]:
    """Pre-activations z + p ⊙ c of the gates of `which`, normalised where the params hold a gain."""
    look = params.look if isinstance(params, Peephole) else {}
    return {
        gate: normalise(params, gates.index(gate), raw[gate] + look[gate] * c if gate in look else raw[gate])
        for gate in which
        if gate in raw
    }


def with_peepholes(cell: Cell) -> Cell:
    """The same memory cell, drawn with a peephole for each of its gates."""
    gates = [gate for gate in cell.gates if gate != "g"]

    def init(key: Array, D: int, H: int) -> Peephole:
        keys = jax.random.split(jax.random.fold_in(key, len(ORDER)), len(gates))
        draws = (jax.random.uniform(k, (H,), jnp.float32, -(H**-0.5), H**-0.5) for k in keys)
        return Peephole(**vars(cell.init(key, D, H)), look=dict(zip(gates, draws, strict=True)))

    return replace(cell, name=f"{cell.name}-peephole", init=init)
