"""A linear map multiplied out, against `jax.linearize`: the same map and the same transpose, kept as fewer numbers."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from oracle import B, H, close, each_distinct_cell, random_xs

from seqjax import gru, lstm, rnn
from seqjax.unroll.linear import multiplied_out

X, Y = random_xs(H, B, seed=0), random_xs(H, B, seed=1)
MATRIX = random_xs(H, H, seed=2)


def layer_norm(x):
    """Reductions, and a root of one."""
    x = x - x.mean(0, keepdims=True)
    return x * lax.rsqrt(x.var(0, keepdims=True) + 1e-5)


def shared(x, y):
    """One coefficient in several terms and outputs."""
    σ = jax.nn.sigmoid(x)
    return σ * y, σ * (x - y) - σ * x, jnp.where(x > 0, σ * y, σ * x)


def narrow(x, y):
    """A product of narrow numbers in one of wide ones."""
    z = x.astype("bfloat16")
    return (z * z).astype("float32") * y.astype("float32"), z


def steps(x, y):
    """Loops and branches, which are applied as they are."""
    z = lax.fori_loop(0, 3, lambda i, z: jnp.sin(z) * y, x)
    return lax.cond(y.sum() > 0, jnp.tanh, jnp.cos, z), lax.scan(lambda c, r: (c * r, c + r), x[0], y)


FUNCTIONS = {
    "where": lambda x, y: jnp.where(x > y, x * y, -y),
    "where with a constant": lambda x, y: jnp.where(x > 0, x * y, 1.0) + jnp.where(y > 0, 2.0, y),
    "one choice for all": lambda x, y: lax.select(y.sum() > 0, x * y, 2 * x),
    "relu": lambda x, y: jax.nn.relu(x - y),
    "max, min and clip": lambda x, y: (jnp.maximum(x, y), jnp.minimum(x, 0.1), jnp.clip(x * y, -0.5, 0.5)),
    "negative difference": lambda x, y: -(x - y) - (-x),
    "division": lambda x, y: (x / (2 + jnp.sin(y)), x / 3.0, 1 / (1 + y * y)),
    "powers": lambda x, y: (x**3, (1 + y * y) ** 0.5, x * x * x * y),
    "sin and cos": lambda x, y: jnp.sin(x) * jnp.cos(jnp.sin(y) * x),
    "a node twice": lambda x, y: (x + x, x - x, (x + y) - (x - y), x * 2 - y * x),
    "shared coefficient": shared,
    "layer norm": lambda x, y: layer_norm(x * y) * y,
    "softmax": lambda x, y: jax.nn.softmax(x * y, 0) + jax.nn.logsumexp(y, 0)[None],
    "product with a constant": lambda x, y: jnp.tanh(MATRIX @ (x * y)) + y,
    "product of both": lambda x, y: x.T @ jnp.tanh(y),
    "jitted in jitted": lambda x, y: jax.jit(lambda a: jax.jit(jnp.tanh)(a) * y)(x) - x,
    "checkpoint": lambda x, y: jax.checkpoint(lambda a: jnp.sin(jnp.tanh(a) * y))(x),
    "loops and branches": steps,
    "pieces": lambda x, y: (jnp.concatenate([x, y])[3:], jnp.cumsum(x, 0), jnp.sort(x * y, 0), x.at[1].set(y[0])),
    "no input": lambda x, y: (jnp.cos(jnp.arange(3.0)), x * y, lax.stop_gradient(x)),
    "input itself": lambda x, y: {"x": x, "again": x, "y": y},
    "scalar": lambda x, y: x.sum() * y + y[0, 0] * 2,
    "mixed dtypes": narrow,
}


def draws(tree, seed):
    """Numbers like a tree, in its dtypes, none like another."""
    return jax.tree.map(lambda a: jnp.asarray(np.cos(seed + np.arange(a.size)).reshape(a.shape), a.dtype), tree)


def both_ways(way, function, args):
    """The values of a function, its linear map, and the transpose of that."""
    out, linear = way(function, *args)
    return out, linear(*draws(args, 3)), jax.linear_transpose(linear, *args)(draws(out, 4))


def moved(way, function, args):
    """How the linear map of a function moves with the place where it is taken."""
    return jax.jvp(lambda *args: way(function, *args)[1](*draws(args, 3)), args, draws(args, 4))[1]


def assert_same(run, function, args, tolerance=1e-12):
    """Of both ways, in one program each."""
    got, want = (jax.jit(partial(run, way, function))(args) for way in (multiplied_out, jax.linearize))
    close(got, want, tolerance)
    assert jax.tree.map(lambda a: a.dtype, got) == jax.tree.map(lambda a: a.dtype, want)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_map_is_that_of_linearize(name):
    """Values, tangents, transposed; narrow numbers to their own rounding."""
    assert_same(both_ways, FUNCTIONS[name], (X, Y), 4 * 2**-8 if name == "mixed dtypes" else 1e-12)


@pytest.mark.parametrize("name", ["where", "shared coefficient", "layer norm", "jitted in jitted"])
def test_the_map_may_itself_be_differentiated(name):
    """By the place where it is taken: second derivatives hold."""
    assert_same(moved, FUNCTIONS[name], (X, Y))


def updated(cell, params, state, u, a):
    """The equation of a batch, batch last."""
    return jax.vmap(cell.update, (None, -1, -1, -1), -1)(params, state, u, a)


def around(cell):
    """(params, state, u, a) of a batch, batch last."""
    params, x = jax.eval_shape(lambda: cell.init(jax.random.key(0), 3, H)), jax.ShapeDtypeStruct((3,), float)
    state = jax.eval_shape(cell.start, params)
    one = state, jax.eval_shape(cell.project, params, x), jax.eval_shape(cell.recur, params, state)
    many = jax.tree.map(lambda v: jax.ShapeDtypeStruct((*v.shape, B), float), one)
    return draws(jax.tree.map(lambda p: jax.ShapeDtypeStruct(p.shape, float), params), 1), *draws(many, 2)


@each_distinct_cell
def test_every_equation(cell):
    """To its params as well, matrices included where it reads them."""
    assert_same(both_ways, partial(updated, cell), around(cell))


@pytest.mark.parametrize(("cell", "most"), [(rnn(), 1), (lstm(), 6), (gru(), 6)], ids=["rnn", "lstm", "gru"])
def test_numbers_kept_a_unit(cell, most):
    """The slope of the tanh network; the LSTM's f, F, I, G, O and C; no more than what the GRU's five slopes need, one
    of them with both signs."""
    params, *args = around(cell)
    _, linear = multiplied_out(partial(updated, cell, params), *args)
    kept = jax.tree.leaves(linear)
    assert {c.shape for c in kept} == {(H, B)}
    assert len(kept) == most


def test_a_coefficient_is_kept_once():
    """However many terms and outputs it has."""
    _, linear = multiplied_out(lambda x, y: (MATRIX * x, [MATRIX * x + y, MATRIX * y]), MATRIX, MATRIX)
    assert len(jax.tree.leaves(linear)) == 1


def test_a_scan_stacks_the_map():
    """Kept step by step and applied by a second scan, it is the tangent of the first."""
    cell = lstm()
    params, state, u, _ = around(cell)
    zs, dzs = (random_xs(6, *u.shape, seed=seed) for seed in (0, 1))

    def step(state, z):
        return updated(cell, params, state, z, jnp.zeros_like(z))

    def states(state, zs):
        return lax.scan(lambda s, z: (step(s, z),) * 2, state, zs)[1]

    def by_maps(state, zs, dstate, dzs):
        maps = lax.scan(lambda s, z: multiplied_out(step, s, z), state, zs)[1]
        return lax.scan(lambda ds, each: (each[0](ds, each[1]),) * 2, dstate, (maps, dzs))[1]

    dstate = draws(state, 7)
    want = jax.jit(lambda: jax.jvp(states, (state, zs), (dstate, dzs))[1])()
    close(jax.jit(by_maps)(state, zs, dstate, dzs), want, 1e-12)
