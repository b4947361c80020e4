"""Encoding: fitted to training events alone, the same for a file and for one event, exact on its way through JSON."""

import csv
import itertools
import json
from datetime import UTC, datetime, timedelta, timezone

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqjax.events import (
    Clock,
    Encoding,
    Scale,
    Words,
    encode,
    encode_event,
    fit_encoding,
    gathered,
    padded,
    read_events,
    typed_event,
)

HEAD = "sequence,time,kind,channel,amount,score\n"
TRAIN = "a,1,buy,web,1,2\na,2,buy,web,3,4\nb,1,look,,5,6\nb,4,look,,,8\nb,9,rare,web,,10\n"
TEST = "c,1,new,,9,\nc,1,rare,phone,,6\nc,2,,web,3,6\n"


def read(folder, text=HEAD + TRAIN + TEST, name="log.csv", **options):
    """Events of a text."""
    (folder / name).write_text(text)
    return read_events(folder / name, time="time", **options)


def test_the_layout_by_hand(tmp_path):
    """Columns of what training had, and no others; the rest are zeros."""
    events = read(tmp_path)
    encoding = fit_encoding(events, [0, 1])
    assert encoding.words == (
        Words("kind", ("buy", "look"), missing=False, unseen=True),
        Words("channel", ("web",), missing=True, unseen=False),
    )
    assert [(s.name, s.missing) for s in encoding.scales] == [
        ("amount", True),
        ("score", False),
        ("since_previous", True),
    ]
    assert (encoding.scales[0].mean, encoding.scales[0].sd) == (3, (8 / 3) ** 0.5)
    assert (encoding.scales[1].mean, encoding.scales[1].sd) == (6, 8**0.5)
    assert encoding.D == 10
    assert encoding.columns() == [
        *("kind=buy", "kind=look", "kind unseen", "channel=web", "channel missing"),
        *("amount", "amount missing", "score", "since_previous", "since_previous missing"),
    ]
    encoded = encode(encoding, events)
    assert encoded.codes.tolist() == [[0, 0], [0, 0], [1, 1], [1, 1], [2, 0], [2, 1], [2, -1], [-1, 0]]
    assert (encoded.codes.dtype, encoded.numbers.dtype) == (np.int16, np.float32)
    vectors = np.asarray(encoding.dense(encoded.codes, encoded.numbers))
    assert vectors.dtype == np.float32
    unit = np.float32(6 / (8 / 3) ** 0.5)
    assert vectors[5].tolist() == [0, 0, 1, 0, 1, unit, 0, 0, 0, 1]  # a new kind, a missing score
    assert vectors[6, :8].tolist() == [0, 0, 1, 0, 0, 0, 1, 0]  # a kind of one event, a channel of none
    assert vectors[7, :8].tolist() == [0, 0, 0, 1, 0, 0, 0, 0]  # a missing kind


def test_nothing_but_training_counts(tmp_path):
    """Other sequences may hold anything."""
    encoding = fit_encoding(read(tmp_path), [0, 1])
    assert fit_encoding(read(tmp_path, HEAD + TRAIN), [1, 0]) == encoding
    assert fit_encoding(read(tmp_path, HEAD + "c,1,look,web,1e9,-7\n" + TRAIN), [1, 2]) == encoding


def test_constants_and_columns_without_a_number(tmp_path):
    """Are 0 in training; nothing is divided by zero."""
    events = read(tmp_path, HEAD + "a,1,u,v,0.1,\na,2,u,v,0.1,\nb,1,u,v,0.1,\nc,1,u,v,3.1,5\n")
    encoding = fit_encoding(events, [0, 1])
    assert encoding.scales[:2] == (Scale("amount", 0.1, 1.0, False), Scale("score", 0.0, 1.0, True))
    np.testing.assert_array_equal(encode(encoding, events).numbers[:, 0], np.float32([0, 0, 0, 3]))


