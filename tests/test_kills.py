"""A sweep that is killed again and again, at random moments: nothing finished is lost, nothing is ever unreadable, and
the result is, bit for bit, that of the run that nothing interrupts.

    python -m pytest -m slow tests/test_kills.py -s        # 50 kills, about 10 minutes; prints what it found
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import xarray as xr
from conftest import UNOPTIMISED

ROOT = Path(__file__).parent.parent
SWEEP = (
    *("run", "recall", "--cells", "rnn", "--lengths", "2", "3", "4", "--updates", "2000", "--hidden", "4"),
    *("--batch", "4", "--examples", "20", "--seeds", "3", "--checkpoint-minutes", "0"),
)


def begun(out, programs):
    """The sweep, started; compiled programs are kept on disk, so that a run is not all compiling."""
    cache = {"JAX_COMPILATION_CACHE_DIR": str(programs), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    command = [sys.executable, "-m", "experiments", *SWEEP, "--out", str(out)]
    return subprocess.Popen(
        command, cwd=ROOT, env=os.environ | UNOPTIMISED | cache, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def finished(out):
    """What is stored of every finished piece, which can be read."""
    found = {}
    for path in (out / "recall" / "points").glob("[!.]*.nc"):
        with xr.open_dataset(path, engine="netcdf4") as dataset:
            found[path.name] = dataset.load().drop_attrs()
    return found


def killed(kills, tmp_path, seed):
    """Kill the sweep so many times, between the moment it can have done something and that at which it would end, and
    look each time; then let it end. How often it was caught in the middle of a piece that it had saved."""
    draw, caught = random.Random(seed), 0
    whole = begun(tmp_path / "whole", tmp_path / "programs")
    began = time.monotonic()
    assert whole.wait() == 0, whole.stdout.read().decode()
    patience, before, done = time.monotonic() - began, {}, 0
    while done < kills:
        process = begun(tmp_path / "killed", tmp_path / "programs")
        try:
            assert process.wait(draw.uniform(0, patience)) == 0, process.stdout.read().decode()
            for path in (tmp_path / "killed" / "recall").glob("*"):  # it came to its end: all over again
                subprocess.run(["rm", "-r", str(path)], check=True)
            before = {}
            continue
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            done += 1
        after = finished(tmp_path / "killed")
        assert all(before[name].identical(after.get(name)) for name in before)
        before = after
        caught += any((tmp_path / "killed").glob("recall/points/*.checkpoints/[0-9]*"))
    last = begun(tmp_path / "killed", tmp_path / "programs")
    assert last.wait() == 0, last.stdout.read().decode()
    assert "Warning" not in last.stdout.read().decode()
    want, got = finished(tmp_path / "whole"), finished(tmp_path / "killed")
    assert len(want) == 3
    assert all(want[name].identical(got.get(name)) for name in want)
    assert not list((tmp_path / "killed").rglob("*.part*"))
    return caught


def test_three_kills(tmp_path):
    """The short form."""
    killed(3, tmp_path, seed=0)


@pytest.mark.slow
def test_fifty_kills(tmp_path):
    """The long form."""
    caught = killed(50, tmp_path, seed=1)
    print(f"\n50 kills, {caught} with a checkpoint of the piece in flight; every result is bit for bit the same")
    assert caught > 5
