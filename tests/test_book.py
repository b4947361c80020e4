"""The book's programs against slow twins, against what they compute in C, and against arithmetic."""

import math
from itertools import islice

import jax.numpy as jnp
import numpy as np
import pytest
from oracle import all_zero, close, random_params, random_state, same

import seqjax
from experiments import book
from experiments.book import programs
from experiments.book.dataset import computed
from experiments.book.msvc import RAND_MAX, rand
from experiments.book.printed import PRINTED, figures, like
from experiments.claims import agrees, all_agree
from seqjax.cells.gates import FORGET

# 085 in C with the Microsoft runtime's `rand`: c[0] and c[1] at ten steps
IN_C = {
    0: ".0396007709 .0292250291 .0215534717 .0158820078 .0116937952 .00860402174 .0063266377 .00464942632 .0429185703 "
    ".0316649675",
    1: "-.0228295736 -.0187536143 -.0152350944 -.0122365728 -.00973658636 -.00768686412 -.00602832343 -.00470055919 "
    "-.0265407152 -.0216132142",
}
BOOK_LENGTHS = np.array([5, 10, 20, 30, 50]) - 1


@pytest.fixture(scope="module")
def dataset():
    """Every program, once."""
    return book.run(book.Config(), lambda compute, **_: compute())


def test_every_claim_of_the_book_has_the_expected_verdict(dataset):
    """A1 to A18 and A22."""
    failed = [claim for claim in book.claims(book.Config(), dataset) if not claim.passed]
    assert not failed


def test_every_printed_figure_comes_out(dataset):
    """With the book's tanh, whatever else is claimed of it; and the table says so."""
    found = computed(dataset, "book")
    assert all(all_agree(found[row], figures(row)) for row in PRINTED)
    assert all(row["printed"] == row["here, the book's tanh"] for row in book.table(book.Config(), dataset))


def test_everything_is_computed_in_float32(dataset):
    """As in C, also where JAX's default is float64."""
    for name in ("forget", "write", "replaced", "shown", "c", "f", "output", "c0"):
        assert dataset[name].dtype == np.float32, name


def test_right_values_where_the_book_is_wrong(dataset):
    """A9, A10, A12, A14, A16: with a true tanh."""
    rnn, lstm = dataset.output.sel(tanh="true").values[:, BOOK_LENGTHS]
    np.testing.assert_allclose(rnn[1:], [8.280e-07, 5.679e-11, 9.116e-15, 5.188e-22], rtol=5e-4)
    np.testing.assert_allclose(lstm[2:], [1.495e-05, 9.045e-07, 3.875e-09], rtol=5e-4)
    c0 = dataset.c0.sel(tanh="true", arithmetic="C", bias=1.0).values.astype(float)
    assert agrees(c0[100], "3.136e-15")
    assert agrees(c0[100] / c0[0], "7.9e-14")
    assert agrees(float(dataset.rate.sel(bias=1.0)), "0.7413")
    np.testing.assert_allclose(c0[250] / c0[249], dataset.rate.sel(bias=1.0), rtol=2e-4)
    f = dataset.f.sel(tanh="true").values[1:8, :2]
    assert np.abs(f - 0.7311).max() < 1e-3
    assert abs(float(dataset.rate.sel(bias=0.0)) - 0.5104) < 5e-4


def test_where_the_books_output_dies(dataset):
    """First at length 19 (A9), after 4.17e-11 at 18, where the right value is 3.30e-10."""
    output = dataset.output.sel(model="RNN")
    assert (output.sel(tanh="book", length=slice(19, None)) == 0).all()
    assert agrees(float(output.sel(tanh="book", length=18)), "4.17e-11")
    assert agrees(float(output.sel(tanh="true", length=18)), "3.30e-10")


def test_draws_of_the_microsoft_runtime():
    """srand(42) (A24b), and srand(1), whose numbers are widely known."""
    assert list(islice(rand(42), 5)) == [175, 400, 17869, 30056, 16083]
    assert list(islice(rand(1), 5)) == [41, 18467, 6334, 26500, 19169]


