"""Reading people's own events: three formats to one record, sorting, targets, splits and buckets."""

import itertools
import json
from datetime import datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqjax.events import (
    Category,
    Number,
    Question,
    buckets,
    encode,
    fit_encoding,
    padded,
    read_events,
    read_like,
    report,
    split,
)

LOG = """sequence,time,kind,amount,vip,left
b,2024-01-02,buy,1.5,true,yes
a,2024-01-01T12:00,look,,false,no
b,2024-01-01,look,NA,true,yes
a,2024-01-01T12:00:00,buy,2,false,no
b,2024-01-02,,4e0,true,yes
"""


def saved(folder, content, name="log.csv"):
    """A file of text or bytes."""
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def log(folder, name="log.csv", left=LOG):
    """The events above, without the column that would tell the target."""
    return saved(
        folder, "\n".join(",".join(c for i, c in enumerate(r.split(",")) if i != 4) for r in left.split()), name
    )


def rows(*columns, repeat=1, head="sequence,kind,left"):
    """A CSV text of rows."""
    return "\n".join([head, *itertools.chain(*[columns] * repeat)]) + "\n"


def words(field):
    """The categories of events, None where missing."""
    return [None if code < 0 else field.values[code] for code in field.codes]


def test_rows_become_sequences_sorted_by_time(tmp_path):
    """Sequences in the order in which the file first names them, events at equal times in the order of the file."""
    events = read_events(log(tmp_path), time="time", target="left")
    assert (events.ids.tolist(), events.offsets.tolist(), events.lengths.tolist()) == (["b", "a"], [0, 3, 5], [3, 2])
    kind, amount, since = events.fields
    assert (type(kind), type(amount)) == (Category, Number)
    assert words(kind) == ["look", "buy", None, "look", "buy"]
    np.testing.assert_array_equal(amount.values, [np.nan, 1.5, 4, np.nan, 2])
    np.testing.assert_array_equal(since.values, [np.nan, np.log1p(24 * 3600), 0, np.nan, 0])
    assert (events.reordered, events.equal) == (1, 2)
    assert np.diff(events.times[:3]).tolist() == [24 * 3600 * 10**6, 0]
    assert events.targets.question == Question("left", "binary", ("no", "yes"))
    assert events.targets.values.tolist() == [1, 0]


def test_without_times_the_order_is_that_of_the_file(tmp_path):
    """And nothing is made of times."""
    events = read_events(log(tmp_path), target="left", fields=["kind"])
    assert words(events.fields[0]) == ["buy", "look", None, "look", "buy"]
    assert len(events.fields) == 1
    assert events.times is None
    assert events.ignored == ("time", "amount")


def test_three_formats_tell_the_same(tmp_path):
    """CSV by its text, JSON lines and Parquet by their types."""
    import polars as pl

    first = read_events(log(tmp_path), time="time", target="left")
    frame = pl.read_csv(log(tmp_path), null_values=["", "NA"])
    frame.write_ndjson(tmp_path / "log.jsonl")
    times = frame["time"].str.slice(0, 10).str.to_datetime("%Y-%m-%d", time_unit="ns")
    frame.with_columns(times.alias("time")).write_parquet(tmp_path / "log.parquet")
    for name in ("log.jsonl", "log.parquet"):
        other = read_events(tmp_path / name, time="time", target="left")
        for ours, its in zip(first.fields, other.fields, strict=True):
            assert ours.name == its.name
            np.testing.assert_array_equal(ours.missing(), its.missing())
        np.testing.assert_array_equal(first.fields[0].codes, other.fields[0].codes)
        np.testing.assert_array_equal(first.fields[1].values, other.fields[1].values)
        np.testing.assert_array_equal(first.fields[2].values, other.fields[2].values)
        np.testing.assert_array_equal(first.targets.values, other.targets.values)
        assert (other.clock, other.ids.tolist()) == (first.clock, ["b", "a"])


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=30))
def test_sorting_is_that_of_python(tmp_path_factory, pairs):
    """`sorted` by time within every sequence, which is stable, of sequences as they come."""
    folder = tmp_path_factory.mktemp("log")
    text = rows(*(f"s{s},{t},{i}" for i, (s, t) in enumerate(pairs)), head="sequence,time,place")
    events = read_events(saved(folder, text), time="time", kinds={"place": "number"})
    ids = list(dict.fromkeys(f"s{s}" for s, _ in pairs))
    of = {name: [i for i, (s, _) in enumerate(pairs) if f"s{s}" == name] for name in ids}
    want = [sorted(of[name], key=lambda i: pairs[i][1]) for name in ids]
    assert events.ids.tolist() == ids
    assert events.fields[0].values.astype(int).tolist() == list(itertools.chain(*want))
    back = sum(pairs[i][1] > pairs[j][1] for name in ids for i, j in itertools.pairwise(of[name]))
    same = sum(pairs[i][1] == pairs[j][1] for each in want for i, j in itertools.pairwise(each))
    assert (events.reordered, events.equal) == (back, same)


