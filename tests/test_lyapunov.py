"""Lyapunov exponents against spectra that are known, and against two trajectories side by side."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from oracle import D, H, close, random_params, random_xs
from scipy.special import digamma

from seqjax import (
    deep,
    gru,
    init,
    init_stack,
    kaplan_yorke,
    linear,
    lstm,
    lyapunov,
    mingru,
    rnn,
    step_jacobians,
    unroll,
)
from seqjax.core import Affine, Hidden

RNG = np.random.default_rng(0)
NO_INPUT = jnp.zeros((1000, 1))


def recursion(A):
    """Params of h_t = A h_{t-1}."""
    return Affine(jnp.zeros((len(A), 1)), jnp.asarray(A), None, None)


def exponents(cell, params, xs, **options):
    """Compiled, as anyone would run them."""
    return jax.jit(lambda p, xs: lyapunov(cell, p, xs, **options))(params, xs).exponents


def test_of_a_constant_matrix():
    """ln |eigenvalues|, largest first; their sum is ln |det|; all of it moves by ln c with c A."""
    A = RNG.standard_normal((6, 6)) / 6**0.5
    found = exponents(linear(), recursion(A), NO_INPUT, settle=500)
    moduli = np.sort(np.abs(np.linalg.eigvals(A)))[::-1]
    np.testing.assert_allclose(found, np.log(moduli), atol=0.01)
    np.testing.assert_allclose(found.sum(), np.log(abs(np.linalg.det(A))), rtol=1e-10)
    close(exponents(linear(), recursion(3 * A), NO_INPUT, settle=500), found + np.log(3), 1e-9)


def test_of_gates_that_change_with_the_input():
    """A recurrence that is linear unit by unit has the mean of ln of each unit's gate."""
    cell, params, xs = mingru(), random_params(mingru()), random_xs(2000, D)
    z = jax.nn.sigmoid(jnp.split(unroll(cell, params, xs).us, 2, axis=1)[0])
    wanted = np.sort(np.log(z).mean(0))[::-1]
    np.testing.assert_allclose(exponents(cell, params, xs, settle=500), wanted, atol=0.02)
    close(exponents(cell, params, xs).sum(), wanted.sum())


def test_of_independent_gaussian_matrices():
    """Entries N(0, 1/N), drawn anew at every step: λ_i = (ψ((N - i + 1)/2) + ln(2/N)) / 2 (Newman 1986), within four
    standard errors, which are those that are reported."""
    N = 4
    cell = replace(
        rnn(),
        start=lambda p: Hidden(jnp.zeros(N)),
        project=lambda p, x: x,
        recur=lambda p, s: (),
        update=lambda p, s, u, a: Hidden(u.reshape(N, N) @ s.h),
    )
    xs = jnp.asarray(RNG.standard_normal((4000, N * N)) / N**0.5)
    found = jax.jit(lambda xs: lyapunov(cell, None, xs, settle=50))(xs)
    wanted = (digamma((N - np.arange(N)) / 2) + np.log(2 / N)) / 2
    assert (np.abs(found.exponents - wanted) < 4 * found.error).all()
    assert (found.error < 0.03).all()


def by_two_trajectories(cell, params, T, settle, distance=1e-7):
    """The leading exponent of a cell by itself, from a copy that is put back near the original after every step."""
    start, shaped = ravel_pytree(jax.tree.map(lambda s: s + 0.1, cell.start(params)))
    u = cell.project(params, jnp.zeros(params.W_ih.shape[1]))

    def body(pair, _):
        one, other = (ravel_pytree(cell.step(params, shaped(s), u))[0] for s in pair)
        gap = jnp.linalg.norm(other - one)
        return (one, one + (other - one) * distance / gap), jnp.log(gap / distance)

    first = (start, start + distance * start.size**-0.5)
    return jax.jit(lambda: jax.lax.scan(body, first, None, length=T)[1][settle:].mean())()


