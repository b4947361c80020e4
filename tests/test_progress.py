"""What people see of long work."""

import struct
import sys

import numpy as np
import pytest

import seqjax
from seqjax.progress import event_files, progress_bar, standing
from seqjax.train import History


def history(loss, score):
    """Of a chunk, [R, n], without clipping."""
    loss, score = np.asarray(loss, float), np.asarray(score, float)
    return History(loss, score, loss, np.full_like(loss, np.nan), np.full_like(loss, np.nan))


@pytest.mark.parametrize(
    ("loss", "score", "words"),
    [
        ([[2.0, 1.0], [4.0, 3.0], [9.0, 8.0]], [[1.0, 1.0], [0.9, 1.0], [0.1, 0.2]], "loss 3, 1/3 solved"),
        ([[2.0, np.nan], [4.0, 3.0]], [[1.0, np.nan], [0.5, 0.5]], "loss 3, 0/2 solved, 1 frozen"),
        ([[np.nan], [np.nan]], [[np.nan], [np.nan]], "0/2 solved, 2 frozen"),
    ],
)
def test_how_runs_stand(loss, score, words):
    """Median loss, how many solve the batches of a whole chunk, and how many are frozen."""
    assert standing(history(loss, score)) == words


def test_no_bar_where_nobody_looks(capsys):
    """Not on a terminal: nothing is drawn."""
    with progress_bar("title") as show:
        show(1, 2, history([[1.0]], [[0.5]]))
    assert capsys.readouterr().err == ""


def scalars(folder):
    """(name, step, value) of the event files in a folder. A record is length, checksum, data, checksum."""
    from tensorboardX.proto.event_pb2 import Event

    found = []
    for path in folder.iterdir():
        data, at = path.read_bytes(), 0
        while at < len(data):
            (size,) = struct.unpack_from("<Q", data, at)
            event = Event.FromString(data[at + 12 : at + 12 + size])
            found += [(value.tag, event.step, value.simple_value) for value in event.summary.value]
            at += size + 16
    return found


def test_event_files_hold_every_update_of_every_run(tmp_path):
    """Under the number that the update has; nothing of a run that has failed, nor of a clip that there is not."""
    with event_files(tmp_path) as show:
        show(2, 3, history([[3.0, 2.0], [5.0, np.nan]], [[0.5, 0.25], [0.0, np.nan]]))
        show(3, 3, history([[1.0], [np.nan]], [[1.0], [np.nan]]))
    first, second = scalars(tmp_path / "run-0"), scalars(tmp_path / "run-1")
    assert [each for each in first if each[0] == "loss"] == [("loss", 0, 3), ("loss", 1, 2), ("loss", 2, 1)]
    assert [each for each in first if each[0] == "score"] == [("score", 0, 0.5), ("score", 1, 0.25), ("score", 2, 1)]
    assert sorted(second) == [("gradient_norm", 0, 5), ("loss", 0, 5), ("score", 0, 0)]


def test_a_sweep_writes_them(tmp_path):
    """A folder for every recipe, and one for every run."""

    def make(length):
        network, task = seqjax.network(seqjax.rnn(), inputs="onehot"), seqjax.tasks.recall(length=length)
        return seqjax.Recipe(network, task, hidden=2, updates=2, batch=2)

    found = seqjax.sweep(make, static={"length": [1, 2]}, seeds=2, examples=5, log=tmp_path)
    loss = [value for name, _, value in scalars(tmp_path / "1" / "run-1") if name == "loss"]
    np.testing.assert_allclose(loss, found.loss.sel(length=2, seed=1), rtol=1e-6)


def test_without_the_extra(tmp_path, monkeypatch):
    """How to install it."""
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ValueError, match=r"pip install '\.\[log\]'"), event_files(tmp_path):
        pass