TASKS = {
    "text": (["x", "y", "z"], None, "multiclass", ("x", "y", "z")),
    "bools": (["True", "False", "True"], None, "binary", ("false", "true")),
    "whole numbers": (["10", "2", "2"], None, "binary", ("2", "10")),
    "whole numbers of type float": (["1.0", "0.0", "1.0"], None, "binary", ("0", "1")),
    "floats": (["1.5", "2", "2"], None, "regression", ()),
    "many whole numbers": ([str(n) for n in range(21)], None, "regression", ()),
    "regression by word": (["1", "2", "2"], "regression", "regression", ()),
    "multiclass by word": (["1", "2", "2"], "multiclass", "multiclass", ("1", "2")),
}


@pytest.mark.parametrize(("values", "given", "task", "classes"), TASKS.values(), ids=TASKS)
def test_the_task_is_told_by_the_target(tmp_path, values, given, task, classes):
    """Classes are numbered in their order."""
    text = rows(*(f"{i},{'uv'[n]},{value}" for i, value in enumerate(values) for n in range(2)))
    events = read_events(saved(tmp_path, text), target="left", task=given)
    assert (events.targets.question.task, events.targets.question.classes) == (task, classes)
    assert (len(classes) or 1) == events.targets.question.K
    assert Question.from_json(events.targets.question.to_json()) == events.targets.question
    names = {"True": "true", "False": "false", "1.0": "1", "0.0": "0"}
    told = [classes[v] if classes else float(v) for v in events.targets.values]
    assert told == [names.get(value, value) if classes else float(value) for value in values]


def test_targets_of_events(tmp_path):
    """One for each, in the order of the events; those that have none are counted."""
    text = rows("a,2,u,", "a,1,u,no", "b,1,v,yes", "b,2,u,yes", "a,3,v,no", head="sequence,time,kind,left")
    events = read_events(saved(tmp_path, text), time="time", target="left", per_event=True)
    assert events.targets.values.tolist() == [0, -1, 0, 1, 1]
    assert report(events).answered == 4
    assert "1 of 5 events have no target and do not count" in report(events).lines()


def test_a_target_may_be_told_once(tmp_path):
    """In any row of the sequence."""
    events = read_events(saved(tmp_path, rows("a,u,", "b,u,no", "a,v,yes", "b,v,", "a,u,")), target="left")
    assert events.targets.values.tolist() == [1, 0]


def test_a_sequence_without_events(tmp_path):
    """Is one row in which nothing of an event is told; elsewhere such a row is an event of which nothing is known."""
    text = rows("a,1,u,yes", "b,,,no", "a,2,,yes", head="sequence,time,kind,left")
    events = read_events(saved(tmp_path, text), time="time", target="left")
    assert (events.lengths.tolist(), events.targets.values.tolist()) == ([2, 0], [1, 0])
    assert words(events.fields[0]) == ["u", None]
    assert "1 sequences have no events and are answered from nothing" in report(events).lines()
    encoding = fit_encoding(events, [0])
    assert padded(encode(encoding, events), [1], 2).lengths.tolist() == [0]


