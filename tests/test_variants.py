"""Every cell beyond RNN, LSTM and GRU against its equation written out in numpy, step by step; and the options."""

from dataclasses import replace
from inspect import signature

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import MAKERS, D, H, T, all_zero, close, random_params, random_xs, same

from seqjax import (
    CELLS,
    Complex,
    gru,
    init_stack,
    lru,
    lstm,
    memory,
    mgu,
    mingru,
    recurrent_blocks,
    rnn,
    unroll,
    variant,
)
from seqjax.cells.gates import CANDIDATE, FORGET, OUTPUT, UNGATED_CANDIDATE, Piece
from seqjax.cells.lru import poles
from seqjax.cells.variants import VARIANTS
from seqjax.core import linear_step
from seqjax.init import (
    Bias,
    Chrono,
    ForgetBias,
    GateBias,
    Gaussian,
    InputGaussian,
    KeepBias,
    NoBias,
    Orthogonal,
    Uniform,
    with_init,
)

KEY = jax.random.key(0)
XS = random_xs(T, D)
LINEAR = {name: make() for name, make in CELLS.items() if make().coefficients is not None}


def σ(z):
    """The logistic function."""
    return 1 / (1 + np.exp(-z))


def blocks(array, count):
    """The gates' parts."""
    return np.split(np.asarray(array), count)


def greff(name, p):
    """The peephole LSTM of Greff et al. (2017), section 2 and appendix, with one thing changed: outputs [T, H]."""
    gates = {"no-input-gate": "fgo", "no-forget-gate": "igo", "no-output-gate": "ifg", "coupled": "igo"}
    gates = gates.get(name, "ifgo")
    W, U, b, d = (dict(zip(gates, blocks(a, len(gates)), strict=True)) for a in (p.W_ih, p.W_hh, p.b_ih, p.b_hh))
    look = {} if name == "no-peepholes" else {gate: np.asarray(vector) for gate, vector in p.look.items()}
    R = dict(zip("ifo", blocks(getattr(p, "W_gates", np.zeros((3 * H, 3 * H))), 3), strict=True))
    h, c, before, hs = np.zeros(H), np.zeros(H), np.zeros(3 * H), []

    def z(gate, x, cell):
        own = W[gate] @ x + U[gate] @ h + b[gate] + d[gate] + look.get(gate, 0) * cell
        return own + R[gate] @ before if gate in R else own

    for x in np.asarray(XS):
        i = np.ones(H) if name == "no-input-gate" else σ(z("i", x, c))
        f = {"no-forget-gate": np.ones(H), "coupled": 1 - i}.get(name)
        f = σ(z("f", x, c)) if f is None else f
        g = z("g", x, c) if name == "no-input-activation" else np.tanh(z("g", x, c))
        new = f * c + i * g
        o = np.ones(H) if name == "no-output-gate" else σ(z("o", x, new))
        h, c, before = o * (new if name == "no-output-activation" else np.tanh(new)), new, np.concatenate([i, f, o])
        hs.append(h)
    return np.stack(hs)


@pytest.mark.parametrize("name", ["baseline", *VARIANTS])
def test_the_eight_variants_and_their_baseline(name):
    """Equal to the equations written out, each unlike the baseline on the same weights (S18)."""
    cell = lstm(peephole=True) if name == "baseline" else variant(name)
    params = random_params(cell)
    close(unroll(cell, params, XS).ys, greff(name, params))
    if name not in ("baseline", "no-peepholes") and cell.gates == "ifgo":
        assert not np.allclose(unroll(cell, params, XS).ys, greff("baseline", replace_gates(params)), atol=1e-4)


def replace_gates(params):
    """The same weights without recurrence between gates."""
    return replace(params, W_gates=0 * params.W_gates) if hasattr(params, "W_gates") else params


def test_the_sum_has_no_bound_and_the_identity_for_its_jacobian():
    """c_t is the running sum of the projected inputs; ds_t/ds_{t-1} = I, bit for bit (S15)."""
    cell = memory()
    params = random_params(cell)
    trace = unroll(cell, params, XS)
    close(trace.ys, np.cumsum(np.asarray(XS) @ np.asarray(params.W_ih).T + np.asarray(params.b_ih), axis=0))
    jacobian = jax.jacfwd(lambda s: cell.step(params, s, trace.us[0]))(cell.start(params))
    same(jacobian.h.h, jnp.eye(H))
    long = unroll(cell, params, jnp.ones((5000, D)))
    close(long.final.h, 5000 * (params.W_ih.sum(1) + params.b_ih), 1e-9)
    assert jnp.abs(long.final.h).max() > 1000


