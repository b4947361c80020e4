"""The lecture's worked LSTM step: its numbers, its Jacobian, and where a gate is full."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import close, random_params, random_state, same

import seqjax
from experiments import cell_step, saturation
from experiments.claims import agrees


@pytest.fixture(scope="module")
def one_step():
    """The lecture's step."""
    return cell_step.measure(cell_step.Config())


def test_worked_step(one_step):
    """B20."""
    assert all(claim.holds for claim in cell_step.claims(cell_step.Config(), one_step))
    close(one_step.value.sel(gate=["f", "i", "g"]).values, np.array([[0.9, 0.1], [0.2, 0.8], [0.6, -0.4]]), 1e-6)


def test_jacobian_of_the_step(one_step):
    """B20: diag(f) from c to c either way; with the loop through h, h matters too, and without it only c does."""
    total, direct = one_step.jacobian.values
    close(total[2:, 2:], np.diag([0.9, 0.1]), 1e-6)
    same(direct[:, 2:], total[:, 2:])
    assert np.abs(total[:, :2]).min() > 0
    assert not direct[:, :2].any()


@pytest.mark.parametrize("o2", [0.01, 0.5, 0.99])
def test_second_output_gate_is_open(o2):
    """B20: h2 = -0.354 o2 for any o2, and nothing else changes."""
    dataset = cell_step.measure(cell_step.Config(output=(0.7, o2)))
    close(dataset.h.values, np.array([0.7 * math.tanh(1.47), o2 * math.tanh(-0.37)]), 1e-6)
    assert agrees(float(dataset.h[1]) / o2, "-0.354")


def test_gates_can_be_put_anywhere():
    """In a cell with other weights, for any state."""
    cell = seqjax.lstm()
    params, wanted = random_params(cell), {g: np.linspace(0.1, 0.9, 5) for g in "ifgo"}
    state = random_state(cell, params)
    params = cell_step.with_gates(cell, params, state, wanted)
    after = cell.step(params, state, cell.project(params, jnp.zeros(3)))
    close(after.c, wanted["f"] * state.c + wanted["i"] * wanted["g"])
    close(after.h, wanted["o"] * np.tanh(after.c))


@pytest.mark.parametrize(("dtype", "bits"), saturation.DTYPES.items())
def test_first_full_gate(dtype, bits):
    """B19: from b ln 2 on, and nowhere below."""
    z = saturation.first_full(dtype)
    kind = jnp.dtype(dtype)
    below = np.array(z, kind)
    assert float(jax.nn.sigmoid(below)) == 1
    for _ in range(50):
        below = np.nextafter(below, np.array(0, kind))
        assert float(jax.nn.sigmoid(below)) < 1
    assert abs(z - bits * math.log(2)) < float(jnp.finfo(kind).eps) * z


def test_saturation():
    """B18 and B19, as the experiment answers them."""
    config = saturation.Config(points=10)
    assert all(claim.holds for claim in saturation.claims(config, saturation.measure(config)))


@pytest.mark.parametrize(
    ("experiment", "setting"), [(cell_step, {"output": (0.7, 1.5)}), (saturation, {"dtypes": ("int8",)})]
)
def test_bad_settings(experiment, setting):
    """Named."""
    with pytest.raises(ValueError, match=next(iter(setting))):
        experiment.EXPERIMENT.configured(**setting)
