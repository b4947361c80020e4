"""Plans: how runs are laid out over cores and devices, and what that takes; what comes out never depends on it."""

import threading
import time
from dataclasses import replace
from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import seqjax
from seqjax.plan import Plan, plan_for, staffed
from seqjax.stopwatch import TIMES, covered, stopwatch
from seqjax.sweep import seed_keys
from seqjax.train import programs, release

RECIPE = seqjax.Recipe(
    seqjax.network(seqjax.rnn(), inputs="onehot"), seqjax.tasks.recall(length=3, alphabet=2), 4, updates=3, batch=2
)


@pytest.mark.parametrize("runs", [1, 5])
@pytest.mark.parametrize("plan", [Plan(workers=2), Plan(workers=3, together=2)], ids=str)
def test_workers_are_vmap(plan, runs):
    """Over trees and PRNG keys, whatever remains when the runs are shared out."""
    x, keys = jnp.arange(float(runs)), seed_keys(runs)[1]

    def function(a, key):
        return {"y": a * a, "key": jax.random.fold_in(key, 1), "draw": jax.random.uniform(key, 2)}

    got = staffed(function, plan)(x, keys)
    want = jax.vmap(function)(x, keys)
    chex.assert_trees_all_equal(got["y"], want["y"])
    chex.assert_trees_all_equal(got["draw"], want["draw"])
    chex.assert_trees_all_equal(jax.random.key_data(got["key"]), jax.random.key_data(want["key"]))


def test_workers_run_at_the_same_time():
    """Two runs that each wait until the other has begun."""
    barrier = threading.Barrier(2, timeout=60)

    def meet(x):
        barrier.wait()
        return x

    def function(x):
        return jax.pure_callback(meet, jax.ShapeDtypeStruct((), x.dtype), x)

    x = jnp.arange(2.0)
    np.testing.assert_array_equal(staffed(function, Plan(workers=2))(x), x)


def test_workers_compile_once():
    """One trace for all shares, and none when they run again."""
    traces = []

    def function(x):
        traces.append(1)
        return x + 1

    program = staffed(function, Plan(workers=2))
    program(jnp.arange(4.0))
    first = len(traces)
    program(jnp.arange(4.0))
    program(jnp.arange(3.0))  # shares of two, as before
    assert len(traces) == first


def test_a_failing_run_is_heard():
    """An error in a worker's thread is raised where the sweep was called."""

    def refuse(x):
        raise ArithmeticError("no such run")

    def function(x):
        return jax.pure_callback(refuse, jax.ShapeDtypeStruct((), x.dtype), x)

    with pytest.raises(Exception, match="no such run"):
        staffed(function, Plan(workers=2))(jnp.arange(2.0))


def pretend(monkeypatch, backend="cpu", processes=1, devices=1):
    """Another machine."""
    monkeypatch.setattr("os.sched_getaffinity", lambda process: range(4), raising=False)
    for name, value in {"default_backend": backend, "process_count": processes, "device_count": devices}.items():
        monkeypatch.setattr(jax, name, lambda value=value: value)


@pytest.mark.parametrize(
    ("backend", "processes", "devices", "runs", "plan"),
    [
        ("cpu", 1, 1, 16, Plan(workers=4)),
        ("cpu", 1, 1, 3, Plan(workers=3)),
        ("cpu", 1, 2, 16, Plan(devices=2)),
        ("cpu", 1, 2, 1, Plan()),
        ("gpu", 1, 1, 16, Plan(together=16)),
        ("gpu", 1, 2, 5, Plan(devices=2, together=3)),
        ("cpu", 2, 2, 1, Plan()),
        ("gpu", 2, 2, 5, Plan(devices=2, together=3)),
    ],
)
def test_rule(monkeypatch, backend, processes, devices, runs, plan):
    """Every core or device is used, none twice; accelerators vmap."""
    pretend(monkeypatch, backend, processes, devices)
    assert plan_for(runs) == plan