def test_kinds_are_inferred_unless_they_are_said(tmp_path):
    """A number that is a name keeps its text."""
    text = rows("a,007,1", "a,7,2", head="sequence,code,n")
    events = read_events(saved(tmp_path, text), kinds={"code": "category"})
    assert events.fields[0].values == ("007", "7")
    assert isinstance(events.fields[1], Number)
    assert read_events(saved(tmp_path, text)).fields[0].values.tolist() == [7, 7]


def test_ids_stay_what_they_are(tmp_path):
    """Text of CSV to the letter, whole numbers of Parquet as numbers."""
    import polars as pl

    assert read_events(saved(tmp_path, rows("07,u", "7,u", head="sequence,kind"))).ids.tolist() == ["07", "7"]
    pl.DataFrame({"sequence": [7.0, 3.0], "kind": ["u", "v"]}).write_parquet(tmp_path / "log.parquet")
    assert read_events(tmp_path / "log.parquet").ids.tolist() == [7, 3]


def test_types_of_parquet(tmp_path):
    """Whole floats with NaN are classes, bools and categoricals are words, decimals and large numbers are numbers, ids
    of any size stay apart, dates and zones are times, nanoseconds too."""
    from decimal import Decimal

    import polars as pl

    moments = [datetime(2024, 1, 1, 1), datetime(2024, 1, 1)]
    frame = pl.DataFrame(
        {
            "sequence": pl.Series([2**64 - 1, 2**64 - 2, 2**64 - 1], dtype=pl.UInt64),
            "left": [1.0, 0.0, float("nan")],
            "vip": [True, None, False],
            "kind": pl.Series(["v", "u", None], dtype=pl.Categorical),
            "price": [Decimal("1.5"), None, Decimal(2)],
            "count": pl.Series([2**63, 1, 2], dtype=pl.UInt64),
            "ns": pl.Series([3, 2, 1], dtype=pl.Datetime("ns")),
            "zone": pl.Series([*moments, moments[1]]).dt.replace_time_zone("Asia/Tokyo"),
            "day": pl.Series([*moments, moments[1]]).cast(pl.Date),
            "ms": pl.Series([3, 2, 1], dtype=pl.Datetime("ms")),
            "huge": pl.Series([2**62 - 1, -(2**62) + 1, 1], dtype=pl.Int64),
        }
    )
    frame.write_parquet(tmp_path / "log.parquet")
    kept = ["vip", "kind", "price", "count"]
    for time, first, last in (
        ("ns", 1, 3),
        ("ms", 1000, 3000),
        ("zone", 1704034800 * 10**6, 1704038400 * 10**6),
        ("day", 1704067200 * 10**6, 1704067200 * 10**6),
        ("huge", 1, 2**62 - 1),
    ):
        events = read_events(tmp_path / "log.parquet", time=time, target="left", fields=kept)
        assert events.times[:2].tolist() == [first, last]
    vip, kind, price, count, since = events.fields
    assert events.ids.tolist() == [str(2**64 - 1), str(2**64 - 2)]
    assert events.targets.question.classes == ("0", "1")
    assert (words(vip), words(kind)) == (["false", "true", None], [None, "v", "u"])
    np.testing.assert_array_equal(price.values, [2, 1.5, np.nan])
    np.testing.assert_array_equal(count.values, [2, 2.0**63, 1])
    np.testing.assert_array_equal(since.values, np.log1p([np.nan, 2.0**62 - 2, np.nan]))
    since = read_events(tmp_path / "log.parquet", time="ns", fields=kept).fields[-1]
    np.testing.assert_array_equal(since.values, np.log1p([np.nan, 2e-9, np.nan]))