def test_each_piece_leads_to_the_next():
    """The path from the sum to the LSTM: with its gate saturated, each cell is the one before it; its end is `lstm`."""
    one, two = memory(keep=FORGET), memory(keep=FORGET, write=CANDIDATE)
    three = memory(keep=FORGET, write=CANDIDATE, show=OUTPUT)
    assert [cell.gates for cell in (memory(), one, two, three)] == ["g", "fg", "ifg", "ifgo"]
    params = random_params(three)
    same(unroll(three, params, XS), unroll(lstm(), params, XS))

    kept = GateBias("f", 100.0)(KEY, one, random_params(one))
    blind = replace(kept, W_hh=0 * kept.W_hh)
    summed = replace(blind, W_ih=blind.W_ih[H:], W_hh=None, b_ih=(blind.b_ih + blind.b_hh)[H:], b_hh=None)
    close(unroll(one, blind, XS).ys, unroll(memory(), summed, XS).ys)

    p = jax.tree.map(np.asarray, random_params(two))
    c, cs = np.zeros(H), []
    for x in np.asarray(XS):
        i, f, g = blocks(p.W_ih @ x + p.b_ih + p.W_hh @ c + p.b_hh, 3)
        c = σ(f) * c + σ(i) * np.tanh(g)
        cs.append(c)
    close(unroll(two, p, XS).ys, np.stack(cs))


def test_peepholes_see_the_right_cell():
    """i and f the old one, o the new one, each through the vector of its own name."""
    cell = lstm(peephole=True)
    params = jax.tree.map(jnp.zeros_like, random_params(cell))
    params = GateBias("g", 100.0)(KEY, cell, params)
    state = replace(cell.start(params), c=jnp.full(H, 2.0))
    for gate in "ifo":
        look = dict.fromkeys("ifo", jnp.zeros(H)) | {gate: jnp.full(H, 0.7)}
        new = cell.step(replace(params, look=look), state, params.b_ih)
        i, f = (σ(0.7 * 2) if gate == name else 0.5 for name in "if")
        c = f * 2 + i
        o = σ(0.7 * c) if gate == "o" else 0.5
        close((new.c, new.h), (jnp.full(H, c), jnp.full(H, o * np.tanh(c))))


@pytest.mark.parametrize(
    "cell", [rnn(norm="layer"), lstm(norm="layer"), gru(norm="layer"), lstm(norm="layer", peephole=True)]
)
def test_layernorm_has_a_finite_gradient_at_a_zero_state(cell):
    """Zero inputs, zero weights: every pre-activation is constant, its variance 0, and no gradient is NaN."""
    params = cell.init(KEY, D, H)
    for given in (params, jax.tree.map(jnp.zeros_like, params)):
        grads = jax.grad(lambda p, xs: unroll(cell, p, xs).ys.sum(), (0, 1))(given, jnp.zeros((T, D)))
        assert all(np.isfinite(g).all() for g in jax.tree.leaves(grads))


def layernorm(p, gates, k, z):
    """Ba et al. (2016) with PyTorch's ε."""
    gain, bias = (blocks(a, gates)[k] for a in (p.gain, p.b_ih))
    return gain * (z - z.mean()) / np.sqrt(z.var() + 1e-5) + bias


def test_layernorm_acts_on_the_preactivation_of_every_gate():
    """RNN, LSTM and GRU written out; one bias, after the norm (S14)."""
    for cell, gates in ((rnn(norm="layer"), 1), (lstm(norm="layer"), 4), (gru(norm="layer"), 3)):
        p, h, c, hs = jax.tree.map(np.asarray, random_params(cell)), np.zeros(H), np.zeros(H), []
        assert p.b_hh is None
        for x in np.asarray(XS):
            u, a = blocks(p.W_ih @ x, gates), blocks(p.W_hh @ h, gates)
            z = [layernorm(p, gates, k, u[k] + a[k]) for k in range(gates)]
            if gates == 1:
                h = np.tanh(z[0])
            elif gates == 4:
                c = σ(z[1]) * c + σ(z[0]) * np.tanh(z[2])
                h = σ(z[3]) * np.tanh(c)
            else:
                n = np.tanh(layernorm(p, 3, 2, u[2] + σ(z[0]) * a[2]))
                h = (1 - σ(z[1])) * n + σ(z[1]) * h
            hs.append(h)
        close(unroll(cell, p, XS).ys, np.stack(hs))


