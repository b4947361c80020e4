"""The contract of a cell: all that the library relies on, for every cell it has and every cell it will have."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chex import assert_trees_all_equal_shapes_and_dtypes as assert_same_types
from jax.flatten_util import ravel_pytree
from oracle import (
    DISTINCT,
    B,
    D,
    H,
    T,
    all_zero,
    close,
    differentiated,
    each_cell,
    each_distinct_cell,
    each_maker,
    each_shape,
    generic,
    jiggle,
    loop,
    random_mask,
    random_params,
    random_state,
    random_xs,
    same,
)

from seqjax import pullback, step_jacobians, suffix_products, unroll

each_dtype = pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
each_narrow_dtype = pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
NO_RESET = jnp.zeros((B, T), bool)


def cast(tree, dtype):
    """The same tree in another dtype."""
    return jax.tree.map(lambda a: a.astype(dtype), tree)


@each_maker
def test_a_factory_returns_the_same_cell_every_time(make):
    """So that a jitted function of the cell does not trace again."""
    assert make() is make()


@each_cell
def test_init_takes_its_sizes_and_differs_by_key(cell):
    """D and H may be anything from 1; the draw is float32 and every key has its own."""
    one, other = (cell.init(jax.random.key(seed), D, H) for seed in (0, 1))
    assert all(a.dtype == jnp.float32 for a in jax.tree.leaves(one))
    assert not np.array_equal(ravel_pytree(one)[0], ravel_pytree(other)[0])
    assert cell.read(one, cell.start(one)).shape == (H,)
    for sizes, name in (((0, H), "D"), ((D, 0), "H"), ((D, 1.5), "H")):
        with pytest.raises(ValueError, match=f"{name} must be"):
            cell.init(jax.random.key(0), *sizes)


@each_cell
@each_dtype
def test_a_step_keeps_the_structure_shape_and_dtype_of_the_state(cell, dtype):
    """The state starts at zero in float32 or wider, and `step` returns what it was given."""
    params = cast(random_params(cell), dtype)
    start = cell.start(params)
    new = jax.eval_shape(lambda p, s, x: cell.step(p, s, cell.project(p, x)), params, start, random_xs(D).astype(dtype))
    assert_same_types(new, start)
    assert {s.dtype for s in jax.tree.leaves(start)} == {jnp.promote_types(jnp.float32, dtype)}
    assert all_zero(start)


@each_cell
def test_start_gives_every_field_a_buffer_of_its_own(cell):
    """A state with aliased fields could not be donated."""
    start = cell.start(random_params(cell))
    pointers = [s.unsafe_buffer_pointer() for s in jax.tree.leaves(start)]
    assert len(set(pointers)) == len(pointers)
    jax.jit(lambda s: jax.tree.map(lambda a: a + 1, s), donate_argnums=0)(start)


@each_cell
def test_a_run_equals_the_loop(cell):
    """Every array of the trace, with holes in the mask and resets, from a given state."""
    params, xs = random_params(cell), random_xs()
    state, mask, reset = random_state(cell, params, B), random_mask(), ~random_mask(seed=8)
    (_, trace), _ = differentiated(cell)(params, xs, state, mask, reset)
    close(trace, loop(cell, params, xs, state=state, mask=mask, reset=reset))


@each_shape
def test_the_first_steps_of_a_run_are_the_run_of_the_first_steps(cell):
    """Prefix property."""
    params, xs, mask = random_params(cell), random_xs(), random_mask()
    state = random_state(cell, params, B)
    (_, whole), _ = differentiated(cell)(params, xs, state, mask, NO_RESET)
    (_, first), _ = differentiated(cell)(params, xs[:, :3], state, mask[:, :3], NO_RESET[:, :3])
    close(replace(first, final=None), jax.tree.map(lambda a: a[:, :3], replace(whole, final=None)))


@each_distinct_cell
def test_no_output_depends_on_a_later_input(cell):
    """Causality by gradient: dy_t/dx_s is exactly zero for s > t, and not zero for s <= t on some input."""
    params = random_params(cell)
    jacobians = jax.jit(jax.vmap(jax.jacrev(lambda xs: unroll(cell, params, xs).ys)))(random_xs(20, T, D))
    np.testing.assert_array_equal((np.asarray(jacobians) != 0).any((0, 2, 4)), np.tril(np.ones((T, T), bool)))


@each_distinct_cell
@pytest.mark.parametrize("junk", [np.nan, np.inf, -np.inf, 1e300])
def test_padding_never_matters(cell, junk):
    """Whatever stands in it, values and gradients are those of the run that ends before it."""
    params, xs, n = random_params(cell), random_xs(), 3
    state, padded = random_state(cell, params, B), xs.at[:, n:].set(junk)
    mask = jnp.broadcast_to(jnp.arange(T) < n, (B, T))
    (_, got), (to_params, to_xs, to_state) = differentiated(cell)(params, padded, state, mask, NO_RESET)
    (_, want), wanted = differentiated(cell)(params, xs[:, :n], state, mask[:, :n], NO_RESET[:, :n])
    close((got.ys[:, :n], got.final), (want.ys, want.final))
    close((to_params, to_xs[:, :n], to_state), wanted)
    assert all_zero((got.ys[:, n:], to_xs[:, n:]))


@each_distinct_cell
def test_length_0_leaves_the_state_alone(cell):
    """Bit for bit, with zero outputs, the identity as gradient to the state and none to anything else."""
    params, state = random_params(cell), random_state(cell, random_params(cell), B)
    mask, nan = NO_RESET, jnp.full((B, T, D), jnp.nan, float)
    (_, trace), (to_params, to_xs, to_state) = differentiated(cell)(params, nan, state, mask, ~NO_RESET)
    same(trace.final, state)
    assert all_zero((trace.ys, to_params, to_xs))
    close(to_state, jax.grad(generic)(state), 1e-15)


@each_distinct_cell
def test_a_reset_clears_a_state_of_nan(cell):
    """In values and in gradients, of which the state gets none: a `where`, not a product with zero."""
    params = random_params(cell)
    reset = NO_RESET.at[:, 0].set(True)
    state = random_state(cell, params, B)
    nan = jax.tree.map(lambda s: s * jnp.nan, state)
    got, wanted = (differentiated(cell)(params, random_xs(), s, ~NO_RESET, reset) for s in (nan, state))
    same(got, wanted)
    assert all_zero(got[1][2])


@each_distinct_cell
def test_chunks_equal_the_whole(cell):
    """A run may be cut anywhere, masks and resets included: the state handed on is all it needs."""
    params, xs, mask, reset = random_params(cell), random_xs(), random_mask(), ~random_mask(seed=8)
    state, traces = random_state(cell, params, B), []
    (_, whole), _ = differentiated(cell)(params, xs, state, mask, reset)
    for steps in (slice(3), slice(3, 6)):
        (_, trace), _ = differentiated(cell)(params, xs[:, steps], state, mask[:, steps], reset[:, steps])
        traces.append(replace(trace, final=None))
        state = trace.final
    joined = jax.tree.map(lambda *a: jnp.concatenate(a, 1), *traces)
    close(replace(joined, final=state), whole)


@each_shape
def test_the_product_of_step_jacobians_is_the_jacobian_of_the_run(cell):
    """Over the whole carry, last step leftmost, the identity at every hole in the mask and zero at a reset; and one
    cotangent pulled back is that product transposed."""
    params, xs = random_params(cell), random_xs(T, D)
    mask, reset = jnp.array([True, False, True, True, False, True]), jnp.arange(T) == 3
    start, shaped = ravel_pytree(random_state(cell, params))

    def run(s, reset):
        trace = unroll(cell, params, xs, mask=mask, state=shaped(s), reset=reset)
        return ravel_pytree(trace.final)[0], trace

    @jax.jit
    def both(reset):
        jacobian, trace = jax.jacrev(run, has_aux=True)(start, reset)
        products = suffix_products(step_jacobians(cell, params, trace, reset=reset))
        return jacobian, products, pullback(cell, params, trace, shaped(jnp.sin(1 + start)), reset=reset)

    jacobian, products, adjoints = both(~mask & mask)
    found = jnp.exp(products.log_scale)[:, None, None] * products.mantissa
    close(found[0], jacobian)
    for t in range(1, T):
        vector = jax.vmap(lambda s: ravel_pytree(s)[0])(adjoints.direction)[t - 1] * jnp.exp(adjoints.log_norm[t - 1])
        close(vector, found[t].T @ jnp.sin(1 + start))
    jacobian, products, adjoints = both(reset)
    assert all_zero((jacobian, products.mantissa[0], jax.tree.map(lambda a: a[2], adjoints.direction)))
    assert products.log_scale[0] == adjoints.log_norm[2] == -jnp.inf


def check_gradients(cell, steps):
    """To params, inputs and initial state, with holes in the mask and resets, along random directions."""
    params, mask, reset = random_params(cell), random_mask(B, steps).at[0].set(True), ~random_mask(B, steps, seed=8)
    point, shaped = ravel_pytree((params, random_xs(B, steps, D), random_state(cell, params, B)))
    run = differentiated(cell)
    gradient, _ = ravel_pytree(run(*shaped(point), mask, reset)[1])
    for seed in range(3):
        direction, eps = jiggle(jnp.zeros_like(point), seed, 1.0), 1e-5
        ahead, behind = (run(*shaped(point + sign * eps * direction), mask, reset)[0][0] for sign in (1, -1))
        np.testing.assert_allclose(gradient @ direction, (ahead - behind) / (2 * eps), rtol=1e-7, atol=1e-7)


@each_cell
def test_gradients_equal_finite_differences(cell):
    """Over the steps of most tests, whose program it shares."""
    check_gradients(cell, T)


@each_distinct_cell
def test_gradients_of_one_step_equal_finite_differences(cell):
    """Of the shortest run there is."""
    check_gradients(cell, 1)


@each_shape
def test_vmap_over_seeds_equals_a_loop(cell):
    """Stacked params are as good as one set at a time."""
    many, xs = [random_params(cell, seed=seed) for seed in range(3)], random_xs()
    traces = jax.jit(jax.vmap(lambda p: unroll(cell, p, xs)))(jax.tree.map(lambda *a: jnp.stack(a), *many))
    for seed, params in enumerate(many):
        close(jax.tree.map(lambda a, seed=seed: a[seed], traces), unroll(cell, params, xs))


@pytest.mark.parametrize("cell", [DISTINCT[name]() for name in ("rnn", "lstm", "lru")])
def test_a_second_call_with_the_same_shapes_does_not_trace_again(cell):
    """Neither a run nor its gradient, whatever the values and lengths."""
    traced, counts = [], []
    counted = replace(cell, update=lambda *args: traced.append(1) or cell.update(*args))
    for seed, lengths in ((0, jnp.full(B, T)), (1, jnp.arange(B)), (2, jnp.zeros(B, int))):
        params, xs = random_params(cell, seed=seed), random_xs(seed=seed)
        jax.grad(lambda p, xs=xs, lengths=lengths: generic(unroll(counted, p, xs, lengths=lengths).ys))(params)
        counts.append(len(traced))
        unroll(counted, params, xs, lengths=lengths)
        counts.append(len(traced))
    assert counts[0] > 0
    assert len(set(counts[1:])) == 1


@each_shape
@each_narrow_dtype
def test_half_precision_params_run_with_a_float32_carry(cell, dtype):
    """States and outputs are float32, and near those of the same params in float64."""
    params, xs = cast((random_params(cell), random_xs()), dtype)
    trace = unroll(cell, params, xs)
    carried = (trace.before, trace.after, trace.final, trace.ys)
    assert {a.dtype for a in jax.tree.leaves(carried)} == {jnp.dtype("float32")}
    close(trace.ys.astype(float), unroll(cell, *cast((params, xs), float)).ys, 4 * float(jnp.finfo(dtype).eps))


@each_cell
@each_dtype
def test_the_carry_is_float32_or_wider(cell, dtype):
    """Whatever the dtype of the params, and of a state that is given."""

    def runs(params, xs):
        start = jax.tree.map(lambda s: jnp.stack([s] * B), cell.start(params))
        return [unroll(cell, params, xs, state=state) for state in (None, start, cast(start, dtype))]

    for trace in jax.eval_shape(runs, *cast((random_params(cell), random_xs()), dtype)):
        carried = (trace.before, trace.after, trace.final, trace.ys)
        assert {a.dtype for a in jax.tree.leaves(carried)} == {jnp.promote_types(jnp.float32, dtype)}
