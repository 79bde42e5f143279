"""Traces: a file's rate for every second, and mistakes in files."""

import csv
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twin.replay import samples, traces
from twin.replay.traces import EVERY, MONDAY, TraceUnusable


def file(folder: Path, text: str) -> Path:
    path = folder / "trace"
    path.write_text(text)
    return path


def test_a_rate_holds_until_the_next_one_and_the_last_as_long_as_the_one_before(tmp_path: Path) -> None:
    read = traces.read(file(tmp_path, "seconds,requests_per_second\n0,5\n2,7.5\n5,1\n"))
    assert read.rates[EVERY].tolist() == [5, 5, 7.5, 7.5, 7.5, 1, 1, 1]
    assert (read.seconds, read.begins) == (8, MONDAY)


def test_models_have_their_own_rows_and_clocks(tmp_path: Path) -> None:
    text = "seconds,requests_per_second,model\n10,5,a\n11,6,b\n12,7,a\n13,8,b\n"
    rates = traces.read(file(tmp_path, text)).rates
    assert {model: found.tolist() for model, found in rates.items()} == {"a": [5, 5, 7, 7, 7], "b": [0, 6, 6, 8, 8]}


def test_series_of_a_range_query_are_added_up_by_model(tmp_path: Path) -> None:
    result = [
        {"metric": {"model": "a", "pod": "1"}, "values": [[1_700_000_000, "1"], [1_700_000_002, "2"]]},
        {"metric": {"model": "a", "pod": "2"}, "values": [[1_700_000_000, "10"], [1_700_000_002, "20"]]},
    ]
    text = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})
    read = traces.read(file(tmp_path, text))
    assert read.rates["a"].tolist() == [11, 11, 22, 22]
    assert read.begins == 1_700_000_000


HEADER = "seconds,requests_per_second\n"


def series(values: str, metric: str = "{}") -> str:
    """Return an answer of Prometheus with one series."""
    return f'{{"data": {{"resultType": "matrix", "result": [{{"metric": {metric}, "values": {values}}}]}}}}'


