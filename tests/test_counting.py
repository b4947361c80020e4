"""Bit tasks, where the forget gates of a training are looked at, and how two experiments judge what they measured."""

import math
from collections import Counter
from dataclasses import replace
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import xarray as xr
from oracle import close, random_params, random_xs, same
from scipy.special import expit

import seqjax
from experiments import counting as counts
from experiments import variants
from experiments.watch import forget_gates, looks_of, watch
from seqjax.cells import VARIANTS
from seqjax.sweep import seed_keys
from seqjax.tasks import counting, parity, task_named
from seqjax.train import test_keys as keys_of_tests

KEY = jax.random.key(21)
gates_at = jax.jit(forget_gates, static_argnums=(0, 1))
BITS = {"counting": (counting, sum), "parity": (parity, lambda bits: sum(bits) % 2)}
each_bit_task = pytest.mark.parametrize(("make", "answer"), BITS.values(), ids=BITS)


@each_bit_task
@pytest.mark.parametrize("length", [1, 2, 7])
def test_bits_are_fair_and_the_target_is_theirs(make, answer, length):
    """Tokens 0 and 1 at every place, half of each (four standard errors), and the answer of Python's `sum`."""
    batch = make(length=length).held_out(KEY, 4000)
    assert batch.xs.shape == (4000, length)
    assert set(np.unique(batch.xs)) == {0, 1}
    assert np.abs(np.asarray(batch.xs).mean(0) - 0.5).max() < 4 * 0.5 / math.sqrt(4000)
    assert batch.targets.tolist() == [answer(row) for row in batch.xs.tolist()]


@each_bit_task
def test_batches_are_functions_of_key_and_update_and_never_tested_on(make, answer):
    """Traced or not; held-out data of the same key is other data."""
    task = make(length=40)
    draw = jax.jit(task.draw, static_argnums=2)
    same(task.draw(KEY, 3, 10), draw(KEY, 3, 10))
    rows = [row.tobytes() for update in range(20) for row in np.asarray(draw(KEY, update, 10).xs)]
    assert len(set(rows)) == 200
    assert not set(rows) & {row.tobytes() for row in np.asarray(task.held_out(KEY, 50).xs)}