def test_what_layernorm_makes_of_a_scaled_weight():
    """Nothing: z is invariant to the scale of W, up to ε."""
    cell = rnn(norm="layer")
    params = random_params(cell)
    scaled = replace(params, W_ih=1e3 * params.W_ih, W_hh=1e3 * params.W_hh)
    close(unroll(cell, scaled, 1e3 * XS[:1]).ys, unroll(cell, params, 1e3 * XS[:1]).ys, 1e-6)


@pytest.mark.parametrize("value", [-1.0, 0.0, 2.5])
def test_the_forget_bias_is_effective_whatever_the_option(value):
    """σ(value) of the cell is kept at a step of zero input: with peepholes, coupled gates and LayerNorm."""
    for options in ({}, {"peephole": True}, {"coupled": True}, {"norm": "layer"}, {"coupled": True, "norm": "layer"}):
        cell = lstm(forget_bias=value, **options)
        params = cell.init(KEY, D, H)
        own = replace(params, W_ih=0 * params.W_ih, W_hh=0 * params.W_hh, **blind(params))
        kept = jax.jacfwd(lambda c, own=own, cell=cell: through(cell, own, c))(jnp.ones(H))
        close(kept, jnp.eye(H) * σ(value), 1e-6)


def blind(params):
    """Peepholes of zero, where there are any."""
    return {"look": jax.tree.map(jnp.zeros_like, params.look)} if hasattr(params, "look") else {}


def through(cell, params, c):
    """The new cell, of an old one."""
    return cell.step(params, replace(cell.start(params), c=c), cell.project(params, jnp.zeros(D))).c


def test_mgu_is_its_equation():
    """f = σ(-z), n = tanh(W_n x + U_n (f ⊙ h) + b), h = (1 - f) ⊙ h + f ⊙ n (Zhou et al. 2016, whose gate is f)."""
    p, h, hs = jax.tree.map(np.asarray, random_params(mgu())), np.zeros(H), []
    for x in np.asarray(XS):
        (u_z, u_n), (U_z, U_n), (b_z, b_n) = (blocks(a, 2) for a in (p.W_ih @ x + p.b_ih, p.W_hh, p.b_hh))
        f = 1 - σ(u_z + U_z @ h + b_z)
        h = (1 - f) * h + f * np.tanh(u_n + U_n @ (f * h) + b_n)
        hs.append(h)
    close(unroll(mgu(), p, XS).ys, np.stack(hs))


def test_mingru_is_its_equation():
    """h = z ⊙ h + (1 - z) ⊙ n, z and n affine in x alone (Feng et al. 2024)."""
    p, h, hs = jax.tree.map(np.asarray, random_params(mingru())), np.zeros(H), []
    for x in np.asarray(XS):
        z, n = blocks(p.W_ih @ x + p.b_ih, 2)
        h = σ(z) * h + (1 - σ(z)) * n
        hs.append(h)
    close(unroll(mingru(), p, XS).ys, np.stack(hs))


def test_lru_is_a_sum_over_the_past_of_powers_of_its_poles():
    """y_t = Re(C Σ_k λ^(t-k) γ B x_k), in complex numpy (Orvieto et al. 2023)."""
    p = jax.tree.map(np.asarray, lru().init(KEY, D, H))
    p = jax.tree.map(lambda a: a.astype(float), p)
    λ, γ = np.exp(-np.exp(p.ν) + 1j * np.exp(p.θ)), np.exp(p.γ)
    B_re, B_im = blocks(p.W_ih, 2)
    C_re, C_im = np.split(p.W_ho, 2, axis=1)
    us, C = γ * (np.asarray(XS) @ (B_re + 1j * B_im).T), C_re - 1j * C_im
    states = [sum(λ ** (t - k) * us[k] for k in range(t + 1)) for t in range(T)]
    close(unroll(lru(), p, XS).ys, np.stack([(C @ s).real for s in states]))


