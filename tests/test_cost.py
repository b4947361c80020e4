"""Costs against closed forms, real params, PyTorch's counts and XLA's own analysis, and every figure of the sources."""

import math
from dataclasses import dataclass, replace
from importlib.util import find_spec

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from oracle import MAKERS, each_cell

from experiments import costs
from seqjax import Cell, Hidden, adam, gru, lru, lstm, memory, mingru, rnn, unroll, unroll_stack, variant
from seqjax.core import carry_dtype
from seqjax.cost import cost, count_products
from seqjax.network import network
from seqjax.stack import Layer

B, T, D, H, K = 8, 50, 7, 32, 5
SIZES = {"B": B, "T": T, "D": D, "H": H}
LECTURE = {"B": 32, "T": 100, "D": 300, "H": 512}
SHAPES = [{}, {"K": K}, {"layers": 3}, {"bidirectional": True}, {"K": K, "layers": 2, "bidirectional": True}]
each_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)
PLAIN = {"rnn": rnn(), "lstm": lstm(), "gru": gru()}


def lecture(cell, **sizes):
    """The cost at the lecture's sizes."""
    return cost(cell, **LECTURE | sizes)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Linear:
    """h_t = W_hh h_{t-1} + W_ih x_t."""

    W_ih: Array  # [H, D]
    W_hh: Array  # [H, H]


LINEAR = Cell(
    "linear",
    lambda key, D, H: Linear(jax.random.normal(key, (H, D), "float32"), jnp.eye(H, dtype="float32")),
    lambda p: Hidden(jnp.zeros(len(p.W_hh), carry_dtype(p))),
    lambda p, x: p.W_ih @ x,
    lambda p, s: p.W_hh @ s.h,
    lambda p, s, u, a: Hidden(u + a),
    lambda p, s: s.h,
)


@each_cell
def test_parameters_are_those_of_real_params(cell):
    """Of every cell, in number and in bytes; one bias a gate leaves b_hh out."""
    params, ours = cell.init(jax.random.key(0), D, H), cost(cell, **SIZES)
    assert ours.parameters.stored == ours.parameters.total == sum(leaf.size for leaf in jax.tree.leaves(params))
    assert ours.memory.weights == sum(leaf.nbytes for leaf in jax.tree.leaves(params))
    b_hh = getattr(params, "b_hh", None)
    assert ours.parameters.stored - ours.parameters.one_bias == (0 if b_hh is None else b_hh.size)


@each_shape
def test_parameters_of_stacks(shape):
    """Layers and directions, with and without a readout."""
    options = {name: value for name, value in shape.items() if name != "K"}
    params = network(lstm(), readout="every", **options).init(jax.random.key(0), D, H, K)
    ours = cost(lstm(), **SIZES, **shape)
    assert ours.parameters.stored == sum(leaf.size for leaf in jax.tree.leaves(params.body))
    assert ours.parameters.readout == (params.head.W.size + params.head.b.size if "K" in shape else 0)
    assert ours.memory.weights == 4 * ours.parameters.total


@pytest.mark.skipif(not find_spec("torch"), reason="needs the extra `torch`")
@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_parameters_are_pytorchs(name, layers, bidirectional):
    """B10, B15: with two biases a gate; and h_n is [2L, B, H] where outputs are [B, T, 2H]."""
    import torch

    kind = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[name]
    theirs = kind(D, H, num_layers=layers, bidirectional=bidirectional, batch_first=True)
    ours = cost(PLAIN[name], **SIZES, layers=layers, bidirectional=bidirectional)
    assert ours.parameters.stored == sum(p.numel() for p in theirs.parameters())
    ys, final = theirs(torch.zeros(B, T, D))
    assert ours.output.body.ys.shape == tuple(ys.shape)
    h_n = final[0] if name == "lstm" else final
    assert (len(ours.output.body.final), *ours.output.body.final[0].h.shape) == tuple(h_n.shape)


def test_figures_of_the_lecture():
    """B6 to B11, B14: H = 512, D = 300, B = 32, T = 100, K = 10,000."""
    unit, gates = lecture(rnn(), K=10_000), lecture(lstm())
    assert unit.multiply_adds.inputs == 153_600
    assert 100 * unit.multiply_adds.inputs == 15_360_000
    assert (unit.memory.states, unit.memory.inputs, unit.memory.logits) == (6_553_600, 3_840_000, 128_000_000)
    assert unit.memory.fixed == 16 * (512 * 512 + 512 * 300 + 10_000 * 512 + 2 * 512 + 10_000)
    p = unit.parameters
    fixed = [p.matrices + p.readout_matrix, p.one_bias + p.readout_matrix, p.with_readout, p.total]
    assert [round(16 * count / 1e6, 2) for count in fixed] == [88.57, 88.58, 88.74, 88.75]
    assert 16 * fixed[0] == unit.memory.activations * 64 // 100
    assert (p.readout_matrix, gates.parameters.one_bias, gates.parameters.stored) == (5_120_000, 1_665_024, 1_667_072)
    assert p.matrices == 415_744
    assert lecture(rnn(), layers=3).parameters.matrices == 415_744 + 2 * 524_288


