"""Peepholes: gates that also see the cell, through a vector each (Gers and Schmidhuber 2000)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.core import Affine, Cell
from seqjax.gated import normalise


@jax.tree_util.register_dataclass
@dataclass(frozen=True, kw_only=True)
class Peephole(Affine):
    """Weights of gates that also see the cell: i and f the old one, o the new one (Gers and Schmidhuber 2000)."""

    look: dict[str, Array]  # gate -> [H], by name, so that no order can be confused


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
        keys = jax.random.split(jax.random.fold_in(key, 4), len(gates))
        draws = (jax.random.uniform(k, (H,), jnp.float32, -(H**-0.5), H**-0.5) for k in keys)
        return Peephole(**vars(cell.init(key, D, H)), look=dict(zip(gates, draws, strict=True)))

    return replace(cell, name=f"{cell.name}-peephole", init=init)