def test_lru_starts_with_poles_on_the_ring_and_states_of_one_scale():
    """|λ|² uniform between the squares, angles in (0, angle), and white inputs give E|s|² = 1 + O(1/√H) a mode."""
    cell, many = lru(radius=(0.5, 0.99), angle=np.pi / 2), 4000
    λ = poles(cell.init(KEY, 1, many))
    square, angle = np.asarray(λ.re**2 + λ.im**2), np.asarray(jnp.arctan2(λ.im, λ.re))
    assert (square.min() >= 0.25, square.max() <= 0.99**2) == (True, True)
    assert abs(square.mean() - (0.25 + 0.99**2) / 2) < 5 * (0.99**2 - 0.25) / np.sqrt(12 * many)
    assert (angle.min() >= 0, angle.max() <= np.pi / 2 + 1e-6) == (True, True)
    white = jax.random.normal(KEY, (3000, 8))
    params = cell.init(KEY, 8, 64)
    z = unroll(cell, params, white).after.z
    energy = np.asarray(z.re**2 + z.im**2)[1000:].mean(0) / np.asarray((params.W_ih**2).reshape(2, 64, 8).sum((0, 2)))
    assert abs(energy.mean() - 1) < 0.1


@pytest.mark.parametrize("name", LINEAR)
def test_coefficients_are_the_step(name):
    """s_t = decay ⊙ s_{t-1} + write, bit for bit; and the step is affine in the state."""
    cell = LINEAR[name]
    params = random_params(cell)
    s, r = (jax.tree.map(lambda a, k=k: a + jnp.sin(k + jnp.arange(float(H))), cell.start(params)) for k in (1, 2))
    u = cell.project(params, XS[0])
    same(cell.step(params, s, u), linear_step(cell.coefficients(params, u)[0], s, cell.coefficients(params, u)[1]))
    middle = jax.tree.map(lambda a, b: (a + b) / 2, s, r)
    halves = jax.tree.map(lambda a, b: (a + b) / 2, cell.step(params, s, u), cell.step(params, r, u))
    close(cell.step(params, middle, u), halves, 1e-14)


def test_complex_multiplies_and_adds_as_complex_numbers_do():
    """Against numpy's."""
    a, b, c = np.exp(1j * np.arange(3.0)), 1 + 2j * np.arange(3.0), np.full(3, -1j)
    got = Complex(a.real, a.imag) * Complex(b.real, b.imag) + Complex(c.real, c.imag)
    np.testing.assert_allclose(got.re + 1j * got.im, a * b + c, rtol=1e-14)


def test_a_gain_starts_at_one_and_uniform_leaves_it_there():
    """LayerNorm's usual start."""
    cell = with_init(lstm(norm="layer"), Uniform(), Orthogonal(), Bias(0.0))
    params = cell.init(KEY, D, H)
    assert (params.gain == 1).all()
    assert all_zero(params.b_ih)
    drawn = lstm(peephole=True).init(KEY, D, H).look
    assert all(0 < jnp.abs(vector).max() <= H**-0.5 for vector in drawn.values())
    assert len({float(vector[0]) for vector in drawn.values()}) == 3