def slowly(encoding, codes, numbers):
    """One event's vector, column by column."""
    vector = []
    for code, words in zip(codes, encoding.words, strict=True):
        vector += [float(code == place) for place in range(words.width)]
    for number, scale in zip(numbers, encoding.scales, strict=True):
        vector.append(0.0 if np.isnan(number) else number)
        vector += [float(np.isnan(number))] * scale.missing
    return np.array(vector, np.float32)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dense_equals_a_loop(tmp_path, dtype):
    """In a jit, of a batch [B, T], in the dtype of the numbers."""
    events = read(tmp_path)
    encoding = fit_encoding(events, [0, 1])
    batch = padded(encode(encoding, events), [2, 0], 4)
    dense = jax.jit(encoding.dense)
    got = dense(jnp.asarray(batch.codes), jnp.asarray(batch.numbers, dtype))
    assert (got.dtype, got.shape) == (dtype, (2, 4, encoding.D))
    for b, t in itertools.product(range(2), range(4)):
        np.testing.assert_array_equal(got[b, t], slowly(encoding, batch.codes[b, t], batch.numbers[b, t]))


def test_fields_of_one_sort_alone(tmp_path):
    """No numbers, or no categories."""
    events = read(tmp_path, fields=["kind"], since_previous=False)
    encoded = encode(fit_encoding(events, [0, 1]), events)
    assert fit_encoding(events, [0, 1]).dense(encoded.codes, encoded.numbers).shape == (8, 3)
    events = read(tmp_path, fields=["amount"])
    encoded = encode(fit_encoding(events, [0, 1]), events)
    assert fit_encoding(events, [0, 1]).dense(encoded.codes, encoded.numbers).shape == (8, 4)


texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=4)
finite = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=50, deadline=None)
@given(st.lists(texts, unique=True, max_size=5), finite, st.floats(1e-300, 1e300), st.booleans())
def test_json_keeps_every_bit(values, mean, sd, flag):
    """Of numbers, words, order and clock."""
    encoding = Encoding(
        "id",
        Clock("time", "date") if flag else None,
        (Words("kind", tuple(values), flag, not flag),),
        (Scale("amount", mean, sd, flag),),
    )
    again = Encoding.from_json(encoding.to_json())
    assert again == encoding
    assert hash(again) == hash(encoding)  # static for a jit


cells = st.fixed_dictionaries(
    {
        "sequence": st.integers(0, 2),
        "time": st.integers(-(10**6), 10**7),
        "kind": st.none() | st.sampled_from(["u", "v", "w", "true"]),
        "code": st.none() | st.integers(0, 3),
        "vip": st.none() | st.booleans(),
        "amount": st.none() | st.floats(-1e6, 1e6).map(lambda x: round(x, 2)),
        "count": st.none() | st.integers(-(2**60), 2**60),
    }
)


@pytest.mark.parametrize("name", ["log.jsonl", "log.csv"])
@settings(max_examples=30, deadline=None)
@given(rows=st.lists(cells, min_size=1, max_size=12), dates=st.booleans())
def test_one_event_equals_the_file(tmp_path_factory, name, rows, dates):
    """To the bit, whatever is missing or unseen, dates and numbers as times."""
    if dates:
        rows = [
            row | {"time": (datetime(2024, 1, 1) + timedelta(milliseconds=row["time"])).isoformat()} for row in rows
        ]
    path = tmp_path_factory.mktemp("log") / name
    if name == "log.jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
    kinds = {"kind": "category", "code": "category", "vip": "category", "amount": "number", "count": "number"}
    events = read_events(path, time="time", kinds=kinds)
    encoding = fit_encoding(events, [0])
    encoded = encode(encoding, events)
    ours = rows if name == "log.jsonl" else [typed_event(encoding, row) for row in rows]
    at = 0
    for number in events.ids:
        mine = [row for row in ours if str(row["sequence"]) == str(number)]
        previous = None
        for row in sorted(mine, key=lambda row: encoding.clock.tick(row["time"])):
            event = encode_event(encoding, row, previous)
            np.testing.assert_array_equal(event.codes, encoded.codes[at])
            np.testing.assert_array_equal(event.numbers, encoded.numbers[at])
            assert (event.codes.dtype, event.numbers.dtype) == (encoded.codes.dtype, encoded.numbers.dtype)
            previous, at = event.tick, at + 1
    assert at == len(rows)


