"""The benchmark's ruler: rounds in turn, ratios within a round, peers that compute what we do, verdicts by hand."""

import os
from dataclasses import replace

import jax
import numpy as np
import pytest
import xarray as xr

import seqjax
from experiments.benchmark import (
    EXPERIMENT,
    Config,
    at_least,
    at_most,
    in_proportion,
    layer,
    pairs,
    peers,
    probe,
    stream,
)
from experiments.benchmark.cases import absent, dataset_of, joined, seconds, select, timed
from experiments.benchmark.peers import ABSENT, CELLS, LIBRARIES, OWN_EQUATION, absence
from experiments.benchmark.pieces import pieces
from experiments.benchmark.ratios import best, ratio, slope
from experiments.benchmark.timing import MOST, SHORTEST, interleaved
from experiments.benchmark.verdicts import Verdict, together
from experiments.benchmark.worker import PINS, worker

TINY = {"B": 2, "T": 3, "D": 4, "H": 5}
ONE_CORE = {"place": "1 core", "clock": "cpu", "cores": 1}
ALL_CORES = {"place": "2 cores", "clock": "wall", "cores": 2}


class Machine:
    """A clock that nothing but work moves, by `pace` times what the work takes."""

    def __init__(self):
        self.now, self.log, self.pace = 0.0, [], lambda done: 1.0

    def clock(self):
        """Seconds."""
        return self.now

    def work(self, name, takes):
        """A candidate."""

        def call():
            self.now += takes * self.pace(len(self.log))
            self.log.append(name)

        return call

    def run(self, takes, **options):
        """Interleave candidates that take so long."""
        calls = {name: self.work(name, each) for name, each in takes.items()}
        return interleaved(calls, clocks={"wall": self.clock, "cpu": lambda: self.now / 2}, **options)


def test_every_round_has_each_once_in_changing_order():
    machine, takes = Machine(), {"a": 0.5, "b": 0.25, "c": 1.0}
    times = machine.run(takes, rounds=6, seconds=0)
    assert {name: clocks["wall"] for name, clocks in times.items()} == {name: [t] * 6 for name, t in takes.items()}
    assert times["a"]["cpu"] == [0.25] * 6
    rounds = [tuple(machine.log[i : i + 3]) for i in range(3, len(machine.log), 3)]
    assert len(rounds) == 6
    assert all(sorted(each) == ["a", "b", "c"] for each in rounds)
    assert len(set(rounds)) > 1


def test_more_rounds_while_there_is_time():
    assert len(Machine().run({"a": 0.5, "b": 0.5}, rounds=2, seconds=4.5)["a"]["wall"]) == 5
    assert len(Machine().run({"a": 0.5}, rounds=2, seconds=1e6)["a"]["wall"]) == MOST


def test_short_work_is_repeated_and_divided_out():
    machine = Machine()
    times = machine.run({"short": SHORTEST / 8, "long": 1.0}, rounds=1, seconds=0)
    assert times["short"]["wall"] == pytest.approx([SHORTEST / 8])
    assert machine.log.count("short") == 1 + 1 + 8  # to know how long, cold, counted
    assert machine.log.count("long") == 1 + 1


def test_a_drift_of_the_machine_leaves_the_median_ratio():
    """The machine slows down tenfold in the middle of the run."""
    machine = Machine()
    machine.pace = lambda done: 1.0 if done < 25 else 10.0
    times = machine.run({"seqjax": 1.0, "torch": 2.0}, rounds=21, seconds=0)
    assert ratio(case({name: clocks["wall"] for name, clocks in times.items()}), "torch").median == 2


def test_a_real_clock_sees_a_sleep_and_no_work_in_it():
    import time

    times = interleaved({"sleep": lambda: time.sleep(0.02)}, rounds=3, seconds=0)["sleep"]
    assert min(times["wall"]) >= 0.02
    assert min(times["cpu"]) < 0.01


