"""Results on disk: never half there, never silently wrong; and the page that shows them."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
import xarray as xr

from seqjax.aside import aside
from seqjax.report import Claim, Experiment, read_runs, require_writable, run_experiment, write_page
from seqjax.report.points import Points
from seqjax.report.style import panels

COMPUTED = []


@dataclass(frozen=True)
class Config:
    """Settings of a toy experiment."""

    seeds: int = 2
    size: int = 3


def measure(config, point):
    """Two pieces of work."""

    def piece(i):
        COMPUTED.append(i)
        return xr.Dataset({"x": ("seed", np.arange(config.seeds) + i)})

    return xr.concat([point(lambda i=i: piece(i), i=i, seeds=config.seeds) for i in range(2)], "i")


def claims(config, dataset):
    """One that holds, one that the source got wrong."""
    return [
        Claim("X1", "x < 1 & y", "yes", "yes", "none", True),
        Claim("X2", "wrong in the source", "1", "2", "none", False, refuted=True, note="it is 2"),
    ]


def draw(config, dataset):
    """A line."""
    figure, (axes,) = panels(1)
    axes.plot(dataset.x.values.T)
    return figure


def check(config):
    """Sizes of at least 1."""
    if config.size < 1:
        raise ValueError("size must be at least 1")


def table(config, dataset):
    """One row."""
    return [{"a<b": "1"}]


TOY = Experiment("toy", "A <toy>", Config, {"size": 1}, measure, claims, table, draw, check)


@pytest.fixture
def computed():
    """The pieces computed since the test began."""
    COMPUTED.clear()
    return COMPUTED


def test_a_run_writes_everything_and_a_second_reuses_it(tmp_path, computed):
    """Seven files; finished pieces are read back; the result is the same."""
    run = run_experiment(TOY, Config(), tmp_path)
    assert sorted(path.name for path in run.folder.iterdir()) == [
        "claims.json",
        "config.json",
        "environment.json",
        "figure.png",
        "figure.svg",
        "result.nc",
        "table.json",
    ]
    assert [claim.verdict for claim in run.claims] == ["holds", "refuted"]
    assert json.loads((run.folder / "config.json").read_text()) == {"seeds": 2, "size": 3}
    first = xr.load_dataset(run.folder / "result.nc")
    again = run_experiment(TOY, Config(), tmp_path)
    assert again.folder == run.folder
    assert again.environment["seconds"] == run.environment["seconds"]
    assert computed == [0, 1]
    xr.testing.assert_identical(first, xr.load_dataset(run.folder / "result.nc"))
    assert not list(tmp_path.rglob(".*"))


def test_a_killed_run_keeps_its_finished_pieces(tmp_path, computed):
    """An exception in the second piece loses that piece alone, and leaves no folder."""

    def interrupted(config, point):
        point(lambda: computed.append(0) or xr.Dataset({"x": ("seed", np.arange(2))}), i=0, seeds=2)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(replace(TOY, run=interrupted), Config(), tmp_path)
    assert read_runs(tmp_path) == []
    run_experiment(TOY, Config(), tmp_path)
    assert computed == [0, 1]


@pytest.mark.parametrize("damage", [b"", b"\x89HDF\r\n\x1a\n", b"junk"], ids=["empty", "header", "junk"])
def test_a_damaged_piece_is_computed_again_with_a_warning(tmp_path, computed, damage):
    """Truncated at any place."""
    run_experiment(TOY, Config(), tmp_path)
    victim = sorted((tmp_path / "toy" / "points").iterdir())[0]
    victim.write_bytes(damage)
    with pytest.warns(UserWarning, match="computed again"):
        run_experiment(TOY, Config(), tmp_path)
    assert len(computed) == 3


def test_a_folder_in_place_of_a_piece_is_replaced_with_a_warning(tmp_path, computed):
    """And so is a readable dataset that no run wrote."""
    run_experiment(TOY, Config(), tmp_path)
    first, second = sorted((tmp_path / "toy" / "points").iterdir())
    first.unlink()
    first.mkdir()
    xr.Dataset().to_netcdf(second, engine="netcdf4")
    with pytest.warns(UserWarning, match="computed again"):
        run_experiment(TOY, Config(), tmp_path)
    assert len(computed) == 4


def test_writing_aside_keeps_the_old_until_the_new_is_whole(tmp_path):
    """A failure half-way changes nothing and leaves no draft."""
    path = tmp_path / "file"
    path.write_text("old")

    def fail():
        with aside(path) as draft:
            draft.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_half_a_run_folder_is_left_out_with_a_warning(tmp_path):
    """Missing files and broken JSON are named, and the page is still written."""
    folder = run_experiment(TOY, Config(), tmp_path).folder
    other = run_experiment(TOY, Config(size=2), tmp_path).folder
    for name, content in (
        ("environment.json", "{}"),
        ("config.json", "[1]"),
        ("table.json", "[1]"),
        ("claims.json", "[{"),
    ):
        kept = (folder / name).read_text()
        (folder / name).write_text(content)
        with pytest.warns(UserWarning, match="left out"):
            assert [run.folder for run in read_runs(tmp_path)] == [other]
        (folder / name).write_text(kept)
    (folder / "claims.json").write_text("[{")
    with pytest.warns(UserWarning, match="left out"):
        assert [run.folder for run in read_runs(tmp_path)] == [other]
    (folder / "claims.json").unlink()
    with pytest.warns(UserWarning, match=r"claims.json missing"):
        write_page({"toy": TOY}, tmp_path)


def test_the_page_is_self_contained_and_escaped(tmp_path):
    """One file, no address to fetch, text from results shown as text, newest first."""
    run_experiment(TOY, Config(), tmp_path)
    newest = run_experiment(TOY, Config(size=2), tmp_path).folder
    page = write_page({"toy": TOY}, tmp_path).read_text()
    assert "x &lt; 1 &amp; y" in page
    assert "A &lt;toy&gt;" in page
    assert "a&lt;b" in page
    assert page.count("<article") == 2
    assert page.index(f'id="toy-{newest.name}"') < page.index("settings and versions")
    assert 'src="http' not in page
    assert 'href="http' not in page
    assert page.count("data:image/svg+xml;base64,") == 2


def test_an_empty_folder_gives_a_page_that_says_so(tmp_path):
    """No run, no error."""
    assert "No finished run yet" in write_page({"toy": TOY}, tmp_path).read_text()


def test_claims_are_judged_only_at_the_sources_settings():
    """Seeds are free; anything else makes a claim say nothing."""
    assert [claim.holds for claim in TOY.judged(Config(seeds=9), None)] == [True, False]
    assert [claim.holds for claim in TOY.judged(Config(size=9), None)] == [None, None]
    assert all(claim.passed for claim in TOY.judged(Config(size=9), None))


@pytest.mark.parametrize(
    ("holds", "refuted", "verdict", "passed"),
    [
        (True, False, "holds", True),
        (False, False, "FAILS", False),
        (False, True, "refuted", True),
        (True, True, "FAILS", False),
    ],
)
def test_verdicts(holds, refuted, verdict, passed):
    """A refuted claim is expected not to hold."""
    claim = Claim("X", "", "", "", "", holds, refuted)
    assert (claim.verdict, claim.passed) == (verdict, passed)


def test_results_do_not_outlive_a_change_of_measurement(tmp_path, computed):
    """Another version, or another coordinate, is another piece."""
    for experiment in (TOY, replace(TOY, version=2)):
        point = Points(experiment, tmp_path)
        point(lambda: computed.append("new") or xr.Dataset(), i=0)
    assert computed == ["new", "new"]


def test_settings():
    """Quick ones are an override; unknown names list the known; bad values are refused."""
    assert TOY.configured(quick=True) == Config(size=1)
    with pytest.raises(ValueError, match="no setting 'depth': it has seeds, size"):
        TOY.configured(depth=3)
    with pytest.raises(ValueError, match="size must be"):
        TOY.configured(size=0)


def test_unwritable_folder(tmp_path):
    """A file where the folder should be."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot be written to"):
        require_writable(tmp_path / "file" / "runs")
