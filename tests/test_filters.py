"""Linear recursions against closed forms, scipy.signal and the engine; adaptive filters against their bounds."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.signal
from oracle import close, random_params, random_xs

from seqjax import filters, linear, one_pole, unroll
from seqjax.core import Affine

A1 = np.array([[0.8, 0.1], [0.1, 0.7]])
A2 = np.array([[0.9, -0.3], [0.3, 0.9]])
A3 = np.array([[1.1, 0.2], [0.2, 0.7]])
RNG = np.random.default_rng(0)
NOISE = RNG.standard_normal(4000)


def coloured(pole, T=4000):
    """AR(1) noise."""
    return scipy.signal.lfilter([1], [1, -pole], NOISE[:T])


def test_horizons_of_one_pole():
    """B1: -1/ln a is 9.4912, 99.4992 and 999.4999; the sign and the phase of a pole do not matter."""
    found = [filters.memory_horizon(a) for a in (0.9, 0.99, 0.999, -0.9, 0.9j)]
    np.testing.assert_allclose(found, [9.4912, 99.4992, 999.4999, 9.4912, 9.4912], atol=5e-5)
    assert filters.memory_horizon(1.0) == filters.memory_horizon(1j) == np.inf
    assert filters.memory_horizon(0.0) == 0


def test_dc_gains_of_one_pole():
    """B2: b/(1 - a) is 10, 100 and 1000, and is where a constant input comes to."""
    np.testing.assert_allclose([filters.dc_gain(a, 1.0) for a in (0.9, 0.99, 0.999)], [10, 100, 1000])
    ys = scipy.signal.lfilter([2.0], [1, -0.9], np.ones(500))
    np.testing.assert_allclose(filters.dc_gain(0.9, 2.0), ys[-1])


def test_modes_with_two_real_poles():
    """B3: .86180 and .63820, horizons 6.72 and 2.23."""
    found = filters.modes(A1)
    np.testing.assert_allclose([m.radius for m in found], [0.86180, 0.63820], atol=5e-6)
    np.testing.assert_allclose([m.horizon for m in found], [6.72, 2.23], atol=5e-3)
    assert [m.regime for m in found] == ["decay", "decay"]
    assert [m.period for m in found] == [np.inf, np.inf]


def test_modes_with_a_complex_pair():
    """B4: r = .948683, 18.4349 degrees, period 19.5281, horizon 18.982; the pair is one mode."""
    (found,) = filters.modes(A2)
    values = [found.radius, found.angle, found.period, found.horizon]
    assert [round(value, n) for value, n in zip(values, (6, 4, 4, 3), strict=True)] == [
        0.948683,
        18.4349,
        19.5281,
        18.982,
    ]
    assert found.regime == "oscillate"


def test_modes_with_a_pole_outside():
    """B5: 1.18284 grows e-fold in 5.96 steps, .61716 decays in 2.07."""
    grows, decays = filters.modes(A3)
    np.testing.assert_allclose([grows.radius, decays.radius], [1.18284, 0.61716], atol=5e-6)
    np.testing.assert_allclose([grows.time_constant, decays.horizon], [5.96, 2.07], atol=5e-3)
    assert (grows.regime, decays.regime) == ("grow", "decay")
    with pytest.raises(ValueError, match=r"grows, by a factor e every 5\.96 steps"):
        _ = grows.horizon


@pytest.mark.parametrize(
    ("pole", "wanted"),
    [(0.9, "decay"), (0.0, "decay"), (1.0, "hold"), (1.1, "grow"), (-0.5, "alternate"), (1j, "oscillate")],
)
def test_regimes(pole, wanted):
    """What each is called."""
    assert filters.regime(pole) == wanted
    assert filters.modes(pole)[0].regime == wanted


def test_modes_of_a_complex_matrix_are_not_paired():
    """Poles above and below the axis are two modes there."""
    assert [m.pole for m in filters.modes(np.diag([0.5j, -0.3j]))] == [0.5j, -0.3j]


@pytest.mark.parametrize("A", [A1, A2, A3, np.array([[0.5, 1.0], [0.0, 0.5]])], ids=["A1", "A2", "A3", "defective"])
def test_impulse_response_is_the_engines(A):
    """C A^t B of the matrix recursion, and of scipy's state space, for matrices with any eigenvectors."""
    B, C = RNG.standard_normal((2, 3)), RNG.standard_normal((4, 2))
    found = filters.impulse_response(A, B, C, steps=12)
    for d in range(3):
        xs = jnp.zeros((12, 3)).at[0, d].set(1.0)
        hs = unroll(linear(), Affine(jnp.asarray(B), jnp.asarray(A), None, None), xs).ys
        np.testing.assert_allclose(found[:, :, d], hs @ C.T, rtol=1e-12)
    system = scipy.signal.dlti(A, B, C @ A, C @ B, dt=1)
    for d, response in enumerate(scipy.signal.dimpulse(system, n=12)[1]):
        np.testing.assert_allclose(found[:, :, d], response, rtol=1e-10, atol=1e-12)