@pytest.mark.parametrize("length", [1, 2, 5, 8])
def test_chance_in_counting_is_the_best_constant_over_all_sequences(length):
    """Every sequence of bits once, instead of a sample: no constant beats chance in score, or its loss."""
    task = counting(length=length)
    totals = jnp.array([sum(bits) for bits in product((0, 1), repeat=length)])

    def constant(answer):
        outputs = jnp.full((2**length, 1), answer)
        return float(task.score(outputs, totals)), float(task.loss(outputs, totals))

    assert max(constant(float(n))[0] for n in range(length + 1)) == task.chance == constant(float(length // 2))[0]
    np.testing.assert_allclose(constant(length / 2)[1], task.chance_loss, rtol=1e-12)
    assert all(constant(length / 2 + off)[1] > task.chance_loss for off in (-0.5, -0.1, 0.1, 0.5))


def test_counting_at_25():
    """C5: the plateau of "predict T/2" is right for 5,200,300 of 2^25 sequences, at a loss of 25/4."""
    task = counting(length=25)
    assert (task.chance, task.chance_loss) == (5_200_300 / 2**25, 6.25)


def test_a_count_is_right_where_it_rounds_to_the_truth():
    """Within a half of it; the loss is on the raw number."""
    task, outputs = counting(length=9), jnp.array([[2.49], [1.51], [2.51], [-0.4], [9.6]])
    targets = jnp.array([2, 2, 2, 0, 9])
    np.testing.assert_allclose(task.score(outputs, targets), 3 / 5, rtol=1e-12)
    np.testing.assert_allclose(task.loss(outputs, targets), np.mean(np.subtract(outputs[:, 0], targets) ** 2))


@pytest.mark.parametrize("length", [1, 2, 6])
def test_chance_in_parity_is_a_coin(length):
    """Over every sequence once, and for whoever has seen all bits but one."""
    task, rows = parity(length=length), list(product((0, 1), repeat=length))
    odd = jnp.array([sum(bits) % 2 for bits in rows])
    assert float(odd.mean()) == task.chance == 0.5
    seen = Counter((bits[:-1], sum(bits) % 2) for bits in rows)
    assert set(seen.values()) == {1}
    np.testing.assert_allclose(task.loss(jnp.zeros((len(rows), 2)), odd), math.log(2), rtol=1e-12)
    np.testing.assert_allclose(task.chance_loss, math.log(2), rtol=1e-12)


@each_bit_task
def test_bit_tasks_are_built_once_and_refuse_what_is_no_length(make, answer):
    """And are found by name."""
    assert make(length=4) is make(length=4)
    assert task_named(make.__name__) is make
    for length in (0, -1, 2.5):
        with pytest.raises(ValueError, match="length must be"):
            make(length=length)


def recipe_of(cell, *, length=4, updates=4, **options):
    """A tiny training on counting."""
    network = seqjax.network(cell, inputs="onehot")
    return seqjax.Recipe(network, counting(length=length), hidden=3, updates=updates, batch=4, **options)


def test_forget_gates_are_those_of_the_equation():
    """One row and one step at a time in NumPy: rows H..2H of PyTorch's weights, and the state before the step."""
    cell, xs = seqjax.lstm(), random_xs(2, 6, 3)
    network, p = seqjax.network(cell), random_params(cell, 3, 5)
    params = replace(network.init(KEY, 3, 5, 1), body=(seqjax.Layer(p),))
    W, U, b = (np.asarray(a)[5:10] for a in (p.W_ih, p.W_hh, p.b_ih + p.b_hh))
    hs = seqjax.unroll(cell, p, xs).before.h
    wanted = [[expit(W @ x + U @ h + b) for x, h in zip(*row, strict=True)] for row in zip(xs, hs, strict=True)]
    close(gates_at(network, cell, params, xs), jnp.array(wanted))


def test_looks_are_before_between_and_after():
    """Also where the last gap is shorter, and where there is but one."""
    assert looks_of(5, 2) == [0, 2, 4, 5]
    assert looks_of(4, 2) == [0, 2, 4]
    assert looks_of(3, 10) == [0, 3]


def watched(cell, **options):
    """Two seeds of a tiny training, looked at every second update."""
    recipe = recipe_of(cell, **options)
    return recipe, watch(recipe, cell, seeds=2, every=2, examples=30, title="")


def test_watching_changes_nothing():
    """Losses and the last scores are those of the same sweep unwatched; the first gates are those of the start."""
    cell = seqjax.lstm(forget_bias=1.0)
    recipe, seen = watched(cell)
    alone = seqjax.sweep_recipe(recipe, seeds=2, examples=30)
    close(seen.score.values[:, -1], alone.score.values)
    close(seen.loss.values[:, 1:], alone.loss.values.reshape(2, 2, 2).mean(2), 1e-6)
    key = seed_keys(2)[1][:1]
    params = jax.tree.map(lambda a: a[0], seqjax.begin_many(recipe, key).params)
    xs = recipe.task.held_out(keys_of_tests(key)[0], 30).xs
    gates = np.asarray(gates_at(recipe.network, cell, params, xs))
    close(seen.forget.values[0, 0], gates.mean((0, 1)), 1e-6)
    assert float(seen.open_share[0, 0]) == float((gates > 0.95).mean())


def test_a_failed_seed_is_blank_from_its_failure_on():
    """One that leaves the finite at its second update is seen whole before it; a unit without gates shows none."""
    _, seen = watched(seqjax.rnn(), optimizer=optax.sgd(1e38))
    assert (seen.failed_at.values >= 0).all()
    late = seen["update"].values > seen.failed_at.values[:, None]
    assert late.any()
    assert not late.all()
    np.testing.assert_array_equal(np.isnan(seen.score.values), late)
    assert np.isnan(seen.forget.values).all()


def runs(lstm, rnn, gates):
    """A result of `counting` with these last scores, and these mean gates [seed, look, unit] in both LSTMs."""
    config = counts.Config(seeds=len(lstm), updates=20, recall_updates=10, every=10, hidden=gates.shape[-1])
    scores = np.zeros((3, len(lstm), 3))
    scores[:, :, -1] = lstm, rnn, lstm
    forget = np.stack([gates, np.full_like(gates, np.nan), gates])
    dims = ("run", "seed", "update")
    variables = {"score": (dims, scores), "open_share": (dims, scores), "forget": ((*dims, "unit"), forget)}
    return config, xr.Dataset(variables, {"run": ["lstm", "rnn", counts.RECALL], "update": [0, 10, 20]})


RISE_AND_FALL = np.tile([[0.7, 0.7], [0.9, 0.96], [0.7, 0.97]], (6, 1, 1))


@pytest.mark.parametrize(
    ("lstm", "rnn", "holds"),
    [
        ([1.0] * 6, [0.9] * 6, True),
        ([1.0] * 5 + [0.2], [0.9] * 6, True),
        ([1.0] * 6, [1.0] * 3 + [0.9] * 3, False),
        ([1.0] * 3 + [0.2] * 3, [0.9] * 6, False),
        ([0.5] * 6, [1.0] * 6, False),
        ([math.nan] * 6, [0.9] * 6, False),
    ],
)
def test_convergence_is_judged_by_intervals_that_lie_apart(lstm, rnn, holds):
    """C5a: five of six against none is enough, six against three is not, nor the reverse."""
    found = {claim.id: claim for claim in counts.claims(*runs(lstm, rnn, RISE_AND_FALL))}
    assert found["C5a"].holds == holds


@pytest.mark.parametrize(
    ("end", "plain", "few"),
    [([0.7, 0.97], False, True), ([0.9, 0.96], False, False), ([0.7, 0.7], False, False), ([0.96, 0.98], True, False)],
)
def test_gates_are_judged_at_the_end(end, plain, few):
    """C5b is about the mean of all; V4 about the largest unit, and a mean that fell."""
    gates = RISE_AND_FALL.copy()
    gates[:, -1] = end
    found = {claim.id: claim for claim in counts.claims(*runs([1.0] * 6, [0.0] * 6, gates))}
    assert (found["C5b"].holds, found["V4"].holds) == (plain, few)
    assert found["C5b"].refuted


def test_the_variants_are_the_papers_and_no_cell_stands_twice():
    """Eight of them between the baseline and the GRU; without peepholes, what is left is the plain LSTM (S18)."""
    assert list(variants.CELLS) == [variants.BASELINE, *VARIANTS, "gru"]
    bare, plain = variants.CELLS["no-peepholes"](2.0), seqjax.lstm(forget_bias=2.0)
    same(bare.init(KEY, 3, 5), plain.init(KEY, 3, 5))
    params = random_params(plain)
    same(seqjax.unroll(bare, params, random_xs()).ys, seqjax.unroll(plain, params, random_xs()).ys)


@pytest.mark.parametrize("name", variants.CELLS)
def test_every_cell_keeps_as_much_at_the_start(name):
    """The gate that keeps has the effective bias 2, or 1 - input has it; what has no such gate keeps everything."""
    cell = variants.CELLS[name](2.0)
    letter, sign = {"coupled": ("i", -1), "gru": ("z", 1)}.get(name, ("f", 1))
    params = cell.init(KEY, 3, 5)
    blocks = dict(zip(cell.gates, jnp.split(params.b_ih + params.b_hh, len(cell.gates)), strict=True))
    assert (letter in blocks) == (name != "no-forget-gate")
    same(blocks.get(letter, jnp.full(5, 2.0 * sign, jnp.float32)), jnp.full(5, 2.0 * sign, jnp.float32))


def outcome(task, **scores):
    """A result of `variants` on one task, five seeds; cells not named score 1."""
    values = [scores.get(name.replace("-", "_"), [0.999, 1.0, 0.998, 0.997, 1.0]) for name in variants.CELLS]
    dims = ("task", "cell", "seed")
    return xr.Dataset({"score": (dims, [values])}, {"task": [task], "cell": list(variants.CELLS)})


BAD, NAN = [0.5, 0.51, 0.52, 0.5, 0.49], [math.nan] * 5


@pytest.mark.parametrize(
    ("scores", "on_recall", "on_vowels"),
    [
        ({}, True, None),
        ({"no_forget_gate": BAD}, False, None),
        ({"no_forget_gate": BAD, "no_output_activation": BAD}, False, True),
        ({"no_forget_gate": NAN, "no_output_activation": BAD}, False, True),
        ({"coupled": BAD}, False, False),
        ({"no_forget_gate": BAD, "no_output_activation": BAD, "coupled": BAD}, False, False),
        ({"no_forget_gate": BAD, "no_output_activation": BAD, "baseline": BAD}, True, None),
        ({name.replace("-", "_"): BAD for name in variants.CELLS if name != "no-forget-gate"}, True, False),
        ({"gru": BAD}, True, None),
    ],
)
def test_which_variants_are_worse(scores, on_recall, on_vowels):
    """V2 and V3; the GRU is no variant, a failed seed counts against its cell, and too few seeds decide nothing."""
    for task, id, holds in (("recall", "V2", on_recall), ("vowels", "V3", on_vowels)):
        (found,) = variants.claims(variants.Config(tasks=(task,)), outcome(task, **scores))
        assert (found.id, found.holds) == (id, holds)


def test_the_table_and_the_figure_speak_of_both_tasks():
    """A row a cell, a panel a view; a seed that failed draws no dot but counts as 0."""
    both = xr.concat([outcome("recall"), outcome("vowels", gru=[math.nan, *BAD[1:]])], "task")
    rows = {row["cell"]: row for row in variants.table(variants.Config(), both)}
    assert rows["no forget gate"]["recall: solved"] == "5/5 (0.57 to 1.00)"
    assert rows["GRU"]["vowels: range"] == "0.000 to 0.520"
    panels = variants.figure(variants.Config(), both).axes
    assert [each.get_title() for each in panels] == [view[1].format(length=20) for view in variants.VIEWS]
    names = [label.get_text() for label in panels[0].get_yticklabels()]
    assert (names[0], names[-1], len(names)) == ("LSTM with peepholes", "GRU", 10)


def test_a_finding_needs_all_variants():
    """With some left out there is no claim."""
    assert variants.claims(variants.Config(cells=("baseline", "gru")), outcome("recall")) == []


@pytest.mark.parametrize(
    ("experiment", "settings", "message"),
    [
        (variants, {"cells": ("lstm",)}, "cells must be some of baseline"),
        (variants, {"tasks": ("speech",)}, "tasks must be some of recall, vowels"),
        (variants, {"vowels_hidden": 0}, "vowels_hidden must be"),
        (variants, {"length": 0}, "length must be"),
        (counts, {"every": 0}, "every must be"),
        (counts, {"recall_updates": 0}, "recall_updates must be"),
        (counts, {"clip": 0.0}, "clip must be above 0"),
    ],
)
def test_settings_that_cannot_be_run_are_refused(experiment, settings, message):
    """Before anything is."""
    with pytest.raises(ValueError, match=message):
        experiment.EXPERIMENT.configured(**settings)