def test_one_event_without_times(tmp_path):
    """Has no tick, and a column of that name is a field as any."""
    (tmp_path / "log.csv").write_text("sequence,since_previous\na,1\na,3\n")
    events = read_events(tmp_path / "log.csv")
    event = encode_event(fit_encoding(events, [0]), {"since_previous": 4})
    assert (event.numbers.tolist(), event.tick, event.codes.shape) == ([2.0], None, (0,))


WRONG = {
    "no field": ({"amount": ...}, "the event has no 'amount': give it, or null where it is missing"),
    "text for a number": ({"amount": "9.5"}, "'amount' must be a finite number, got '9.5'"),
    "a bool for a number": ({"amount": True}, "'amount' must be a finite number, got True"),
    "infinity": ({"amount": float("-inf")}, "'amount' must be a finite number, got -inf"),
    "a number beyond floats": ({"amount": 10**400}, "'amount' must be a finite number, got 1000"),
    "a number far out": ({"amount": 1e300}, "column 'amount' is 1e.300, too far from training's 3"),
    "a fraction for a word": ({"kind": 0.5}, "'kind' must be a category, a word or a whole number, got 0.5"),
    "a list for a word": ({"kind": ["buy"]}, r"'kind' must be a category, .* got \['buy'\]"),
    "no time": ({"time": None}, "'time' must be a number within ±2⁶², got None"),
    "text for a time": ({"time": "1"}, "'time' must be a number within ±2⁶², got '1'"),
    "a time too large": ({"time": 2**62}, "'time' must be a number within ±2⁶²"),
    "a time beyond floats": ({"time": 10**400}, "'time' must be a number within ±2⁶²"),
    "no number as time": ({"time": float("nan")}, "'time' must be a number within ±2⁶², got nan"),
    "a time before": ({"time": 4}, "'time' goes back: this event is earlier than the one before"),
}


@pytest.mark.parametrize(("change", "message"), WRONG.values(), ids=WRONG)
def test_one_event_that_is_none_is_refused(tmp_path, change, message):
    """Naming its field; a key more is no harm."""
    encoding = fit_encoding(read(tmp_path), [0, 1])
    good = {"time": 5, "kind": "buy", "channel": None, "amount": 1, "score": float("nan"), "more": object()}
    assert encode_event(encoding, good, 5).codes.tolist() == [0, 1]
    with pytest.raises(ValueError, match=message):
        encode_event(encoding, {key: value for key, value in (good | change).items() if value is not ...}, 5)


def test_a_row_of_texts_is_typed(tmp_path):
    """As the file is read; ValueError for a number that is none."""
    encoding = fit_encoding(read(tmp_path), [0, 1])
    row = {"time": " 5", "kind": "NA", "channel": "web", "amount": "1e2", "score": "", "more": "x"}
    typed = {"time": 5, "kind": None, "channel": "web", "amount": 100.0, "score": None, "more": "x"}
    assert typed_event(encoding, row) == typed
    for text in ("1_0", "one", "0x1", "1,5"):
        with pytest.raises(ValueError, match="'amount' must be a number"):
            typed_event(encoding, row | {"amount": text})