@pytest.mark.parametrize("tanh", programs.TANHS)
@pytest.mark.parametrize("cell", [0, 1])
def test_four_cells_equal_the_program_in_c(dataset, tanh, cell):
    """A24b: cell by cell, in XLA and in the NumPy twin of the C program."""
    wanted = np.array(IN_C[cell].split(), float)
    np.testing.assert_allclose(dataset.c.sel(tanh=tanh)[:, cell], wanted, rtol=1e-5)
    np.testing.assert_allclose(programs.in_c(tanh, programs.impulse(10, 8))[:, cell], wanted, rtol=1e-5)
    c, f, y = programs.four_cells(tanh, programs.impulse(1))
    np.testing.assert_allclose(y[0], 0.00251864782, rtol=1e-5)
    assert c.shape == f.shape == (1, 4)


def test_weights_are_drawn_in_the_programs_order():
    """A24b, one draw at a time: by unit gates f i o g, W_y, then U; and the LSTM goes on where the RNN stopped."""
    stream, H = rand(7), 3

    def draw(width):
        return next(stream) / RAND_MAX * 2 * width - width

    W_x, W_y, W_h = np.zeros(H), np.zeros(H), np.zeros((H, H))
    for k in range(H):
        W_x[k], W_y[k] = draw(0.2), draw(0.2)
        W_h[k] = [draw(0.2) for _ in range(H)]
    W, y, U = {g: np.zeros(H) for g in "fiog"}, np.zeros(H), {g: np.zeros((H, H)) for g in "fiog"}
    for k in range(H):
        for gate in "fiog":
            W[gate][k] = draw(0.1)
        y[k] = draw(0.2)
        for j in range(H):
            for gate in "fiog":
                U[gate][k, j] = draw(0.1)
    again = rand(7)
    params, got_y = programs.rnn_weights(again, H)
    close((params.W_ih[:, 0], params.W_hh, got_y), (W_x, W_h, W_y), 1e-7)
    params, got_y = programs.lstm_weights(again, H, forget_bias=0.5)
    close(params.W_ih[:, 0], np.concatenate([W[g] for g in "ifgo"]), 1e-7)
    close(params.W_hh, np.concatenate([U[g] for g in "ifgo"]), 1e-7)
    close(got_y, y, 1e-7)
    close(params.b_ih + params.b_hh, np.repeat([0.0, 0.5, 0.0, 0.0], H))


def test_fading_plain_unit_equals_a_loop_in_float64(dataset):
    """A9: 20 draws, one step after the other in NumPy."""
    total = np.zeros(50)
    for trial in range(20):
        params, W_y = programs.rnn_weights(rand(42 + trial), 8)
        W_x, W_h, h = np.asarray(params.W_ih[:, 0], float), np.asarray(params.W_hh, float), np.zeros(8)
        for t in range(50):
            h = np.tanh(W_x * (t == 0) + W_h @ h)
            total[t] += abs(W_y @ h) / 20
    np.testing.assert_allclose(dataset.output.sel(tanh="true", model="RNN"), total, rtol=1e-4)


def test_true_cells_are_the_librarys():
    """S15: the LSTM put together from pieces is `lstm`, bit for bit."""
    cell = seqjax.lstm(forget_bias=None)
    params = random_params(cell)
    state, u = random_state(cell, params), cell.project(params, jnp.ones(3))
    same(programs.LSTMS["true"].step(params, state, u), cell.step(params, state, u))
    close(programs.LSTMS["book"].step(params, state, u), cell.step(params, state, u), 1e-13)


