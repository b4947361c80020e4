"""`predict` and its command: the answers of a loop over one event after the other, for files of every format."""

import io
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from served import log, made

from seqjax.cli import main
from seqjax.events import encode, fit_encoding, read_like
from seqjax.model import save_model
from seqjax.serving import predict
from seqjax.serving.predict import NUMBERS, ROWS, WIDTHS, blocks


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Answers once a sequence."""
    return made(tmp_path_factory.mktemp("data"))


def sigmoid(a):
    """The logistic function."""
    return 1 / (1 + np.exp(-a))


def slowly(model, events, n):
    """Outputs after every event of sequence n, [length + 1, K], the first before any: a GRU in NumPy."""
    encoded = encode(model.encoding, events)
    p, head = model.params.body[0].forward, model.params.head
    h = np.zeros(model.hidden)
    found = [head.W @ h + head.b]
    for e in range(events.offsets[n], events.offsets[n + 1]):
        x = np.asarray(model.encoding.dense(encoded.codes[e], encoded.numbers[e].astype(float)))
        (r, z, new), (ar, az, an) = np.split(p.W_ih @ x + p.b_ih, 3), np.split(p.W_hh @ h + p.b_hh, 3)
        update = sigmoid(z + az)
        h = (1 - update) * np.tanh(new + sigmoid(r + ar) * an) + update * h
        found.append(head.W @ h + head.b)
    return np.array(found)


def written(folder, frame):
    """A file of JSON lines."""
    frame.write_ndjson(folder / "data.jsonl")
    return folder / "data.jsonl"


def test_answers_are_those_of_a_loop(tmp_path, model):
    """Of sequences longer than any in training, of one event and of none, in the order of the file."""
    names = ["kind", "amount", "channel"]
    frame = pl.concat([log(), log(2, 9).with_columns(customer=pl.col("customer") + "-long")])
    frame = frame.filter((pl.col("customer") != "c2") | (pl.int_range(pl.len()).over("customer") == 0))
    empty = frame[:1].with_columns(customer=pl.lit("none"), **{name: pl.lit(None) for name in [*names, "time"]})
    events = read_like(written(tmp_path, pl.concat([empty.cast(dict(frame.schema)), frame])), model.encoding)
    found = predict(model, events)
    assert sorted(set(events.lengths.tolist())) == [0, 1, 4, 5, 6, 7, 8]
    assert found.ids.tolist() == events.ids.tolist()
    np.testing.assert_array_equal(found.events, events.lengths)
    for n in range(len(events.ids)):
        outputs = slowly(model, events, n)[-1]
        p = np.exp(outputs) / np.exp(outputs).sum()
        np.testing.assert_allclose(found.probabilities[n], p, rtol=1e-12)
        assert found.values[n] == p.argmax()


def test_an_answer_for_every_event_put_back(tmp_path):
    """Numbers, by the mean and the deviation of training."""
    model = made(tmp_path, target="paid", per_event=True)
    events = read_like(written(tmp_path, log(4, 7)), model.encoding)
    found = predict(model, events)
    wanted = np.concatenate([slowly(model, events, n)[1:, 0] * 3 + 2 for n in range(4)])
    np.testing.assert_allclose(found.values, wanted, rtol=1e-12)
    frame = found.frame()
    assert frame.columns == ["customer", "events", "prediction"]
    assert frame["customer"].to_list() == np.repeat(events.ids, events.lengths).tolist()
    assert frame["events"].to_list() == [t for n in range(4) for t in range(1, events.lengths[n] + 1)]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 200_000), min_size=1, max_size=60), st.integers(1, 300))
def test_blocks_hold_every_row_once(lengths, width):
    """In few shapes, of bounded size, none with a row that is too long."""
    lengths = np.array(lengths)
    found = list(blocks(lengths, width))
    assert sorted(np.concatenate([rows for rows, _, _ in found])) == list(range(len(lengths)))
    assert len({(B, T) for _, B, T in found}) == len({T for _, _, T in found}) <= WIDTHS
    for rows, B, T in found:
        assert 1 <= len(rows) <= B <= ROWS
        assert lengths[rows].max() <= T
        assert B == 1 or B * T * width <= NUMBERS


def test_a_state_that_is_not_finite_is_named(tmp_path, model):
    """And its sequence with it."""
    events = read_like(written(tmp_path, log()), model.encoding)
    head = replace(model.params.head, b=model.params.head.b * np.inf)
    broken = replace(model, params=replace(model.params, head=head))
    with pytest.raises(ValueError, match="the network is not finite on sequence 'c"):
        predict(broken, events)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, model):
    """A folder with a model, and data in three formats, in which kinds are new and amounts missing."""
    folder = tmp_path_factory.mktemp("command")
    save_model(folder / "model", model)
    kinds = pl.col("kind").replace({"login": "téléphone", "view": "new"})
    frame = log().with_columns(kind=kinds).drop("cancelled", "paid")
    frame.write_csv(folder / "data.csv")
    frame.write_parquet(folder / "data.parquet")
    frame.write_ndjson(folder / "data.jsonl")
    return folder


def test_every_format_gives_the_same(folder, tmp_path, capsys, model):
    """In and out, and on standard output; what is new, missing and how long is said beside it."""
    assert main(["predict", str(folder / "model"), str(folder / "data.csv")]) == 0
    printed = capsys.readouterr()
    wanted = predict(model, read_like(folder / "data.csv", model.encoding)).frame()
    assert wanted.columns == ["customer", "events", "prediction", "probability_no", "probability_yes"]
    assert pl.read_csv(io.StringIO(printed.out)).equals(wanted)
    assert "5 sequences, 24 events, 4 to 6 a sequence" in printed.err
    assert "kind: the model does not know 'new', 'support', 'téléphone'" in printed.err
    assert "amount: missing in" in printed.err
    assert "kind: a category that training did not have, in" in printed.err
    readers = {".csv": pl.read_csv, ".parquet": pl.read_parquet, ".jsonl": pl.read_ndjson, ".ndjson": pl.read_ndjson}
    for suffix, read in readers.items():
        out, data = tmp_path / f"out{suffix}", folder / f"data{suffix.replace('.ndjson', '.jsonl')}"
        assert main(["predict", str(folder / "model"), str(data), "--out", str(out)]) == 0
        assert read(out).equals(wanted)
        assert capsys.readouterr().out == ""
    assert {path.name for path in tmp_path.iterdir()} == {f"out{suffix}" for suffix in readers}


BAD = {
    "no model": (["nowhere", "data.csv"], "nowhere is not the folder of a model"),
    "no data": (["model", "nowhere.csv"], "nowhere.csv is not there"),
    "suffix": (["model", "data.csv", "--out", "out.txt"], "out.txt must be a file .csv, .parquet, .jsonl, .ndjson"),
    "no folder": (["model", "data.csv", "--out", "no/out.csv"], "no/out.csv cannot be written"),
    "a folder": (["model", "data.csv", "--out", "model.csv"], "model.csv cannot be written"),
    "no column": (["model", "other.csv"], "has no column 'customer', it has 'id'"),
    "a missing column": (["model", "short.csv"], "has no column 'amount'"),
    "no argument": (["model"], "PATH"),
    "a name too long": (["model", f"{'x' * 300}.csv"], "File name too long"),
    "an answer's name too long": (["model", "data.csv", "--out", f"{'x' * 251}.csv"], "cannot be written"),
    "the data itself": (["model", "data.csv", "--out", "./data.csv"], "is the data itself"),
    "a number too large": (["model", "huge.csv"], "'amount'"),
}


@pytest.mark.parametrize(("args", "message"), BAD.values(), ids=BAD)
def test_a_bad_call_is_one_line(folder, tmp_path, monkeypatch, capsys, args, message):
    """Exit code 2, nothing written."""
    monkeypatch.chdir(tmp_path)
    for name in ("model", "data.csv"):
        (tmp_path / name).symlink_to(folder / name)
    (tmp_path / "model.csv").mkdir()
    (tmp_path / "other.csv").write_text("id,kind\n1,a\n")
    (tmp_path / "short.csv").write_text("customer,time,kind,channel\nc1,2024-01-01,login,web\n")
    huge = pl.read_csv(folder / "data.csv").with_columns(amount=pl.lit(1e300))
    huge.write_csv(tmp_path / "huge.csv")
    before = sorted(tmp_path.iterdir())
    assert main(["predict", *args]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    assert message in said.err
    assert said.out == ""
    assert sorted(tmp_path.iterdir()) == before


def test_a_reader_that_went_away_is_no_error(folder):
    """As behind `| head`: exit code 1, and no word."""
    command = [sys.executable, "-c", "from seqjax.cli import main; raise SystemExit(main())", "predict"]
    options: dict[str, Any] = {"cwd": folder, "env": os.environ | {"JAX_ENABLE_X64": "1"}, "stderr": subprocess.PIPE}
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*command, "model", "data.csv"], stdout=write, **options)
    os.close(write)
    assert done.returncode == 1
    assert b"Error" not in done.stderr


def test_ids_under_the_name_of_an_answer(tmp_path, model):
    """Cannot stand beside it."""
    events = read_like(written(tmp_path, log()), model.encoding)
    renamed = replace(model, encoding=replace(fit_encoding(events, range(5)), sequence="prediction"))
    with pytest.raises(ValueError, match="the name of a column of answers: rename it"):
        predict(renamed, events).frame()
