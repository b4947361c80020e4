"""The folder of a model: the same model, or one line that says what is wrong with it."""

import json
from dataclasses import replace

import jax
import numpy as np
import pytest
from served import H, made

import seqjax
from seqjax.events import Question
from seqjax.model import SPEC, WEIGHTS, Model, load_model, save_model, sha256


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """One with all that a folder can tell."""
    return made(tmp_path_factory.mktemp("data"), layers=2, residual=True, dropout=seqjax.Dropout(zoneout=0.1))


def test_a_folder_holds_the_whole_model(tmp_path, model):
    """Bit for bit, words, numbers and settings; also over a model that was there."""
    model = replace(model, about={"loss": 0.25, "seeds": [1, 2], "data": "Ölverbrauch"})
    for _ in range(2):
        save_model(tmp_path / "model", model)
    found = load_model(tmp_path / "model")
    jax.tree.map(np.testing.assert_array_equal, found.params, model.params)
    assert found.network is model.network
    for name in ("encoding", "question", "answer", "about", "hidden"):
        assert getattr(found, name) == getattr(model, name)
    assert found.checksum() == model.checksum()
    assert found.hidden == H
    assert {path.name for path in tmp_path.rglob("*")} == {"model", WEIGHTS, SPEC}


def test_a_regression_keeps_its_scale(tmp_path):
    """To the last bit."""
    model = replace(made(tmp_path, target="paid", per_event=True), answer=(0.1, 1 / 3))
    save_model(tmp_path / "model", model)
    assert load_model(tmp_path / "model").answer == (0.1, 1 / 3)


def test_checksums_tell_weights_apart(model):
    """By values, dtypes and shapes."""
    half = jax.tree.map(lambda a: a.astype("float32"), model.params)
    sums = {replace(model, params=p).checksum() for p in (model.params, half, jax.tree.map(lambda a: -a, half))}
    assert len(sums) == 3


@pytest.mark.parametrize("name", [SPEC, WEIGHTS])
def test_a_changed_byte_is_found(tmp_path, model, name):
    """Wherever it is, by the name of its file; and so is a file cut short."""
    save_model(tmp_path, model)
    path = tmp_path / name
    content = path.read_bytes()
    for place in range(0, len(content), 41):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(ValueError, match=rf"{name} is not as it was saved|has format 0, this seqjax reads 1"):
            load_model(tmp_path)
    for part in (content[:-1], b"", content + b" ", 100_000 * b"["):
        path.write_bytes(part)
        with pytest.raises(ValueError, match=rf"{name} is not as it was saved"):
            load_model(tmp_path)
    path.write_bytes(content)
    load_model(tmp_path)


def resigned(folder, change):
    """Another model.json, with a checksum of its own."""
    said = json.loads((folder / SPEC).read_text())
    change(said)
    said["checksums"][SPEC] = ""
    text = json.dumps(said)
    (folder / SPEC).write_text(text.replace(f'"{SPEC}": "', f'"{SPEC}": "{sha256(text.encode())}', 1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda said: said.update(format=2),
            r"has format 2, this seqjax reads 1: use the seqjax that wrote it, 0\.1\.0",
        ),
        (lambda said: said.update(format=2, versions="3.1"), "is not as it was saved"),
        (lambda said: said["network"].update(cell="elman"), "is of a cell 'elman' that this seqjax does not have"),
        (lambda said: said["question"].update(classes=["yes"]), "params must have 1 outputs"),
    ],
)
def test_of_another_version(tmp_path, model, change, message):
    """Named, and how to go on."""
    save_model(tmp_path, model)
    resigned(tmp_path, change)
    with pytest.raises(ValueError, match=message):
        load_model(tmp_path)


def test_what_is_no_model(tmp_path, model):
    """A folder that is not there, that is a file, or that lacks one of the files."""
    (tmp_path / "file").touch()
    save_model(tmp_path / "half", model)
    (tmp_path / "half" / WEIGHTS).unlink()
    for name in ("nowhere", "file", "half"):
        with pytest.raises(ValueError, match=f"{name} is not the folder of a model"):
            load_model(tmp_path / name)


def test_nothing_is_lost_by_saving(tmp_path, monkeypatch, model):
    """Other things in the folder, a file of its name, and, where the disk is full, the model before."""
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(ValueError, match="holds other things"):
        save_model(tmp_path, model)
    with pytest.raises(ValueError, match="holds other things"):
        save_model(tmp_path / "thesis.txt", model)
    save_model(tmp_path / "model", model)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("seqjax.model.write", full)
    with pytest.raises(ValueError, match=r"cannot be written \(No space left on device\)"):
        save_model(tmp_path / "model", replace(model, about={"new": True}))
    assert load_model(tmp_path / "model").about == {}
    assert {path.name for path in tmp_path.iterdir()} == {"thesis.txt", "model"}


def test_float64_is_not_narrowed(tmp_path, model):
    """Where the process has no such numbers."""
    save_model(tmp_path, model)
    with jax.enable_x64(False), pytest.raises(ValueError, match="float64 weights: set jax_enable_x64"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"network": seqjax.network(seqjax.gru(), readout="every")}, 'readout="last" here'),
        ({"network": seqjax.network(seqjax.gru(), inputs="onehot")}, 'inputs="vector"'),
        ({"question": Question("plan", "multiclass", ("a", "b", "c"))}, "params must have 3 outputs"),
        ({"answer": (0.0, 2.0)}, "answer must be a mean and a deviation above 0"),
        ({"answer": (float("nan"), 1.0)}, "answer must be a mean and a deviation above 0"),
    ],
)
def test_parts_fit_each_other(model, change, message):
    """Or are refused where the model is made."""
    with pytest.raises(ValueError, match=message):
        replace(model, **change)


def test_parts_that_cannot_be_kept(tmp_path, model):
    """A second direction, columns of other events, somebody's own cell, and what JSON cannot hold."""
    both = seqjax.network(seqjax.gru(), bidirectional=True)
    params = both.init(jax.random.key(0), model.encoding.D, H, 2)
    with pytest.raises(ValueError, match="must be of one direction"):
        Model(both, params, model.encoding, model.question)
    with pytest.raises(ValueError, match="inputs, the encoding's columns"):
        replace(model, encoding=replace(model.encoding, words=()))
    own = seqjax.network(replace(seqjax.gru(), name="mine"), layers=2)
    with pytest.raises(ValueError, match="network must be of a cell of seqjax"):
        save_model(tmp_path / "model", replace(model, network=own))
    for about in ({"loss": float("nan")}, {"params": np.ones(2)}):
        with pytest.raises(ValueError, match="about must hold what JSON can"):
            save_model(tmp_path / "model", replace(model, about=about))
    assert not list(tmp_path.iterdir())
