"""Our weights as those of Flax's cells."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from seqjax.core import Affine, Cell
from seqjax.gated import hidden_units
from seqjax.interop.flax_layout import LINEN, NNX, from_affine
from seqjax.interop.loaded import exported, require_plain
from seqjax.stack import Layer

MODULES = {"rnn": nnx.SimpleCell, "lstm": nnx.LSTMCell, "gru": nnx.GRUCell}


def to_linen(cell: Cell, params: Any) -> dict[str, dict[str, Array]]:
    """The params of the linen cell with the same equation: SimpleCell, LSTMCell (or OptimizedLSTMCell) or GRUCell.

    params   the `Affine` of one layer and direction, or a stack of just that; biases are summed where linen has one
    An "rnn-relu" needs SimpleCell(activation_fn=jax.nn.relu), of which the params say nothing. Raises ValueError for
    cells other than rnn, lstm and gru without options, and for weights that are more than a plain Affine.
    """
    return from_affine(LINEN[family(cell)], one_affine(cell, params))


def to_nnx(cell: Cell, params: Any, *, optimized: bool = False) -> nnx.RNNCellBase:
    """The nnx cell with the same equation and weights; params and errors as for `to_linen`.

    optimized   an nnx.OptimizedLSTMCell rather than an nnx.LSTMCell
    nnx.GRUCell has no bias inside r ⊙ (W_hn h + b_hn): ValueError where that is not zero.
    """
    params = one_affine(cell, params)
    kind = MODULES[family(cell)]
    if optimized and kind is not nnx.LSTMCell:
        raise ValueError(f"optimized must be False for {cell.name!r}: Flax has an optimised cell of the LSTM alone")
    kind = nnx.OptimizedLSTMCell if optimized else kind
    if kind is nnx.GRUCell and params.b_hh is not None and jnp.any(jnp.split(params.b_hh, 3)[2]):
        raise ValueError("b_hh of gate n must be zero: nnx.GRUCell has no bias in r ⊙ (W_hn h + b_hn), linen's has")
    zeros = nnx.initializers.zeros  # drawn over
    options: dict[str, Any] = {"activation_fn": jax.nn.relu} if exported(cell, "Flax") == "rnn-relu" else {}
    module = kind(
        params.W_ih.shape[1],
        params.W_hh.shape[1],
        dtype=None,  # computes in the dtype of weights and inputs; SimpleCell's own default is float32
        param_dtype=params.W_ih.dtype,
        kernel_init=zeros,
        recurrent_kernel_init=zeros,
        rngs=nnx.Rngs(0),
        **options,
    )
    nnx.update(module, from_affine(NNX[kind], params))
    return module


def family(cell: Cell) -> str:
    """Which of Flax's cells has the equation; ValueError where none has."""
    return exported(cell, "Flax").removesuffix("-relu")


def one_affine(cell: Cell, params: Any) -> Affine:
    """The plain Affine of one layer and direction, which may come as a stack of that alone; ValueError otherwise."""
    family(cell)
    if isinstance(params, tuple | list) and len(params) == 1:
        params = params[0]
    if isinstance(params, Layer) and params.backward is None:
        params = params.forward
    if isinstance(params, tuple | list | Layer):
        raise ValueError(
            "params must be of one layer and direction, such as layers[0].forward: a Flax cell holds no more"
        )
    require_plain(params, "Flax")
    hidden_units(cell.name, len(cell.gates), params)
    return params