def test_impulse_response_of_numbers():
    """b a^t, without axes, as the engine's bank of poles has it, however the steps are taken."""
    np.testing.assert_allclose(filters.impulse_response(-0.8, 2.0, steps=6), 2 * (-0.8) ** np.arange(6))
    cell = one_pole(pole=-0.8)
    params = replace(cell.init(jax.random.key(0), 1, 3), α=jnp.array([0.5, -0.8, 1.0]), W_ih=jnp.full((3, 1), 2.0))
    for evaluator in ("auto", "associative"):
        ys = unroll(cell, params, jnp.zeros((6, 1)).at[0].set(1), evaluator=evaluator).ys
        for h, a in enumerate((0.5, -0.8, 1.0)):
            np.testing.assert_allclose(ys[:, h], filters.impulse_response(a, 2.0, steps=6), rtol=1e-12)


def test_frequency_response_is_scipys():
    """Of numbers against a difference equation, of matrices against a state space, at frequencies up to π."""
    ω = np.linspace(0.0, np.pi, 9)
    np.testing.assert_allclose(
        filters.frequency_response(0.9, 0.5, frequencies=ω), scipy.signal.freqz([0.5], [1, -0.9], ω)[1], rtol=1e-12
    )
    B, C = RNG.standard_normal((2, 1)), RNG.standard_normal((1, 2))
    system = scipy.signal.dlti(A2, B, C @ A2, C @ B, dt=1)
    found = filters.frequency_response(A2, B, C, frequencies=ω)
    np.testing.assert_allclose(found[:, 0, 0], system.freqresp(ω)[1], rtol=1e-9)
    np.testing.assert_allclose(found[0].real, filters.dc_gain(A2, B, C), rtol=1e-12)


def test_a_sine_comes_out_as_the_frequency_response_says():
    """Gain and phase, once the transient is over."""
    ω, t = 0.3, np.arange(400)
    ys = scipy.signal.lfilter([0.5], [1, -0.9], np.exp(1j * ω * t))
    np.testing.assert_allclose(ys[-1] / np.exp(1j * ω * t[-1]), filters.frequency_response(0.9, 0.5, frequencies=ω))


def test_fir_is_scipys():
    """Taps in the order of the lag, zeros before the first input."""
    taps = RNG.standard_normal(5)
    close(filters.fir(taps, NOISE[:40]), scipy.signal.lfilter(taps, [1.0], NOISE[:40]))


def test_lms_finds_the_taps():
    """Without noise it converges to them; its outputs are those of the weights before each step."""
    wanted = RNG.standard_normal(4)
    found = filters.lms(NOISE, filters.fir(wanted, NOISE), taps=4, step=0.05)
    np.testing.assert_allclose(found.weights[-1], wanted, atol=1e-6)
    w = np.zeros(4)
    for t in range(8):
        window = np.concatenate([NOISE[: t + 1][::-1], np.zeros(4)])[:4]
        y = w @ window
        np.testing.assert_allclose(found.ys[t], y, atol=1e-12)
        w = w + 0.05 * (np.asarray(filters.fir(wanted, NOISE))[t] - y) * window
        np.testing.assert_allclose(found.weights[t], w, atol=1e-12)


