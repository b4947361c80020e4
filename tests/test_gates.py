"""Gates by name: every probe saturates one gate and checks the equation that is left, and where its rows lie."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import B, D, H, T, all_zero, close, random_params, random_state, random_xs, same

from seqjax import gru, lstm, unroll
from seqjax.init import ForgetBias, GateBias, KeepBias

both_grus = pytest.mark.parametrize("cell", [gru(), gru(reset_after=False)], ids=["after", "before"])


def probe(cell, seed=1, **biases):
    """A run from a random state (of this seed), with some gates saturated: (initial state, trace)."""
    params = random_params(cell)
    for gate, bias in biases.items():
        params = GateBias(gate, bias)(jax.random.key(0), cell, params)
    state = random_state(cell, params, B, seed=seed)
    return state, unroll(cell, params, random_xs(), state=state)


def test_lstm_holds_c_for_ever_with_forget_open_and_input_shut():
    """b_f = +100, b_i = -100: bit for bit."""
    state, trace = probe(lstm(), f=100.0, i=-100.0)
    same(trace.after.c, jnp.repeat(state.c[:, None], T, axis=1))
    assert not np.allclose(trace.after.h[:, 0], trace.after.h[:, -1])


def test_lstm_forgets_c_with_forget_shut():
    """b_f = -100: what c was does not matter, and with the input shut as well it is zero."""
    _, trace = probe(lstm(), f=-100.0, i=-100.0)
    assert np.abs(trace.after.c).max() < 1e-40
    _, trace = probe(lstm(), f=-100.0)
    assert 0.01 < np.abs(trace.after.c).max() < 1


def test_lstm_counts_with_forget_and_input_open():
    """b_f = b_i = b_g = +100: c grows by exactly one a step."""
    state, trace = probe(lstm(), f=100.0, i=100.0, g=100.0)
    close(trace.after.c, state.c[:, None] + jnp.arange(1.0, T + 1)[None, :, None])


def test_lstm_shows_nothing_with_output_shut_and_all_of_the_new_cell_with_it_open():
    """b_o = -100 and +100."""
    assert np.abs(probe(lstm(), o=-100.0)[1].ys).max() < 1e-40
    _, trace = probe(lstm(), o=100.0)
    close(trace.ys, jnp.tanh(trace.after.c))


@both_grus
def test_gru_holds_h_for_ever_with_the_keep_gate_open(cell):
    """b_z = +100."""
    state, trace = probe(cell, z=100.0)
    close(trace.after.h, jnp.repeat(state.h[:, None], T, axis=1), 1e-14)


@both_grus
def test_gru_forgets_h_with_both_gates_shut(cell):
    """b_z = b_r = -100: the state that entered does not matter."""
    (_, one), (_, other) = (probe(cell, seed, z=-100.0, r=-100.0) for seed in (1, 9))
    close(one.ys, other.ys, 1e-14)
    assert np.abs(one.ys).max() > 0.01


def test_gru_before_the_product_is_the_textbook_equation():
    """n = tanh(W_in x + b_in + W_hn (r ⊙ h) + b_hn), which no `nn.GRU` can check."""
    cell = gru(reset_after=False)
    p = jax.tree.map(np.asarray, random_params(cell))
    h, xs, hs = np.zeros(H), np.asarray(random_xs(T, D)), []
    for x in xs:
        (u_r, u_z, u_n), (W_r, W_z, W_n), (b_r, b_z, b_n) = (
            np.split(a, 3) for a in (p.W_ih @ x + p.b_ih, p.W_hh, p.b_hh)
        )
        r = 1 / (1 + np.exp(-(u_r + W_r @ h + b_r)))
        z = 1 / (1 + np.exp(-(u_z + W_z @ h + b_z)))
        h = (1 - z) * np.tanh(u_n + W_n @ (r * h) + b_n) + z * h
        hs.append(h)
    close(unroll(cell, p, jnp.asarray(xs)).ys, jnp.asarray(hs))
    assert not np.allclose(unroll(gru(), p, jnp.asarray(xs)).ys, hs, atol=1e-3)


@pytest.mark.parametrize("value", [-2.0, 0.0, 1.0, 7.5])
@pytest.mark.parametrize("kind", ["forget", "keep"])
def test_the_effective_bias_is_what_was_asked_and_the_other_rows_are_untouched(kind, value):
    """b_ih + b_hh = value on rows H..2H, in PyTorch's orders i, f, g, o and r, z, n; nothing else moves (B26)."""
    make = {"forget": lambda v: lstm(forget_bias=v), "keep": lambda v: gru(keep_bias=v)}[kind]
    edit = {"forget": ForgetBias, "keep": KeepBias}[kind]
    rows, key = slice(H, 2 * H), jax.random.key(4)
    drawn, asked = make(None).init(key, D, H), make(value).init(key, D, H)
    edited = edit(value)(key, make(None), drawn)
    for params in (asked, edited):
        assert (params.b_ih[rows] + params.b_hh[rows] == value).all()
        mend = {name: getattr(params, name).at[rows].set(getattr(drawn, name)[rows]) for name in ("b_ih", "b_hh")}
        same(replace(params, **mend), drawn)


def test_an_unset_bias_is_drawn_and_the_default_forget_bias_is_one():
    """`lstm()` has forget bias 1, `gru()` no keep bias of its own."""
    key, rows = jax.random.key(5), slice(H, 2 * H)
    default, drawn = lstm().init(key, D, H), lstm(forget_bias=None).init(key, D, H)
    assert (default.b_ih[rows] + default.b_hh[rows] == 1).all()
    for params in (drawn, gru().init(key, D, H)):
        assert not all_zero(params.b_ih[rows])
        assert len(np.unique(params.b_ih[rows] + params.b_hh[rows])) == H
        assert np.abs(params.b_ih).max() <= H**-0.5


def test_no_bias_is_hidden_in_the_forward_pass():
    """An LSTM of zero params halves its cell at every step: σ(0) = 1/2."""
    cell = lstm(forget_bias=3.0)
    zero = jax.tree.map(jnp.zeros_like, random_params(cell))
    state = random_state(cell, zero, B)
    trace = unroll(cell, zero, random_xs(), state=state)
    close(trace.after.c, state.c[:, None] * 0.5 ** jnp.arange(1.0, T + 1)[None, :, None])
