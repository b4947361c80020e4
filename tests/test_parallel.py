"""All steps at once, against closed forms and against a scan: values, derivatives, and when it gives up."""

import warnings
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from oracle import both_directions, close, generic, random_mask, random_params, random_xs, same, stacked

from seqjax import Complex, lstm
from seqjax.core import linear_step
from seqjax.parallel import associative, newton

N, B, T = 4, 3, 5
both_variants = pytest.mark.parametrize("diagonal", [False, True], ids=["newton", "quasi"])
any_length = pytest.mark.parametrize("length", [0, 1, T])


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Mixed:
    """Two fields of different sizes, one of them complex."""

    r: Array  # [N, B]
    z: Complex  # [2, B] each


def mixed(seed, *lead, scale=1.0):
    """A random state, stacked over the leading axes."""
    draws = (scale * random_xs(*lead, rows, B, seed=seed + k) for k, rows in enumerate((N, 2, 2)))
    r, re, im = draws
    return Mixed(r, Complex(re, im))


def scanned(step, first, inputs, reverse=False):
    """(final, after) by a plain scan."""
    return jax.lax.scan(lambda s, x: (step(s, x),) * 2, first, inputs, reverse=reverse)


def linear_scan(decay, write, first, reverse=False, fresh=None):
    """`associative` by a plain scan, flags [T, B] clearing by `where`."""

    def step(s, x):
        d, w, flag = x
        s = s if flag is None else jax.tree.map(lambda a: jnp.where(jnp.broadcast_to(flag, a.shape), 0, a), s)
        return linear_step(d, s, w)

    return scanned(step, first, (decay, write, fresh), reverse)


def matrix(radius, size=N, seed=0):
    """A random matrix of a given spectral radius."""
    W = np.random.default_rng(seed).standard_normal((size, size))
    return jnp.asarray(W * radius / np.abs(np.linalg.eigvals(W)).max())


def tanh_step(W, s, x):
    """h_t = tanh(W h_{t-1} + x_t) of a batch."""
    return jnp.tanh(W @ s + x)


def logistic(s, x):
    """The logistic map at r = 4, Lyapunov exponent ln 2, plus an input."""
    return 4 * s * (1 - s) + x


def settled(run, *args):
    """The result once the callbacks on the way have run."""
    result = jax.jit(run)(*args)
    jax.effects_barrier()
    return result


def by_newton(W, first, xs, **options):
    """A tanh network by Newton's method; the step closes over W."""
    return newton(partial(tanh_step, W), first, xs, **options)


def by_scan(W, first, xs):
    """The same by a scan."""
    return scanned(partial(tanh_step, W), first, xs)[1]


W, FIRST, XS = matrix(0.5), random_xs(N, B, seed=4), random_xs(T, N, B, seed=5)
DECAY, WRITE, MIXED = mixed(1, T, scale=0.6), mixed(5, T), mixed(9)


@both_directions
def test_one_pole(reverse):
    """s = aⁿ s_0 + (1 - aⁿ)/(1 - a) w after n steps of a constant decay a and write w."""
    a, w, s = 0.8, 0.3, 2.0
    final, after = jax.jit(partial(associative, reverse=reverse))(jnp.full(T, a), jnp.full(T, w), jnp.asarray(s))
    n = np.arange(1, T + 1)[:: -1 if reverse else 1]
    close(after, jnp.asarray(a**n * s + (1 - a**n) / (1 - a) * w), 1e-14)
    close(final, after[0 if reverse else -1], 0)


@both_directions
@any_length
def test_associative_equals_the_scan(length, reverse):
    """Fields of several shapes, real and complex."""
    decay, write = jax.tree.map(lambda a: a[:length], (DECAY, WRITE))
    got, wanted = (jax.jit(partial(run, reverse=reverse))(decay, write, MIXED) for run in (associative, linear_scan))
    close(got, wanted, 1e-13)


def test_derivatives_of_associative():
    """Reverse, forward, and both under vmap."""
    args = DECAY, WRITE, MIXED
    tangents = jax.tree.map(jnp.cos, args)
    many = jax.tree.map(lambda a: jnp.stack([a, 0.5 * a]), args)
    got, wanted = (
        jax.jit(
            lambda run=run: (
                jax.jvp(run, args, tangents),
                jax.vmap(jax.grad(lambda *args: generic(run(*args))))(*many),
                jax.jacfwd(run)(*jax.tree.map(lambda a: a[..., :1], args)),
            )
        )()
        for run in (associative, linear_scan)
    )
    close(got, wanted, 1e-12)