@pytest.mark.parametrize(("share", "converges"), [(0.5, True), (0.9, True), (0.99, True), (1.01, False)])
def test_lms_converges_in_the_mean_below_its_bound(share, converges):
    """B23: below 2/λ_max the mean recursion comes to the taps, above it leaves them, for any start."""
    xs, wanted = coloured(0.9), RNG.standard_normal(8)
    R, bound = filters.autocorrelation(xs, 8), filters.lms_bound(xs, 8)
    path = filters.lms_mean(R, wanted, step=share * bound, steps=4000)
    distance = np.linalg.norm(path - wanted, axis=1)
    assert (distance[-1] < 1e-3 * distance[0]) == converges
    assert (distance[-1] > 1e3 * distance[0]) == (not converges)


def test_autocorrelation_is_the_mean_of_windows():
    """Toeplitz and symmetric, near λ_max = 6.20 for AR(1) noise of unit variance with pole .9 and eight taps."""
    xs = scipy.signal.lfilter([np.sqrt(1 - 0.81)], [1, -0.9], np.random.default_rng(1).standard_normal(400_000))
    R = filters.autocorrelation(xs, 8)
    windows = np.lib.stride_tricks.sliding_window_view(xs, 8)
    np.testing.assert_allclose(R, windows.T @ windows / len(windows), atol=1e-3)
    np.testing.assert_allclose(2 / filters.lms_bound(xs, 8), 6.20, rtol=0.03)


def test_gradients_of_one_pole_are_autodiffs():
    """B24: the recursions of ∂y/∂α and ∂y/∂β, at every step and of a loss."""
    xs = jnp.asarray(NOISE[:200])

    def ys(α, β):
        return filters.one_pole_gradients(xs, α, β)[0]

    found = filters.one_pole_gradients(xs, 0.9, 0.5)
    close(found[0], scipy.signal.lfilter([0.5], [1, -0.9], xs))
    close(found[1:], jax.jacfwd(ys, (0, 1))(0.9, 0.5))
    to_alpha, to_beta = jax.grad(lambda α, β: (ys(α, β) ** 2).sum(), (0, 1))(0.9, 0.5)
    close([(2 * found[0] * part).sum() for part in found[1:]], [to_alpha, to_beta])


def test_an_adaptive_pole_finds_the_plant():
    """From the origin, on white noise, to the pole and the gain of a one-pole plant."""
    target = scipy.signal.lfilter([0.5], [1, -0.8], NOISE)
    path = filters.adapt_one_pole(NOISE, target, step=0.02)
    np.testing.assert_allclose([path.alpha[-1], path.beta[-1]], [0.8, 0.5], atol=1e-3)
    assert not path.guarded.any()


def test_the_guard_keeps_the_pole_inside_and_without_it_it_diverges():
    """At a large step: with the guard it comes to the plant all the same, and says where the guard acted."""
    target = scipy.signal.lfilter([0.5], [1, -0.8], NOISE)
    kept, lost = (filters.adapt_one_pole(NOISE, target, step=0.05, guard=guard) for guard in (0.99, None))
    assert (jnp.abs(kept.alpha) <= 0.99).all()
    np.testing.assert_allclose(kept.alpha[-1], 0.8, atol=1e-6)
    assert kept.guarded.any()
    assert jnp.nanmax(jnp.abs(lost.alpha)) > 1
    assert not jnp.isfinite(lost.ys).all()


def test_cost_surface_is_the_mean_squared_error():
    """At every pair, and 0 at the plant."""
    target = scipy.signal.lfilter([0.5], [1, -0.8], NOISE)
    J = filters.cost_surface(NOISE, target, [0.3, 0.8], [-0.2, 0.5, 1.0])
    for i, α in enumerate((0.3, 0.8)):
        for j, β in enumerate((-0.2, 0.5, 1.0)):
            ys = scipy.signal.lfilter([β], [1, -α], NOISE)
            np.testing.assert_allclose(J[i, j], ((target - ys) ** 2).mean(), atol=1e-12)


