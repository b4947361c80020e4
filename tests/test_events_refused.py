"""What `read_events` refuses, in a line that names the row or the column; fields that give the target away."""

import itertools
from datetime import datetime

import numpy as np
import pytest

from seqjax.events import read_events


def saved(folder, content, name="log.csv"):
    """A file of text or bytes."""
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def rows(*columns, repeat=1, head="sequence,kind,left"):
    """A CSV text of rows."""
    return "\n".join([head, *itertools.chain(*[columns] * repeat)]) + "\n"


OK = rows("a,u,yes", "a,v,yes", "b,u,no", "b,v,no")
TIMED = "sequence,time,kind\n"
BAD = {
    "no such column": (OK, {"target": "gone"}, r"log.csv has no column 'gone', it has 'sequence', 'kind', 'left'"),
    "another separator": ("sequence;kind\na;b\n", {}, "no column 'sequence'.* separated by commas"),
    "two of a name": (rows("a,u,v", head="sequence,kind,kind"), {}, "the column 'kind' 2 times"),
    "a column of two parts": (OK, {"fields": ["kind", "left"], "target": "left"}, "'left' is named twice"),
    "no name": (rows("0,a,u", head=",sequence,kind"), {}, "column 1 has no name"),
    "empty": ("", {}, "log.csv is empty"),
    "a header alone": ("sequence,kind\n", {}, "log.csv is empty: it has no rows"),
    "one class": (rows("a,u,yes", "b,v,yes"), {"target": "left"}, "target 'left' is 'yes' wherever"),
    "no target at all": (rows("a,u,", "b,v,"), {"target": "left"}, "target 'left' is missing in every row"),
    "no target": (
        rows("a,u,yes", "b,v,no", "c,u,", "d,u,"),
        {"target": "left"},
        "2 of 4 sequences have no target in 'left' .the first: 'c'",
    ),
    "two targets": (
        rows("a,u,yes", "b,v,no", "a,u,no"),
        {"target": "left"},
        "row 3: sequence 'a' has the target 'no' and in row 1 'yes'",
    ),
    "a class too many": (
        rows("a,u,1", "b,v,2", "c,v,3"),
        {"target": "left", "task": "binary"},
        "'left' has 3 classes, a binary target has 2",
    ),
    "regression of text": (OK, {"target": "left", "task": "regression"}, "row 1: column 'left' holds numbers, .*'yes'"),
    "text among numbers": (rows("a,1,y", "b,2,n", "b,x3,n"), {}, "row 3: column 'kind' holds numbers, but here 'x3'"),
    "text where numbers are said": (OK, {"kinds": {"kind": "number"}}, "row 1: column 'kind' holds numbers.*'u'"),
    "infinity": (rows("a,1,y", "b,inf,n"), {}, "row 2: column 'kind' is infinite"),
    "overflow": (rows("a,1,y", "b,-1e999,n"), {}, "row 2: column 'kind' is infinite, -inf"),
    "a time that is none": (TIMED + "a,2024-01-01,u\na,soon,u\n", {"time": "time"}, "row 2: 'time' is 'soon', a time"),
    "no such day": (TIMED + "a,2024-02-30,u\n", {"time": "time"}, "row 1: 'time' is '2024-02-30', a time must"),
    "an infinite time": (TIMED + "a,1.5,u\na,inf,u\n", {"time": "time"}, "row 2: 'time' is inf"),
    "a time too large": (
        TIMED + f"a,1,u\na,{2**62},u\n",
        {"time": "time"},
        f"row 2: 'time' is {2**62}, .* within ±2⁶²",
    ),
    "a time too small": (TIMED + f"a,{-(2**62)},u\n", {"time": "time"}, f"row 1: 'time' is -{2**62}"),
    "fractions beside large times": (
        TIMED + f"a,0.5,u\na,{2**53},u\n",
        {"time": "time"},
        f"row 2: 'time' is {2**53}, .* within ±2⁵³ in a column of fractions",
    ),
    "a time beyond floats": (TIMED + "a,0.5,u\na,1e308,u\n", {"time": "time"}, "row 2: 'time' is 1e308"),
    "no time": (TIMED + "a,1,u\na,,u\n", {"time": "time"}, "row 2: the time column 'time' is empty"),
    "no time at all": (TIMED + "a,,u\na,,u\n", {"time": "time"}, "every value of the time column 'time' is missing"),
    "some offsets": (
        TIMED + "a,2024-01-01T10:00Z,u\na,2024-01-01T11:00,u\n",
        {"time": "time"},
        "row 2: 'time' has no offset from UTC",
    ),
    "dates that are no time": (TIMED + "a,2024-01-01,u\n", {}, "column 'time' holds dates: name it as the time"),
    "no id": (rows("a,u,1", ",u,2"), {}, "row 2: the sequence id 'sequence' is empty"),
    "not UTF-8": (b"sequence,kind\na,u\nb,\xff\n", {}, "log.csv, line 3: not UTF-8"),
    "header not UTF-8": (b"sequence,\xffkind\na,u\n", {}, "log.csv, line 1: not UTF-8"),
    "UTF-16": (OK.encode("utf-16"), {}, "line 1: not UTF-8"),
    "cut short": (
        "sequence,kind,left\na,u,yes\nb,v",
        {},
        r"row 2 \(the last: is the file cut short\?\): 2 fields, .* 3",
    ),
    "cut in a quote": ('sequence,kind\na,u\nb,"v', {}, "cut short or has quotes"),
    "a row too long": (rows("a,u,1", "b,v,2,3", "c,u,1"), {}, "log.csv, row 2: 4 fields, the header has 3"),
    "a row too short": (rows("a,u,1", "b", "c,u,1"), {}, "log.csv, row 2: 1 fields, the header has 3"),
    "too many categories": (
        rows(*(f"a,k{n},1" for n in range(11))),
        {"limit": 10},
        "column 'kind' has 11 categories, the limit is 10: leave it out of the fields, or raise the limit",
    ),
    "too many classes": (
        rows(*(f"{n},{'uv'[i]},c{n}" for n in range(11) for i in range(2))),
        {"limit": 10, "target": "left"},
        "'left' has 11 classes, the limit is 10",
    ),
    "nothing in a column": (rows("a,,1", "b,,2"), {}, "every value of column 'kind' is missing"),
    "two targets of a number": (
        rows("7,u,yes", "7,u,no", "8,u,no").replace("sequence", "id"),
        {"target": "left", "sequence": "id", "kinds": {"kind": "category"}},
        "row 2: sequence '7' has the target",
    ),
    "no events": (rows("a,,1", "b,,2"), {"kinds": {"kind": "number"}, "fields": ["kind"]}, "log.csv has no events"),
    "no field": (rows("a", "b", head="sequence"), {}, "no field that describes an event"),
    "a fraction as a category": (
        rows("a,0.5,1", "b,1,2"),
        {"target": "kind", "task": "multiclass"},
        "row 1: column 'kind' is 0.5: a category is",
    ),
    "an unknown kind": (OK, {"kinds": {"kind": "word"}}, r"kinds must .* \['category', 'number'\], got 'kind': 'word'"),
    "an unknown task": (OK, {"target": "left", "task": "guess"}, "task must be one of .* got 'guess'"),
    "fields that are a word": (OK, {"fields": "kind"}, "fields must be a list"),
    "ids under the name of an answer": (
        OK.replace("sequence", "prediction"),
        {"sequence": "prediction", "target": "left"},
        "sequence must not be 'prediction', a name that answers have",
    ),
    "the name of a made field": (
        rows("a,1,2", head="sequence,time,since_previous"),
        {"time": "time"},
        "'since_previous' is a field made of the times",
    ),
}