@pytest.mark.parametrize(("H", "D", "percent"), [(512, 300, 0.0923), (32, 8, 1.83)])
def test_peepholes(H, D, percent):
    """B11: three vectors of H, below 0.2 percent of the rest only where H + D + 1 > 375."""
    plain, more = (cost(lstm(peephole=p), B=1, T=1, D=D, H=H).parameters for p in (False, True))
    assert more.stored - plain.stored == 3 * H
    share = 100 * 3 * H / plain.one_bias
    assert abs(share - percent) < 0.5 * 10 ** -len(f"{percent}".split(".")[1])
    assert (share < 0.2) == (H + D + 1 > 375)


def test_figures_of_the_book():
    """A17, A19, A20: one bias a gate, and the readout; 24,705 and 98,820 are misprints. A24: matrix products."""

    def of(cell, M, N, **sizes):
        return cost(cell, B=1, T=50, D=M, H=N, K=1, **sizes)

    def both(M, N):
        return [of(cell, M, N).parameters for cell in (rnn(), lstm())]

    assert [p.with_readout for p in both(32, 64)] == [6_273, 24_897]
    assert [p.with_readout for p in both(64, 128)] == [24_833, 98_945]
    assert [p.one_bias for p in both(64, 128)] == [24_704, 98_816] == [24_705 - 1, 98_820 - 4]
    assert [p.readout for p in both(64, 128)] == [129, 129]
    assert 4 * 24_833 - 98_945 == 387 == 3 * 129
    assert both(1, 4)[0].with_readout == 24 + 5
    products = [of(cell, 64, 128).multiply_adds.recurrence * 50 // 128**2 for cell in (rnn(), lstm())]
    assert products == [50, 200]


def test_figures_of_the_article():
    """B32: 32 units over 500 steps keep 16,000 activations."""
    assert cost(rnn(), B=1, T=500, D=3, H=32).memory.states == 4 * 16_000


def test_tables_of_the_tanh_unit():
    """S10: parameters, multiply-adds and memory in words."""
    rows = {row["cost"]: row["amount"] for row in lecture(rnn(), K=10_000).table()}
    assert rows["parameters of the cells, as stored"] == "416,768"
    assert rows["multiply-adds a step, recurrence"] == "262,144"
    assert rows["multiply-adds of 100 steps"] == "553,574,400"
    assert rows["weights, gradient, Adam's moments"] == "88.75 MB"
    assert (rows["states"], rows["inputs"], rows["logits"]) == ("6.55 MB", "3.84 MB", "128.00 MB")


def test_the_experiment_agrees():
    """Every claim of `costs` comes out as expected, A20 refuted."""
    found = costs.claims(costs.Config(), None)
    assert all(claim.passed for claim in found)
    assert [claim.id for claim in found if not claim.holds] == ["A20"]


PRODUCTS = {  # blocks of H·D and of H·H: inputs, recurrence, shown
    "rnn": (rnn(), 1, 1, 0),
    "lstm": (lstm(), 4, 4, 0),
    "gru": (gru(), 3, 3, 0),
    "gru-before": (gru(reset_after=False), 3, 3, 0),
    "memory": (memory(), 1, 0, 0),
    "coupled": (variant("coupled"), 3, 3, 0),
    "full-gate": (variant("full-gate-recurrence"), 4, 13, 0),
    "mingru": (mingru(), 2, 0, 0),
    "lru": (lru(), 2, 0, 2),
    "linear": (LINEAR, 1, 1, 0),
}


@pytest.mark.parametrize(("cell", "inputs", "recurrence", "shown"), PRODUCTS.values(), ids=PRODUCTS)
def test_multiply_adds_are_blocks(cell, inputs, recurrence, shown):
    """G blocks of H·D in the input branch and of H·H in the loop, wherever a cell has its product."""
    m = cost(cell, **SIZES, K=K).multiply_adds
    assert (m.inputs, m.recurrence, m.shown) == (inputs * H * D, recurrence * H * H, shown * H * H)
    assert m.readout == K * H
    assert m.step == m.inputs + m.recurrence + m.shown + m.readout


def test_multiply_adds_of_a_stack():
    """Upper layers read 2H numbers, and the readout too; a sequence is T steps."""
    c = cost(gru(), **SIZES, K=K, layers=2, bidirectional=True)
    m = c.multiply_adds
    assert (m.inputs, m.recurrence, m.readout) == (6 * H * D + 6 * H * 2 * H, 4 * 3 * H * H, K * 2 * H)
    assert c.multiply_adds_per_sequence == T * m.step


A, V = jnp.ones((3, 4)), jnp.ones(4)


@jax.custom_jvp
def product(v):
    """A matrix product with a rule of its own."""
    return A @ v


product.defjvps(lambda tangent, answer, v: A @ tangent)


@pytest.mark.parametrize(
    ("function", "count"),
    [
        (lambda: A @ V, 12),
        (lambda: jax.vmap(lambda v: A @ v)(jnp.ones((5, 4))), 60),
        (lambda: jnp.einsum("bij,bjk->bik", jnp.ones((2, 3, 4)), jnp.ones((2, 4, 5))), 120),
        (lambda: A * V[None], 0),
        (lambda: jax.lax.scan(lambda v, _: (A.T @ (A @ v), None), V, None, length=7), 7 * 24),
        (lambda: jax.lax.cond(V[0] > 0, lambda: A.sum(0), lambda: A.T @ (A @ V)), 24),
        (lambda: jax.jit(jax.checkpoint(lambda v: A @ v))(V), 12),
        (lambda: product(V), 12),
    ],
    ids=["vector", "batch", "einsum", "pointwise", "scan", "cond", "jit", "custom"],
)
def test_products_are_counted_wherever_they_are(function, count):
    """By hand."""
    assert count_products(function) == count


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda: jax.lax.while_loop(lambda v: v[0] < 9, lambda v: v + A.T @ (A @ v), V), "while"),
        (lambda: jnp.convolve(V, V), "conv_general_dilated"),
    ],
)
def test_what_cannot_be_counted_is_refused(function, name):
    """Instead of counted as nothing."""
    with pytest.raises(ValueError, match=f"'{name}' cannot be counted"):
        count_products(function)


