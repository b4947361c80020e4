"""Jacobians against closed forms, products that no float could hold, and one vector pulled back against autodiff."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import B, D, H, T, close, generic, random_mask, random_params, random_state, random_xs

from seqjax import (
    Affine,
    Layer,
    deep,
    gradient_profile,
    gru,
    init_stack,
    linear,
    lstm,
    network,
    one_pole,
    pullback,
    rnn,
    split_jacobians,
    step_bounds,
    step_jacobians,
    suffix_products,
    unroll,
    unroll_stack,
)
from seqjax.deep import as_one
from seqjax.dense import Dense


def test_jacobian_of_a_tanh_unit():
    """diag(1 - h²) W_hh at every step of a batch, split into the two."""
    params = random_params(rnn())
    trace = unroll(rnn(), params, random_xs())
    slopes = 1 - trace.after.h**2
    close(step_jacobians(rnn(), params, trace), slopes[..., None] * params.W_hh[None, None])
    parts = split_jacobians(rnn(), params, trace)
    close(parts.slopes, slopes[..., None] * jnp.eye(H)[None, None])
    close(parts.matrix, jnp.broadcast_to(params.W_hh, (B, T, H, H)))
    assert not parts.direct.any()


def test_jacobian_of_an_lstm_has_its_forget_gates_on_the_cell_line():
    """What `update` passes straight through, and all of it together."""
    params = random_params(lstm())
    trace = unroll(lstm(), params, random_xs(T, D))
    parts = split_jacobians(lstm(), params, trace)
    z = trace.us + trace.before.h @ params.W_hh.T + params.b_hh[None]
    f = jax.nn.sigmoid(z[:, H : 2 * H])
    close(parts.direct[:, H:, H:], f[..., None] * jnp.eye(H)[None])
    close(parts.direct + parts.slopes @ parts.matrix, step_jacobians(lstm(), params, trace))


def test_a_step_stretches_no_more_than_its_bound():
    """Max slope times σ_max for a tanh RNN, and at least σ_max of the whole step in any cell with such a product."""
    params = random_params(rnn())
    trace = unroll(rnn(), params, random_xs())
    slopes = (1 - trace.after.h**2).max(-1)
    close(step_bounds(split_jacobians(rnn(), params, trace)), slopes * np.linalg.norm(params.W_hh, 2))
    for cell in (lstm(), gru()):
        params = random_params(cell)
        trace = unroll(cell, params, random_xs())
        largest = np.linalg.norm(step_jacobians(cell, params, trace), 2, (-2, -1))
        bounds = step_bounds(split_jacobians(cell, params, trace))
        assert (largest <= bounds * (1 + 1e-12)).all()
        assert (bounds < 4 * largest).all()


@pytest.mark.parametrize("g", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_long_products_neither_overflow_nor_underflow(g, dtype):
    """Exponent ln g to 1e-5 at T = 2000, as a product and as one vector."""
    W, steps = g * jnp.eye(3, dtype=dtype), 2000
    found = suffix_products(jnp.broadcast_to(W, (steps, 3, 3)))
    assert abs(found.log_scale[0] / steps - math.log(g)) < 1e-5
    np.testing.assert_allclose(found.mantissa[0], np.eye(3), atol=1e-6)
    cell = one_pole()
    params = jax.tree.map(lambda p: p.astype(dtype), cell.init(jax.random.key(0), 1, 3))
    params = type(params)(jnp.full(3, g, dtype), params.W_ih)
    trace = unroll(cell, params, jnp.zeros((steps, 1), dtype))
    adjoints = pullback(cell, params, trace, jax.tree.map(jnp.ones_like, trace.final))
    assert abs((adjoints.log_norm[0] - adjoints.log_norm[-1]) / (steps - 1) - math.log(g)) < 1e-5
    np.testing.assert_allclose(adjoints.direction.h[0], 3**-0.5, rtol=1e-5)


def test_a_hundred_thousand_steps():
    """In float32: the exponent of a rotation that shrinks, read off the first step."""
    a, T = 0.3, 100_000
    A = 0.7 * jnp.array([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]], "float32")
    params = linear().init(jax.random.key(0), 1, 2)
    params = type(params)(params.W_ih, A, None, None)
    trace = unroll(linear(), params, jnp.zeros((T, 1), "float32"))
    adjoints = pullback(linear(), params, trace, jax.tree.map(jnp.ones_like, trace.final))
    assert jnp.isfinite(adjoints.log_norm).all()
    np.testing.assert_allclose(adjoints.log_norm[0] / (T - 1), math.log(0.7), rtol=1e-5)


def test_products_of_huge_matrices():
    """Of float32 near its end, and of whole numbers."""
    found = suffix_products(jnp.full((3, 2, 2), 3e38, "float32"))
    np.testing.assert_allclose(
        found.log_scale, [math.log(3e38) * n + math.log(2) * (n - 1) for n in (3, 2, 1)], rtol=1e-6
    )
    np.testing.assert_allclose(suffix_products(jnp.full((2, 1, 1), 3)).log_scale[0], math.log(9), rtol=1e-12)


def test_a_product_that_is_zero_says_so():
    """A nilpotent matrix: nothing is left after two steps, and that is no NaN."""
    J = jnp.array([[0.0, 1.0], [0.0, 0.0]])
    found = suffix_products(jnp.stack([J, J, J]))
    assert found.log_scale.tolist() == [-math.inf, -math.inf, 0.0]
    assert not found.mantissa[:2].any()


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_a_pullback_is_autodiffs(reverse):
    """To every state, from the final state and from what reaches each from above, with holes and resets."""
    cell, params = gru(), random_params(gru())
    xs, mask, reset = random_xs(), random_mask(), ~random_mask(seed=8)
    state = random_state(cell, params, B)
    final, every = random_state(cell, params, B, seed=4), random_state(cell, params, B, T, seed=5)

    def run(nudges):
        """The loop, with something added to every state."""
        h, mask_, valid = state, mask[..., None], reset & mask
        after = []
        for t in reversed(range(T)) if reverse else range(T):
            h = jax.tree.map(lambda a, t=t: jnp.where(valid[:, t, None], 0, a), h)
            u = jax.vmap(lambda x: cell.project(params, x))(xs[:, t])
            new = jax.vmap(lambda s, u: cell.step(params, s, u))(h, u)
            h = jax.tree.map(lambda n, o, d, t=t: jnp.where(mask_[:, t], n, o) + d[:, t], new, h, nudges)
            after.append(h)
        after = after[::-1] if reverse else after
        parts = jax.tree.map(lambda *a: jnp.stack(a, 1), *after)
        return sum((a * b).sum() for a, b in ((h.h, final.h), (parts.h, every.h)))

    wanted = jax.jit(jax.grad(run))(jax.tree.map(jnp.zeros_like, every))
    trace = unroll(cell, params, xs, mask=mask, state=state, reset=reset, reverse=reverse)
    found = pullback(cell, params, trace, final, cotangents=every, reset=reset, reverse=reverse)
    close(found.direction.h * jnp.exp(found.log_norm)[..., None], wanted.h)
    close(jnp.linalg.norm(found.direction.h, axis=-1), jnp.ones((B, T)))


@pytest.mark.parametrize("residual", [False, True], ids=["plain", "residual"])
def test_a_stack_is_one_recurrence(residual):
    """Its product of Jacobians over all layers is that of the run from the states of all layers."""
    cell, layers = gru(), init_stack(jax.random.key(1), gru(), D, H, layers=3)
    layers = jax.tree.map(lambda p: p.astype(float), layers)
    whole, xs = deep(cell, residual=residual), random_xs(T, D)
    state = tuple(random_state(cell, layer.forward, seed=k) for k, layer in enumerate(layers))

    def run(state):
        stack = unroll_stack(cell, layers, xs, state=state, residual=residual)
        return generic(stack.final), (stack, unroll(whole, layers, xs, state=state))

    gradient, (stack, trace) = jax.jit(jax.grad(run, has_aux=True))(state)
    close((trace.ys, trace.final), (stack.ys, stack.final))
    close(as_one(stack), trace)
    found = pullback(whole, layers, trace, jax.grad(generic)(stack.final))
    first = jax.tree.map(lambda s: s[0], (trace.before, trace.us, found.direction))
    _, back = jax.vjp(lambda s: whole.step(layers, s, first[1]), first[0])
    close(jax.tree.map(lambda d: jnp.exp(found.log_norm[0]) * d, back(first[2])[0]), gradient)


def test_paths_through_a_linear_stack():
    """B13: with every Jacobian .9 the gradient from the top at the end to the bottom at the start is the number of
    paths, C(T + L - 2, L - 1), times .9 to the number of factors, T + L - 2: 83.2715 at T = 12, L = 4."""
    steps, depth, g = 12, 4, 0.9
    net = network(linear(), readout="last", layers=depth)
    one, params = jnp.full((1, 1), g), net.init(jax.random.key(0), 1, 1, 1)
    layers = tuple(Layer(Affine(one, one, None, None)) for _ in range(depth))
    params = replace(params, body=layers, head=Dense(jnp.ones((1, 1)), jnp.zeros(1)))
    loss = lambda predictions, targets, mask: predictions.sum()  # noqa: E731
    profile = gradient_profile(net, params, jnp.zeros((1, steps, 1)), jnp.zeros(1), loss=loss)
    wanted = math.comb(steps + depth - 2, depth - 1) * g ** (steps + depth - 2)
    np.testing.assert_allclose(profile.whole[0, 0, -1], wanted, rtol=1e-12)
    np.testing.assert_allclose(wanted, 83.2715, atol=5e-5)
    assert [math.comb(T + L - 2, L - 1) for T, L in ((4, 3), (50, 4), (100, 8))] == [10, 22_100, 24_370_067_800]


def test_bad_input():
    """One clear line."""
    params = random_params(one_pole())
    trace = unroll(one_pole(), params, random_xs())
    with pytest.raises(ValueError, match="no recurrent product"):
        split_jacobians(one_pole(), params, trace)
    with pytest.raises(ValueError, match="Js must be square"):
        suffix_products(jnp.ones((4, 3, 2)))
    with pytest.raises(ValueError, match="cotangent must be shaped like the state"):
        pullback(one_pole(), params, trace, jax.tree.map(lambda s: s[0], trace.final))
    with pytest.raises(ValueError, match="reset must be boolean of shape"):
        step_jacobians(one_pole(), params, trace, reset=jnp.zeros(T, bool))
    both = init_stack(jax.random.key(0), gru(), D, H, bidirectional=True)
    with pytest.raises(ValueError, match="must run forwards alone"):
        unroll(deep(gru()), both, random_xs())
    with pytest.raises(ValueError, match="a factory has to be called"):
        deep(gru)
    with pytest.raises(ValueError, match="at least one layer"):
        unroll(deep(gru()), (), random_xs())
    with pytest.raises(ValueError, match="no depth of its own"):
        deep(gru()).init(jax.random.key(0), D, H)