@pytest.mark.parametrize("name", ["^a.*$", "*", "^.*$"])
def test_a_name_that_looks_like_a_pattern(tmp_path, name):
    """Is a name, of whatever column."""
    (tmp_path / "log.csv").write_text(f"id,at,{name},a1,left\nx,2,u,1,yes\nx,1,v,2,yes\ny,1,u,3,no\n")
    events = read_events(tmp_path / "log.csv", sequence="id", time="at", target="left")
    assert [field.name for field in events.fields] == [name, "a1", "since_previous"]
    assert words(events.fields[0]) == ["v", "u", "u"]
    for part in ("id", "at", "left"):
        (tmp_path / "log.csv").write_text("id,at,kind,left\nx,2,u,yes\ny,1,u,no\n".replace(part, name, 1))
        named = {"sequence": "id", "time": "at", "target": "left"}
        named = {key: name if value == part else value for key, value in named.items()}
        assert len(read_events(tmp_path / "log.csv", **named).ids) == 2


def test_bools_are_spelled_alike(tmp_path):
    """In CSV as pandas, R and others write them, as in the other formats."""
    text = rows("a,True,1", "a,FALSE,1", "a,true,1", head="sequence,vip,n")
    assert read_events(saved(tmp_path, text)).fields[0].values == ("false", "true")


def test_blank_lines_and_quotes(tmp_path):
    """Blank lines are no rows; a quoted field may hold commas, quotes and line ends."""
    text = '\ufeffsequence,kind\r\na,"x,\r\n""y"""\r\n\r\nb,u\r\n\r\n'
    events = read_events(saved(tmp_path, text))
    assert (events.ids.tolist(), words(events.fields[0])) == (["a", "b"], ['x,\r\n"y"', "u"])


def many(folder, counts, timed=False):
    """Sequences of two events, so many of each class, one a day."""
    classes = list(itertools.chain(*([name] * n for name, n in counts.items())))
    lines = [f"{i},{i}.{n},{'uv'[n]},{c}" for i, c in enumerate(classes) for n in range(2)]
    return read_events(saved(folder, rows(*lines, head="sequence,time,kind,left")), time="time", target="left")


def test_a_split_keeps_sequences_whole_and_shares_alike(tmp_path):
    """Every sequence in one part, every class in its share; a function of the seed."""
    events = many(tmp_path, {"no": 70, "yes": 30})
    parts = split(events, seed=3)
    assert sorted(np.concatenate(parts)) == list(range(100))
    counts = [np.bincount(events.targets.values[part]).tolist() for part in parts]
    assert counts == [[50, 22], [10, 4], [10, 4]]
    again, other = split(events, seed=3), split(events, seed=4)
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))
    assert not np.array_equal(parts.test, other.test)
    assert [len(part) for part in split(events, validation=0, test=0.5)] == [50, 0, 50]


def test_a_split_by_time_tests_on_the_latest(tmp_path):
    """In the order of the last events."""
    events = read_events(
        saved(tmp_path, rows(*(f"{i},{(i * 7) % 20},u,{i % 2}" for i in range(20)), head="sequence,time,kind,left")),
        time="time",
        target="left",
    )
    parts = split(events, by="time")
    last = [events.times[events.offsets[1:] - 1][part] for part in parts]
    assert [len(part) for part in parts] == [14, 3, 3]
    assert last[0].max() < last[1].min() <= last[1].max() < last[2].min()


def test_splits_that_cannot_be(tmp_path):
    """Too few of a class, a part of one class, no times, shares of more than all."""
    events = many(tmp_path, {"no": 20, "yes": 2})
    with pytest.raises(ValueError, match=r"class 'yes' of 2 sequences cannot be split.* it takes 3 or more"):
        split(events)
    with pytest.raises(ValueError, match="by time there is no training sequence of class 'yes'"):
        split(events, by="time")
    with pytest.raises(ValueError, match="by time all 3 validation sequences are of class 'no'"):
        split(many(tmp_path, {"yes": 1, "no": 19}), by="time")
    with pytest.raises(ValueError, match="by must be one of"):
        split(events, by="day")
    with pytest.raises(ValueError, match=r"together below 1, got 'sequence', validation 0.5 and test 0.5"):
        split(events, validation=0.5, test=0.5)
    with pytest.raises(ValueError, match="a split by time needs times"):
        split(read_events(log(tmp_path), target="left", fields=["kind"]), by="time")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=12), st.integers(1, 4))