@pytest.mark.parametrize(("shared", "reverse"), [(False, False), (True, True)], ids=["flags-TB", "flags-T-reverse"])
def test_fresh_steps_forget_everything(shared, reverse):
    """NaN and infinity that stand before them, in values and in gradients; the first step's flag clears `first`."""
    flags = jnp.zeros((T, B), bool).at[jnp.array([0, 2, 4])].set(True)
    flags = flags if shared else flags.at[:, 1].set(False)
    last = 3 if reverse else 1  # the step before the flag at 2
    write = jax.tree.map(lambda w: w.at[last, ..., 0].set(jnp.nan).at[last, ..., 2].set(jnp.inf), WRITE)
    first = jax.tree.map(lambda s: s.at[..., 2].set(jnp.nan), MIXED)

    def loss(run, decay, write, first):
        final, after = run(decay, write, first)
        return generic(final) + generic(jax.tree.map(lambda a: a.at[last].set(0), after)), after

    runs = (
        partial(associative, fresh=flags[:, 0] if shared else flags, reverse=reverse),
        partial(linear_scan, fresh=flags, reverse=reverse),
    )
    got, wanted = (jax.jit(jax.grad(partial(loss, run), (0, 1, 2), has_aux=True))(DECAY, write, first) for run in runs)
    close(got, wanted, 1e-12)
    gradients, after = got
    assert np.isnan(after.r[last, :, 0]).all()
    assert all(np.isfinite(a).all() for a in jax.tree.leaves((gradients, after.r[2])))


def test_a_decay_of_zero_alone_keeps_a_nan():
    """So the flags are what clears it: the plain scan does the same."""
    decay, write = jnp.array([1.0, 0.0]), jnp.array([jnp.nan, 1.0])
    assert np.isnan(associative(decay, write, jnp.asarray(0.0))[0])
    assert associative(decay, write, jnp.asarray(0.0), fresh=jnp.array([False, True]))[0] == 1


def test_products_of_decays_may_underflow():
    """(1e-30)^16 is 0 in float64, and the states and gradients are still those of the scan."""
    args = jnp.full(16, 1e-30), random_xs(16), jnp.asarray(1.0)
    got, wanted = (
        jax.jit(jax.value_and_grad(lambda *args, run=run: generic(run(*args)), (0, 1, 2)))(*args)
        for run in (associative, linear_scan)
    )
    close(got, wanted, 1e-13)


@both_variants
def test_repeated_squares(diagonal):
    """s = s_0^(2ⁿ) after n steps of s ← s²."""
    first = jnp.array([[0.5, 0.9, -0.7]])
    solution = jax.jit(lambda: newton(lambda s, x: s * s, first, jnp.arange(T), diagonal=diagonal))()
    close(solution.after, first[None] ** (2.0 ** jnp.arange(1, T + 1))[:, None, None], 1e-13)
    assert solution.converged


def test_a_linear_recurrence_takes_one_iteration():
    """And another that finds nothing to change."""
    solution = jax.jit(lambda: newton(lambda s, x: W @ s + x, FIRST, XS))()
    close(solution.after, scanned(lambda s, x: W @ s + x, FIRST, XS)[1], 1e-13)
    assert solution.iterations == 2


@both_variants
@pytest.mark.parametrize(("length", "reverse"), [(0, False), (0, True), (1, False), (T, False), (T, True)])
def test_newton_equals_a_loop(length, reverse, diagonal):
    """A tanh network of spectral radius 0.5."""
    s, steps = FIRST, []
    for t in reversed(range(length)) if reverse else range(length):
        s = tanh_step(W, s, XS[t])
        steps.append(s)
    solution = jax.jit(partial(by_newton, reverse=reverse, diagonal=diagonal))(W, FIRST, XS[:length])
    assert solution.converged
    assert solution.iterations <= length + 1
    close(solution.final, s)
    close(solution.after, stacked(steps[::-1] if reverse else steps) if steps else XS[:0])