def case(*given, **labels):
    """The only case of a part."""
    return part(*given, **labels).isel(case=0)


def part(times, notes=None, where=ONE_CORE, **labels):
    """A dataset of one case: seconds by candidate, on the clock that counts, and far from it on the other."""
    other = {"cpu": "wall", "wall": "cpu"}[where["clock"]]
    candidates = {name: {where["clock"]: each, other: [1e9] * len(each)} for name, each in times.items()}
    candidates |= {name: {"note": note} for name, note in (notes or {}).items()}
    marks = {"part": "layer", "kind": "gradient", "cell": "lstm", **TINY} | labels
    return dataset_of([{**marks, "candidates": candidates}], where)


def test_ratios_are_medians_of_rounds_against_the_fastest():
    """By hand: 2/1, 3/2, 8/4 against torch; 1.5/1, 4/2, 10/4 against keras."""
    one = case({"seqjax": [1, 2, 4], "torch": [2, 3, 8], "keras": [1.5, 4, 10]})
    found = ratio(one, "torch")
    assert (found.median, found.low, found.high) == (2, 1.75, 2)
    assert ratio(one, "keras").median == 2
    assert best(case({"seqjax": [1], "torch": [3], "linen": [2]}), ("torch", "linen", "haiku")).peer == "linen"
    assert best(one, ("haiku",)) is None


def test_a_missing_peer_is_listed_and_never_beaten():
    """It is in the table, decides nothing, and where all are missing nothing is judged."""
    known = part({"seqjax": [1.0], "torch": [2.0]}, {"keras": ABSENT, "haiku": "relu only"})
    some = known.isel(case=0)
    alone = case({"seqjax": [1.0]}, {"keras": ABSENT, "torch": ABSENT})
    assert timed(some) == ["seqjax", "torch"]
    assert absent(some) == {"keras": ABSENT, "haiku": "relu only"}
    verdict = at_least(1, [some], ("torch", "keras", "haiku"))
    assert verdict.holds is True
    assert verdict.note == "Not installed: keras."
    assert at_least(1, [some], ("keras",)).holds is None
    assert at_least(1, [alone], ("torch", "keras")).holds is None
    assert at_least(1, [some, alone], ("torch", "keras")).holds is None
    assert at_least(3, [some, alone], ("torch", "keras")).holds is False
    (row,) = EXPERIMENT.table(Config(), known)
    assert "keras: not installed" in row["others"]
    assert "keras" not in row["best peer"]


def test_verdicts_by_hand():
    """Each holds on its bound, and fails beyond it."""
    even = case({"seqjax": [2.0], "torch": [2.0]}, cell="gru", H=7)
    assert at_least(1, [even], ("torch",)).holds is True
    assert at_least(1.01, [even], ("torch",)).holds is False
    worse = case({"seqjax": [4.0], "torch": [2.0]})
    both = at_least(1, [even, worse], ("torch",))
    assert both.measured == "1 of 2 cases; least 0.50 torch (0.50 to 0.50), lstm at H = 5"
    whole = case({"seqjax": [3.0], "forward+backward": [2.0]})
    assert at_most(1.5, [whole], "forward+backward").holds is True
    assert at_most(1.4, [whole], "forward+backward").holds is False
    lines = [case({"seqjax": [T**1.2]}, kind="T", T=T) for T in (10, 100, 1000)]
    assert in_proportion(lines, 0.9, 1.3).holds is True
    assert in_proportion(lines, 0.9, 1.1).holds is False
    assert at_least(1, [], ("torch",)) is None


def test_two_verdicts_together():
    holds, fails, open = (Verdict("", each) for each in (True, False, None))
    assert together(holds, holds).holds is True
    assert together(holds, open).holds is None
    assert together(open, fails).holds is False
    assert together(holds, None) is None


