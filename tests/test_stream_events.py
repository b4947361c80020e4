"""`Live` and `seqjax stream`: after every event the answer of a batch; what is malformed changes nothing."""

import io
import json
import os
import signal
import sys
from dataclasses import replace
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from served import log, made, prefixes

from seqjax.cli import main
from seqjax.events import read_like
from seqjax.model import save_model
from seqjax.serving import Live, predict
from seqjax.serving.slab import ROWS

IGNORED = ["paid"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Answers once a sequence."""
    return made(tmp_path_factory.mktemp("data"))


def rows(customers=5, most=6):
    """(id, fields) as they come."""
    return [(row.pop("customer"), row) for row in log(customers, most).rows(named=True)]


def answered(live, events):
    """Answers one by one."""
    return [live.event(*event) for event in events]


def test_every_prefix_equals_the_batch(tmp_path, model):
    """Of sequences longer than any in training: read from a file all at once, or streamed side by side."""
    frame = log(4, 8)
    prefixes(frame).write_ndjson(tmp_path / "prefixes.jsonl")
    batch = predict(model, read_like(tmp_path / "prefixes.jsonl", model.encoding))
    wanted = dict(zip(batch.ids.tolist(), batch.probabilities.tolist(), strict=True))
    live = Live(model, ignore=IGNORED)
    for id, fields in rows(4, 8):
        found = live.event(id, fields)
        key = f"{id}/{found.events}"
        np.testing.assert_allclose(list(found.probabilities.values()), wanted.pop(key), rtol=1e-12)
        assert found.answer == max(found.probabilities, key=found.probabilities.__getitem__)
    assert wanted == {}


def test_a_number_after_every_event(tmp_path):
    """Of a model that answers after every event: what the batch has in that event's row."""
    model = made(tmp_path, target="paid", per_event=True)
    batch = predict(model, read_like(tmp_path / "log.jsonl", model.encoding))
    live = Live(model, ignore=["cancelled"])
    wanted = {(id, n): value for id, n, value in zip(batch.ids, batch.events, batch.values, strict=True)}
    for (id, _), found in zip(rows(), answered(live, rows()), strict=True):
        np.testing.assert_allclose(found.answer, wanted[id, found.events], rtol=1e-12)
        assert found.probabilities == {}


def test_a_batch_is_its_events_in_order(model):
    """Those of one sequence too, whatever size it is padded to, with those that are refused in their places."""
    events = rows()
    events[3:3] = [("c1", {"kind": "login"}), (None, events[0][1])]
    wanted = answered(Live(model, ignore=IGNORED), rows())
    live = Live(model, ignore=IGNORED)
    found = live.events(events[:1]) + live.events(events[1:])
    assert [place for place, each in enumerate(found) if isinstance(each, ValueError)] == [3, 4]
    for ours, its in zip(found[:3] + found[5:], wanted, strict=True):
        assert ours.events == its.events
        np.testing.assert_allclose(list(ours.probabilities.values()), list(its.probabilities.values()), rtol=1e-12)
    assert live.events([]) == []


def everything(live):
    """All that is remembered, as a value."""
    slab = live.slab
    kept = {
        key: (slab.events[row], slab.ticks[row], [s[row].tobytes() for s in slab.states])
        for key, row in slab.rows.items()
    }
    return list(kept.items())


GOOD = {"time": "2030-01-01", "kind": "login", "amount": None, "channel": "app"}
BAD_EVENTS = {
    "null id": (None, GOOD, "an id must be a text or a whole number, got None"),
    "a fraction as id": (1.5, GOOD, "an id must be"),
    "a bool as id": (True, GOOD, "an id must be"),
    "an empty id": ("", GOOD, "an id must be"),
    "a list as id": (["c1"], GOOD, "an id must be"),
    "no object": ("c1", [1], "an event must be a mapping of its fields, got list"),
    "no field": ("c1", {k: v for k, v in GOOD.items() if k != "channel"}, "the event has no 'channel'"),
    "no time": ("c1", {k: v for k, v in GOOD.items() if k != "time"}, "the event has no 'time'"),
    "unknown field": ("c1", {**GOOD, "colour": 1}, "unknown field 'colour': the model knows amount, channel, kind"),
    "made field": ("c1", {**GOOD, "since_previous": 1}, "unknown field 'since_previous'"),
    "a number as text": ("c1", {**GOOD, "amount": "12"}, "'amount' must be a finite number, got '12'"),
    "a list as category": ("c1", {**GOOD, "kind": ["login"]}, "'kind' must be a category"),
    "a fraction as category": ("c1", {**GOOD, "kind": 0.5}, "'kind' must be a category"),
    "infinite": ("c1", {**GOOD, "amount": float("inf")}, "'amount' must be a finite number, got inf"),
    "too large": ("c1", {**GOOD, "amount": 1e300}, "'amount' is 1e\\+300, too far from training's"),
    "no date": ("c1", {**GOOD, "time": "soon"}, "'time' must be an ISO 8601 date, got 'soon'"),
    "null time": ("c1", {**GOOD, "time": None}, "'time' must be an ISO 8601 date, got None"),
    "back in time": ("c1", {**GOOD, "time": "2001-01-01"}, "'time' goes back"),
}


@pytest.fixture(scope="module")
def alive(model):
    """Some sequences on their way."""
    live = Live(model, ignore=IGNORED)
    live.events(rows())
    return live


@pytest.mark.parametrize(("id", "fields", "message"), BAD_EVENTS.values(), ids=BAD_EVENTS)
def test_a_bad_event_changes_nothing(alive, id, fields, message):
    """One line that names what is wrong; in a batch it stands in its place."""
    before = everything(alive)
    with pytest.raises(ValueError, match=message):
        alive.event(id, fields)
    (found,) = alive.events([(id, fields)])
    assert isinstance(found, ValueError)
    assert everything(alive) == before


def test_a_state_that_is_not_finite_is_not_kept(model):
    """The event is refused, others with it in a batch are not."""
    head = replace(model.params.head, b=model.params.head.b * np.inf)
    live = Live(replace(model, params=replace(model.params, head=head)), ignore=IGNORED)
    with pytest.raises(ValueError, match="the network is not finite after this event of 'c1'"):
        live.event("c1", GOOD)
    assert len(live) == 0


def test_ids_are_texts_or_whole_numbers(model):
    """7, 7.0 and "7" are one sequence, "07" is another."""
    live = Live(model)
    assert [live.event(id, GOOD).events for id in (7, "7", np.int32(7), 7.0, "07")] == [1, 2, 3, 4, 1]
    assert ("7" in live, 7 in live, "7.0" in live, len(live)) == (True, True, False, 2)


def test_a_forgotten_sequence_starts_anew(model):
    """By hand, or the least recent for a new one beyond the limit."""
    live = Live(model, limit=2)
    first = live.event("a", GOOD)
    live.events([("b", GOOD), ("a", GOOD), ("c", GOOD)])  # for c b is forgotten, which came before a
    assert ("a" in live, "b" in live, "c" in live, live.forgotten) == (True, False, True, 1)
    again = live.event("b", GOOD)
    assert again == first
    assert live.forget("b")
    assert not live.forget("b")
    assert len(live) == 1
    found = live.events([(id, GOOD) for id in "defgh"])
    for each in found:
        assert each.events == 1
        np.testing.assert_allclose(each.probabilities["no"], first.probabilities["no"], rtol=1e-12)
    assert (len(live), live.forgotten) == (2, 6)  # c, a; then but for the one free place every one for another


def test_many_sequences_find_room(model):
    """Beyond the first rows, each its own state."""
    live = Live(model, ignore=IGNORED)
    wanted = answered(live, rows(1))
    others = [(f"x{n}", GOOD) for n in range(ROWS + 5)]
    live.events(others[:4])
    for event in others[4:]:
        live.event(*event)
    assert len(live) == ROWS + 6
    ids = [("again", fields) for _, fields in rows(1)]
    assert answered(live, ids) == wanted
    assert live.event("c1", GOOD).events == len(wanted) + 1


def test_a_restored_state_goes_on_exactly(tmp_path, model):
    """Bit for bit, with counts, times and which is the least recent."""
    events = rows()
    live, path = Live(model, ignore=IGNORED), tmp_path / "states"
    answered(live, events[:18])
    live.save(path)
    other = Live(model, ignore=IGNORED)
    other.event("gone", GOOD)
    other.restore(path)
    assert everything(other) == everything(live)
    assert answered(other, events[18:]) == answered(live, events[18:])
    live.restore(path)
    small = Live(model, limit=2, ignore=IGNORED)
    small.restore(path)
    assert everything(small) == everything(live)[-2:]
    assert small.forgotten == len(live) - 2 > 0
    assert [each.name for each in tmp_path.iterdir()] == ["states"]


def test_states_that_are_refused(tmp_path, model):
    """Another model's, a changed byte, a file that is not there; one's own are kept."""
    live, path = Live(model), tmp_path / "states"
    live.event("ä\ud800", GOOD)
    live.save(path)
    before = everything(live)
    other = replace(model, params=jax.tree.map(lambda a: -a, model.params))
    with pytest.raises(ValueError, match="holds the states of another model"):
        Live(other).restore(path)
    content = path.read_bytes()
    for place in [*range(0, len(content), 7), None]:
        path.write_bytes(
            content[:-1] if place is None else content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        )
        with pytest.raises(ValueError, match=r"not as they were saved|cannot be read"):
            live.restore(path)
    for name, message in (("nowhere", "are not there"), (".", "are not there")):
        with pytest.raises(ValueError, match=message):
            live.restore(tmp_path / name)
    for name in ("no/states", "."):
        with pytest.raises(ValueError, match="cannot be written"):
            live.save(tmp_path / name)
    assert everything(live) == before


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda model: Live("model"), "model must be a Model"),
        (lambda model: Live(model, limit=0), "limit must be an integer of at least 1"),
        (lambda model: Live(model, ignore="paid"), "ignore must be a list of fields"),
    ],
)
def test_bad_calls(model, make, message):
    """Each a ValueError that names what is wrong."""
    with pytest.raises(ValueError, match=message):
        make(model)


