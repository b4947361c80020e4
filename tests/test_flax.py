"""Equal to flax.linen in float64: outputs, final carry and gradients over ragged batches, in both directions."""

from collections.abc import Callable
from functools import partial
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen
from jax import Array

from seqjax import Affine, Cell, gru, lstm, rnn, unroll

B, T, D, H = 4, 6, 2, 3
LENGTHS = jnp.array([4, T, 1, 3])
VALID = np.arange(T) < np.array(LENGTHS)[:, None]


def rows(params: Any, names: str, leaf: str = "kernel") -> Array:
    """The named dense layers of a linen cell as row blocks: kernels are stored transposed, absent biases are zero."""
    blocks = [params[name].get(leaf, jnp.zeros(H)) for name in names.split()]
    return jnp.concatenate([block.T for block in blocks])


def affine(params: Any, inputs: str, hidden: str) -> Affine:
    """Linen's dense layers, named gate by gate, in our layout."""
    return Affine(
        rows(params, inputs), rows(params, hidden), rows(params, inputs, "bias"), rows(params, hidden, "bias")
    )


CASES: dict[str, tuple[Callable[..., Any], Cell, tuple[str, str]]] = {
    "simple": (linen.SimpleCell, rnn(), ("i", "h")),
    "lstm": (linen.LSTMCell, lstm(), ("ii if ig io", "hi hf hg ho")),
    "optimized lstm": (linen.OptimizedLSTMCell, lstm(), ("ii if ig io", "hi hf hg ho")),
    "gru": (linen.GRUCell, gru(), ("ir iz in", "hr hz hn")),
}


def ours(cell: Cell, gates: tuple[str, str], reverse: bool, params: Any, xs: Array) -> dict[str, Array]:
    """Our outputs and final state."""
    trace = unroll(cell, affine(params["params"]["cell"], *gates), xs, lengths=LENGTHS, reverse=reverse)
    return {"ys": trace.ys} | vars(trace.final)


def theirs(module: linen.RNN, params: Any, xs: Array) -> dict[str, Array]:
    """Linen's outputs, zeroed in the padding as ours are, and final carry."""
    carry, ys = module.apply(params, xs, seq_lengths=LENGTHS)
    ys = jnp.where(VALID[..., None], jnp.asarray(ys), 0)
    return {"ys": ys} | (dict(zip("ch", carry, strict=True)) if isinstance(carry, tuple) else {"h": carry})


@partial(jax.jit, static_argnums=0, compiler_options={"xla_backend_optimization_level": 0})
def values_and_grads(run: Callable[..., dict[str, Array]], params: Any, xs: Array) -> Any:
    """What a run returns, and the gradients of its sum in fixed random weights to params and xs."""
    values, pullback = jax.vjp(run, params, xs)
    rng = np.random.default_rng(1)
    return values, pullback({name: jnp.asarray(rng.normal(size=values[name].shape)) for name in sorted(values)})


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients_equal_those_of_linen(case: str, reverse: bool):
    make, cell, gates = CASES[case]
    rng = np.random.default_rng(0)
    xs = jnp.asarray(rng.normal(size=(B, T, D)))
    module = linen.RNN(make(H, param_dtype=jnp.float64), return_carry=True, reverse=reverse, keep_order=True)
    shapes = jax.eval_shape(module.init, jax.random.key(0), xs)
    params = jax.tree.map(lambda a: jnp.asarray(rng.uniform(-0.8, 0.8, a.shape)), shapes)
    got = values_and_grads(partial(ours, cell, gates, reverse), params, xs)
    want = values_and_grads(partial(theirs, module), params, xs)
    chex.assert_trees_all_close(got, want, rtol=1e-10, atol=1e-10)