@pytest.mark.parametrize("name", ["rnn", "lstm", "gru"])
def test_of_a_network_by_itself(name):
    """Whole carry, chaotic where recurrent weights are large: the direct perturbation method finds the same."""
    cell = init.with_init({"rnn": rnn(), "lstm": lstm(), "gru": gru()}[name], init.Gaussian(variance=9.0))
    params = jax.tree.map(lambda p: p.astype(float), cell.init(jax.random.key(3), 1, 20))
    state = jax.tree.map(lambda s: s + 0.1, cell.start(params))
    found = exponents(cell, params, jnp.zeros((6000, 1)), k=2, state=state, burn_in=500, settle=500)
    np.testing.assert_allclose(found[0], by_two_trajectories(cell, params, 6000, 1000), atol=0.01)
    if name == "rnn":
        assert found[0] > 0.05


def test_an_lstm_is_asked_over_its_whole_carry():
    """Forget bias 3: what is held in c makes the leading exponent near 0; of dh/dh alone, it is far below."""
    cell = lstm(forget_bias=3.0)
    params, xs = cell.init(jax.random.key(0), D, 32), 0.1 * random_xs(1000, D).astype("float32")
    whole = exponents(cell, params, xs, k=1, settle=200)[0]
    assert -0.1 < whole < 0.01
    Js = step_jacobians(cell, params, unroll(cell, params, xs))[:, :32, :32]
    assert np.log(np.linalg.norm(Js, 2, axis=(1, 2))).mean() < -1


@pytest.mark.parametrize("every", [1, 3])
def test_order_of_the_product_on_a_short_horizon(every):
    """J_3 J_2 J_1 from the left: their determinant in sum, and the stretch of the first vector in the leading one."""
    cell, params, xs = gru(), random_params(gru()), random_xs(3, D)
    Js = np.asarray(step_jacobians(cell, params, unroll(cell, params, xs)))
    P = Js[2] @ Js[1] @ Js[0]
    frame = np.linalg.qr(np.asarray(jax.random.normal(jax.random.key(0), (H, H))))[0]
    found = lyapunov(cell, params, xs, blocks=1, every=every).exponents
    np.testing.assert_allclose(3 * found.sum(), np.log(abs(np.linalg.det(P))), rtol=1e-8)
    np.testing.assert_allclose(3 * found[0], np.log(np.linalg.norm(P @ frame[:, 0])), rtol=1e-8)


def test_fewer_exponents_and_fewer_orthonormalisations_are_the_same_numbers():
    """k leading ones of all, and every third step; a batch is its rows, in a jitted vmap over params too."""
    cell, params, xs = gru(), random_params(gru()), random_xs(3, 120, D)
    rows = lyapunov(cell, params, xs, settle=21)
    for row in range(3):
        close(jax.tree.map(lambda a, row=row: a[row], rows), lyapunov(cell, params, xs[row], settle=21), 1e-8)
    close(lyapunov(cell, params, xs[0], settle=21, every=3).exponents, rows.exponents[0], 1e-6)
    frame = exponents(cell, params, xs[0], k=2, settle=21)
    np.testing.assert_allclose(frame, rows.exponents[0, :2], atol=0.05)
    many = jax.tree.map(lambda p: jnp.stack([p, 0.5 * p]), params)
    both = jax.jit(jax.vmap(lambda p: lyapunov(cell, p, xs[0], k=2).exponents))(many)
    close(both[1], exponents(cell, jax.tree.map(lambda p: 0.5 * p, params), xs[0], k=2), 1e-8)


def test_blocks_make_up_the_mean():
    """Parts of nearly one length, and the standard error of their mean."""
    found = lyapunov(gru(), random_params(gru()), random_xs(103, D), settle=3, blocks=5)
    close(found.blocks.mean(0), found.exponents)
    close(found.error, found.blocks.std(0, ddof=1) / 5**0.5)


