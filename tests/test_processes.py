"""Many processes as one program: real ones, on this machine, and what they compute equals what one process does."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest
import xarray as xr
from conftest import UNOPTIMISED

from experiments.__main__ import main
from seqjax.processes import fetch, first, join, require_of_first, require_same, share
from seqjax.progress import progress_bar

ROOT = Path(__file__).parent.parent
TINY = ("--updates", 3, "--hidden", 4, "--examples", 20, "--seeds", 3, "--cells", "rnn", "--lengths", 2)
CLUSTER = ("SLURM_", "OMPI_", "KUBERNETES_", "JAX_", "TPU_")


def start(*args, **variables):
    """A Python process, in an environment of no cluster but that of the variables."""
    plain = {name: value for name, value in os.environ.items() if not name.upper().startswith(CLUSTER)} | UNOPTIMISED
    env = {name: value for name, value in plain.items() if not name.lower().endswith("_proxy")}
    return subprocess.Popen(
        [sys.executable, *map(str, args)], cwd=ROOT, env=env | variables, stdout=-1, stderr=-1, text=True
    )


def command(*args, **variables):
    """`python -m experiments run recall`."""
    return start("-m", "experiments", "run", "recall", *args, **variables)


def member(port, number, count=2):
    """The arguments of one of many on this machine."""
    return "--processes", count, "--process", number, "--coordinator", f"localhost:{port}"


def ended(process):
    """Exit code, standard output and standard error."""
    try:
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    return process.returncode, out, err


def free_port():
    """A port at which nobody listens."""
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return listener.getsockname()[1]


def stored(out, name):
    """The one dataset of a name."""
    (path,) = (out / "recall").glob(name)
    return xr.load_dataset(path, engine="netcdf4")


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A folder, and what two processes that share a run there, as Slurm starts them, come to."""
    out = tmp_path_factory.mktemp("runs")
    slurm = {"JOB_ID": "1", "STEP_NODELIST": "localhost", "NTASKS": "2"}
    shared = {f"SLURM_{name}": value for name, value in slurm.items()} | {"JAX_COORDINATOR_PORT": str(free_port())}
    own = [{f"SLURM_{name}": str(number) for name in ("PROCID", "LOCALID")} for number in range(2)]
    args = (*TINY, "--processes", "auto", "--out")
    both = [command(*args, out / str(number), **shared, **own[number]) for number in range(2)]
    return out, *(ended(process) for process in both)


def test_the_first_of_two_processes_prints_and_writes(two):
    """And nothing but what a single process prints."""
    out, (code, said, complaint), other = two
    assert (code, complaint) == (0, "")
    assert said.splitlines()[0].startswith("recall: ")
    assert said.splitlines()[-1].startswith("All results: ")
    assert "Gloo" not in said
    assert other == (0, "", "")
    assert [path.name for path in out.iterdir()] == ["0"]


def test_two_processes_store_what_one_does(two, tmp_path):
    """Three seeds over all devices of two processes, in float32."""
    code, _, complaint = ended(command(*TINY, "--out", tmp_path))
    assert code == 0, complaint
    found, want = (stored(out, "*/result.nc") for out in (two[0] / "0", tmp_path))
    assert found.sizes["seed"] == 3
    xr.testing.assert_allclose(found, want, rtol=1e-6)


def test_a_lost_process_ends_the_others_and_loses_no_finished_piece(two):
    """One of two is killed in the second piece, after both have been given the first by process 0."""
    port, out = free_port(), two[0] / "0"
    settings = ("--lengths", 2, 3, "--heartbeat", 10, "--out", out)
    both = [command(*TINY, *settings, *member(port, number)) for number in range(2)]
    assert both[0].stdout.readline().startswith("recall: ")
    both[1].kill()
    killed = time.monotonic()
    code, _, complaint = ended(both[0])
    assert time.monotonic() - killed < 40
    assert ended(both[1])[0] == -9
    assert code not in (0, 2)
    assert "another" in complaint
    assert stored(out, "points/*.nc").equals(stored(out, "*/result.nc").squeeze(drop=True))


def test_what_processes_share_agree_on_and_lay_out():
    """In `member.py`, by two processes of one and of three devices."""
    port = free_port()
    both = [start("tests/member.py", number, port) for number in range(2)]
    for process in both:
        code, _, err = ended(process)
        assert code == 0, err


def test_processes_that_do_not_meet():
    """Exit code 2 and one line, which names the address where there is one."""
    port = free_port()
    alone, nowhere = command(*member(port, 1), "--timeout", 1), command("--processes", "auto")
    for process, message in ((alone, f"localhost:{port} within 1 s"), (nowhere, "found no Slurm, Open MPI")):
        code, out, err = ended(process)
        assert (code, out) == (2, "")
        assert message in err
        assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (member(1234, 2), "number of this one of 2"),
        (member(1234, -1), "number of this one of 2"),
        (member(1234, 0, 0), "count of at least 1"),
        (("--processes", 2, "--process", 0), "'host:port'"),
        (("--processes", 2, "--process", 0, "--coordinator", "localhost"), "'host:port'"),
        (("--processes", "auto", "--process", 0), "leave them out"),
        (("--process", 0), "go with --processes"),
    ],
)
def test_bad_calls(tmp_path, monkeypatch, args, message):
    """Refused before anything is waited for."""
    monkeypatch.setattr("experiments.__main__.use_every_core", lambda: None)
    with pytest.raises(ValueError, match=message):
        main(["run", "recall", *map(str, args), "--out", str(tmp_path / "runs")])
    assert not (tmp_path / "runs").exists()


def test_a_report_is_written_by_one_process(tmp_path):
    """It computes nothing."""
    with pytest.raises(ValueError, match="--processes"):
        main(["report", "--processes", "auto", "--out", str(tmp_path / "runs")])


def test_one_process_is_the_first_and_has_all():
    """Nothing is sent."""
    assert first()
    assert share(b"all") == b"all"
    assert share(None) == b""
    require_same("arguments", "any")
    x = jax.numpy.arange(3.0)
    assert fetch({"x": x, "y": 2})["x"].tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="mine"):
        require_of_first(lambda: join("mine"))


@pytest.mark.parametrize("number", [0, 1])
def test_the_first_alone_shows_a_bar(monkeypatch, capsys, number):
    """On a terminal."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(jax, "process_index", lambda: number)
    with progress_bar("training") as show:
        show(1, 2, SimpleNamespace(loss=np.array([[0.5]]), score=np.array([[0.25]])))
    assert ("training" in capsys.readouterr().err) == (number == 0)