def test_chrono_bias_of_a_normalised_lstm():
    """b_f in [0, ln(longest - 1)], b_i = -b_f, in the one bias there is."""
    params = with_init(lstm(norm="layer"), Chrono(50)).init(KEY, D, H)
    i, f, _, _ = jnp.split(params.b_ih, 4)
    same(i, -f)
    assert (f >= 0).all()
    assert (f <= np.log(49)).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lstm(norm="batch"), r"norm must be one of \[None, 'layer'\], got 'batch'"),
        (lambda: memory(forget_bias=1.0), "forget_bias must be None where no one gate keeps the cell, got 1.0"),
        (lambda: memory(peephole=True), "peephole must be False in a memory without gates"),
        (lambda: memory(keep=CANDIDATE, forget_bias=1.0), "forget_bias must be None where no one gate"),
        (lambda: memory(keep=Piece("o", lambda z: z["o"])), "keep may read the gates .*'i', 'f', 'g'.*, got .*'o'"),
        (lambda: memory(show=Piece("i", lambda z, c: c)), "show may read the gates .*'o'.*, got .*'i'"),
        (lambda: lstm(peephole="no"), "peephole must be True or False, got 'no'"),
        (lambda: lstm(coupled=1), "coupled must be True or False, got 1"),
        (lambda: gru(reset_after="no"), "reset_after must be True or False"),
        (lambda: lstm(forget_bias=float("nan")).init(KEY, D, H), "bias of gate 'f' must be finite"),
        (lambda: lstm(norm="layer").init(KEY, D, 1), "H must be at least 2 in lstm-norm"),
        (lambda: lru(radius=0.9), "radius must be"),
        (lambda: lru(radius=(0.5, 0.9, 0.99)), "radius must be"),
        (lambda: with_init(mingru(), Chrono(50)).init(KEY, D, H), "gate must be one of .*got 'f'"),
        (lambda: with_init(lru(), Chrono(50)).init(KEY, D, H), "'lru' has no gates"),
        (lambda: with_init(lru(), InputGaussian()).init(KEY, D, H), "'lru' has no gates"),
        (lambda: recurrent_blocks(mingru(), random_params(mingru())), "'mingru' has no recurrent blocks"),
        (lambda: recurrent_blocks(lru(), random_params(lru())), "'lru' has no recurrent blocks"),
        (lambda: variant("no-forget-gate", forget_bias=1.0), "forget_bias must be None"),
        (lambda: variant("no-gates"), "name must be one of .*full-gate-recurrence"),
        (lambda: lru(radius=(0.9, 0.5)), "radius must be"),
        (lambda: lru(radius=(0.5, 1.5)), "radius must be"),
        (lambda: lru(angle=0.0), "angle must lie in"),
        (lambda: ForgetBias(1.0)(KEY, lstm(coupled=True), random_params(lstm(coupled=True))), "gate must be one of"),
        (lambda: with_init(lru(), Gaussian(variance=1.0)).init(KEY, D, H), "'lru' has no gates"),
        (lambda: with_init(mingru(), Orthogonal()).init(KEY, D, H), "'mingru' has no recurrent blocks"),
        (lambda: with_init(lru(), Uniform()).init(KEY, D, H), "'lru' has no gates"),
        (lambda: with_init(lru(), Bias()).init(KEY, D, H), "'lru' has no gates"),
        (lambda: with_init(lstm(), NoBias(), Bias()).init(KEY, D, H), "made without biases"),
        (lambda: unroll(lstm(), random_params(gru()), XS), r"params have W_hh \[15, 5\], but lstm has 4 gates"),
    ],
)
def test_bad_options_are_refused(make, message):
    """By name."""
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("name", [name for name, make in CELLS.items() if make().gates])
def test_a_cell_without_biases_is_the_cell_with_biases_of_zero(name):
    """Values, whatever the cell; what is shown starts at zero and stays there without input."""
    cell = CELLS[name]()
    params = random_params(cell)
    bare = replace(params, b_ih=None, b_hh=None)
    zero = replace(params, b_ih=0 * params.b_ih, b_hh=None if params.b_hh is None else 0 * params.b_hh)
    close(unroll(cell, bare, XS).ys, unroll(cell, zero, XS).ys)
    drawn = with_init(cell, NoBias()).init(KEY, D, H)
    assert (drawn.b_ih, drawn.b_hh) == (None, None)


@pytest.mark.parametrize("name", CELLS)
def test_options_left_out_or_spelled_out_give_the_same_cell(name):
    """So that jit does not trace again; an option that is an array is refused by name."""
    make = CELLS[name]
    defaults = {option.name: option.default for option in signature(make).parameters.values()}
    assert make(**defaults) is make()
    for option in defaults:
        with pytest.raises(ValueError, match=f"{option} must be a plain, hashable value, got list"):
            make(**{option: []})


def test_a_wide_stack_of_every_cell():
    """Two layers, both directions: every cell reads what it shows."""
    for make in CELLS.values():
        params = init_stack(KEY, make(), D, H, layers=2, bidirectional=True)
        assert params[1].backward.W_ih.shape[1] == 2 * H


def signature_of(params):
    """What tells the params of one cell from those of another: container, optional arrays, and gates, which without
    W_hh nothing tells from units."""
    absent = [getattr(params, name, 0) is None for name in ("W_hh", "gain")]
    return type(params), *absent, None if absent[0] else params.W_ih.shape


@pytest.mark.parametrize("name", MAKERS)
def test_another_cells_params_are_refused(name):
    """Whatever the pair of cells: no option is ignored, no array left unread, and the error is of one line."""
    cell = MAKERS[name]()
    own = random_params(cell)
    for make in MAKERS.values():
        params = random_params(make())
        if signature_of(params) != signature_of(own):
            with pytest.raises(ValueError, match="another cell's"):
                unroll(cell, params, XS)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("radius", [(0.0, 1.0), (0.9, 0.999), (0.99, 0.9999)])
