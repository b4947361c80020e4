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

from seqjax import unroll
from seqjax.interop.flax import load

B, T, D, H = 4, 6, 2, 3
LENGTHS = jnp.array([4, T, 1, 3])
VALID = np.arange(T) < np.array(LENGTHS)[:, None]


CASES: dict[str, tuple[Callable[..., Any], str]] = {
    "simple": (linen.SimpleCell, "rnn"),
    "lstm": (linen.LSTMCell, "lstm"),
    "optimized lstm": (linen.OptimizedLSTMCell, "lstm"),
    "gru": (linen.GRUCell, "gru"),
}


def ours(name: str, reverse: bool, params: Any, xs: Array) -> dict[str, Array]:
    """Our outputs and final state, from linen's weights."""
    cell, (layer,) = load(params)
    assert cell.name == name
    trace = unroll(cell, layer.forward, xs, lengths=LENGTHS, reverse=reverse)
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
    make, name = CASES[case]
    rng = np.random.default_rng(0)
    xs = jnp.asarray(rng.normal(size=(B, T, D)))
    module = linen.RNN(make(H, param_dtype=jnp.float64), return_carry=True, reverse=reverse, keep_order=True)
    shapes = jax.eval_shape(module.init, jax.random.key(0), xs)
    params = jax.tree.map(lambda a: jnp.asarray(rng.uniform(-0.8, 0.8, a.shape)), shapes)
    got = values_and_grads(partial(ours, name, reverse), params, xs)
    want = values_and_grads(partial(theirs, module), params, xs)
    chex.assert_trees_all_close(got, want, rtol=1e-10, atol=1e-10)