def streamed(monkeypatch, capsys, args, lines):
    """(exit code, answers, standard error) of the command."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=lines))
    code = main(["stream", *map(str, args)])
    said = capsys.readouterr()
    return code, [json.loads(line) for line in said.out.splitlines()], said.err


BAD_LINES = {
    b"nonsense": "not JSON: Expecting value at character 1",
    b'{"customer": "c1"': "not JSON",
    b"[1]": "not a JSON object, which an event is, got [1]",
    b"17": "not a JSON object, which an event is, got 17",
    b'{"kind": "login"}': "the event has no 'customer', the id of its sequence",
    b'{"customer": null}': "an id must be a text or a whole number, got None",
    b'{"customer": {"a": 1}}': "an id must be a text or a whole number",
    b'{"customer": "c1", "customer": "c2"}': "'customer' is given twice",
    b'{"customer": "c1", "amount": NaN}': "NaN is not JSON: give null for a missing value",
    b'{"customer": "c1", "amount": 1e999}': "1e999 is not finite",
    b'{"customer": "c1", "amount": ' + b"9" * 5000 + b"}": "Exceeds the limit",
    b"[" * 100_000: "too many brackets",
    b'{"customer": "\xff"}': "not UTF-8 text",
    b'{"customer": "c1", "time": "2030-01-01"}': "the event has no",
}


def test_a_line_in_a_line_out(tmp_path, monkeypatch, capsys, model):
    """The answers of `Live`, under the ids as they came; a malformed line is answered with what is wrong and its
    number, and the states go on from one run to the next."""
    save_model(tmp_path / "model", model)
    args = [tmp_path / "model", "--state", tmp_path / "states", "--every", 4, "--ignore", "paid"]
    good = [json.dumps({"customer": id, **fields}).encode() for id, fields in rows()]
    lines = [*good[:6], b"  ", *BAD_LINES, *good[6:12]]
    code, found, said = streamed(monkeypatch, capsys, args, io.BytesIO(b"\n".join(lines)))
    assert code == 0
    kept = len({id for id, _ in rows()[:12]})
    assert f"12 events answered, {len(BAD_LINES)} lines refused, {kept} sequences kept" in said
    errors = found[6 : 6 + len(BAD_LINES)]
    for (place, wanted), got in zip(enumerate(BAD_LINES.values(), 8), errors, strict=True):
        assert got["line"] == place
        assert wanted in got["error"]
    code, more, said = streamed(monkeypatch, capsys, args, io.BytesIO(b"\n".join(good[12:])))
    assert code == 0
    assert f"states: goes on with {kept} sequences" in said
    wanted = answered(Live(model, ignore=IGNORED), rows())
    for (id, _), ours, its in zip(rows(), found[:6] + found[6 + len(BAD_LINES) :] + more, wanted, strict=True):
        assert ours == {
            "customer": id,
            "prediction": its.answer,
            "probabilities": its.probabilities,
            "events": its.events,
        }
    assert {path.name for path in tmp_path.iterdir()} == {"model", "states"}


def test_answers_are_not_held_back(tmp_path, monkeypatch, capsys, model):
    """Each is out before the next event is read, and the state is saved on the way and by SIGTERM."""
    save_model(tmp_path / "model", model)
    out, states = io.BytesIO(), tmp_path / "states"

    def lines():
        for number in range(6):
            assert out.getvalue().count(b"\n") == number
            if number == 4:
                live = Live(model)
                live.restore(states)
                assert live.slab.events[live.slab.row("7")] == 4
            if number == 5:
                os.kill(os.getpid(), signal.SIGTERM)
            yield json.dumps({"customer": 7, **GOOD}).encode()

    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(out), write_through=False))
    code, _, said = streamed(monkeypatch, capsys, [tmp_path / "model", "--state", states, "--every", 2], lines())
    assert code == 0
    assert "5 events answered" in said
    live = Live(model)
    live.restore(states)
    assert live.slab.events[live.slab.row("7")] == 5
    assert json.loads(out.getvalue().splitlines()[0])["customer"] == 7


def test_a_signal_waits_for_the_event(tmp_path, monkeypatch, capsys, model):
    """That is being answered."""
    save_model(tmp_path / "model", model)
    event, before = Live.event, signal.getsignal(signal.SIGINT)

    def killed(live, id, fields):
        os.kill(os.getpid(), signal.SIGINT)
        return event(live, id, fields)

    monkeypatch.setattr(Live, "event", killed)
    line = json.dumps({"customer": 7, **GOOD}).encode() + b"\n"
    code, found, said = streamed(monkeypatch, capsys, [tmp_path / "model"], io.BytesIO(2 * line))
    assert code == 0
    assert [each["events"] for each in found] == [1]
    assert "1 events answered" in said
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["nowhere"], "nowhere is not the folder of a model"),
        (["model", "--limit", "0"], "limit must be an integer of at least 1"),
        (["model", "--every", "0"], "every must be an integer of at least 1"),
        (["model", "--state", "no/states"], "states cannot be written to no/states"),
        (["model", "--state", "broken"], "states broken are not as they were saved"),
        ([], "PATH"),
    ],
)
def test_a_bad_call_is_one_line(tmp_path, monkeypatch, capsys, model, args, message):
    """Exit code 2, nothing read and nothing written."""
    monkeypatch.chdir(tmp_path)
    save_model("model", model)
    (tmp_path / "broken").write_bytes(b"states")
    code, found, said = streamed(monkeypatch, capsys, args, io.BytesIO(b"nonsense\n"))
    assert (code, found) == (2, [])
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert message in said
    assert {path.name for path in tmp_path.iterdir()} == {"model", "broken"}