def test_every_process_has_a_share(monkeypatch):
    """A device at least, of the six that three have, unless there is one run, which each does for itself."""
    pretend(monkeypatch, processes=3, devices=6)
    assert [plan_for(runs).devices for runs in (1, 2, 4, 9)] == [1, 3, 4, 6]
    with pytest.raises(ValueError, match="some of each of 3 processes"):
        Plan(devices=2)


def test_failed_runs_stay_apart_among_workers():
    """One exploding learning rate of three; the others are as they are in a sweep where none fails."""
    recipe = replace(RECIPE, optimizer=lambda hyper: seqjax.adam(hyper["rate"]))
    run = partial(seqjax.train_many, recipe, seed_keys(3)[1], plan=Plan(workers=2))
    (states, history), (want, losses) = (run({"rate": jnp.array([3e-3, rate, 3e-3])}) for rate in (np.inf, 3e-3))
    assert [failed >= 0 for failed in states.failed_at.tolist()] == [False, True, False]
    got, want = (jax.tree.map(lambda a: a[::2], each) for each in ((states.params, history), (want.params, losses)))
    chex.assert_trees_all_equal(got, want)


def test_a_sweep_says_what_it_took():
    """Its first call compiles, its second does not; by which plan; the variables are the same."""
    first, second = (seqjax.sweep_recipe(RECIPE, seeds=2, examples=5, plan=Plan(workers=2)) for _ in range(2))
    assert first.equals(second)
    assert first.attrs["plan"] == "Plan(devices=1, together=1, workers=2, shards=1)"
    assert first.attrs["compile_seconds"] > 10 * second.attrs["compile_seconds"]
    assert all(found.attrs["run_seconds"] > 0 for found in (first, second))
    assert set(first.attrs) == {"plan", *TIMES}


def test_programs_are_let_go_where_they_are_many(monkeypatch, tmp_path):
    """Which changes no number; not before, and not where nothing counts them."""
    count, limit = tmp_path / "maps", tmp_path / "most"
    monkeypatch.setattr(release, "MAPS", count)
    monkeypatch.setattr(release, "MOST", limit)
    run = partial(seqjax.sweep, lambda hidden: replace(RECIPE, hidden=hidden), static={"hidden": [2, 3]}, seeds=2)
    run = partial(run, examples=5, plan=Plan(workers=2))
    want = run()
    assert not release.release()
    limit.write_text("30\n")
    count.write_bytes(b"a piece\n" * 10)
    assert not release.release()
    held = programs.cache_info().currsize
    assert held >= 2
    count.write_bytes(b"a piece\n" * 11)
    again = run()
    assert programs.cache_info().currsize == 0
    assert want.equals(again)
    assert release.release()


def test_a_sweep_of_sweeps_adds_up(tmp_path):
    """Over static axes; the attributes are plain enough for netCDF."""
    import xarray as xr

    found = seqjax.sweep(lambda name: RECIPE, static={"name": ["a", "b"]}, seeds=2, examples=5, plan=Plan(workers=2))
    found.to_netcdf(tmp_path / "found.nc", engine="netcdf4")
    assert xr.load_dataset(tmp_path / "found.nc").attrs == found.attrs
    assert set(found.attrs) == {"plan", *TIMES}


def test_spans_count_once():
    """Nested, overlapping, apart and empty."""
    assert covered([(0.0, 4.0), (1.0, 2.0), (3.0, 5.0), (7.0, 8.0)]) == 6.0
    assert covered([]) == 0.0


def test_a_stopwatch_tells_compiling_from_running():
    """And stops when its block ends."""
    with stopwatch() as taken:
        jax.jit(lambda x: jnp.sin(x) + 41)(1.0)
        time.sleep(0.2)
    before = dict(taken)
    jax.jit(lambda x: jnp.sin(x) + 43)(1.0)
    assert taken == before
    assert taken["compile_seconds"] > 0
    assert taken["run_seconds"] > 0.15
