"""The reader of the JapaneseVowels data on a file made by hand, and the data itself where it is installed."""

import subprocess
import sys
from importlib import import_module, metadata

import numpy as np
import pytest

from seqjax.tasks import japanese_vowels, vowels
from seqjax.tasks.vowels import data_file, padded, read_ts

reader = import_module("seqjax.tasks.vowels")
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
    monkeypatch.setattr(reader, "FILES", "nowhere/{}.ts")
    with pytest.raises(ValueError, match=r"run pip install '\.\[data\]'"):
        japanese_vowels.__wrapped__()


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
        (tmp_path / part).write_text(text)
    monkeypatch.setattr(reader, "data_file", tmp_path.joinpath)
    train, test = japanese_vowels.__wrapped__()
    scale = np.sqrt([3.5, 650])
    np.testing.assert_allclose(train.xs[0], [[-2, -10], [-1, 0], [0, 40]] / scale, rtol=1e-6)
    np.testing.assert_allclose(test.xs[0], [[6, -20], [0, 0], [0, 0]] / scale, rtol=1e-6)
    assert not train.xs[1, 1:].any()
    assert (train.targets.tolist(), test.targets.tolist(), test.lengths.tolist()) == ([0, 1], [1], [2])


def installed():
    """Whether the extra `data` is there."""
    try:
        return data_file("TRAIN").is_file()
    except ValueError:
        return False


class Installed:
    """The data itself."""

    def test_sizes(self):
        """270 and 370 utterances of nine speakers, 30 each to train on; 7 to 29 frames of 12 coefficients."""
        train, test = japanese_vowels()
        assert (train.xs.shape, test.xs.shape) == ((270, 29, 12), (370, 29, 12))
        assert np.bincount(train.targets).tolist() == [30] * 9
        assert np.unique(test.targets).tolist() == list(range(9))
        lengths = np.concatenate([train.lengths, test.lengths])
        assert (lengths.min(), lengths.max()) == (7, 29)

    def test_valid_training_frames_have_mean_zero_and_deviation_one(self):
        """Those of the test set, whose own moments are not used, nearly; padding is exactly zero in both."""
        for part, least, most in zip(japanese_vowels(), (0, 0.01), (1e-5, 0.3), strict=True):
            valid = np.arange(29) < part.lengths[:, None]
            frames = part.xs[valid].astype(float)
            assert least < abs(frames.mean(0)).max() < most
            assert least < abs(frames.std(0) - 1).max() < most
            assert not part.xs[~valid].any()

    def test_the_first_row_is_that_of_the_file(self):
        """First coefficient of the first utterance, against the raw numbers."""
        lines = data_file("TRAIN").read_text().partition("@data")[2].split()
        raw = [np.array(line.partition(":")[0].split(","), float) for line in lines]
        first, every = japanese_vowels()[0], np.concatenate(raw)
        assert raw[0][0] == 1.860936
        np.testing.assert_allclose(first.xs[0, : len(raw[0]), 0], (raw[0] - every.mean()) / every.std(), rtol=1e-5)
        assert (first.lengths[0], first.targets[0]) == (len(raw[0]), int(lines[0].rpartition(":")[2]) - 1)

    def test_the_task(self):
        """Chance is the share of the speaker with the most test utterances; its loss ln 9."""
        task = vowels()
        assert task.chance == 88 / 370
        np.testing.assert_allclose(task.chance_loss, np.log(9), rtol=1e-12)
        assert (task.D, task.K) == (12, 9)

    def test_aeon_is_not_imported(self):
        """Its files are enough."""
        code = "import sys; from seqjax.tasks import vowels; vowels(); print('aeon' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"False\n"


if installed():
    TestInstalled = Installed