def test_a_gradient_of_the_leading_exponent():
    """By autodiff through the frame, against finite differences; and 1 to the logarithm of the gain of a linear one."""
    cell, params, xs = rnn(), random_params(rnn()), random_xs(40, D)
    point, shaped = ravel_pytree(params)
    value = jax.jit(lambda p: lyapunov(cell, shaped(p), xs, k=2).exponents.sum())
    gradient, direction = jax.grad(value)(point), jnp.sin(1.0 + jnp.arange(point.size))
    ahead, behind = (value(point + sign * 1e-5 * direction) for sign in (1, -1))
    np.testing.assert_allclose(gradient @ direction, (ahead - behind) / 2e-5, rtol=1e-6)
    A = RNG.standard_normal((3, 3))
    to_gain = jax.grad(lambda g: lyapunov(linear(), recursion(jnp.exp(g) * A), NO_INPUT[:50], k=1).exponents[0])(0.3)
    np.testing.assert_allclose(to_gain, 1.0, rtol=1e-8)


def test_a_stack_has_one_spectrum():
    """Two layers that do not see each other's past: the exponents of both, together."""
    cell = linear()
    layers = init_stack(jax.random.key(0), cell, 1, 2, layers=2)
    matrices = np.array([[0.9, 0.3], [0.0, 0.5]]), np.array([[0.7, -0.2], [0.1, 0.2]])
    halves = [replace(layer.forward, W_hh=jnp.asarray(A)) for layer, A in zip(layers, matrices, strict=True)]
    layers = tuple(replace(layer, forward=half) for layer, half in zip(layers, halves, strict=True))
    found = exponents(deep(cell), layers, NO_INPUT, settle=300)
    moduli = np.concatenate([np.abs(np.linalg.eigvals(A)) for A in matrices])
    np.testing.assert_allclose(found, np.log(np.sort(moduli)[::-1]), atol=1e-3)


def test_kaplan_yorke():
    """The Lorenz attractor's printed exponents give 2.06; a point has 0, and the sum has to come below 0."""
    np.testing.assert_allclose(kaplan_yorke([0.906, 0.0, -14.572]), 2.0622, atol=5e-5)
    assert kaplan_yorke([-0.1, -0.5]) == 0
    assert kaplan_yorke([0.0, -0.5]) == 1
    for few in ([0.5, 0.1], [0.5, np.nan], []):
        with pytest.raises(ValueError, match="sum to less than 0"):
            kaplan_yorke(few)


def test_a_direction_that_vanishes_has_minus_infinity():
    """A nilpotent matrix: no NaN, and the others are not touched."""
    A = np.diag([0.5, 0.0])
    found = exponents(linear(), recursion(A), NO_INPUT[:30], settle=5)
    np.testing.assert_allclose(found[0], np.log(0.5))
    assert found[1] == -np.inf


def test_a_state_that_is_not_finite_has_no_exponents():
    """NaN, not the -inf that relu's slope makes of NaN; and burn-in may be NumPy's whole number."""
    cell = rnn(activation="relu")
    params = cell.init(jax.random.key(0), D, 4)
    loud = replace(params, W_hh=100 * jnp.abs(params.W_hh))
    xs = jnp.abs(random_xs(2, 40, D)).astype("float32").at[1].set(0)
    assert np.isnan(lyapunov(cell, loud, xs, burn_in=np.int64(3)).exponents[0]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 6}, "k must be at most N = 5"),
        ({"k": 0}, "k must be an integer"),
        ({"burn_in": 25}, "leave at least every x blocks = 10 steps"),
        ({"settle": -1}, "settle must be a whole number"),
        ({"every": 0}, "every must be"),
        ({"state": Hidden(jnp.zeros(4))}, "state must be like"),
    ],
)
def test_bad_input(options, message):
    """One clear line."""
    with pytest.raises(ValueError, match=message):
        lyapunov(gru(), random_params(gru()), random_xs(30, D), **options)