def test_buckets_pad_as_little_as_can_be(lengths, most):
    """No choice of as many widths among the lengths pads less, and none of fewer as little."""
    found = buckets(np.array(lengths), most)

    def padding(widths):
        return sum(min(w for w in widths if w >= n) - max(n, 1) for n in (max(n, 1) for n in lengths))

    top = max(*lengths, 1)
    others = sorted({max(n, 1) for n in lengths} - {top})
    choices = [(*c, top) for k in range(most) for c in itertools.combinations(others, k)]
    assert found == sorted(set(found))
    assert found[-1] == top
    assert len(found) <= most
    assert padding(found) == min(map(padding, choices))
    assert all(padding(c) > padding(found) for c in choices if len(c) < len(found))


@pytest.mark.parametrize("lengths", [[], [1.5], [-1], [[1]]])
def test_buckets_want_lengths(lengths):
    """Whole numbers, at least one."""
    with pytest.raises(ValueError, match="lengths must be whole numbers"):
        buckets(np.array(lengths))


def test_a_file_is_read_like_another(tmp_path):
    """By the columns, kinds, clock and classes of the training; new categories are no error, another clock is."""
    train = read_events(log(tmp_path), time="time", target="left")
    encoding, question = fit_encoding(train, [0, 1]), train.targets.question
    new = rows("7,9,2024-01-01,gift,,x,no", "7,9,2024-01-02,,1,y,", head="extra,sequence,time,kind,amount,more,left")
    events = read_like(saved(tmp_path, new, "new.csv"), encoding, question)
    assert (events.ids.tolist(), events.targets.values.tolist(), events.ignored) == (["9"], [0], ("extra", "more"))
    assert report(events, parts={"all of it": [0]}, encoding=encoding).unseen == {"all of it": {"kind": 1}}
    assert read_like(tmp_path / "new.csv", encoding).targets is None
    for old, mended, message in (
        (",no", ",maybe", "row 1: 'left' is 'maybe', the classes are no, yes"),
        ("2024-01-0", "", "times in 'time' are numbers, in training they were not"),
        ("amount", "price", "new.csv has no column 'amount'"),
        (",1,y", ",one,y", "row 2: column 'amount' holds numbers, but here 'one'"),
    ):
        with pytest.raises(ValueError, match=message):
            read_like(saved(tmp_path, new.replace(old, mended), "new.csv"), encoding, question)


def test_the_report_counts_all_that_is_odd(tmp_path):
    """In words and as numbers."""
    events = read_events(log(tmp_path), time="time", target="left")
    found = report(events, parts={"train": [0], "test": [1]}, encoding=fit_encoding(events, [0]))
    assert (found.sequences, found.events, found.lengths) == (2, 5, (2, 2.5, 3))
    assert (found.missing, found.reordered, found.equal) == ({"kind": 1, "amount": 2}, 1, 2)
    assert found.unseen == {"train": {"kind": 2}, "test": {"kind": 2}}  # each category has one training event
    assert found.classes["test"] == {"no": 1, "yes": 0}
    lines = found.lines()
    assert lines[0].endswith("log.csv: 2 sequences, 5 events, 2 to 3 a sequence, median 2")
    for line in (
        "test: 1 sequences, 2 events",
        "target left, one for every sequence: binary",
        "classes of all: no 1 (50.0%), yes 1 (50.0%)",
        "always answering 'no' would be right in 50.0% of 2 sequences",
        "amount: missing in 2 of 5 (40.0%) events",
        "kind: a category that training did not have, in 2 of 2 (100.0%) test events",
        "1 events came after a later one of their sequence: sorted by time",
        "2 events are at the time of the one before: they keep the order of the file",
    ):
        assert line in lines


def test_the_report_of_a_regression(tmp_path):
    """Tells the spread."""
    events = read_events(saved(tmp_path, rows("a,u,0.5", "b,u,2.5")), target="left")
    assert "from 0.5 to 2.5, mean 1.5, standard deviation 1" in report(events).lines()
    assert json.loads(events.targets.question.to_json())["task"] == "regression"