moments = st.datetimes(datetime(1000, 1, 1), datetime(2999, 12, 31))
offsets = st.none() | st.integers(-14 * 60, 14 * 60)
units = st.sampled_from(["day", "minutes", "seconds", "microseconds"])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(moments, min_size=1, max_size=5), offsets, st.sampled_from(["day", "minutes", "seconds", "microseconds"])
)
def test_dates_one_by_one_equal_a_column(tmp_path_factory, moments, offset, unit):
    """And Python's own reading of them, in UTC."""
    path = tmp_path_factory.mktemp("log") / "log.csv"
    zone = UTC if offset is None else timezone(timedelta(minutes=offset))
    moments = [m.replace(tzinfo=zone, microsecond=m.microsecond if unit == "microseconds" else 0) for m in moments]
    if unit == "day":
        moments = [m.replace(hour=0, minute=0, second=0, tzinfo=UTC) for m in moments]
        written = [m.date().isoformat() for m in moments]
    else:
        moments = [m.replace(second=0) if unit == "minutes" else m for m in moments]
        written = [m.isoformat(timespec=unit) for m in moments]
        written = [text.removesuffix("+00:00") for text in written] if offset is None else written
    path.write_text("sequence,time\n" + "".join(f"{i},{text}\n" for i, text in enumerate(written)))
    events = read_events(path, time="time")
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    want = [(m - epoch) // timedelta(microseconds=1) for m in moments]
    assert events.clock == Clock("time", "date")
    assert events.times.tolist() == [events.clock.tick(text) for text in written] == want


def test_times_of_a_clock():
    """Dates as text or as Python has them; nothing else."""
    clock = Clock("time", "date")
    assert clock.tick("1970-01-01T00:00:01") == clock.tick(datetime(1970, 1, 1, 0, 0, 1)) == 10**6
    for value in (5, None, "", "soon", "2024-02-30", "2024-01-01T24:00", "2024-01-01\nx"):
        with pytest.raises(ValueError, match="'time' must be an ISO 8601 date"):
            clock.tick(value)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.data())
def test_padding_equals_a_loop(lengths, data):
    """Rows in any order, and twice."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    flat = np.arange(2 * offsets[-1]).reshape(-1, 2) + 1
    rows = data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=5))
    T = data.draw(st.integers(max((lengths[row] for row in rows), default=0), 7))
    got = gathered(flat, offsets, rows, T)
    assert got.shape == (len(rows), T, 2)
    for row, each in zip(rows, got, strict=True):
        assert each[: lengths[row]].tolist() == flat[offsets[row] : offsets[row + 1]].tolist()
        assert not each[lengths[row] :].any()


def test_what_encoding_refuses(tmp_path):
    """Rows that are none, a width too small, other fields, numbers that have no variance."""
    events = read(tmp_path)
    encoding = fit_encoding(events, [0, 1])
    encoded = encode(encoding, events)
    for rows, message in (
        ([3], r"rows must lie in 0..2"),
        ([-1], "rows must be numbers"),
        ([0.5], "rows must be numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            fit_encoding(events, rows)
        with pytest.raises(ValueError, match=message):
            padded(encoded, rows, 9)
    with pytest.raises(ValueError, match="rows must name training sequences with events, got none"):
        fit_encoding(events, [])
    with pytest.raises(ValueError, match="T must be at least 3, the length of sequence 1, got 2"):
        padded(encoded, [0, 1], 2)
    with pytest.raises(ValueError, match=r"events have the fields .* read them alike"):
        encode(encoding, read(tmp_path, fields=["kind"]))
    with pytest.raises(ValueError, match=r"column 'amount' has numbers too large for a variance, up to 1e.308"):
        fit_encoding(read(tmp_path, HEAD + "a,1,u,v,1e308,1\na,2,u,v,-1e308,2\n"), [0])
    far = read(tmp_path, HEAD + TRAIN + "c,1,u,v,1e308,1\n")
    with pytest.raises(ValueError, match=r"column 'amount' is 1e.308, too far from training's 3"):
        encode(fit_encoding(far, [0, 1]), far)


def test_many_categories_take_wider_codes(tmp_path):
    """int32 where int16 would wrap."""
    text = "sequence,kind\n" + "".join(f"a,k{n}\n" * 2 for n in range(2**15))
    (tmp_path / "log.csv").write_text(text)
    events = read_events(tmp_path / "log.csv", limit=None)
    encoded = encode(fit_encoding(events, [0]), events)
    assert (encoded.codes.dtype, encoded.codes.max()) == (np.int32, 2**15 - 1)
