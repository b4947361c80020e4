"""Any cell as an nnx cell: for `nnx.RNN`, `nnx.Bidirectional` and `nnx.Optimizer`.

A step runs with the batch as the last axis, as in `unroll`. With the batch first, the CPU compiler of JAX 0.10.2 gives
a wrong gradient in places: to W_ih and b_ih of a float64 GRU with H = 5 on 4 sequences, off by half its size.
"""

from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from seqjax.core import Cell, Params, State, at_least_float32, require_cell
from seqjax.unroll import over_batch


def as_nnx(cell: Cell, D: int, H: int, *, rngs: nnx.Rngs) -> "NNXCell":
    """An nnx cell of H units that reads D numbers a step, with the cell's own draw from `rngs.params`.

    ValueError for sizes below 1. `NNXCell(cell, params)` has weights from elsewhere instead.
    """
    require_cell(cell)
    return NNXCell(cell, cell.init(rngs.params(), D, H))


class NNXCell(nnx.RNNCellBase):
    """A cell and its params, each array of which is an nnx.Param under `weights` and the name of its field.

    The carry is the cell's state, in float32 or wider whatever the dtype of the params, and keeps its dtype from step
    to step. What `params` gives, after training say, is what `seqjax.unroll` takes.
    """

    def __init__(self, cell: Cell, params: Params) -> None:
        self.cell = cell
        self.weights = nnx.data(
            jax.tree.map(lambda a: nnx.Param(jnp.array(a)), params)
        )  # copies, so they may be donated

    @property
    def params(self) -> Params:
        """The params of the cell as plain arrays."""
        return jax.tree.map(lambda p: p.get_value(), self.weights, is_leaf=is_param)

    def __call__(self, carry: State, inputs: Array) -> tuple[State, Array]:
        """One step: carry fields [..., H] and inputs [..., D], of any leading axes, to the new carry and [..., H]."""
        check_carry(self.cell, self.params, carry, inputs)
        batch = inputs.shape[:-1]

        def inside(a: Array) -> Array:
            return jnp.moveaxis(a.reshape(prod(batch), *a.shape[len(batch) :]), 0, -1)

        def outside(a: Array) -> Array:
            return jnp.moveaxis(a, -1, 0).reshape(*batch, *a.shape[:-1])

        step = over_batch(partial(one_step, self.cell))  # the engine's layout: see the module's docstring
        return jax.tree.map(outside, step(self.params, *jax.tree.map(inside, (carry, inputs))))

    def initialize_carry(self, input_shape: tuple[int, ...], rngs: Any = None, carry_init: Any = None) -> State:
        """The cell's own start for inputs [..., D], each field in memory of its own; nothing is drawn from `rngs`."""
        if carry_init is not None:
            raise ValueError(
                f"carry_init must be None: {self.cell.name!r} has a start of its own, or pass initial_carry"
            )
        start = jax.tree.map(at_least_float32, self.cell.start(self.params))
        return jax.tree.map(lambda s: jnp.array(jnp.broadcast_to(s, (*input_shape[:-1], *s.shape))), start)

    @property
    def num_feature_axes(self) -> int:
        """Inputs have one axis that is not a batch's."""
        return 1


def is_param(node: Any) -> bool:
    """Whether a node of a tree is a variable, not yet its array."""
    return isinstance(node, nnx.Variable)


def check_carry(cell: Cell, params: Params, carry: State, inputs: Array) -> None:
    """ValueError unless a carry has the structure and shapes of the cell's own state, for inputs [..., D]."""
    batch = jnp.shape(inputs)[:-1]
    want = jax.tree.map(lambda s: (*batch, *s.shape), jax.eval_shape(cell.start, params))
    got = jax.tree.map(jnp.shape, carry)
    if got != want:
        raise ValueError(f"carry must be like initialize_carry(inputs.shape), of shapes {want}, got {got}")


def one_step(cell: Cell, params: Params, state: State, x: Array) -> tuple[State, Array]:
    """The next state of one example, in the dtype of the last, and the output."""
    state = jax.tree.map(at_least_float32, state)
    new = cell.step(params, state, cell.project(params, x))
    new = jax.tree.map(lambda n, s: n.astype(s.dtype), new, state)
    return new, cell.read(params, new)
