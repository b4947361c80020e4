"""Initialisers: what each one draws, on which rows, in which dtype; statistics within four standard errors."""

import math
from dataclasses import replace

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import gru, init, init_stack, lstm, rnn, singular_values, spectral_radius
from seqjax.jaxprs import equations

D, H, KEY = 30, 40, jax.random.key(7)
PLAIN = {"rnn": rnn(), "lstm": lstm(forget_bias=None), "gru": gru()}
PARAMS = {name: cell.init(jax.random.key(3), D, H) for name, cell in PLAIN.items()}
ARRAYS = ("W_ih", "W_hh", "b_ih", "b_hh")
BIASES = {"b_ih", "b_hh"}
EDITS = {  # of an LSTM -> the arrays it changes
    init.Uniform(): {*ARRAYS},
    init.Gaussian(variance=2.0): {"W_hh"},
    init.Gaussian(sigma_max=0.9): {"W_hh"},
    init.Orthogonal(1.5): {"W_hh"},
    init.ScaledIdentity(0.95): {"W_hh"},
    init.InputGaussian(3.0): {"W_ih"},
    init.Bias(0.3): BIASES,
    init.GateBias("i", 0.3): BIASES,
    init.ForgetBias(0.3): BIASES,
    init.Chrono(20): BIASES,
}
each_name = pytest.mark.parametrize("name", PLAIN)
each_edit = pytest.mark.parametrize("edit", EDITS, ids=str)


def edited(name, edit):
    """The fixed params of a plain cell after an edit, in NumPy."""
    return jax.tree.map(np.asarray, edit(KEY, PLAIN[name], PARAMS[name]))


def blocks(name, edit):
    """Its recurrent blocks, one per gate."""
    return np.split(edited(name, edit).W_hh, len(PLAIN[name].gates))


def moments(values, second, fourth):
    """Assert a mean of zero and these second and fourth moments, each within four standard errors."""
    x, n = np.asarray(values, float).ravel(), np.size(values)
    assert abs(x.mean()) < 4 * math.sqrt(second / n)
    assert abs((x**2).mean() - second) < 4 * math.sqrt((fourth - second**2) / n)
    assert abs((x**4).mean() - fourth) < 4 * (x**4).std() / math.sqrt(n)


@each_name
@pytest.mark.parametrize(("edits", "bound"), [((), H**-0.5), ((init.Uniform(),), H**-0.5), ((init.Uniform(0.3),), 0.3)])
def test_uniform_fills_its_bounds_which_are_pytorchs_by_default(name, edits, bound):
    """Every array from U(-1/√H, 1/√H), or from the bounds given, and no two arrays the same numbers."""
    params = init.with_init(PLAIN[name], *edits).init(KEY, D, H)
    for array in jax.tree.leaves(params):
        assert 0.8 * bound < np.abs(array).max() <= np.float32(bound)
        moments(array, bound**2 / 3, bound**4 / 5)
    values = np.concatenate([np.ravel(a) for a in jax.tree.leaves(params)])
    assert len(np.unique(values)) > 0.99 * values.size


@each_name
def test_gaussian_entries_have_their_variance_in_every_gate(name):
    """N(0, variance/H)."""
    for W in blocks(name, init.Gaussian(variance=2.0)):
        moments(W, 2 / H, 3 * (2 / H) ** 2)


@each_name
@pytest.mark.parametrize("sigma", [0.5, 3.0])
def test_gaussian_sigma_max_is_exact_in_every_gate(name, sigma):
    """A Gaussian block rescaled: its largest singular value is the one asked for, the others spread below it."""
    for W in blocks(name, init.Gaussian(sigma_max=sigma)):
        values = singular_values(W)
        np.testing.assert_allclose(values[0], sigma, rtol=2e-6)
        assert 0.4 < math.sqrt((values**2).mean()) / sigma < 0.6


@each_name
@pytest.mark.parametrize("gain", [1.0, 1.5])
def test_orthogonal_is_orthogonal_in_every_gate(name, gain):
    """Every singular value of every gate's block is the gain; a draw over all rows at once would spread them."""
    drawn = blocks(name, init.Orthogonal(gain))
    for W in drawn:
        np.testing.assert_allclose(singular_values(W), gain, atol=1e-6)
    assert all(np.abs(drawn[0] - W).max() > 0.1 for W in drawn[1:])


@each_name
def test_scaled_identity_is_exact(name):
    """Every block is the scale times the identity, to the bit."""
    for W in blocks(name, init.ScaledIdentity(0.95)):
        np.testing.assert_array_equal(W, np.float32(0.95) * np.eye(H, dtype=np.float32))