def flops(c, gradient):
    """XLA's count for one step of a batch from a given state: in a loop it would count the body once, whatever T."""
    params = c.params.body[0].forward
    own = jax.eval_shape(c.cell.start, params)
    state = jax.tree.map(lambda s: jax.ShapeDtypeStruct((c.B, *s.shape), s.dtype), own)

    def loss(params, state, xs):
        return jnp.square(unroll(c.cell, params, xs, state=state).ys).sum()

    function = jax.jit(jax.grad(loss, (0, 1)) if gradient else loss)
    return function.lower(params, state, c.batch(1)).compile().cost_analysis()["flops"]


@pytest.mark.parametrize("name", ["rnn", "lstm", "gru-reset-before", "lru", "lstm-full-gate-recurrence"])
@pytest.mark.parametrize("gradient", [False, True], ids=["forward", "gradient"])
def test_multiply_adds_are_those_of_xla(name, gradient):
    """Two operations each; the gradient takes inputs twice, everything else three times. What XLA counts beyond, the
    pointwise work, is less than half of one block, so that no block is missing or one too many."""
    c = cost(MAKERS[name](), B=8, T=1, D=256, H=256)
    m = c.multiply_adds
    products = 2 * m.inputs + 3 * (m.recurrence + m.shown) if gradient else m.step
    assert 0 <= flops(c, gradient) - 2 * c.B * products < c.B * c.H**2


def test_training_memory_is_that_of_adam():
    """Fixed memory: the params, a gradient like them, and the two moments; Adam's step counter apart."""
    for dtype, size in {"float32": 4, "bfloat16": 2}.items():
        c = cost(lstm(), **SIZES, K=K, dtype=dtype)
        state = jax.eval_shape(adam(1e-3).init, c.params)
        leaves = [leaf for tree in (c.params, c.params, state) for leaf in jax.tree.leaves(tree) if leaf.ndim]
        assert c.memory.fixed == sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
        assert c.memory.fixed == 4 * size * c.parameters.total


def test_states_are_carried_in_float32():
    """Whatever the params are kept in; inputs are as given."""
    narrow, wide = (cost(lstm(), **SIZES, dtype=dtype).memory for dtype in ("bfloat16", "float32"))
    assert 2 * narrow.inputs == wide.inputs == 4 * B * T * D
    assert narrow.states == wide.states == 2 * 4 * B * T * H


KEPT = {  # numbers a step of one example, inputs and outputs included
    "sum": (memory(), D + H),
    "linear": (LINEAR, D + H + H),
    "rnn": (rnn(), D + H + H + H),
    "lstm": (lstm(), D + H + H + 6 * H),
}


@pytest.mark.parametrize(("cell", "numbers"), KEPT.values(), ids=KEPT)
def test_a_cell_keeps_what_its_gradients_need(cell, numbers):
    """Inputs for dW_ih, the state before for dW_hh, the outputs for the loss, and no slope of what is linear: one of
    the tanh unit's, f, F, I, G, O and C of the LSTM's dc' = f dc + F dz_f + I dz_i + G dz_g, dh' = O dz_o + C dc'.
    Numbers that the whole batch has in common are no number of one example."""
    assert cost(cell, **SIZES).gradient.kept // (4 * B * T) == numbers


