"""Spectra of matrices whose spectra are known, and of recurrent blocks cut out by hand."""

import math
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import (
    Affine,
    gru,
    lstm,
    recurrent_blocks,
    rnn,
    singular_values,
    spectral_radius,
    with_spectral_radius,
)

ANGLE = 0.7
ROTATION = np.array([[math.cos(ANGLE), -math.sin(ANGLE)], [math.sin(ANGLE), math.cos(ANGLE)]])
KNOWN = {  # matrix, spectral radius, singular values
    "diagonal": (np.diag([0.5, -2.0, 1.0]), 2, [2, 1, 0.5]),
    "rotation": (0.9 * ROTATION, 0.9, [0.9, 0.9]),
    "nilpotent": (np.array([[0.0, 3.0, 0.0], [0.0, 0.0, 4.0], [0.0, 0.0, 0.0]]), 0, [4, 3, 0]),
    "shear": (np.array([[1.0, 1.0], [0.0, 1.0]]), 1, [(1 + math.sqrt(5)) / 2, (math.sqrt(5) - 1) / 2]),
    "zero": (np.zeros((2, 2)), 0, [0, 0]),
    "number": (np.array([[-3.0]]), 3, [3]),
}
each_function = pytest.mark.parametrize("function", [spectral_radius, singular_values])


@pytest.mark.parametrize(("matrix", "radius", "values"), KNOWN.values(), ids=KNOWN)
def test_known_spectra(matrix, radius, values):
    """The radius is of eigenvalues, complex ones included; a nilpotent matrix stretches but holds nothing."""
    np.testing.assert_allclose(spectral_radius(matrix), radius, atol=1e-12)
    np.testing.assert_allclose(singular_values(matrix), values, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_any_dtype_is_measured_in_float64(dtype):
    """Whatever the params are kept in."""
    matrix = jnp.array([[2, 1], [0, -3]], dtype)
    assert spectral_radius(matrix) == 3.0
    assert singular_values(matrix).dtype == np.float64
    np.testing.assert_allclose(singular_values(matrix), [math.sqrt(7 + math.sqrt(13)), math.sqrt(7 - math.sqrt(13))])


@each_function
@pytest.mark.parametrize("shape", [(2, 3), (3,), (), (2, 2, 2), (0, 0)])
def test_a_matrix_must_be_square(function, shape):
    """And not empty."""
    with pytest.raises(ValueError, match="must be square, got shape"):
        function(np.ones(shape))


@each_function
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_matrix_must_be_finite(function, bad):
    """Instead of a NaN, or an error from far below."""
    with pytest.raises(ValueError, match="NaN or infinity"):
        function(np.array([[1.0, bad], [0.0, 1.0]]))


@pytest.mark.parametrize("cell", [rnn(), lstm(), gru(), gru(reset_after=False)], ids=["rnn", "lstm", "gru", "before"])
def test_blocks_go_by_the_letters_of_the_gates(cell):
    """In the order of the rows."""
    H = 5
    weights = np.random.default_rng(0).standard_normal((len(cell.gates) * H, H))
    found = recurrent_blocks(cell, Affine(None, jnp.asarray(weights), None, None))
    assert "".join(found) == cell.gates
    for i, gate in enumerate(cell.gates):
        W = weights[i * H : (i + 1) * H]
        np.testing.assert_allclose(found[gate].spectral_radius, np.abs(np.linalg.eigvals(W)).max(), rtol=1e-12)
        np.testing.assert_allclose(found[gate].sigma_max, np.linalg.norm(W, 2), rtol=1e-12)
        assert found[gate].spectral_radius < found[gate].sigma_max


def test_blocks_of_a_broken_network_are_refused():
    """NaN params have no spectrum."""
    weights = np.eye(4, 2)
    weights[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN or infinity"):
        recurrent_blocks(replace(rnn(), gates="ab"), Affine(None, weights, None, None))


def test_a_matrix_scaled_to_a_spectral_radius():
    """Complex eigenvalues included; to 0 as well."""
    matrix = np.random.default_rng(0).standard_normal((6, 6))
    for radius in (0.9, 1.5, 0.0):
        np.testing.assert_allclose(spectral_radius(with_spectral_radius(matrix, radius)), radius, rtol=1e-12)
    np.testing.assert_allclose(with_spectral_radius(0.5 * ROTATION, 2.0), 2 * ROTATION)


@pytest.mark.parametrize("name", ["zero", "nilpotent"])
def test_a_matrix_without_a_radius_is_not_scaled(name):
    """An error, not a NaN; nor is anything scaled to a radius that is none."""
    with pytest.raises(ValueError, match="zero or nilpotent"):
        with_spectral_radius(KNOWN[name][0], 1.0)
    for radius in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="radius must be a finite number"):
            with_spectral_radius(ROTATION, radius)