def test_input_gaussian_gives_preactivations_of_its_variance():
    """Entries N(0, variance/D)."""
    moments(edited("lstm", init.InputGaussian(3.0)).W_ih, 3 / D, 3 * (3 / D) ** 2)


@each_edit
def test_an_edit_touches_its_part_and_no_other(edit):
    """Arrays outside it stay to the bit; every array of it changes."""
    new, old = edited("lstm", edit), PARAMS["lstm"]
    assert {field for field in ARRAYS if (getattr(new, field) != getattr(old, field)).any()} == EDITS[edit]


@pytest.mark.parametrize(("name", "gate"), [(name, gate) for name, cell in PLAIN.items() for gate in cell.gates])
def test_a_gate_bias_is_effective_on_the_rows_of_its_gate_alone(name, gate):
    """b_ih + b_hh is the value there; all other rows keep their draw."""
    new, old, at = edited(name, init.GateBias(gate, 2.5)), PARAMS[name], PLAIN[name].gates.index(gate) * H
    inside = np.isin(np.arange(len(new.b_ih)), np.arange(at, at + H))
    np.testing.assert_array_equal((new.b_ih + new.b_hh)[inside], 2.5)
    chex.assert_trees_all_equal((new.b_ih[~inside], new.b_hh[~inside]), (old.b_ih[~inside], old.b_hh[~inside]))


@each_name
def test_a_bias_is_effective_everywhere(name):
    """Not twice the value, which both of PyTorch's biases would make."""
    new = edited(name, init.Bias(0.3))
    np.testing.assert_array_equal(new.b_ih + new.b_hh, np.full(len(PLAIN[name].gates) * H, np.float32(0.3)))


@pytest.mark.parametrize("longest", [3, 50])
def test_chrono_spreads_the_time_constants(longest):
    """b_f = ln U(1, longest - 1) and b_i = -b_f exactly, on those rows of the LSTM and no others."""
    new, old = edited("lstm", init.Chrono(longest)), PARAMS["lstm"]
    i, f, g, o = np.split(new.b_ih + new.b_hh, 4)
    np.testing.assert_array_equal(i, -f)
    constants, width = np.exp(f.astype(float)), longest - 2
    assert (constants >= 1 - 1e-6).all()
    assert (constants <= longest - 1 + 1e-5).all()
    assert len(np.unique(f)) == H
    moments(constants - longest / 2, width**2 / 12, width**4 / 80)
    np.testing.assert_array_equal(np.concatenate([g, o]), (old.b_ih + old.b_hh)[2 * H :])


@each_edit
@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_an_edit_keeps_the_dtype_of_the_params(edit, dtype):
    """What it draws in bfloat16 is the float32 draw, cast once."""
    cell, params = PLAIN["lstm"], PARAMS["lstm"]
    got = edit(KEY, cell, jax.tree.map(lambda a: a.astype(dtype), params))
    want = jax.tree.map(lambda a: a.astype(dtype), edit(KEY, cell, params))
    assert {a.dtype for a in jax.tree.leaves(got)} == {jnp.dtype(dtype)}
    chex.assert_trees_all_close(got, want, rtol=0 if dtype == "bfloat16" else 1e-6)


def test_the_same_edits_make_the_same_cell():
    """Equal by value, so that a function jitted on the cell does not trace again."""

    def build(value=1.0):
        return init.with_init(lstm(), init.Orthogonal(1.5), init.Uniform(), init.Bias(0.0), init.ForgetBias(value))

    assert build() is build()
    assert hash(build()) == hash(build())
    assert build() != build(2.0)
    assert all(edit == replace(edit) and hash(edit) == hash(replace(edit)) for edit in EDITS)
    assert len({*EDITS, init.Orthogonal(), init.Uniform(0.1), init.Chrono(21)}) == len(EDITS) + 3
    assert init.ForgetBias(2.0) == init.GateBias("f", 2.0) != init.KeepBias(2.0) == init.GateBias("z", 2.0)


def test_edits_apply_in_order_each_with_a_key_of_its_own():
    """The last one wins, and equal edits draw different numbers."""
    assert init.with_init(rnn(), init.Bias(1.0), init.Bias(2.0)).init(KEY, D, H).b_ih[0] == 2
    both = (init.Orthogonal(),), (init.Bias(), init.Orthogonal())
    one, two = (init.with_init(rnn(), *edits).init(KEY, D, H).W_hh for edits in both)
    assert np.abs(one - two).max() > 0.1


SIZED = {make.__name__: make for make in (init.Uniform, init.Orthogonal, init.ScaledIdentity, init.InputGaussian)}
SIZED |= {make.__name__: make for make in (init.Bias, init.ForgetBias)}
SIZED |= {"variance": lambda v: init.Gaussian(variance=v), "sigma_max": lambda v: init.Gaussian(sigma_max=v)}


