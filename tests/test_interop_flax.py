"""Flax weights in and out: equal bits, equal outputs, and a refusal that names the path for everything else.

Values and gradients of loaded linen weights over ragged batches are in test_flax.py.
"""

from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx
from flax.core import freeze
from oracle import close, random_params, same

from seqjax import Layer, gru, lru, lstm, mingru, rnn, unroll, unroll_stack
from seqjax.core import Affine
from seqjax.interop.flax import load, to_linen, to_nnx
from seqjax.interop.flax_cell import as_nnx

B, T, D, H = 4, 6, 2, 3
LENGTHS = jnp.array([4, T, 1, 3])
TOLERANCE = {"float32": 1e-6, "float64": 1e-10}
KINDS = {
    "SimpleCell": rnn(activation="tanh"),
    "LSTMCell": lstm(forget_bias=None),
    "OptimizedLSTMCell": lstm(forget_bias=None),
    "GRUCell": gru(),
}

each_kind = pytest.mark.parametrize("kind", KINDS)
each_dtype = pytest.mark.parametrize("dtype", TOLERANCE)


def drawn(tree, dtype, seed=0):
    """Random arrays for the shapes of a tree, none of them zero."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda a: jnp.asarray(rng.uniform(-0.8, 0.8, a.shape), dtype), tree)


def linen_params(kind, dtype="float64", D=D, H=H, seed=0):
    """Random params of a linen cell."""
    cell = getattr(linen, kind)(H, parent=None)
    carry = cell.initialize_carry(jax.random.key(0), (D,))
    return drawn(jax.eval_shape(cell.init, jax.random.key(0), carry, jnp.zeros(D))["params"], dtype, seed)


def nnx_cell(kind, dtype="float64", D=D, H=H, **options):
    """An nnx cell with random weights."""
    cell = getattr(nnx, kind)(D, H, dtype=None, param_dtype=dtype, rngs=nnx.Rngs(0), **options)
    nnx.update(cell, drawn(nnx.state(cell, nnx.Param), dtype))
    return cell


def pure(module):
    """The weights of an nnx module as plain arrays in dicts."""
    return nnx.to_pure_dict(nnx.state(module, nnx.Param))


def valid(ys):
    """Outputs, zeroed in the padding as ours are."""
    return jnp.where((jnp.arange(T)[None] < LENGTHS[:, None])[..., None], ys, 0)


compiled = partial(jax.jit, static_argnums=0, compiler_options={"xla_backend_optimization_level": 0})


@compiled
def ours(cell, params, xs):
    """Outputs in both directions."""
    return [unroll(cell, params, xs, lengths=LENGTHS, reverse=reverse).ys for reverse in (False, True)]


@compiled
def by_linen(cell, params, xs):
    """The same by linen."""
    layers = [linen.RNN(cell, reverse=reverse, keep_order=True) for reverse in (False, True)]
    return [valid(layer.apply({"params": {"cell": params}}, xs, seq_lengths=LENGTHS)) for layer in layers]


def by_nnx(cell, xs):
    """The same by nnx."""
    return merged(*nnx.split(cell), xs)


@compiled
def merged(graph, state, xs):
    """`by_nnx` of a cell in parts."""
    layers = [nnx.RNN(nnx.merge(graph, state), reverse=reverse, keep_order=True) for reverse in (False, True)]
    return [valid(layer(xs, seq_lengths=LENGTHS)) for layer in layers]


def inputs(dtype):
    """A batch of inputs."""
    return jnp.asarray(np.random.default_rng(1).normal(size=(B, T, D)), dtype)


@each_dtype
@each_kind
def test_linen_round_trip(kind, dtype):
    params = linen_params(kind, dtype)
    loaded = load({"params": {"RNN_0": {"cell": params}, "Dense_0": {"kernel": np.ones((H, 1))}}, "cache": {}})
    assert loaded.cell is KINDS[kind]
    same(to_linen(*loaded), params)
    got = ours(loaded.cell, loaded.params[0].forward, inputs(dtype))
    want = by_linen(getattr(linen, kind)(H, param_dtype=dtype), to_linen(*loaded), inputs(dtype))
    close(got, want, TOLERANCE[dtype])


@each_dtype
@each_kind
def test_nnx_round_trip(kind, dtype):
    cell = nnx_cell(kind, dtype)
    loaded = load(nnx.RNN(cell))
    assert loaded.cell is KINDS[kind]
    back = to_nnx(*loaded, optimized=kind == "OptimizedLSTMCell")
    assert type(back) is type(cell)
    same(pure(back), pure(cell))
    close(ours(loaded.cell, loaded.params[0].forward, inputs(dtype)), by_nnx(back, inputs(dtype)), TOLERANCE[dtype])


@pytest.mark.parametrize("make", [rnn, lstm, gru])
def test_two_biases_become_the_one_that_flax_has(make):
    cell = make()
    params = random_params(cell, D, H)
    xs = inputs("float64")
    close(ours(cell, load(to_linen(cell, params)).params[0].forward, xs), ours(cell, params, xs))
    if make is not gru:
        close(by_nnx(to_nnx(cell, Layer(params)), xs), ours(cell, params, xs))
    bare = Affine(params.W_ih, params.W_hh, None, None)
    close(by_nnx(to_nnx(cell, bare), xs), ours(cell, bare, xs))


@each_kind
def test_every_form_of_a_source_gives_the_same(kind):
    """A cell, a layer, a State, a dict of weights, by module or by names and shapes alone."""
    cell = nnx_cell(kind)
    layer = nnx.RNN(cell)  # its State holds a random key as well
    want = load(cell)
    for source in (layer, nnx.state(layer), nnx.state(cell), pure(cell), [pure(cell)], nnx.Dict(inner=layer)):
        same(load(source).params, want.params)
        assert load(source).cell is want.cell
    params = linen_params(kind)
    boxed = {"params": {"a": jax.tree.map(lambda a: linen.Partitioned(a, names=(None,) * a.ndim), params)}}
    for source in (freeze({"params": params}), boxed, [params], jax.tree.map(np.asarray, params)):
        same(load(source).params, load(params).params)


def test_random_state_is_no_weight():
    with pytest.warns(UserWarning, match="keep_rngs argument is deprecated"):
        cell = nnx_cell("GRUCell", keep_rngs=True)
    same(load(cell).params, load(pure(cell)).params)
    same(load(nnx.state(cell)).params, load(pure(cell)).params)


def test_relu_is_taken_from_the_module_or_the_argument():
    relu = nnx_cell("SimpleCell", activation_fn=jax.nn.relu)
    assert load(relu).cell is load(pure(relu), activation="relu").cell is rnn(activation="relu")
    assert load(pure(relu)).cell is rnn(activation="tanh")
    back = to_nnx(*load(relu))
    cell, (layer,) = load(relu)
    close(by_nnx(back, inputs("float64")), ours(cell, layer.forward, inputs("float64")))
    with pytest.raises(ValueError, match=r"activation must be 'relu' for the cell \(SimpleCell\), got 'tanh'"):
        load(relu, activation="tanh")
    with pytest.raises(ValueError, match=r"activation must be 'tanh' for the cell \(GRUCell\), got 'relu'"):
        load(linen_params("GRUCell"), activation="relu")
    with pytest.raises(ValueError, match="activation must be one of"):
        load(linen_params("SimpleCell"), activation="gelu")


class Tower(linen.Module):
    """Two recurrent layers, the upper one in both directions, between dense ones that keep their width."""

    @linen.compact
    def __call__(self, xs):
        ys = linen.RNN(linen.OptimizedLSTMCell(H, param_dtype=float))(xs, seq_lengths=LENGTHS)
        halves = (linen.RNN(linen.LSTMCell(H + 1, param_dtype=float, name=name)) for name in ("fwd", "bwd"))
        return linen.Dense(2)(ys), valid(linen.Bidirectional(*halves)(ys, seq_lengths=LENGTHS))


def test_layers_by_name_are_a_stack():
    xs = inputs("float64")
    variables = drawn(jax.eval_shape(Tower().init, jax.random.key(0), xs), "float64")
    cell, params = load(variables, "OptimizedLSTMCell_0", ("fwd", "bwd"))
    got = jax.jit(partial(unroll_stack, cell, lengths=LENGTHS))(params, xs).ys
    close(got, jax.jit(Tower().apply)(variables, xs)[1])
    same(load(variables, "fwd").params, (Layer(params[1].forward),))
    with pytest.raises(
        ValueError, match=r"source holds 3 cells: name the layers in order, .* OptimizedLSTMCell_0, bwd, fwd"
    ):
        load(variables)
    with pytest.raises(ValueError, match="layer 'Dense_0' must be the path of one cell, but 0 are there; cells are at"):
        load(variables, "Dense_0")


def test_a_layer_may_be_named_by_what_holds_it():
    model = nnx.Dict(rnns=nnx.List([nnx.RNN(nnx_cell("GRUCell")), nnx.RNN(nnx_cell("GRUCell", D=H))]))
    same(load(model, "rnns/0", "rnns/1/cell").params, load(nnx.state(model), "rnns/0/cell", "rnns/1").params)
    with pytest.raises(ValueError, match="layer 'rnns' must be the path of one cell, but 2 are there"):
        load(model, "rnns")
    with pytest.raises(ValueError, match=r"a layer must be a path, or a pair .* got \('a', 'b', 'c'\)"):
        load(model, ("a", "b", "c"))


MISMATCHES = {
    "upper D": (("a", "b"), r"b reads D = 2 numbers a step, but its layer is given 3"),
    "halves D": ((("a", "wide"),), r"wide reads D = 5 numbers a step, but its layer is given 2"),
    "halves H": ((("a", "big"),), r"big has H = 7, but a, its other half, has 3"),
    "kinds": (("a", "gru"), r"layers must be of one cell, but a is 'lstm' and gru is 'gru'"),
    "dtypes": (("a", "narrow"), r"narrow/hf/bias is bfloat16, but a/hf/bias is float64: pass dtype="),
}


@pytest.mark.parametrize("case", MISMATCHES)
def test_layers_that_do_not_fit_are_refused(case):
    layers, message = MISMATCHES[case]
    make = partial(linen_params, "LSTMCell")
    cells = {"a": make(), "b": make(), "wide": make(D=5), "big": make(H=7), "narrow": make("bfloat16", D=H)}
    with pytest.raises(ValueError, match=message):
        load(cells | {"gru": linen_params("GRUCell", D=H)}, *layers)


def without(tree, name):
    """A tree that lacks one entry."""
    return {key: value for key, value in tree.items() if key != name}


DAMAGE = {
    "no layer": (lambda p: without(p, "hf"), r"missing cell/hf/bias, cell/hf/kernel: LSTMCell has ii/kernel"),
    "no bias": (lambda p: p | {"hi": without(p["hi"], "bias")}, "missing cell/hi/bias"),
    "extra leaf": (lambda p: p | {"ii": p["ii"] | {"bias": jnp.zeros(H)}}, "extra cell/ii/bias"),
    "extra layer": (lambda p: p | {"peephole": {"w": jnp.zeros(H)}}, "extra cell/peephole/w"),
    "shape": (
        lambda p: p | {"ig": {"kernel": jnp.ones((D, H + 1))}},
        r"cell/ig/kernel must have shape \[2, 3\] .* \[2, 4\]",
    ),
    "stacked": (
        lambda p: jax.tree.map(lambda a: jnp.stack([a, a]), p),
        r"cell/ii/kernel must be a matrix .* \[2, 2, 3\]",
    ),
    "integers": (lambda p: jax.tree.map(lambda a: a.astype(int), p), "cell/.* must be an array of one of .* got int64"),
    "mixed": (
        lambda p: p | {"io": {"kernel": jnp.ones((D, H), "float32")}},
        "cell/io/kernel is float32, but .* float64",
    ),
    "nothing": (lambda p: {"ii": p["ii"]}, "source holds no LSTMCell, OptimizedLSTMCell, GRUCell, SimpleCell"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damaged_weights_are_refused(case):
    damage, message = DAMAGE[case]
    with pytest.raises(ValueError, match=message) as error:
        load({"params": {"cell": damage(linen_params("LSTMCell"))}})
    assert "\n" not in str(error.value)


def test_no_wide_number_is_narrowed_unasked():
    params = jax.tree.map(np.asarray, linen_params("SimpleCell"))
    half = load(params, dtype="float32").params[0].forward
    same(half.W_ih, jnp.asarray(params["i"]["kernel"].T, "float32"))
    with jax.enable_x64(False):
        with pytest.raises(ValueError, match=r"h/kernel is float64, which JAX would narrow: pass dtype='float32'"):
            load(params)
        with pytest.raises(ValueError, match="dtype is float64, which JAX would narrow"):
            load(params, dtype="float64")
        same(load(params, dtype="float32").params[0].forward, half)
    with pytest.raises(ValueError, match="h/kernel has numbers too large for float16"):
        load(params | {"h": {"kernel": np.full((H, H), 1e9)}}, dtype="float16")


class Subclass(nnx.GRUCell):
    """A cell that could compute anything."""


OPTIONS = {
    "gate": (lambda: nnx_cell("LSTMCell", gate_fn=jax.nn.hard_sigmoid), "cell/gate_fn must be sigmoid"),
    "activation": (lambda: nnx_cell("GRUCell", activation_fn=jax.nn.relu), "cell/activation_fn must be tanh to have"),
    "simple": (lambda: nnx_cell("SimpleCell", activation_fn=jax.nn.gelu), "cell/activation_fn must be tanh or relu"),
    "residual": (lambda: nnx_cell("SimpleCell", residual=True), "cell/residual must be False"),
    "subclass": (lambda: Subclass(D, H, rngs=nnx.Rngs(0)), "cell must be one of .* no subclass, got Subclass"),
    "ours": (lambda: as_nnx(mingru(), D, H, rngs=nnx.Rngs(0)), "cell must be one of .* no subclass, got NNXCell"),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_modules_of_another_equation_are_refused(case):
    make, message = OPTIONS[case]
    with pytest.raises(ValueError, match=message):
        load(nnx.RNN(make()))


@pytest.mark.parametrize("source", [3.0, SimpleNamespace(params={}), "weights"])
def test_other_sources_are_refused(source):
    with pytest.raises(
        ValueError, match=r"source must be linen variables or params, an nnx module or an nnx.State, got"
    ):
        load(source)


@pytest.mark.parametrize("export", [to_linen, to_nnx])
def test_what_flax_cannot_hold_is_refused(export):
    def shapes(cell):
        return jax.eval_shape(partial(cell.init, D=D, H=H), jax.random.key(0))

    for cell in (lstm(peephole=True), lstm(norm="layer"), gru(reset_after=False), lru(), mingru()):
        with pytest.raises(ValueError, match=f"cell must be one of .* to have an equal in Flax, got '{cell.name}'"):
            export(cell, shapes(cell))
    with pytest.raises(ValueError, match=r"params must be plain Affine .* got a LayerNorm gain"):
        export(lstm(), shapes(lstm(norm="layer")))
    with pytest.raises(ValueError, match=r"params must be plain Affine .* got Peephole"):
        export(lstm(), shapes(lstm(peephole=True)))
    for layers in ((Layer(shapes(gru())),) * 2, Layer(shapes(gru()), shapes(gru()))):
        with pytest.raises(ValueError, match="params must be of one layer and direction"):
            export(gru(), layers)
    with pytest.raises(ValueError, match=r"params have W_hh .* are they another cell's?"):
        export(lstm(), shapes(gru()))


def test_what_nnx_alone_cannot_hold_is_refused():
    with pytest.raises(ValueError, match="b_hh of gate n must be zero"):
        to_nnx(gru(), random_params(gru()))
    with pytest.raises(ValueError, match="optimized must be False for 'gru'"):
        to_nnx(gru(), random_params(gru()), optimized=True)


def test_loaded_weights_are_in_memory_of_their_own():
    """They survive the donation of what they were loaded from."""
    source = linen_params("OptimizedLSTMCell")
    loaded = load(source).params
    want = jax.tree.map(np.array, loaded)
    for leaf in jax.tree.leaves(source):
        leaf.delete()
    same(jax.tree.map(np.asarray, loaded), want)