def test_few_iterations_however_long():
    """At most 8 for 20 and for 500 steps (6 are needed), as the dynamics contract."""
    for length in (20, 500):
        xs = random_xs(length, N, B, seed=6)
        solution = jax.jit(by_newton)(W, FIRST, xs)
        assert solution.converged
        assert solution.iterations <= 8
        close(solution.after, by_scan(W, FIRST, xs))


def test_the_diagonal_is_exact():
    """Where a step acts element by element both variants are one, iteration for iteration."""
    xs = random_xs(20, N, B)
    full, quasi = (
        jax.jit(lambda diagonal=diagonal: newton(lambda s, x: jnp.sin(0.5 * s + x), FIRST, xs, diagonal=diagonal))()
        for diagonal in (False, True)
    )
    close(full, quasi, 1e-13)
    assert full.converged
    assert full.iterations <= 8


def test_a_small_change_alone_is_not_convergence():
    """A change below the tolerance takes the first number over a threshold, and so the second is all wrong."""
    step = lambda s, x: jnp.stack([x + 0 * s[0], jnp.where(s[0] > 0.5, 1.0, 0.0)])  # noqa: E731
    first, xs = jnp.array([[0.5], [0.0]]), jnp.full((6, 1), 0.5 + 1e-7)
    solution = jax.jit(lambda: newton(step, first, xs, tolerance=1e-6))()
    assert solution.converged
    same(solution.after[1:, 1], jnp.ones((5, 1)))


def test_derivatives_of_newton():
    """To what the step closes over, the first state and the inputs: reverse under vmap, forward, and the second."""
    args = W, FIRST, XS[:3]
    tangents = jax.tree.map(jnp.cos, args)
    many = jax.tree.map(lambda a: jnp.stack([a, 0.5 * a]), args)

    def derivatives(run):
        gradient = jax.grad(lambda *args: generic(run(*args)), (0, 1, 2))
        return jax.jit(
            lambda: (
                jax.vmap(gradient)(*many),
                jax.jacfwd(run)(*args),
                jax.jvp(gradient, args, tangents),
            )
        )()

    close(derivatives(lambda *args: by_newton(*args).after), derivatives(by_scan))


@pytest.mark.parametrize(("diagonal", "error"), [(False, 2e-6), (True, 1.2e-4)], ids=["newton", "quasi"])
def test_float32(diagonal, error):
    """The default tolerance is 1024 ε = 1.2e-4: Newton's method leaves rounding, its diagonal variant about that."""
    args = jax.tree.map(lambda a: a.astype(jnp.float32), (W, FIRST, random_xs(50, N, B)))
    solution = jax.jit(partial(by_newton, diagonal=diagonal))(*args)
    assert solution.converged
    assert solution.after.dtype == jnp.float32
    close(solution.after, by_scan(*args), error)


@both_variants
def test_an_lstm_with_masks_and_resets(diagonal):
    """Two fields; inputs are floats, flags with a batch axis and without, and None; a step that is masked holds."""
    cell = lstm()
    params = random_params(cell, N, N)
    us = jax.vmap(jax.vmap(partial(cell.project, params), -1, -1))(XS)
    mask, reset = random_mask(T, B), jnp.arange(T) == 2
    first = jax.tree.map(lambda s: s + FIRST, jax.vmap(lambda _: cell.start(params), out_axes=-1)(jnp.arange(B)))

    def run(evaluate, params, first, us):
        def step(s, x):
            u, valid, flag, _ = x
            s = jax.tree.map(lambda a: jnp.where(flag, 0, a), s)
            new = jax.vmap(partial(cell.step, params), -1, -1)(s, u)
            return jax.tree.map(lambda n, o: jnp.where(valid[None], n, o), new, s)

        after = evaluate(step, first, (us, mask, reset, None))
        return generic(after), after

    def value_and_gradient(evaluate):
        return jax.jit(jax.value_and_grad(partial(run, evaluate), (0, 1, 2), has_aux=True))(params, first, us)

    solve = partial(newton, diagonal=diagonal)
    close(value_and_gradient(lambda *a: solve(*a).after), value_and_gradient(lambda *a: scanned(*a)[1]))


@both_variants
def test_exact_after_as_many_iterations_as_steps(diagonal):
    """Even where the dynamics are chaotic: the logistic map, 5 steps."""
    first, xs = jnp.full((1, 1), 0.2), jnp.zeros(5)
    solution = jax.jit(lambda: newton(logistic, first, xs, diagonal=diagonal))()
    assert solution.converged
    close(solution.after, scanned(logistic, first, xs)[1], 1e-12)