def test_an_lru_never_grows_whatever_the_dtype(radius, dtype):
    """|λ| <= 1 up to rounding: without input a state of ones is no larger 5000 steps later."""
    cell = lru(radius=radius)
    params = jax.tree.map(lambda a: a.astype(dtype), cell.init(KEY, D, 256))
    λ = poles(params)
    assert λ.re.dtype == jnp.float32
    assert (jnp.hypot(λ.re, λ.im) <= 1 + 2e-7).all()
    state = jax.tree.map(jnp.ones_like, cell.start(params))
    z = unroll(cell, params, jnp.zeros((5000, D), dtype), state=state).final.z
    assert (jnp.hypot(z.re, z.im) <= 2**0.5 * 1.001).all()


def test_an_lru_near_the_circle_is_drawn_finite_and_inside():
    """1 - |λ|² is what is drawn, so that it does not round to 0."""
    for radius in ((0.9999, 1.0), (0.0, 0.999)):
        draw = jax.jit(jax.vmap(lambda key, radius=radius: lru(radius=radius).init(key, 1, 512)))
        drawn = draw(jax.random.split(KEY, 50))
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(drawn))
        r = np.exp(-np.exp(np.asarray(drawn.ν, float)))
        assert radius[0] - 1e-6 <= r.min()
        assert r.max() <= radius[1]
        np.testing.assert_allclose(np.exp(2 * np.asarray(drawn.γ, float)), 1 - r**2, rtol=1e-4, atol=1e-6)


def test_a_narrow_mingru_forgets_as_a_wide_one_does():
    """σ(7) is 1 in bfloat16; the gates are float32. LayerNorm of large float16 numbers does not overflow."""
    cell = mingru(keep_bias=7.0)
    params = jax.tree.map(lambda a: a.astype("bfloat16"), replace(cell.init(KEY, D, H), W_ih=jnp.zeros((2 * H, D))))
    decay, _ = cell.coefficients(params, cell.project(params, jnp.zeros(D, "bfloat16")))
    close(decay.h, jnp.full(H, σ(7.0), jnp.float32), 1e-6)
    for cell in (mingru(norm="layer"), memory(norm="layer")):
        wide = cell.init(KEY, D, H)
        narrow, xs = (jax.tree.map(lambda a: a.astype("float16"), tree) for tree in (wide, 2000 * XS))
        again = jax.tree.map(lambda a: a.astype("float32"), narrow)
        close(unroll(cell, narrow, xs).ys, unroll(cell, again, xs.astype("float32")).ys, 0.02)


@pytest.mark.parametrize(
    "cell", [gru(keep_bias=2.0), mgu(keep_bias=2.0), mingru(keep_bias=2.0)], ids=lambda cell: cell.name
)
def test_the_keep_bias_keeps_that_much(cell):
    """h_t = σ(2) h_{t-1} without input or other weights; `KeepBias` is the same edit."""
    for params in (
        cell.init(KEY, D, H),
        with_init(replace(cell, init=MAKERS[cell.name]().init), KeepBias(2.0)).init(KEY, D, H),
    ):
        bare = jax.tree.map(lambda a: a * (a == 2.0), params)
        new = cell.step(bare, replace(cell.start(bare), h=jnp.ones(H)), cell.project(bare, jnp.zeros(D)))
        close(new.h, jnp.full(H, σ(2.0)), 1e-6)


def test_a_piece_of_ones_own_keeps_as_asked_and_looks_back():
    """A coupled gate by another hand has its sign; an ungated candidate sees the state, and only a sum does not."""
    mine = memory(keep=Piece("i", lambda z: 1 - jax.nn.sigmoid(z["i"]), sign=-1), write=CANDIDATE, forget_bias=3.0)
    assert (mine.init(KEY, D, H).b_ih[:H] == -3.0).all()
    ungated = memory(write=UNGATED_CANDIDATE)
    params = random_params(ungated)
    assert params.W_hh.shape == (H, H)
    c, cs = np.zeros(H), []
    for x in np.asarray(XS):
        c = c + np.tanh(params.W_ih @ x + params.b_ih + params.W_hh @ c + params.b_hh)
        cs.append(c)
    close(unroll(ungated, params, XS).ys, np.stack(cs))
    assert memory().init(KEY, D, H).W_hh is None


def test_chrono_takes_a_traced_length():
    """So that it can be an axis of a sweep."""
    params = lstm().init(KEY, D, H)
    traced = jax.jit(lambda longest: Chrono(longest)(KEY, lstm(), params))(50)
    same(traced, Chrono(50)(KEY, lstm(), params))
