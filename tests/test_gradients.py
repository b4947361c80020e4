"""Norms at the ends of the number line."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax.gradients import global_norm, safe_norm

TREE = {"W": jnp.array([[3.0, -1.0], [0.5, 2.0]]), "b": jnp.array([-0.2, 0.1, 4.0]), "s": jnp.array(1.5)}
EXTREMES = [  # of float64, whose largest number is 1.8e308, and of float32, 3.4e38
    *((size, "float64") for size in (1e-300, 1e-200, 1e200, 2e307, 1e308)),
    *((size, "float32") for size in (1e-36, 1e-30, 1e30, 2e37, 2e38)),
]
at_extremes = pytest.mark.parametrize(("size", "dtype"), EXTREMES)


def flat(tree):
    """All entries, in float64."""
    return np.concatenate([np.ravel(a).astype(float) for a in jax.tree.leaves(tree)])


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
