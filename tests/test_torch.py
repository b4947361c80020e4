"""Equal to PyTorch in float64: values, final states and every gradient of RNN, LSTM and GRU stacks.

Always against committed answers, and where PyTorch is installed (extra `torch`) against its own on other numbers.
"""

from functools import lru_cache, partial
from importlib.util import find_spec

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch_reference
from jax import Array
from torch_reference import CASES, GOLDEN, LENGTHS, Arrays

from seqjax import Affine, Cell, Layer, gru, lstm, rnn, unroll_stack
from seqjax.interop.torch import load

CELLS = {"tanh": rnn(), "relu": rnn(activation="relu"), "lstm": lstm(), "gru": gru()}
SOURCES = ["golden"] + (["live"] if find_spec("torch") else [])

every_source = pytest.mark.parametrize("source", SOURCES)


@lru_cache
def arrays_of(source: str, case: str) -> Arrays:
    """Weights, inputs and PyTorch's answers, from the committed file or computed now on another seed."""
    if source == "live":
        return torch_reference.reference(case, seed=1)
    with np.load(GOLDEN) as file:
        return under(f"{case}/", {key: file[key] for key in file.files if key.startswith(f"{case}/")})


def under(prefix: str, arrays: Arrays) -> Arrays:
    """The arrays whose names begin so, named by what follows."""
    return {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}


def run(cell: Cell, params: tuple[Layer, ...], xs: Array, batch: str) -> dict[str, Array]:
    """What PyTorch returns, from our stack: ys [B, T, F], and h (and c) [P, B, H]."""
    lengths = LENGTHS[batch]
    trace = unroll_stack(cell, params, xs, lengths=None if lengths is None else jnp.array(lengths))
    return {"ys": trace.ys} | vars(jax.tree.map(lambda *states: jnp.stack(states), *trace.final))


@partial(jax.jit, static_argnames=("case", "batch"), compiler_options={"xla_backend_optimization_level": 0})
def values_and_grads(case: str, batch: str, params: tuple[Layer, ...], xs: Array, weights: dict[str, Array]):
    """Our values, and the gradients of their weighted sum to params and xs."""
    values, pullback = jax.vjp(lambda p, x: run(CELLS[case.split("-")[0]], p, x, batch), params, xs)
    return values, pullback(weights)


@every_source
@pytest.mark.parametrize("batch", LENGTHS)
@pytest.mark.parametrize("case", CASES)
def test_values_and_all_gradients_equal_those_of_torch(case: str, batch: str, source: str):
    given, which = arrays_of(source, case), list(LENGTHS).index(batch)
    weights = under("loss/", given)
    values, grads = values_and_grads(case, batch, load(under("weight/", given)).params, given["xs"], weights)
    chex.assert_trees_all_close(values, {name: given[name][which] for name in weights}, rtol=1e-9, atol=1e-9)
    named = {name: grad[which] for name, grad in under("grad/", given).items()}
    xs = named.pop("xs")
    chex.assert_trees_all_close(grads, (load(named).params, xs), rtol=1e-9, atol=1e-9)


@every_source
@pytest.mark.parametrize("case", CASES)
def test_no_bias_is_zero_and_no_gradient_vanishes(case: str, source: str):
    given = arrays_of(source, case)
    assert all(bias.all() for name, bias in under("weight/", given).items() if "bias" in name)
    assert all(np.abs(grad[k]).max() > 1e-2 for grad in under("grad/", given).values() for k in range(len(LENGTHS)))


def swapped(params: Affine) -> Affine:
    """GRU weights whose z is 1 - z: σ(-a) = 1 - σ(a)."""
    H = params.W_hh.shape[1]
    return jax.tree.map(lambda a: a.at[H : 2 * H].multiply(-1), params)


@every_source
@pytest.mark.parametrize("convention", ["reset before the product", "z and 1 - z swapped"])
def test_the_other_conventions_of_a_gru_miss_torch(convention: str, source: str):
    """B27: on the same weights, by more than rounding could."""
    given = arrays_of(source, "gru-1")
    (layer,) = load(under("weight/", given)).params
    if convention == "reset before the product":
        cell = gru(reset_after=False)
    else:
        cell, layer = gru(), Layer(swapped(layer.forward))
    ys = run(cell, (layer,), jnp.asarray(given["xs"]), "full")["ys"]
    assert np.abs(ys - given["ys"][0]).max() > 1e-3
