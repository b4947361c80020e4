"""Any cell as an nnx cell: equal to `unroll`, in nnx's own layers, transforms and optimisers."""

from functools import partial

import jax
import jax.numpy as jnp
import optax
import pytest
from flax import nnx
from oracle import B, D, H, T, close, each_shape, generic, prefix, random_params, random_xs, same

from seqjax import Layer, cell_named, lru, lstm, unroll, unroll_stack
from seqjax.interop.flax_cell import NNXCell, as_nnx

LENGTHS = jnp.array([4, T, 1, 3])
compiled = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


@partial(compiled, static_argnums=0)
def in_nnx(cell, layer, xs):
    """Outputs of a ragged batch in both directions, zeroed in the padding as ours are, and final states."""
    halves = [nnx.RNN(NNXCell(cell, params)) for params, _ in layer.halves()]
    final, ys = nnx.Bidirectional(*halves)(xs, seq_lengths=LENGTHS, return_carry=True)
    return jnp.where(prefix(LENGTHS)[..., None], ys, 0), final


@partial(compiled, static_argnums=0)
def in_seqjax(cell, layer, xs):
    """The same by our own engine."""
    trace = unroll_stack(cell, (layer,), xs, lengths=LENGTHS)
    return trace.ys, trace.final


@each_shape
def test_every_kind_of_cell_equals_its_unroll(cell):
    """Ragged, in both directions: outputs and final states."""
    layer = Layer(random_params(cell), random_params(cell, seed=7))
    close(in_nnx(cell, layer, random_xs()), in_seqjax(cell, layer, random_xs()))


@pytest.mark.parametrize("axes", [(), (2,), (2, 3), (2, 3, 4)], ids=str)
def test_any_number_of_leading_axes(axes):
    cell = lru()
    xs = random_xs(*axes, T, D)
    params = random_params(cell)
    final, ys = compiled(lambda xs: nnx.RNN(NNXCell(cell, params), return_carry=True)(xs))(xs)
    want = unroll(cell, params, xs.reshape(-1, T, D))
    close((final, ys), jax.tree.map(lambda a: a.reshape(*axes, *a.shape[1:]), (want.final, want.ys)))


def test_initial_carry_and_time_major():
    cell = lstm()
    module, xs = NNXCell(cell, random_params(cell)), random_xs()
    layer = nnx.RNN(module, return_carry=True, time_major=True)
    middle, first = layer(xs[:, :2].swapaxes(0, 1))
    final, second = layer(xs[:, 2:].swapaxes(0, 1), initial_carry=middle)
    want = unroll(cell, module.params, xs)
    close((final, jnp.concatenate([first, second])), (want.final, want.ys.swapaxes(0, 1)))


def named(tree):
    """The leaves of a tree of containers by their path, as nnx writes it."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {tuple(getattr(key, "name", None) or key.key for key in path): leaf for path, leaf in leaves}


@each_shape
def test_every_array_is_a_param_named_by_its_field(cell):
    module = as_nnx(cell, D, H, rngs=nnx.Rngs(0))
    got = {path[1:]: param.get_value() for path, param in nnx.to_flat_state(nnx.state(module, nnx.Param))}
    same(got, named(cell.init(nnx.Rngs(0).params(), D, H)))
    assert not jax.tree.leaves(nnx.state(module, nnx.Not(nnx.Param)))


def test_names_of_a_peephole_lstm():
    state = nnx.state(as_nnx(lstm(peephole=True), D, H, rngs=nnx.Rngs(0)))
    names = {"/".join(path) for path, _ in nnx.to_flat_state(state)}
    assert names == {f"weights/{name}" for name in ["W_ih", "W_hh", "b_ih", "b_hh", "look/i", "look/f", "look/o"]}


MIXTURES = [  # of params, of inputs, of the carry
    ("bfloat16", "bfloat16", "float32"),
    ("float16", "float64", "float32"),
    ("float64", "float32", "float64"),
]


@each_shape
def test_a_carry_keeps_its_dtype(cell):
    """In float32 or wider, whatever the params and inputs are; nnx's scan refuses one that does not."""
    params = random_params(cell)
    for weights, given, carried in MIXTURES:
        final, _ = jax.eval_shape(partial(plain, cell), cast(params, weights), random_xs().astype(given))
        assert {leaf.dtype.name for leaf in jax.tree.leaves(final)} == {carried}


