"""The architecture, proven: layers import downwards only, pieces stay small, and importing stays cheap."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "seqjax"
RANKS = {
    0: (
        "core",
        "dense",
        "sequences",
        "losses",
        "plan",
        "processes",
        "statistics",
        "stopwatch",
        "jaxprs",
        "arguments",
        "aside",
        "versions",
    ),
    1: ("checkpoint", "gated", "dropout", "gradients", "horizon", "pairs", "parallel", "progress", "spectrum", "sweep"),
    2: ("body", "cells", "clipping", "conv", "events", "filters", "init", "tasks", "unroll"),
    3: ("stack", "adjoints", "superposition"),
    4: ("jacobian", "layerwise", "network", "deep", "bptt", "interop"),
    5: ("bodies", "cost", "lyapunov", "streaming", "profile", "sensitivity"),
    6: ("seq2seq",),
    7: ("train",),
    8: ("report", "survey", "remedies", "model"),
    9: ("fit", "serving", "pair_survey"),
    10: ("cli",),
}
RANK = {name: rank for rank, names in RANKS.items() for name in names}
LIBRARY = sorted(PACKAGE.rglob("*.py"))
SOURCES = LIBRARY + sorted((ROOT / "experiments").rglob("*.py"))
HEAVY = (
    "matplotlib",
    "xarray",
    "tyro",
    "rich",
    "torch",
    "sklearn",
    "orbax",
    "flax",
    "netCDF4",
    "scipy.stats",
    "aeon",
    "polars",
)


def unit(path):
    """The module or subpackage a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def label(path):
    """A test's name."""
    return str(path.relative_to(ROOT))


def imports(path):
    """Modules of this project that a file imports, wherever the statement stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            yield node.module


def functions(path):
    """Every function and class of a file."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, kinds)]


@pytest.mark.parametrize("path", [p for p in LIBRARY if p != PACKAGE / "__init__.py"], ids=label)
def test_imports_point_down(path):
    """A file imports from strictly lower ranks, or from its own subpackage; the library knows no experiment."""
    for module in imports(path):
        head, *rest = module.split(".")
        assert head != "experiments"
        if head == "seqjax":
            assert rest, f"{path.name} imports the package itself"
            assert rest[0] == unit(path) or RANK[rest[0]] < RANK[unit(path)], f"{label(path)} imports {module}"


def test_every_module_has_a_rank():
    """And every rank's module exists."""
    assert {unit(path) for path in LIBRARY} - {"__init__"} == set(RANK)


@pytest.mark.parametrize("path", SOURCES, ids=label)
def test_pieces_stay_small(path):
    """Files under 250 lines, functions at most 40."""
    assert len(path.read_text(encoding="utf-8").splitlines()) < 250
    for node in functions(path):
        if not isinstance(node, ast.ClassDef):
            assert node.end_lineno - node.lineno < 40, f"{label(path)}: {node.name}"


@pytest.mark.parametrize("path", SOURCES, ids=label)
def test_docstrings(path):
    """Every module, and every function and class whose name is public and which is not inside a function."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), label(path)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    public = [tree, *classes]
    for node in (child for parent in public for child in parent.body):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{label(path)}: {node.name}"


@pytest.mark.parametrize("path", sorted((PACKAGE / "cells").glob("[a-z]*.py")), ids=label)
def test_a_cell_family_fits_on_a_page(path):
    """A family's file within 150 lines, a cell's state and equation within 60 lines of code."""
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    for node in functions(path):
        assert node.end_lineno - node.lineno < 60, node.name


@pytest.mark.parametrize("family", ["rnn", "lstm", "gru", "mgu", "mingru"])
def test_a_cell_is_short(family):
    """State and equation within 60 lines."""
    assert len((PACKAGE / "cells" / f"{family}.py").read_text(encoding="utf-8").splitlines()) <= 60


def test_top_of_the_tree():
    """Only what belongs there is tracked."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True)
    tops = {line.split("/")[0] for line in listed.stdout.splitlines() if not line.startswith(".")}
    assert tops <= {"seqjax", "experiments", "tests", "pyproject.toml", "README.md", "LICENSE"}


def test_import_is_light():
    """`import seqjax` brings in nothing heavy, and takes under a second of processor time beyond jax."""
    code = f"""
import sys, time, jax
began = time.process_time()
import seqjax
took = time.process_time() - began
heavy = [name for name in {HEAVY!r} if name in sys.modules]
assert not heavy, heavy
assert took < 1, took
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_names_that_scripts_rely_on():
    """Functions, not the modules of the same name."""
    import seqjax

    for name in ("rnn", "lstm", "gru", "unroll", "network", "train", "sweep", "horizon", "streaming"):
        assert callable(getattr(seqjax, name)), name