@pytest.mark.parametrize(("content", "options", "message"), BAD.values(), ids=BAD)
def test_bad_tables_are_refused_in_a_line(tmp_path, content, options, message):
    """That names the row or the column."""
    with pytest.raises(ValueError, match=message) as refused:
        read_events(saved(tmp_path, content), **options)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 240


LINES = {
    "empty": ("", "log.jsonl is empty"),
    "blank": ("\n\n", "log.jsonl is empty: it has no rows"),
    "cut short": ('{"sequence":"a","kind":1}\n{"sequence":"a","ki', r"line 2 \(the last: is the file cut short"),
    "not JSON": (
        '{"sequence":"a","kind":1}\n{"sequence" 2}\n{"sequence":"b","kind":1}\n',
        "log.jsonl, line 2: not JSON: Expecting ':' delimiter at character 13",
    ),
    "no object": ('{"sequence":"a","kind":1}\n[1, 2]\n', "line 2: not a JSON object"),
    "not UTF-8": (b'{"sequence":"a","kind":"u"}\n{"sequence":"b","kind":"\xff"}\n', "line 2: not UTF-8"),
    "a name twice": ('{"sequence":"a","kind":1,"kind":2}\n', "line 1: 'kind' is given twice"),
    "a name twice, later": (
        '{"sequence":"a"}\n{"sequence":"a","sequence":"b"}\n',
        "line 2: 'sequence' is given twice",
    ),
    "infinity": ('{"sequence":"a","kind":1}\n{"sequence":"b","kind":Infinity}\n', "line 2: Infinity is not JSON"),
    "overflow": ('{"sequence":"a","kind":1}\n{"sequence":"b","kind":1e999}\n', "line 2.*finite"),
    "text among numbers": (
        "".join(f'{{"sequence":"a","kind":{v}}}\n' for v in ("1", "2.5", '"x"')),
        "line 3: 'kind' is 'x', a text, above it is a number",
    ),
    "numbers among text": (
        "".join(f'{{"sequence":"a","kind":{v}}}\n' for v in ('"x"', "null", "1e23")),
        r"line 3: 'kind' is 1e\+23, a number, above it is a text",
    ),
    "half a surrogate pair": ('{"sequence":"a","kind":"\\ud800"}\n', "line 1: a character that is half a surrogate"),
    "a bool among numbers": (
        '{"sequence":"a","kind":1}\n{"sequence":"b","kind":true}\n',
        "line 2: 'kind' is True, a bool",
    ),
    "a list": ('{"sequence":"a","kind":[1]}\n', "column 'kind' holds List.*neither words nor numbers"),
    "no id": ('{"sequence":"a","kind":1}\n{"kind":1}\n', "row 2: the sequence id 'sequence' is empty"),
    "an empty id": (
        '{"sequence":"a","kind":1}\n{"sequence":"","kind":1}\n',
        "row 2: the sequence id 'sequence' is empty",
    ),
}


