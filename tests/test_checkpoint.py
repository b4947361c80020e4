"""Checkpoints: a killed run goes on to the same numbers, and nothing else is ever taken for it."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import seqjax
from seqjax.checkpoint import Checkpoints, opened, reading, restored
from seqjax.plan import Plan
from seqjax.sweep import seed_keys

RECIPE = seqjax.Recipe(
    seqjax.network(seqjax.gru(), inputs="onehot"),
    seqjax.tasks.recall(length=3, alphabet=2),
    hidden=3,
    updates=230,
    batch=2,
    optimizer=lambda hyper: seqjax.adam(hyper["learning_rate"]),
)
KEYS, HYPER = seed_keys(3)[1], {"learning_rate": jnp.array([1e-2, 3e38, 1e-2])}  # the second run explodes
OFTEN = {"updates": 1, "minutes": None}
TREE = {"a": jnp.arange(3.0), "b": (jnp.int32(7), jax.random.key(5)), "c": jnp.float32(16777216)}


class Killed(Exception):
    """Stands for the end of a process."""


def until(stop):
    """A progress function that ends the run there."""

    def show(done, total, history):
        if done >= stop:
            raise Killed

    return show


def train(folder, **options):
    """The recipe, saved after every chunk."""
    recipe = options.pop("recipe", RECIPE)
    keys, hyper = options.pop("keys", KEYS), options.pop("hyper", HYPER)
    return seqjax.train_many(recipe, keys, hyper, checkpoints=Checkpoints(folder, **OFTEN), **options)


def saved(folder, tree, step=1, about=None, **options):
    """A tree on disk."""
    with opened(Checkpoints(folder, **options), about or {"kind": "toy"}) as saver:
        saver.save(step, tree, loss=0.0)


@pytest.fixture(scope="module")
def whole():
    """The run that nothing interrupts."""
    return seqjax.train_many(RECIPE, KEYS, HYPER)


@pytest.fixture(scope="module")
def one_update(tmp_path_factory):
    """A folder with a checkpoint of one update."""
    folder = tmp_path_factory.mktemp("one")
    train(folder, recipe=replace(RECIPE, updates=1))
    return folder


def test_a_killed_run_goes_on_to_the_same_bits(tmp_path, whole):
    """Params, optimiser, keys, history and a run that had failed, from whichever chunk; a finished one is read back."""
    for stop in (100, 200, 230):
        with pytest.raises(Killed):
            train(tmp_path, progress=until(stop))
    chex.assert_trees_all_equal(train(tmp_path), whole, strict=True)
    chex.assert_trees_all_equal(train(tmp_path, progress=until(0)), whole, strict=True)
    assert whole[0].failed_at.tolist()[1] >= 0


def test_what_several_devices_saved_opens_on_one(tmp_path, whole):
    """To rounding, as the plans agree."""
    with pytest.raises(Killed):
        train(tmp_path, plan=Plan(devices=2), progress=until(200))
    chex.assert_trees_all_close(train(tmp_path, plan=Plan())[0].params, whole[0].params, atol=1e-6)


def test_a_run_can_be_made_longer_and_not_shorter(tmp_path, whole):
    """It goes on from where it was; fewer updates than it has done are refused."""
    train(tmp_path, recipe=replace(RECIPE, updates=100))
    chex.assert_trees_all_equal(train(tmp_path), whole, strict=True)
    with pytest.raises(ValueError, match="updates must be at least 230"):
        train(tmp_path, recipe=replace(RECIPE, updates=120))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"recipe": replace(RECIPE, hidden=4)}, "hidden 3, this one has 4"),
        ({"recipe": replace(RECIPE, network=seqjax.network(seqjax.mgu(), inputs="onehot"))}, "cell 'gru'"),
        ({"recipe": replace(RECIPE, window=2)}, "window None, this one has 2"),
        ({"keys": seed_keys([0, 1, 7])[1]}, "keys"),
        ({"hyper": {"learning_rate": jnp.array([1e-2, 3e38, 2e-2])}}, "hyper"),
        (
            {"recipe": replace(RECIPE, optimizer=lambda hyper: optax.sgd(hyper["learning_rate"], momentum=0.9))},
            r"holds nothing as 0.opt_state.0.trace.body.0.forward.W_ih, and float32 \[3, 9, 2\] is asked for",
        ),
    ],
    ids=["hidden", "cell", "window", "seeds", "hyperparameters", "optimizer"],
)
def test_another_run_is_refused(one_update, change, message):
    """By the first thing that differs; what is there stays as it is."""
    before = {path: path.stat().st_mtime_ns for path in one_update.rglob("*")}
    with pytest.raises(ValueError, match=message):
        train(one_update, **{"recipe": replace(RECIPE, updates=1)} | change)
    assert {path: path.stat().st_mtime_ns for path in one_update.rglob("*")} == before


@pytest.mark.parametrize(
    ("like", "message"),
    [
        (TREE | {"c": jnp.int32(0)}, r"float32 \[\] as c, and int32 \[\] is asked"),
        (TREE | {"a": jnp.zeros(4)}, r"float64 \[3\] as a, and float64 \[4\]"),
        (TREE | {"d": jnp.zeros(())}, "nothing as d"),
        ({"a": TREE["a"], "b": TREE["b"]}, r"float32 \[\] as c, and nothing"),
        (TREE | {"b": list(TREE["b"])[:1]}, "as b.1, and nothing"),
    ],
)
def test_a_template_decides(tmp_path, like, message):
    """orbax would cast 16777217 to 16777216 and call a tuple a list: here a leaf that differs is named."""
    saved(tmp_path, TREE)
    with reading(tmp_path) as manager:
        chex.assert_trees_all_equal(jax.tree.map(jnp.asarray, restored(manager, 1, TREE)), TREE, strict=True)
        with pytest.raises(ValueError, match=message):
            restored(manager, 1, like)


def test_another_format_is_refused(tmp_path):
    """By its number."""
    saved(tmp_path, TREE)
    file = next(tmp_path.glob("1/about/*"))
    (path,) = [path for path in tmp_path.glob("1/about/*") if path.read_text().startswith("{")]
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))
    with reading(tmp_path) as manager, pytest.raises(ValueError, match="has format 99"):
        restored(manager, 1, TREE)
    assert file.exists()


def emptied(folder):
    """What it says of the run is gone."""
    for path in folder.glob("about/*"):
        path.write_text("")


def halved(folder):
    """Its largest file is cut."""
    path = max((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("damage", [emptied, halved, lambda folder: shutil.rmtree(folder / "tree")])
def test_a_damaged_one_is_named(tmp_path, damage):
    """And what to do about it, in one line."""
    saved(tmp_path, {"a": jnp.asarray(np.random.default_rng(0).normal(size=5000))})
    damage(tmp_path / "1")
    with reading(tmp_path) as manager, pytest.raises(ValueError, match=r"/1 is not as it was saved .*: remove") as told:
        restored(manager, 1, {"a": jnp.zeros(5000)})
    assert "\n" not in str(told.value)


def test_the_last_ones_and_the_best_are_kept(tmp_path):
    """The best is the one of the lowest loss; one that is not finite is no best."""
    with opened(Checkpoints(tmp_path, keep=2), {}) as saver:
        for step, loss in enumerate([3.0, 1.0, 2.0, float("nan"), 5.0]):
            saver.save(step, TREE, loss=loss)
    assert sorted(int(path.name) for path in tmp_path.iterdir()) == [1, 3, 4]


def test_what_is_not_whole_is_not_there(tmp_path):
    """A step that a killed process was writing."""
    saved(tmp_path, TREE, step=5)
    (tmp_path / "7.orbax-checkpoint-tmp" / "tree").mkdir(parents=True)
    with opened(Checkpoints(tmp_path), {"kind": "toy"}) as saver:
        assert saver.latest() == 5
        chex.assert_trees_all_equal(saver.restore(5, TREE)["a"], np.asarray(TREE["a"]))


def test_when_a_save_is_due(tmp_path):
    """After so many updates, or minutes, or never before the end."""
    with opened(Checkpoints(tmp_path, updates=10, minutes=None), {}) as saver:
        assert [saver.due(step) for step in (1, 9, 10, 11)] == [False, False, True, True]
        saver.save(10, TREE, loss=1.0)
        assert [saver.due(step) for step in (11, 20)] == [False, True]
    for minutes, due in ((0, True), (60, False), (None, False)):
        with opened(Checkpoints(tmp_path, minutes=minutes), {}) as saver:
            assert saver.due(1) is due


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"updates": 0}, "updates"),
        ({"keep": 0}, "keep"),
        ({"minutes": -1}, "minutes"),
        ({"minutes": np.nan}, "minutes"),
    ],
)
def test_bad_options(options, message):
    """Named."""
    with pytest.raises(ValueError, match=message):
        Checkpoints("folder", **options)


def test_no_checkpoints(tmp_path):
    """A folder of other things."""
    (tmp_path / "3").mkdir()
    with pytest.raises(ValueError, match="holds no checkpoints"), reading(tmp_path):
        pass


def test_unwritable_folder(tmp_path):
    """A file where the folder should be: the training does not begin."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="checkpoints cannot be written to"):
        train(tmp_path / "file" / "run")


FULL = """
import resource, signal, sys
import jax.numpy as jnp
from seqjax.checkpoint import Checkpoints, opened
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
tree = {"a": jnp.arange(300_000.0)}
with opened(Checkpoints(sys.argv[1]), {}) as saver:
    saver.save(1, {"a": jnp.arange(3.0)}, loss=1.0)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    with opened(Checkpoints(sys.argv[1]), {}) as saver:
        saver.save(2, tree, loss=1.0)
except ValueError as error:
    print(error)
"""


def test_a_full_disk(tmp_path):
    """Here a limit on the size of files: the error of the save that ran beside the training is raised, in one line, and
    what was saved before is there."""
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True)
    assert done.stdout.startswith("checkpoints cannot be written to"), done.stderr
    assert len(done.stdout.splitlines()) == 1
    with reading(tmp_path) as manager:
        assert manager.latest_step() == 1