def answer(*result: dict[str, object]) -> str:
    return json.dumps({"data": {"resultType": "matrix", "result": result}})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: is not `seconds,requests_per_second`"),
        ("a,b\n1,2\n", "line 1: is not `seconds,requests_per_second`"),
        (HEADER, "it has no rates"),
        (HEADER + "0,nan\n", "line 2: 'nan' is no rate; give 0 to 1,000,000 requests per second"),
        (HEADER + "0,-1\n", "line 2: '-1' is no rate"),
        (HEADER + "0,2000000\n", "line 2: '2000000' is no rate"),
        (HEADER + "x,1\n", "line 2: 'x' is no number of seconds; give 0 or more"),
        (HEADER + "0,1,a\n", "line 2: has 3 values where the header has 2"),
        (HEADER + "5,1\n5,2\n", "line 3: 5 s come after 5 s; sort the rows of a model by their seconds, each once"),
        (HEADER + "0,1\n31536000,1\n", "it is 365 days long; give 35 at most"),
        ("seconds,requests_per_second,model\n0,1,\n", "line 2: names no model; name one, or leave the column out"),
        ('{"data": {"resultType": "vector"}}', "is no answer to a range query"),
        (HEADER + "0,1_000\n", "line 2: '1_000' is no rate"),
        (HEADER + "\u0661,1\n", "line 2: '\u0661' is no number of seconds"),
        (
            HEADER + "1767571200,1\n",
            "line 2: '1767571200' is a moment since 1970; give seconds from the beginning of the trace",
        ),
        ("seconds,requests_per_second,model\n0,1, \n", "line 2: names no model"),
        (HEADER + "0,1\0\n", r":2:4: a NUL character"),
        ('{"data": {"resultType": "matrix", "result": [{}]}}', r"data\.result\[0\]: has no values of a time and a number"),
        (series('[["1767571200", "1"]]'), r"data\.result\[0\]\.values\[0\]: 1767571200 is no time in seconds since 1970"),
        (series('[[1767571200000, "1"]]'), r"values\[0\]: 1767571200000 is no time in seconds since 1970"),
        (series('[[true, "1"]]'), r"values\[0\]: True is no time"),
        (series('[[1767571200, "1"], [1767571215, "1_0"]]'), r"values\[1\]: 1_0 is no rate; give 0 to 1,000,000"),
        (series('["12"]'), r"values\[0\]: is no pair of a time and a number"),
        (series("[]", '{"model": ["a"]}'), r"data\.result\[0\]\.metric\.model is a list, where text is expected"),
        (series("5"), r"data\.result\[0\]\.values is a number, where a list is expected"),
        (
            answer({"metric": {"pod": "a"}, "values": [[0, "600000"]]}, {"metric": {"pod": "b"}, "values": [[0, "600000"]]}),
            "all series together are more than 1,000,000 requests per second",
        ),
        ('{"data": {"resultType": "matrix", "result": []}}', "it has no rates"),
        (
            '{"warnings": ["No StoreAPIs matched"], "data": {"resultType": "matrix", "result": []}}',
            r"comes with warnings \(.*No StoreAPIs matched.*\), so rates may be missing; ask again, or take `warnings` out",
        ),
        (HEADER + '0,"1\n', "line 2: unexpected end of data"),
        (
            '{"status": "error", "error": "query timed out", "data": {"resultType": "matrix", "result": []}}',
            r"is an answer of the status error \(query timed out\); ask again",
        ),
        (series('[[10, "1"], [10, "2"]]'), r"values\[1\]: 10 comes after 10; give each once, in order"),
        (series('[[10, "1"], [5, "2"]]'), r"values\[1\]: 5 comes after 10"),
        (
            answer({"metric": {"model": "a"}, "values": [[0, "1"]]}, {"metric": {"model": "a"}, "values": [[0, "1"]]}),
            r"data\.result\[1\]: its labels are those of data\.result\[0\]; leave one of them out",
        ),
        (
            answer({"metric": {"model": "a"}, "values": [[0, "1"]]}, {"metric": {"model": ""}, "values": [[0, "1"]]}),
            "some series have a label `model` and others none, which would be counted twice; ask `by \\(model\\)`",
        ),
        ('{"data": ', "is no JSON|not JSON|line 1"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(TraceUnusable, match=said):
        traces.read(file(tmp_path, text))


def test_all_mistakes_are_told_at_once_but_not_thousands(tmp_path: Path) -> None:
    with pytest.raises(TraceUnusable) as told:
        traces.read(file(tmp_path, HEADER + "0,x\n" * 1000))
    assert str(told.value).count("is no rate") == 10
    assert "and 990 more" in str(told.value)


@pytest.mark.parametrize("name", samples.NAMES)
def test_samples_are_the_same_each_time_and_sized_by_the_peak(name: str) -> None:
    first, second = samples.sample(name, {"a": 100.0, "b": 1.0}), samples.sample(name, {"a": 100.0, "b": 1.0})
    assert np.array_equal(first.rates["a"], second.rates["a"])
    assert np.allclose(first.rates["a"], 100 * first.rates["b"])
    assert first.rates["b"].min() >= 0.1 and 0.5 <= first.rates["b"].max() <= 2
    assert (first.slow_pod is not None) == (name == "slow-pod")
    assert (first.outage is not None) == (name == "prometheus-away")


@given(st.text(max_size=30), st.text(max_size=30))
def test_whatever_a_row_has_is_read_as_every_program_reads_it_or_refused(seconds: str, rate: str) -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "trace.csv"
        with path.open("w", encoding="utf-8", newline="") as opened:
            csv.writer(opened).writerows([["seconds", "requests_per_second"], [seconds, rate]])
        try:
            found = traces.read(path)
        except TraceUnusable:
            return
    assert (seconds + rate).isascii() and "_" not in seconds + rate
    assert found.begins == traces.MONDAY + float(seconds) and found.rates[None][0] == float(rate)


def _answers() -> st.SearchStrategy[object]:
    values = (
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
    )
    return st.recursive(values, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner))


@given(st.fixed_dictionaries({"metric": _answers(), "values": _answers() | st.lists(st.tuples(_answers(), _answers()))}))
def test_whatever_a_series_is_there_is_a_trace_or_a_sentence(one: dict[str, object]) -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "trace.json"
        path.write_text(json.dumps({"data": {"resultType": "matrix", "result": [one]}}), encoding="utf-8")
        try:
            traces.read(path)
        except TraceUnusable as refused:
            assert (
                "data.result[0]" in str(refused) or "half of a character" in str(refused) or "has no rates" in str(refused)
            )