@pytest.mark.parametrize(("content", "message"), LINES.values(), ids=LINES)
def test_bad_json_lines_are_refused_in_a_line(tmp_path, content, message):
    """That names the line, or the row or the column."""
    with pytest.raises(ValueError, match=message) as refused:
        read_events(saved(tmp_path, content, "log.jsonl"))
    assert "\n" not in str(refused.value)


def test_bad_parquet_is_refused_in_a_line(tmp_path):
    """Cut short anywhere, overwritten, no Parquet at all, without rows, with fields that are neither."""
    import polars as pl

    whole = tmp_path / "whole.parquet"
    pl.DataFrame({"sequence": ["a"] * 500, "kind": np.arange(500)}).write_parquet(whole)
    content = whole.read_bytes()
    for bad in (content[:-1], content[: len(content) // 2], b"sequence,kind", content[:20] + bytes(len(content))):
        with pytest.raises(ValueError, match=r"^log.parquet cannot be read as a whole .parquet file \(.*\)$"):
            read_events(saved(tmp_path, bad, "log.parquet"))
    for values, message in (
        ([[1]], "column 'kind' holds List"),
        ([datetime(2024, 1, 1)], "column 'kind' holds Datetime"),
        ([float("inf")], "row 1: column 'kind' is infinite"),
        ([], "is empty: it has no rows"),
    ):
        pl.DataFrame({"sequence": ["a"] * len(values), "kind": values}).write_parquet(tmp_path / "log.parquet")
        with pytest.raises(ValueError, match=message):
            read_events(tmp_path / "log.parquet")
    pl.DataFrame({"sequence": [1.0, 0.5], "kind": [1, 2]}).write_parquet(tmp_path / "log.parquet")
    with pytest.raises(ValueError, match="ids must be text or whole numbers, 'sequence' holds Float64"):
        read_events(tmp_path / "log.parquet")
    pl.DataFrame({"sequence": [float("nan"), 0.5], "kind": [1, 2]}).write_parquet(tmp_path / "log.parquet")
    with pytest.raises(ValueError, match="row 1: the sequence id 'sequence' is empty"):
        read_events(tmp_path / "log.parquet")


def test_dates_beyond_64_bits_of_microseconds_are_refused(tmp_path):
    """Days and milliseconds that would wrap around."""
    import polars as pl

    for kind, most in (
        (pl.Date, 2**62 // (86_400 * 10**6)),
        (pl.Datetime("ms"), 2**62 // 1000),
        (pl.Datetime("us"), 2**62 - 1),
    ):
        for value in (most, -most):
            at = pl.Series([0, value], dtype=pl.Int64).cast(pl.Int32 if kind == pl.Date else pl.Int64).cast(kind)
            pl.DataFrame({"sequence": ["a", "b"], "at": at}).write_parquet(tmp_path / "log.parquet")
            unit = {pl.Date: 86_400 * 10**6, pl.Datetime("ms"): 1000}.get(kind, 1)
            assert read_events(tmp_path / "log.parquet", time="at").times.tolist() == [0, value * unit]
        at = pl.Series([0, most + 1], dtype=pl.Int64).cast(pl.Int32 if kind == pl.Date else pl.Int64).cast(kind)
        pl.DataFrame({"sequence": ["a", "b"], "at": at}).write_parquet(tmp_path / "log.parquet")
        with pytest.raises(ValueError, match=r"row 2: 'at' is .* within ±2⁶² of its units"):
            read_events(tmp_path / "log.parquet", time="at")


def test_other_files_are_refused(tmp_path):
    """Another suffix, nothing, a folder."""
    for path, message in ((tmp_path / "log.txt", "must be a file .csv"), (tmp_path / "no.csv", "is not there")):
        with pytest.raises(ValueError, match=message):
            read_events(path)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ValueError, match="is no file"):
        read_events(tmp_path / "folder.csv")


LEAKS = {
    "the target itself": (["yes", "no"] * 2, ["yes", "no"] * 2, {}),
    "another name of it": (["1", "0"] * 2, ["yes", "no"] * 2, {}),
    "a number of it": (["2.5", "0.5"] * 2, ["yes", "no"] * 2, {}),
    "missing of one class": (["why", ""] * 2, ["yes", "no"] * 2, {}),
    "many reasons": (["r1", "", "r2", ""] * 20, ["yes", "no"] * 40, {}),
    "the number asked for": (["1.5", "2.5", "9.5"], ["1.5", "2.5", "9.5"], {}),
    "a falling function of it": (["-3", "-7", "-90"], ["1.5", "2.5", "9.5"], {}),
    "of every event": (["1", "0"] * 2, ["yes", "no"] * 2, {"per_event": True}),
    "a copy with a blank": (["", *["yes", "no"] * 8], ["no", *["yes", "no"] * 8], {}),
    "a number with a blank": (["", *map(str, range(12))], ["7", *map(str, range(12))], {}),
    "of every event, with a blank": (["", *["1", "0"] * 8], ["no", *["yes", "no"] * 8], {"per_event": True}),
}


@pytest.mark.parametrize(("field", "target", "options"), LEAKS.values(), ids=LEAKS)
def test_a_field_that_tells_the_target_is_refused(tmp_path, field, target, options):
    """By its name."""
    text = rows(*(f"{i},{k},{f},{t}" for i, (f, t) in enumerate(zip(field, target, strict=True)) for k in "uv"))
    path = saved(tmp_path, text.replace("kind,left", "kind,leak,left"))
    with pytest.raises(ValueError, match=r"column 'leak' tells the target 'left' exactly: leave it out of the fields"):
        read_events(path, target="left", **options)
    assert read_events(path, target="left", fields=["kind"], **options).ignored == ("leak",)


def test_a_regression_target_as_text_is_refused(tmp_path):
    """In JSON lines, where text stays text, and where it is said to be a category."""
    path = saved(
        tmp_path, "".join(f'{{"sequence":{i},"leak":"{i / 2}","y":{i / 2}}}\n' for i in range(30)), "log.jsonl"
    )
    with pytest.raises(ValueError, match="column 'leak' tells the target 'y' exactly"):
        read_events(path, target="y")
    path = saved(tmp_path, "".join(f'{{"sequence":{i},"leak":"n{i}","y":{i / 2}}}\n' for i in range(30)), "log.jsonl")
    assert len(read_events(path, target="y").fields) == 1


@pytest.mark.parametrize("where", ["first", "last"])
def test_a_copy_in_one_row_of_each_sequence_is_refused(tmp_path, where):
    """The other rows of it are empty."""
    own = [
        f"{s},{k},{t if at == (where == 'last') else ''},{t}"
        for s, t in zip("abcdefghijkl", ["yes", "no"] * 6, strict=True)
        for at, k in enumerate("uv")
    ]
    path = saved(tmp_path, rows(*own).replace("kind,left", "kind,leak,left"))
    with pytest.raises(ValueError, match="column 'leak' tells the target 'left' exactly"):
        read_events(path, target="left")


SOUND = {
    "told of few": (["1", "0", "", "", ""], ["yes", "no", "yes", "no", "no"]),
    "told of less than half": ([*["1", "0"] * 8, *[""] * 17], [*["yes", "no"] * 8, *["no", "yes"] * 8, "no"]),
    "one exception": (["1", "0", "1", "1"], ["yes", "no", "yes", "no"]),
    "a name of each": (["n1", "n2", "n3", "n4"], ["yes", "no", "yes", "no"]),
    "constant": (["1", "1", "1", "1"], ["yes", "no", "yes", "no"]),
}


@pytest.mark.parametrize(("field", "target"), SOUND.values(), ids=SOUND)
def test_other_fields_are_not_refused(tmp_path, field, target):
    """Fields that do not tell, or tell as many things as there are sequences."""
    text = rows(*(f"{i},{k},{f},{t}" for i, (f, t) in enumerate(zip(field, target, strict=True)) for k in "uv"))
    assert len(read_events(saved(tmp_path, text.replace("kind,left", "kind,plan,left")), target="left").fields) == 2


def test_a_field_that_changes_within_a_sequence_does_not_tell(tmp_path):
    """Though its first value does."""
    assert read_events(saved(tmp_path, rows("a,u,yes", "a,v,yes", "b,v,no", "b,u,no")), target="left").targets
