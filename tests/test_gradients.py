"""Norms at the ends of the number line, clipping that keeps the direction, and clipping before Adam."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from seqjax.gradients import adam, clip_by_global_norm, global_norm, safe_norm

TREE = {"W": jnp.array([[3.0, -1.0], [0.5, 2.0]]), "b": jnp.array([-0.2, 0.1, 4.0]), "s": jnp.array(1.5)}
EXTREMES = [  # of float64, whose largest number is 1.8e308, and of float32, 3.4e38
    *((size, "float64") for size in (1e-300, 1e-200, 1e200, 2e307, 1e308)),
    *((size, "float32") for size in (1e-36, 1e-30, 1e30, 2e37, 2e38)),
]
at_extremes = pytest.mark.parametrize(("size", "dtype"), EXTREMES)


def flat(tree):
    """All entries, in float64."""
    return np.concatenate([np.ravel(a).astype(float) for a in jax.tree.leaves(tree)])


@jax.jit
def clipped(tree, limit):
    """What clipping leaves of a gradient; the limit is traced."""
    clip = clip_by_global_norm(limit)
    return clip.update(tree, clip.init(tree))[0]


def cosine(a, b):
    """Of the angle between two vectors, of any size that float64 can hold."""
    a, b = (v / np.abs(v).max() for v in (np.asarray(a, float), np.asarray(b, float)))
    return a @ b / np.sqrt((a @ a) * (b @ b))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_safe_norm_is_the_euclidean_norm(axis):
    """Along any axis."""
    x = jnp.asarray(np.random.default_rng(0).standard_normal((4, 3, 5)))
    np.testing.assert_allclose(jax.jit(safe_norm, static_argnums=1)(x, axis), np.linalg.norm(x, axis=axis), rtol=1e-14)


def test_global_norm_is_that_of_all_entries():
    """Whatever the shapes."""
    np.testing.assert_allclose(jax.jit(global_norm)(TREE), np.linalg.norm(flat(TREE)), rtol=1e-14)


@pytest.mark.parametrize("norm", [safe_norm, jax.jit(lambda x: global_norm((x[:1], x[1:])))], ids=["safe", "global"])
@at_extremes
def test_norms_neither_overflow_nor_underflow(norm, size, dtype):
    """A triangle of sides 3, 4 and 5, and a zero, far from where squares can be held."""
    np.testing.assert_allclose(norm(jnp.array([size, -0.75 * size, 0.0], dtype)), 1.25 * size, rtol=1e-6)


def test_a_huge_entry_does_not_hide_in_another_array():
    """1e200 beside 1, and 1e-200 beside 0."""
    assert global_norm({"a": jnp.array([1.0, 2.0]), "b": jnp.array(1e200)}) == 1e200
    assert global_norm({"a": jnp.zeros(2), "b": jnp.array(1e-200)}) == 1e-200


@pytest.mark.parametrize("norm", [safe_norm, lambda x: global_norm([x, x])], ids=["safe", "global"])
def test_norms_of_zero_infinity_and_nan(norm):
    """Zero of zeros, infinite of an infinity, NaN of a NaN whatever is beside it."""
    assert norm(jnp.zeros(3)) == 0
    assert norm(jnp.array([1.0, np.inf, -np.inf])) == np.inf
    assert np.isnan(norm(jnp.array([1.0, np.nan, np.inf])))


def test_the_gradient_of_a_norm():
    """x over its norm, wherever the largest entry stands, and 0 at 0."""
    for x in (jnp.array([3.0, -4.0, 0.0]), jnp.array([2e-200, 2e-200, 1e-200])):
        np.testing.assert_allclose(jax.grad(safe_norm)(x), x / np.linalg.norm(x / x.max()) / x.max(), rtol=1e-14)
    assert (jax.grad(safe_norm)(jnp.zeros(3)) == 0).all()


@pytest.mark.parametrize("limit", [0.1, 5.0, 6.0, 1e9])
def test_clipping_keeps_the_direction_and_bounds_the_norm(limit):
    """Cosine 1 and norm min(norm, limit); below the limit nothing changes, to the bit."""
    new, norm = clipped(TREE, limit), np.linalg.norm(flat(TREE))
    assert 5 < norm < 6
    np.testing.assert_allclose(cosine(flat(new), flat(TREE)), 1, rtol=1e-14)
    np.testing.assert_allclose(np.linalg.norm(flat(new)), min(norm, limit), rtol=1e-14)
    if limit > norm:
        chex.assert_trees_all_equal(new, TREE)


def test_clipping_by_norm_keeps_the_angle_that_clipping_by_value_turns():
    """B28: g = (3, -0.2, 0.1) and c = 1 give cosines of 1.0 and 0.9894."""
    g = jnp.array([3.0, -0.2, 0.1])
    np.testing.assert_allclose(cosine(clipped(g, 1.0), g), 1, rtol=1e-14)
    assert round(cosine(optax.clip(1.0).update(g, optax.EmptyState())[0], g), 4) == 0.9894


@pytest.mark.parametrize("limit", [0.1, 1.0])
@at_extremes
def test_a_huge_gradient_keeps_its_direction(size, dtype, limit):
    """Instead of becoming a zero update, or passing unclipped; a tiny one is left as it is."""
    g = jnp.array([size, -0.75 * size, 0.0], dtype)
    new = clipped(g, limit)
    assert new.dtype == dtype
    wanted = min(1.25 * size, limit)
    np.testing.assert_allclose(new, wanted * np.array([0.8, -0.6, 0]), rtol=1e-6)


def test_zero_stays_zero_and_what_is_not_finite_is_not_hidden():
    """A NaN or an infinity must not come out as a finite update."""
    np.testing.assert_array_equal(clipped(jnp.zeros(3), 1.0), 0)
    for bad in (np.nan, np.inf):
        assert not np.isfinite(clipped(jnp.array([1.0, bad]), 1.0)).all()


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_clipping_keeps_dtypes(dtype):
    """Of every leaf, under a limit in another dtype too."""
    narrow = jax.tree.map(lambda a: a.astype(dtype), TREE)
    for limit in (1.0, jnp.array(1.0)):
        new = clipped(narrow, limit)
        assert {a.dtype for a in jax.tree.leaves(new)} == {jnp.dtype(dtype)}
        np.testing.assert_allclose(np.linalg.norm(flat(new)), 1, rtol=4 * float(jnp.finfo(dtype).eps))


def test_the_limit_and_the_rate_may_be_traced():
    """So that they can be axes of a sweep."""
    limits = jnp.array([0.1, 1.0, 100.0])
    many = jax.jit(jax.vmap(lambda c: clip_by_global_norm(c).update(TREE, optax.EmptyState())[0]))(limits)
    each = [clipped(TREE, float(c)) for c in limits]
    chex.assert_trees_all_close(many, jax.tree.map(lambda *a: np.stack(a), *each), rtol=1e-14)

    @jax.jit
    def second(rate, c):
        optimizer = adam(rate, clip=c)
        _, state = optimizer.update(TREE, optimizer.init(TREE))
        return optimizer.update(jax.tree.map(lambda g: g / 10, TREE), state)[0]

    np.testing.assert_allclose(flat(second(0.1, 1.0)), by_hand([flat(TREE), flat(TREE) / 10], 0.1, 1.0)[1], rtol=1e-10)


def by_hand(gradients, rate, limit):
    """Adam's updates, written out, of gradients clipped first."""
    m, v, updates = 0.0, 0.0, []
    for t, g in enumerate(gradients, 1):
        g = g * min(1, limit / np.linalg.norm(g))
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        updates.append(-rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8))
    return updates


@pytest.mark.parametrize("clip", [1.0, None])
def test_adam_sees_the_clipped_gradient(clip):
    """Clip, then Adam: the other order would leave a spike in Adam's memory."""
    gradients = [np.array([0.3, -0.4]), np.array([3e3, 4e3]), np.array([-0.1, 0.2])]
    optimizer, params = adam(0.1, clip=clip), jnp.zeros(2)
    state, got, update = optimizer.init(params), [], jax.jit(optimizer.update)
    for g in gradients:
        step, state = update(g, state)
        got.append(step)
    np.testing.assert_allclose(got, by_hand(gradients, 0.1, np.inf if clip is None else clip), rtol=1e-10)


@pytest.mark.parametrize("clip", [0, 0.0, -1.0, float("-inf"), float("nan")])
def test_adam_refuses_a_limit_that_is_not_above_zero(clip):
    """And says how to have none."""
    with pytest.raises(ValueError, match=r"clip must be above 0, .*no clipping"):
        adam(1e-3, clip=clip)