def test_books_tanh():
    """A25: no overflow; A9: 0 up to 2⁻²⁶ and above -2⁻²⁵ alone, and wrong by a tenth at 1e-7."""
    same(programs.book_tanh(programs.float32(-20.1, -19.9, 50)), programs.float32(-1, -1, 1))
    edges = np.array([2.0**-26, -(2.0**-25)], np.float32)
    inside, outside = edges * np.float32([1, 1 - 1e-6]), edges * np.float32([1 + 1e-6, 1 + 1e-6])
    assert all_zero(programs.book_tanh(jnp.asarray(inside)))
    assert (programs.book_tanh(jnp.asarray(outside)) != 0).all()
    z = np.array([1e-7, 1e-6, 1e-5])
    error = np.abs(np.asarray(programs.book_tanh(programs.float32(*z)), float) / z - 1)
    assert all_agree(error, ("0.1", "0.013", "0.0014"))


def test_no_input_makes_every_cell_keep():
    """A18: thresholds, and no better point on a fine grid."""
    beyond, best = programs.all_keep(0.8)
    np.testing.assert_allclose(beyond, [-0.168, 0.356, 0.613], atol=5e-4)
    grid = programs.forget_gates(*np.linspace(-3, 3, 6001))
    smallest = float(programs.forget_gates(best).min())
    assert smallest >= float(grid.min(1).max()) > smallest - 1e-3
    assert not (grid > 0.8).all(1).any()


def test_parameter_counts(dataset):
    """A19: and four cores less the readout that is not multiplied."""
    counts = dataset.parameters
    assert counts.sel(size="N = 128, M = 64").sum("block").values.tolist() == [24833, 98945]
    assert counts.sel(size="N = 4, M = 1", model="RNN").values.tolist() == [24, 5]
    rnn, lstm = counts.sel(size="N = 128, M = 64").values
    assert rnn[1] == lstm[1] == 129
    assert 4 * rnn.sum() - lstm.sum() == 387


def test_powers():
    """A21."""
    σ = float(FORGET.value({"f": jnp.asarray(1.0)}))
    values = (0.5**20, 0.5**50, σ**20, 0.19**20, 0.9**20, 0.74**50, 0.31**50, 0.99**50)
    printed = ("9.5e-07", "8.9e-16", "0.0019", "3.76e-15", "0.12", "2.9e-07", "3.7e-26", "0.6")
    assert all_agree(values, printed)
    assert agrees(σ**20 / 0.5**20, "2.0e+03")
    assert int(math.log10(0.9**20 / 0.19**20)) == 13
    assert round(math.log10(0.74**50 / 0.31**50)) == 19


def test_figures_of_another_unit():
    """A23: 30 steps have 29 factors between them."""
    assert agrees(0.19**20, "3.76e-15")
    assert agrees(200_000 ** (-1 / 29), "0.656")


def test_matrix_products_of_a_run():
    """A24: a step has one H by H product for every gate."""
    products = [50 * len(cell.gates) for cell in (programs.LSTMS["true"], programs.RNNS["true"])]
    assert products == [200, 50]
    params, _ = programs.lstm_weights(rand(42), 4)
    assert 50 * params.W_hh.size // 4**2 == 200


def test_agreement_with_a_figure():
    """Half a unit of the last digit; a zero in scientific notation is exact."""
    assert agrees(0.01249, "0.012")
    assert not agrees(0.0126, "0.012")
    assert agrees(2.9264e-4, "2.926e-04")
    assert not agrees(2.9266e-4, "2.926e-04")
    assert agrees(0.0, "0.000e+00")
    assert not agrees(5.679e-11, "0.000e+00")
    assert (like(0.0125, "0.04"), like(3e-9, "1.00e-03"), like(6273, "1")) == ("0.01", "3.00e-09", "6273")


def test_settings(dataset):
    """Fewer trials are not the book's, so nothing is judged; none at all are refused."""
    experiment = book.EXPERIMENT
    config = experiment.configured(quick=True)
    assert all(claim.holds is None for claim in experiment.judged(config, dataset))
    with pytest.raises(ValueError, match="trials"):
        experiment.configured(trials=0)