def plain(cell, params, xs):
    """Final states and outputs of a batch."""
    return nnx.RNN(NNXCell(cell, params), return_carry=True)(xs)


def cast(tree, dtype):
    """A tree in another dtype."""
    return jax.tree.map(lambda a: a.astype(dtype), tree)


def test_bfloat16_gives_what_unroll_gives():
    cell, xs = lstm(), random_xs().astype("bfloat16")
    module = NNXCell(cell, cast(random_params(cell), "bfloat16"))
    final, ys = nnx.RNN(module, return_carry=True)(xs)
    want = unroll(cell, module.params, xs)
    close(
        (final, ys), (want.final, want.ys), float(jnp.finfo("bfloat16").eps)
    )  # u is rounded to bfloat16, or not where fused


@each_shape
def test_the_first_carry_is_the_start_in_buffers_of_its_own(cell):
    module = as_nnx(cell, D, H, rngs=nnx.Rngs(0))
    for batch in ((), (2, B)):
        carry = module.initialize_carry((*batch, D))
        start = cell.start(module.params)
        same(carry, jax.tree.map(lambda s, batch=batch: jnp.broadcast_to(s, (*batch, *s.shape)), start))
        leaves = jax.tree.leaves(carry)
        assert len({leaf.unsafe_buffer_pointer() for leaf in leaves}) == len(leaves)


class Adder(nnx.Module):
    """A recurrent layer, read at its last step."""

    def __init__(self, cell, rngs):
        self.layer = nnx.RNN(as_nnx(cell, D, H, rngs=rngs))
        self.readout = nnx.Linear(H, 1, rngs=rngs)

    def __call__(self, xs):
        return self.readout(self.layer(xs)[:, -1])[:, 0]


def error(model, xs):
    """Mean square distance to the sum of the first input."""
    return jnp.mean((model(xs) - xs[..., 0].sum(1)) ** 2)


@nnx.jit
def train_step(model, optimizer, xs):
    """One step, in place."""
    loss, grads = nnx.value_and_grad(error)(model, xs)
    optimizer.update(model, grads)
    return loss


def test_it_trains_in_nnx():
    xs = random_xs(32, T, D).astype("float32")
    model = Adder(lru(), nnx.Rngs(0))
    before = model.layer.cell.params
    optimizer = nnx.Optimizer(model, optax.adam(0.03), wrt=nnx.Param)
    losses = [float(train_step(model, optimizer, xs)) for _ in range(30)]
    assert losses[-1] < 0.5 * losses[0]
    moved = jax.tree.map(lambda a, b: bool((a != b).any()), before, model.layer.cell.params)
    assert all(jax.tree.leaves(moved))


@pytest.mark.parametrize("name", ["gru", "lstm-full-gate-recurrence"])
def test_gradients_of_nnx_are_ours(name):
    cell, xs = cell_named(name)(), random_xs()
    layer = nnx.RNN(NNXCell(cell, random_params(cell)))
    grads = nnx.jit(nnx.grad(lambda layer, xs: generic(layer(xs))))(layer, xs)
    want = jax.jit(jax.grad(lambda params: generic(unroll(cell, params, xs).ys)))(layer.cell.params)
    close({path[2:]: grad.get_value() for path, grad in nnx.to_flat_state(grads)}, named(want))


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="H must be an integer of at least 1, got 0"):
        as_nnx(lstm(), D, 0, rngs=nnx.Rngs(0))
    module = as_nnx(lstm(), D, H, rngs=nnx.Rngs(0))
    with pytest.raises(ValueError, match=f"xs must hold D = {D} numbers a step"):
        nnx.RNN(module)(random_xs(B, T, D + 1))
    c, h = nnx.LSTMCell(D, H, rngs=nnx.Rngs(0)).initialize_carry((B, D), nnx.Rngs(0))
    for carry in ((c, h), module.initialize_carry((B + 1, D))):
        with pytest.raises(ValueError, match="carry must be like initialize_carry"):
            nnx.RNN(module)(random_xs(), initial_carry=carry)
    with pytest.raises(ValueError, match="carry_init must be None"):
        module.initialize_carry((B, D), carry_init=nnx.initializers.zeros)
