"""The README says what is true: its Python runs, its commands are those of CI, its pictures exist."""

import csv
import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from conftest import UNOPTIMISED

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
BASH = re.findall(r"```bash\n(.*?)```", README, flags=re.DOTALL)


def test_python_blocks_run():
    """Each with names of its own, as a newcomer would paste it, but compiled quickly, and in one process, which imports
    once; PyTorch's needs the extra `torch`."""
    known = [block for block in PYTHON if find_spec("torch") or "import torch\n" not in block]
    known.sort(key=lambda block: "jax_num_cpu_devices" not in block)  # which has to come before anything runs
    assert len(known) >= len(PYTHON) - 1
    each = [
        f"exec(compile({block!r}, 'block {at} of the README', 'exec'), {{'__name__': '__main__'}})"
        for at, block in enumerate(known)
    ]
    command, env = [sys.executable, "-c", "\n".join(each)], os.environ | UNOPTIMISED
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=env)
    assert done.returncode == 0, done.stderr


def test_the_tutorial_on_events_runs(tmp_path):
    """Its commands one after the other, on fewer customers, with a smaller network and fewer rounds."""
    (block,) = re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL)
    small = block.replace("--sequences 2000", "--sequences 60").replace("--compare", "--hidden 4 --seeds 1 --rounds 2")
    assert small.count("--sequences 60") == small.count("--rounds 2") == 1
    small = small.replace(".venv/bin/", f"{Path(sys.executable).parent}/")
    env = os.environ | UNOPTIMISED | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-ec", small], capture_output=True, text=True, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "churn-fit" / "page.html").stat().st_size > 10_000
    events = (tmp_path / "new.jsonl").read_text().splitlines()
    answers = [json.loads(line) for line in done.stdout.splitlines()[-len(events) :]]
    assert all("prediction" in answer for answer in answers)
    last = {answer["customer"]: answer["probabilities"] for answer in answers}
    with (tmp_path / "answers.csv").open() as file:
        for row in csv.DictReader(file):
            for name, value in last[row["customer"]].items():
                assert abs(float(row[f"probability_{name}"]) - value) < 1e-5


def test_the_library_example_is_short():
    """15 lines of code."""
    assert len([line for line in PYTHON[0].splitlines() if line]) <= 15


def test_two_commands_of_one_line_each():
    """From a bare interpreter with venv and pip: one runs the experiments, one the tests."""
    assert [block.count("\n") for block in BASH] == [1, 1]
    assert all(block.startswith("python3 -m venv .venv && .venv/bin/pip install '.[") for block in BASH)
    assert "python -m experiments run recall horizon vowels" in BASH[0]
    assert "python -m pytest" in BASH[1]


def test_ci_reads_its_command_from_the_readme():
    """The marker that `.ci/run` looks for stands before the test command, once."""
    assert README.count("<!-- test command -->\n```bash\n" + BASH[1]) == 1
    assert "<!-- test command -->" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_pictures_exist():
    """Every local image."""
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README)
    assert pictures
    for picture in pictures:
        assert (ROOT / picture).is_file(), picture


def test_files_it_names_exist():
    """Every path in code font that looks like a file of this tree."""
    for path in re.findall(r"`((?:seqjax|experiments|tests|\.ci)/[\w./]*)`", README):
        assert (ROOT / path).exists(), path