@both_variants
def test_chaos_falls_back_and_says_so(diagonal):
    """The values and gradients are the scan's own, bit for bit, for the whole batch; one warning."""
    first, xs = jnp.array([[0.2, 0.3]]), jnp.zeros(60)

    def last(evaluate, first):
        after = evaluate(logistic, first, xs)
        return after[-1].sum(), after

    solve = partial(newton, diagonal=diagonal, iterations=5)
    with pytest.warns(RuntimeWarning, match=r"in 5 iterations, so a sequential scan.*Lyapunov.*evaluator") as caught:
        got = settled(jax.value_and_grad(partial(last, lambda *a: solve(*a).after), has_aux=True), first)
    assert len(caught) == 1
    same(got, jax.jit(jax.value_and_grad(partial(last, lambda *a: scanned(*a)[1]), has_aux=True))(first))


def test_a_member_that_falls_back_touches_no_other():
    """Under vmap, where both ways are gone for every member, and with the gradient outside of it; one warning.

    s ← r s: the second member overflows after 103 steps, and products of its Jacobians do; the loss reads 20 steps.
    """
    rates, firsts = jnp.array([0.5, 1e3]), jnp.array([1.0, 2.0])

    def run(evaluate):
        def after(r, first):
            return evaluate(lambda s, x: r * s + x, first[None, None], jnp.zeros(400))

        return settled(jax.value_and_grad(lambda firsts: generic(jax.vmap(after)(rates, firsts)[:, :20])), firsts)

    with pytest.warns(RuntimeWarning, match="newton") as caught:
        got = run(lambda *args: newton(*args, iterations=5).after)
    assert len(caught) == 1
    close(got, run(lambda *args: scanned(*args)[1]))


@both_variants
@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf])
def test_what_is_not_finite_is_not_convergence(bad, diagonal):
    """A NaN that the states truly hold goes to the scan, whose NaN stay where they belong."""
    xs = XS.at[4, 0, 0].set(bad)
    step = lambda s, x: W @ s + x  # noqa: E731
    with pytest.warns(RuntimeWarning, match=f"in {T + 1} iterations"):
        solution = settled(lambda: newton(step, FIRST, xs, diagonal=diagonal))
    assert not solution.converged
    same(solution.after, scanned(step, FIRST, xs)[1])


def test_an_overflow_on_the_way_does_no_harm():
    """From the guess s = -800 the step overflows; along the trajectory, which starts afresh at 0, it does not."""
    step = lambda s, x: jnp.where(x == 0, 0.0, jnp.exp(-s) * x)  # noqa: E731
    first, xs = jnp.full((1, 1), -800.0), jnp.array([0.0, *[0.5] * 5])
    solution = jax.jit(lambda: newton(step, first, xs))()
    assert solution.converged
    close(solution.after, scanned(step, first, xs)[1])


def test_one_trace_for_one_shape():
    """Other values do not trace the step again."""
    traces = []

    def step(W, s, x):
        traces.append(0)
        return tanh_step(W, s, x)

    solve = jax.jit(lambda W, first, xs: newton(partial(step, W), first, xs))
    solve(W, FIRST, XS)
    count = len(traces)
    solve(0.5 * W, FIRST, 2 * XS)
    assert len(traces) == count > 0


def test_memory_of_the_diagonal_variant():
    """No N x N matrix per step for values: temporaries within a few arrays [T, B, N]."""
    size, length = 32, 16
    shapes = [jax.ShapeDtypeStruct(shape, float) for shape in ((size, size), (size, 1), (length, size, 1))]
    full, quasi = (
        jax.jit(partial(by_newton, diagonal=diagonal)).lower(*shapes).compile().memory_analysis().temp_size_in_bytes
        for diagonal in (False, True)
    )
    matrices = 8 * length * size**2
    assert full > matrices
    assert quasi < matrices / 2


def test_bad_options():
    """Counted iterations only."""
    with pytest.raises(ValueError, match="iterations must be an integer of at least 1, got 0"):
        newton(logistic, jnp.zeros((1, 1)), jnp.zeros(3), iterations=0)


def test_no_warning_where_it_converges():
    """Not even one that a callback would raise late."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        settled(by_newton, W, FIRST, XS)
    assert not caught