@pytest.mark.parametrize("make", SIZED.values(), ids=SIZED)
def test_numbers_may_be_traced(make):
    """So that a gain or a forget bias can be an axis of a sweep."""
    cell, params, values = PLAIN["lstm"], PARAMS["lstm"], (0.5, 2.0)
    many = jax.jit(jax.vmap(lambda v: make(v)(KEY, cell, params)))(jnp.array(values))
    assert {a.dtype for a in jax.tree.leaves(many)} == {jnp.dtype("float32")}
    each = [make(v)(KEY, cell, params) for v in values]
    chex.assert_trees_all_close(many, jax.tree.map(lambda *a: np.stack(a), *each), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: init.Gaussian(), "exactly one"),
        (lambda: init.Gaussian(variance=1.0, sigma_max=1.0), "exactly one"),
        (lambda: init.Chrono(2), "at least 3"),
        (lambda: edited("lstm", init.GateBias("z", 1.0)), "must be one of .*'z'"),
        (lambda: edited("gru", init.Chrono(9)), "no such gate"),
        (lambda: init.Orthogonal()(KEY, replace(rnn(), gates=""), PARAMS["rnn"]), "has no gates"),
        (lambda: init.with_init(rnn(), init.Bias()).init(KEY, 0, 4), "D must be an integer"),
        (lambda: init.with_init(rnn(), init.Bias()).init(KEY, 4, 2.5), "H must be an integer"),
        (lambda: rnn().init(KEY, 4, True), "H must be an integer"),
    ],
)
def test_what_cannot_be_drawn_is_refused(make, message):
    """With the argument's name and what is allowed."""
    with pytest.raises(ValueError, match=message):
        make()


def test_spectrum_of_a_gaussian_start():
    """B22: the spectral radius is near 1, the largest singular value near 2, and most directions shrink."""
    W = init.Gaussian(variance=1.0).block(jax.random.key(0), 1000)
    assert abs(spectral_radius(W) - 1.04) < 0.05
    values = singular_values(W)
    assert abs(values[0] - 1.99) < 0.03
    assert abs((values < 1).mean() - 0.61) < 0.02


def count(cell, D, H, fields=ARRAYS, **options):
    """Parameters of a stack, from shapes alone."""
    shapes = jax.eval_shape(lambda: init_stack(KEY, cell, D, H, **options))
    halves = [half for layer in shapes for half, _ in layer.halves()]
    return sum(math.prod(getattr(half, field).shape) for half in halves for field in fields)


def test_parameter_counts_are_pytorchs():
    """B10: H = 512 and d = 300, one layer and two; a GRU has three quarters of an LSTM."""
    assert [count(cell, 300, 512) for cell in (rnn(), lstm(), gru())] == [416_768, 1_667_072, 1_250_304]
    assert [count(cell, 300, 512, layers=2) for cell in (lstm(), gru())] == [3_768_320, 2_826_240]


def test_a_first_layer_has_fewer_weights_than_those_above():
    """B14: H² + Hd, and 2H² in every layer above, biases left out."""
    weights = [count(rnn(), 300, 512, ("W_ih", "W_hh"), layers=layers) for layers in (1, 2, 3)]
    assert np.diff([0, *weights]).tolist() == [415_744, 524_288, 524_288]


@each_name
def test_both_directions_cost_twice_in_one_layer_and_more_in_two(name):
    """B15: exactly 2 times; 2.53 times for two layers (H = 16, d = 8), since the upper one reads 2H."""
    both, one = ([count(PLAIN[name], 8, 16, layers=n, bidirectional=b) for n in (1, 2)] for b in (True, False))
    assert both[0] == 2 * one[0]
    assert round(both[1] / one[1], 2) == 2.53


@pytest.mark.parametrize("edit", [init.Orthogonal(), init.Gaussian(sigma_max=0.9)], ids=repr)
def test_many_draws_decompose_one_matrix_at_a_time(edit):
    """A few decompositions of many matrices at once can wait for each other for ever on the threads of a CPU."""
    keys, draw = jax.random.split(KEY, 3), lambda key: edit(key, lstm(), PARAMS["lstm"]).W_hh
    found = list(equations(jax.make_jaxpr(jax.vmap(draw))(keys).jaxpr))
    assert [e.invars[0].aval.ndim for e in found if e.primitive.name in ("qr", "svd")] == [2] * 4
    chex.assert_trees_all_equal(jax.vmap(draw)(keys)[1], draw(keys[1]))