@pytest.mark.parametrize(
    ("cell", "numbers"),
    [(rnn(), T * H), (lstm(), 10 * 4 * H), (gru(), 10 * 4 * H), (gru(reset_after=False), 0)],
    ids=repr,
)
def test_gradients_to_preactivations_are_collected(cell, numbers):
    """For one product with the inputs and states, of all steps or of ten, a GRU's for its gates and for both parts of
    its candidate; a cell with a product in its equation adds them up in the loop."""
    assert cost(cell, **SIZES).gradient.collected == 4 * B * numbers


@pytest.mark.parametrize("name", ["rnn", "gru", "lru"])
def test_what_is_kept_are_the_residuals_of_a_real_pullback(name):
    """All arrays in a pullback of real numbers with a batch axis, of a size that nothing else has, for many steps, but
    for the zeros that the way back does not read: the input product of the inputs' own tangents."""
    B, T = 11, 13
    c = cost(MAKERS[name](), B=B, T=T, D=D, H=H)
    params = c.net.init(jax.random.key(0), D, H, 1)
    _, pullback = jax.vjp(lambda p: c.loss(p, jnp.ones((B, T, D), "float32")), params)
    kept = [leaf.nbytes for leaf in jax.tree.leaves(pullback) if B in leaf.shape and leaf.ndim > 2 and leaf.any()]
    assert c.gradient.kept == sum(kept)


@pytest.mark.parametrize("name", ["rnn", "lstm", "lru", "memory"])
def test_activations_are_within_a_factor_of_xlas(name):
    """No less than what is needed at one time, as inputs are not temporaries; no more than half of it above, but for
    the states, which some versions of XLA lay out once more."""
    c = cost(MAKERS[name](), **SIZES)
    assert c.gradient.least - c.memory.inputs <= c.xla_gradient <= 1.5 * c.gradient.least + c.memory.states
    assert c.xla_forward < c.xla_gradient


def test_activations_of_a_stack_are_within_a_factor_of_xlas():
    """The layers below are kept as well, in both directions, and more than one loop's gradients are there at once."""
    c = cost(gru(), **SIZES, layers=2, bidirectional=True)
    assert c.gradient.least - c.memory.inputs <= c.xla_gradient <= 1.8 * c.gradient.least


def test_activations_cross_the_fixed_memory():
    """B8: at the T at which the two are equal, whatever T the cost was worked out for."""
    c = cost(lstm(), **SIZES, K=K)
    at = replace(c, T=1).crossing
    assert math.isclose(at, c.crossing)
    assert math.isclose(at * c.memory.activations / T, c.memory.fixed)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"B": 0}, "B must be"),
        ({"T": 1.5}, "T must be"),
        ({"D": -1}, "D must be"),
        ({"H": True}, "H must be"),
        ({"K": 0}, "K must be"),
        ({"layers": 0}, "layers must be"),
        ({"bidirectional": "yes"}, "bidirectional must be"),
        ({"dtype": "int32"}, "dtype must be one of"),
    ],
)
def test_what_has_no_cost_is_refused(options, message):
    """With the argument's name and what is allowed."""
    with pytest.raises(ValueError, match=message):
        cost(rnn(), **SIZES | options)


def test_float64_has_to_be_enabled():
    """Instead of counted in float32."""
    assert cost(rnn(), **SIZES, dtype="float64").memory.weights == 8 * H * (H + D + 2)
    with jax.enable_x64(False), pytest.raises(ValueError, match="'float64' is not enabled"):
        cost(rnn(), **SIZES, dtype="float64")


def paths(T, L):
    """Monotone paths on a grid of T steps and L layers, from the first of both to the last, by adding up."""
    row = [1] * L
    for _ in range(T - 1):
        row = list(np.cumsum(np.array(row, object)))
    return row[-1]


def test_paths_through_time_and_depth():
    """B13: T + L - 2 factors on each of binom(T + L - 2, L - 1) paths, in a stack whose every Jacobian is 0.9."""
    for T, L, count in ((4, 3, 10), (50, 4, 22_100), (100, 8, 24_370_067_800)):
        assert paths(T, L) == math.comb(T + L - 2, L - 1) == count
    one, g = jnp.ones((1, 1)), 0.9 * jnp.ones((1, 1))
    stack = (Layer(Linear(one, g)), *[Layer(Linear(g, g))] * 3)
    last = jax.grad(lambda xs: unroll_stack(LINEAR, stack, xs).ys[-1, 0])(jnp.ones((12, 1)))
    np.testing.assert_allclose(last[0, 0], math.comb(14, 3) * 0.9**14, rtol=1e-12)
    assert abs(last[0, 0] - 83.2715) < 5e-5