def test_superposition_of_linear_cells():
    """The zero-state response of a sum is the sum of responses."""
    for cell in (one_pole(), linear()):
        params = random_params(cell)
        params = replace(params, b_ih=None, b_hh=None) if isinstance(params, Affine) else params
        one, other = random_xs(seed=5), random_xs(seed=6)
        run = lambda xs, cell=cell, params=params: unroll(cell, params, xs).ys  # noqa: E731
        close(run(2 * one - other), 2 * run(one) - run(other))


def test_whole_numbers_are_numbers():
    """Of integers the answers are those of the same floats, and what belongs together is complex or real."""
    for call in (
        lambda xs: filters.cost_surface(xs, [0.5, 1.0, 1.5], [0.5], [0.5]),
        lambda xs: filters.lms(xs, [1, 0, 2], taps=2, step=0.5).weights,
        lambda xs: filters.adapt_one_pole(xs, [1, 0, 2], step=0.5, guard=None).ys,
        lambda xs: filters.fir([1, 2**31], xs),
        lambda xs: filters.one_pole_gradients(xs, 0.5, 0.5)[1],
    ):
        close(call([1, 2, 3]), call([1.0, 2.0, 3.0]))
    close(filters.dc_gain(0.5j, 1.0), 1 / (1 - 0.5j))
    close(filters.impulse_response(0.5, 1j, steps=3), 1j * 0.5 ** np.arange(3))


REFUSED = {
    "a surface of other targets": (
        lambda: filters.cost_surface([1.0, 2, 3], [0.5], [0.5], [0.5]),
        "targets must be like",
    ),
    "complex": (lambda: filters.fir([1j], [1.0]), "taps must be real"),
    "not square": (lambda: filters.poles(np.ones((2, 3))), "must be square"),
    "not finite": (lambda: filters.modes(np.array([[np.nan]])), "NaN or infinity"),
    "a pole outside": (lambda: filters.memory_horizon(-1.2), r"grows, by a factor e every 5\.48 steps"),
    "no settling": (lambda: filters.dc_gain(1.0, 1.0), "never settles"),
    "at a pole": (lambda: filters.transfer(0.5, 1.0, 1.0, 0.5), "neither 0 nor a pole"),
    "B of other rows": (lambda: filters.impulse_response(A1, np.ones((3, 1)), steps=2), "B must go with A"),
    "C of other columns": (
        lambda: filters.impulse_response(A1, np.ones((2, 1)), np.ones((1, 3)), steps=2),
        "C must go",
    ),
    "no steps": (lambda: filters.impulse_response(0.5, 1.0, steps=0), "steps must be"),
    "two axes": (lambda: filters.fir(np.ones((2, 2)), np.ones(3)), "taps must be one vector"),
    "NaN": (lambda: filters.fir(np.ones(2), np.array([1.0, np.nan])), "xs holds NaN"),
    "unequal": (lambda: filters.lms(np.ones(3), np.ones(4), taps=2, step=0.1), "targets must be like xs"),
    "no step": (lambda: filters.lms(np.ones(3), np.ones(3), taps=2, step=0.0), "step must be above 0"),
    "weights": (lambda: filters.lms(np.ones(3), np.ones(3), taps=2, step=0.1, weights=np.ones(3)), "weights must be"),
    "too short": (lambda: filters.autocorrelation(np.ones(3), 4), "at least as long"),
    "silence": (lambda: filters.lms_bound(np.zeros(9), 4), "zero throughout"),
    "a guard outside": (lambda: filters.adapt_one_pole(np.ones(3), np.ones(3), step=0.1, guard=1.0), "guard must lie"),
    "a pole that is none": (lambda: one_pole(pole=np.inf), "pole must be a finite number"),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_bad_input(call, message):
    """One clear line."""
    with pytest.raises(ValueError, match=message):
        call()
