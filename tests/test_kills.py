"""A sweep that is killed again and again, at random moments: nothing finished is lost, nothing is ever unreadable, and
the result is, bit for bit, that of the run that nothing interrupts.

    python -m pytest -m slow tests/test_kills.py -s -o faulthandler_timeout=0    # 50 kills, 14 minutes
"""

import os
import random
import shutil
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
    with out.with_suffix(".log").open("wb") as log:
        return subprocess.Popen(command, cwd=ROOT, env=os.environ | UNOPTIMISED | cache, stdout=log, stderr=log)


def said(out):
    """What the last one printed."""
    return out.with_suffix(".log").read_text(encoding="utf-8")


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
    whole, out, began = tmp_path / "whole", tmp_path / "killed", time.monotonic()
    assert begun(whole, tmp_path / "programs").wait() == 0, said(whole)
    patience, before, done = time.monotonic() - began, {}, 0
    while done < kills:
        process = begun(out, tmp_path / "programs")
        try:
            assert process.wait(draw.uniform(0, patience)) == 0, said(out)
            shutil.rmtree(out)  # it came to its end: all over again
            before = {}
            continue
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            done += 1
        after = finished(out)
        assert all(before[name].identical(after.get(name)) for name in before)
        before = after
        caught += any(out.glob("recall/points/*.checkpoints/[0-9]*"))
    assert begun(out, tmp_path / "programs").wait() == 0, said(out)
    assert "Warning" not in said(out)
    want, got = finished(whole), finished(out)
    assert len(want) == 3
    assert all(want[name].identical(got.get(name)) for name in want)
    return caught


def test_one_kill(tmp_path):
    """The short form."""
    killed(1, tmp_path, seed=0)


@pytest.mark.slow
def test_fifty_kills(tmp_path):
    """The long form."""
    caught = killed(50, tmp_path, seed=1)
    print(f"\n50 kills, {caught} with a checkpoint of the piece in flight; every result is bit for bit the same")
    assert caught > 5