def test_slopes_of_power_laws():
    sizes = np.array([1, 3, 10, 32, 100])
    for power in (0, 0.5, 1, 2):
        rounds = np.outer(sizes.astype(float) ** power, [0.3, 1.0, 7.0])  # a drift between rounds changes no exponent
        assert slope(sizes, rounds) == pytest.approx(power, abs=1e-12)


def test_cases_join_and_survive_the_disk(tmp_path):
    """Different candidates in different parts; the clock that counts is each case's own."""
    parts = [
        part({"seqjax": [1.0, 2.0], "torch": [3.0, 4.0]}, {"keras": ABSENT}),
        part({"seqjax": [5.0], "jacrev": [6.0]}, where=ALL_CORES, part="probe"),
    ]
    joined(parts).to_netcdf(tmp_path / "cases.nc")
    with xr.open_dataset(tmp_path / "cases.nc") as read:
        (first,), (second,) = select(read, part="layer"), select(read, part="probe", cores=2)
        assert seconds(first, "torch").tolist() == [3, 4]
        assert seconds(second, "jacrev").tolist() == [6]
        assert (timed(first), timed(second)) == (["seqjax", "torch"], ["seqjax", "jacrev"])
        assert (absent(first), absent(second)) == ({"keras": ABSENT}, {})


@pytest.mark.parametrize("cell", CELLS)
def test_every_installed_peer_gives_our_numbers(cell):
    """Outputs to 1e-5, losses, and PyTorch's gradients, on weights whose biases are not zero; or it is refused."""
    kinds = ("forward", "gradient", "training") if cell == "lstm" else ("forward", "gradient")
    with jax.numpy_rank_promotion("allow"):
        done = layer.measure(cell=cell, **TINY, kinds=kinds, rounds=1, seconds=0)
    expected = {library for library in LIBRARIES if not absence(library, cell)}
    assert {"seqjax", "linen", "nnx"} <= expected
    for each in done:
        assert {name for name, facts in each["candidates"].items() if facts.get("cpu")} == expected
        assert set(each["candidates"]) == set(LIBRARIES)


def test_a_peer_that_computes_something_else_is_refused():
    params, xs = layer.inputs("lstm", **TINY)
    for kind, wrong in (("forward", lambda ys: ys + 1e-4), ("gradient", lambda result: (result[0] * 1.001, result[1]))):
        right, _ = layer.prepare("seqjax", kind, "lstm", params, xs)
        layer.require_agreement("lstm", kind, params, xs, {"seqjax": right(), "linen": right()})
        with pytest.raises(RuntimeError, match="linen computes another lstm"):
            layer.require_agreement("lstm", kind, params, xs, {"seqjax": right(), "linen": wrong(right())})


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_encoder_decoders_are_the_same(cell):
    """Loss and gradient, of ragged pairs; or it is refused."""
    pytest.importorskip("torch")
    with jax.numpy_rank_promotion("allow"):
        done = pairs.measure(cell=cell, B=3, T=4, H=5, rounds=1, seconds=0)
    assert [each["kind"] for each in done] == ["gradient", "training"]
    for each in done:
        assert {name for name, facts in each["candidates"].items() if facts.get("cpu")} == {"seqjax", "torch"}


def test_another_encoder_decoder_is_refused():
    """By its gradient."""
    torch = pytest.importorskip("torch")
    network = seqjax.encoder_decoder(seqjax.gru(), embedding=3, bidirectional=True, bridge=True, attention=2)
    params = network.init(jax.random.key(0), 4, 5, 6)
    named = peers.module_of("torch_pairs").weights_of(params)
    theirs = {name: torch.tensor(np.asarray(array)) for name, array in named.items()}
    pairs.require_agreement("gru", (1.0, params), (1.0, theirs))
    theirs["bridge.bias"] = theirs["bridge.bias"] * 1.001
    with pytest.raises(RuntimeError, match="torch computes another encoder-decoder of gru than seqjax"):
        pairs.require_agreement("gru", (1.0, params), (1.0, theirs))


