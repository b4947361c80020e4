"""The reader of recorded series on a file made by hand, and the data themselves where they are installed."""

import subprocess
import sys
from importlib import import_module, metadata
from pathlib import Path

import numpy as np
import pytest

from seqjax.tasks import digit_images, digits, published, recorded, series, vowels
from seqjax.tasks.aeon import CASES, SETS, aeon_file, padded, read_ts

reader = import_module("seqjax.tasks.aeon")
SMALL = {  # two dimensions; sequences of 3, 1 and 2 frames
    "TRAIN": "#about\n@dimensions 2\n@data\n1.0,2,3:10,20,60:1\n\n 6:-10:2\n",
    "TEST": "@data\n9,3:0,20:2\n",
}


@pytest.mark.parametrize("where", ["distribution", "file"])
def test_without_the_data_the_error_says_how_to_get_it(where, monkeypatch):
    """Whether aeon is missing, or has no such file."""

    def missing(name):
        raise metadata.PackageNotFoundError(name)

    if where == "distribution":
        monkeypatch.setattr(metadata, "distribution", missing)
    monkeypatch.setattr(reader, "CASES", "nowhere/{name}_{part}.ts")
    with pytest.raises(ValueError, match=r"GunPoint_TRAIN.ts needs .* run pip install '\.\[data\]'"):
        series.__wrapped__("GunPoint")


def test_a_file_is_read_one_case_a_line():
    """Frames lead, dimensions follow; blank lines and the header are passed over."""
    cases, labels = read_ts(SMALL["TRAIN"])
    assert [case.tolist() for case in cases] == [[[1, 10], [2, 20], [3, 60]], [[6, -10]]]
    assert labels == ["1", "2"]
    xs, lengths = padded(cases, 4)
    assert (xs.shape, xs.dtype, lengths.tolist()) == ((2, 4, 2), np.float32, [3, 1])
    assert xs[1].tolist() == [[6, -10], [0, 0], [0, 0], [0, 0]]


def test_both_parts_are_standardised_by_the_training_frames(monkeypatch, tmp_path):
    """Mean (3, 20) and variance (3.5, 650) over four frames, whatever the test set holds; padding stays zero."""
    for part, text in SMALL.items():
        (tmp_path / f"GunPoint_{part}.ts").write_text(text)
    monkeypatch.setattr(reader, "aeon_file", lambda file: tmp_path / Path(file).name)
    train, test = series.__wrapped__("GunPoint")
    scale = np.sqrt([3.5, 650])
    np.testing.assert_allclose(train.xs[0], [[-2, -10], [-1, 0], [0, 40]] / scale, rtol=1e-6)
    np.testing.assert_allclose(test.xs[0], [[6, -20], [0, 0], [0, 0]] / scale, rtol=1e-6)
    assert not train.xs[1, 1:].any()
    assert (train.targets.tolist(), test.targets.tolist(), test.lengths.tolist()) == ([0, 1], [1], [2])


@pytest.mark.parametrize("call", [series, recorded, published])
def test_unknown_sets_are_refused(call):
    """With the names of those that there are."""
    with pytest.raises(ValueError, match=r"ArrowHead, GunPoint, .*, got 'Vowels'"):
        call("Vowels")


def vowels_file(part):
    """The raw utterances."""
    return aeon_file(CASES.format(name="JapaneseVowels", part=part))


def installed():
    """Whether the extra `data` is there."""
    try:
        return vowels_file("TRAIN").is_file()
    except ValueError:
        return False


class Installed:
    """The data itself."""

    def test_sizes(self):
        """270 and 370 utterances of nine speakers, 30 each to train on; 7 to 29 frames of 12 coefficients."""
        train, test = series("JapaneseVowels")
        assert (train.xs.shape, test.xs.shape) == ((270, 29, 12), (370, 29, 12))
        assert np.bincount(train.targets).tolist() == [30] * 9
        assert np.unique(test.targets).tolist() == list(range(9))
        lengths = np.concatenate([train.lengths, test.lengths])
        assert (lengths.min(), lengths.max()) == (7, 29)

    def test_valid_training_frames_have_mean_zero_and_deviation_one(self):
        """Those of the test set, whose own moments are not used, nearly; padding is exactly zero in both."""
        for part, least, most in zip(series("JapaneseVowels"), (0, 0.01), (1e-5, 0.3), strict=True):
            valid = np.arange(29) < part.lengths[:, None]
            frames = part.xs[valid].astype(float)
            assert least < abs(frames.mean(0)).max() < most
            assert least < abs(frames.std(0) - 1).max() < most
            assert not part.xs[~valid].any()

    def test_the_first_row_is_that_of_the_file(self):
        """First coefficient of the first utterance, against the raw numbers."""
        lines = vowels_file("TRAIN").read_text().partition("@data")[2].split()
        raw = [np.array(line.partition(":")[0].split(","), float) for line in lines]
        first, every = series("JapaneseVowels")[0], np.concatenate(raw)
        assert raw[0][0] == 1.860936
        np.testing.assert_allclose(first.xs[0, : len(raw[0]), 0], (raw[0] - every.mean()) / every.std(), rtol=1e-5)
        assert (first.lengths[0], first.targets[0]) == (len(raw[0]), int(lines[0].rpartition(":")[2]) - 1)

    def test_the_task(self):
        """Chance is the share of the speaker with the most test utterances; its loss ln 9."""
        task = vowels()
        assert task.chance == 88 / 370
        np.testing.assert_allclose(task.chance_loss, np.log(9), rtol=1e-12)
        assert (task.D, task.K) == (12, 9)

    @pytest.mark.parametrize("name", SETS)
    def test_every_set(self, name):
        """Classes from 0, all of them in both parts; accuracies of others above chance, where there are some."""
        task, (train, test) = recorded(name), series(name)
        assert set(train.targets.tolist()) == set(test.targets.tolist()) == set(range(task.K))
        assert all(task.chance < accuracy <= 1 for accuracy in published(name).values())
        assert (len(published(name)) == 3) == (name != "JapaneseVowels")

    def test_published_accuracies_are_of_the_own_split(self):
        """HC2 on the first resample of ArrowHead: 152 of 175 test cases."""
        assert published("ArrowHead")["HC2"] == 152 / 175

    def test_aeon_is_not_imported(self):
        """Its files are enough."""
        calls = "vowels(); published('GunPoint')"
        code = f"import sys; from seqjax.tasks import published, vowels; {calls}; print('aeon' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"False\n"


if installed():
    TestInstalled = Installed


class TestDigits:
    """scikit-learn's images, pixel by pixel."""

    def test_pixels_come_row_by_row(self):
        """The first image is a 0: its second row is 0 0 13 15 10 15 5 0 of 16."""
        train, test = digit_images()
        assert (train.xs.shape, test.xs.shape, train.targets[0]) == ((1437, 64, 1), (360, 64, 1), 0)
        assert (train.xs[0, 8:16, 0] * 16).tolist() == [0, 0, 13, 15, 10, 15, 5, 0]

    def test_permuted_digits_are_the_same_pixels_elsewhere(self):
        """One order for every image of both parts, which is no identity."""
        plain, moved = (digits(permuted=permuted).held_out(None, 0).xs[..., 0] for permuted in (False, True))
        np.testing.assert_array_equal(np.sort(plain, 1), np.sort(moved, 1))
        order = np.random.default_rng(0).permutation(64)
        np.testing.assert_array_equal(plain[:, order], moved)

    def test_without_scikit_learn(self, monkeypatch):
        """The install line."""
        monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
        with pytest.raises(ValueError, match=r"run pip install '\.\[data\]'"):
            digit_images.__wrapped__()