def test_a_peer_of_another_equation_says_so():
    """Haiku's GRU is compared with our reset-before one, which differs from the other on the same weights."""
    assert OWN_EQUATION == {("haiku", "gru"): "resets before the product"}
    params, xs = layer.inputs("gru", **TINY)
    after, _ = layer.prepare("seqjax", "forward", "gru", params, xs)
    assert layer.apart(after(), layer.reset_before(params, xs, "forward")) > 1e-3


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_streams_give_the_same_answers(cell):
    """Or `measure` raises; PyTorch's and linen's weights are ours."""
    with jax.numpy_rank_promotion("allow"):
        (done,) = stream.measure(cell=cell, D=3, H=4, rounds=1, seconds=0)
    assert {name for name, facts in done["candidates"].items() if facts.get("wall")} >= {"seqjax", "linen"}


def test_the_probe_is_timed_beside_a_gradient_and_jacobians():
    (done,) = probe.measure(cell="lstm", B=1, T=4, H=3, rounds=2, seconds=0)
    assert {name: len(facts["wall"]) for name, facts in done["candidates"].items()} == dict.fromkeys(
        ("seqjax", "forward+backward", "jacrev"), 2
    )


def test_pieces_of_a_run():
    """One core first; sweeps on all; the gradient alone on all cores a second time."""
    config = Config()
    both = pieces(config, (1, 4))
    assert [piece.cores for piece in both] == sorted(piece.cores for piece in both)
    again = [piece for piece in both if piece.job == "layer" and piece.cores == 4]
    assert len(again) == len(config.judged) * len(config.sizes)
    assert all(piece.settings["kinds"] == ("gradient",) for piece in again)
    assert {piece.cores for piece in both if piece.job == "sweep"} == {4}
    assert {piece.cores for piece in both if piece.job in ("probe", "stream", "growth")} == {1}
    assert len(pieces(config, (4,))) == len(both) - len(again)
    assert {piece.job for piece in pieces(replace(config, parts=("probe",)), (1, 4))} == {"probe"}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"cells": ("lru",)}, "cells must be some of rnn, lstm, gru"),
        ({"parts": ()}, "parts must be some of"),
        ({"sizes": ((1, 2, 3, 0),)}, r"sizes\[0\].H"),
        ({"growth_T": (5, 5)}, "growth_T must name at least two"),
        ({"seconds": -1.0}, "seconds must be 0 or more"),
        ({"rounds": 0}, "rounds must be"),
    ],
)
def test_settings_that_cannot_be_run(wrong, message):
    with pytest.raises(ValueError, match=message):
        EXPERIMENT.check(replace(Config(), **wrong))


def test_claims_say_nothing_of_an_accelerator():
    """The targets are about cores."""
    gpu = {"place": "a GPU", "clock": "wall", "cores": 0}
    parts = [
        part({"seqjax": [1.0], "torch": [2.0]}, where=gpu),
        part({"seqjax": [1.0], "linen": [9.0]}, where=gpu, part="sweep"),
    ]
    assert EXPERIMENT.claims(Config(), joined(parts)) == []


@pytest.fixture
def one_core():
    """A process that measures on one core."""
    with worker(1) as ask:
        yield ask


def test_a_job_that_fails_is_shown(one_core, capfd):
    """The process answers from one core, and its traceback is not swallowed."""
    before = os.sched_getaffinity(0) if PINS else None
    with pytest.raises(RuntimeError, match="the measuring process stopped, code 1"):
        one_core("stream", cell="lstm", D=0, H=4, rounds=1, seconds=0)
    assert "D must be an integer of at least 1" in capfd.readouterr().err
    assert before is None or os.sched_getaffinity(0) == before


def test_libraries_by_name():
    """What is not installed is known without importing it."""
    assert absence("seqjax", "lstm") == absence("linen", "lstm") == ""
    assert absence("haiku", "rnn") in (ABSENT, "relu only")
    assert {"jax", "flax"} <= set(peers.versions())
