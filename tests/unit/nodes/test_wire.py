"""Frames between the web and a node: what was put in comes out, and nothing else gets through."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.nodes.model import NodeReport, Operation, Order, WorkerReport, WorkerState, WorkKey
from app.nodes.wire import (
    MAX_SEQ,
    MAX_SEQS,
    Acknowledgement,
    BadFrame,
    Heartbeat,
    acknowledge_frame,
    dump_frame,
    order_frame,
    parse_message,
    parse_order,
    read,
    report_frame,
)

KEY = WorkKey("jointinferenceservices", "u1", "edge")
ORDER = Order(7, "edge0", KEY, "default", "helmets", Operation.UPDATE, 3, {"名": [1, None, {"a": 0.5}]})
WORKER = WorkerReport(
    KEY,
    "default",
    "helmets",
    "little",
    3,
    WorkerState.BACKOFF,
    pid=9,
    exit_code=-11,
    log=("a", "\U0001f600"),
    detail={"runtime": "npu"},
)
OFFERS = {"videojobs": {"videos": {"0": {"type": "people indoor"}}}}
SIGN = Heartbeat(
    "1.2", "[::1]", NodeReport(0.5, 0.25, 1.5, 1 << 40, 4, 7, ("KL720",), OFFERS, (WORKER,)), {str(KEY): 7}
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def packed(content: Any, **header: Any) -> dict[str, Any]:
    return {"header": header, "content": base64.b64encode(json.dumps(content).encode()).decode()}


def test_an_order_comes_out_as_it_was_put_in() -> None:
    assert parse_order(read(dump_frame(order_frame(ORDER))), "edge0") == ORDER


def test_what_a_node_says_comes_out_as_it_was_put_in() -> None:
    assert parse_message(read(dump_frame(report_frame(SIGN)))) == SIGN
    assert parse_message(read(dump_frame(acknowledge_frame([3, 1])))) == Acknowledgement((3, 1))
    assert Heartbeat.from_json(SIGN.to_json()) == SIGN


def test_an_agent_of_before_offers_nothing() -> None:
    sign = SIGN.to_json()
    del sign["report"]["offers"]
    assert Heartbeat.from_json(sign).report.offers == {}


def test_a_report_says_what_the_node_has_only_when_it_connects() -> None:
    later = Heartbeat("1.2", "")
    assert "known" not in later.to_json()
    assert Heartbeat.from_json(later.to_json()).order_seqs is None
    assert Heartbeat.from_json({**later.to_json(), "known": {}}).order_seqs == {}


def test_a_delete_of_what_the_web_does_not_know_has_no_names() -> None:
    deletion = Order(8, "edge0", KEY, "", "", Operation.DELETE, 0, {})
    assert parse_order(order_frame(deletion), "edge0") == deletion


def test_what_a_newer_agent_says_beyond_is_passed_over() -> None:
    sign = SIGN.to_json()
    sign["new"] = sign["report"]["new"] = sign["report"]["workers"][0]["new"] = 1
    assert Heartbeat.from_json(sign) == SIGN


@pytest.mark.parametrize("name", ["resourceKind", "uid", "part", "seq", "generation", "operation", "namespace"])
@pytest.mark.parametrize("value", [None, [], -1, {}])
def test_an_order_without_its_header_is_refused(name: str, value: Any) -> None:
    frame = order_frame(ORDER)
    frame["header"][name] = value
    with pytest.raises(BadFrame):
        parse_order(frame, "edge0")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "1",
        "{",
        "[" * 100_000,
        '{"a": Infinity}',
        '{"a": 1e999}',
        '{"a": "\\ud800"}',
        b"\xff",
        '{"a": ' + "9" * 5000 + "}",
    ],
)
def test_what_is_no_object_that_can_be_kept_and_shown_is_refused(text: str | bytes) -> None:
    with pytest.raises(BadFrame):
        read(text)


@pytest.mark.parametrize(
    "frame",
    [
        {},
        {"header": {}, "content": ""},
        {"header": [], "content": "e30="},
        {"header": {}, "content": 5},
        {"header": {"operation": "report"}, "content": "e30=!"},
        {"header": {"operation": "report"}, "content": "é"},
        packed([], operation="report"),
        packed({}, operation="report"),
        packed({"seqs": []}, operation="insert"),
        packed({"seqs": []}),
        packed({"seqs": [1.5]}, operation="acknowledge"),
        packed({"seqs": [True]}, operation="acknowledge"),
        packed({"seqs": [MAX_SEQ + 1]}, operation="acknowledge"),
        packed({"seqs": [1] * (MAX_SEQS + 1)}, operation="acknowledge"),
        packed({"seqs": {}}, operation="acknowledge"),
    ],
)
def test_a_frame_that_says_nothing_known_is_refused(frame: dict[str, Any]) -> None:
    with pytest.raises(BadFrame):
        parse_message(frame)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 5},
        {"version": "x" * 33},
        {"address": "a b"},
        {"address": "x" * 256},
        {"address": "a\n"},
        {"report": None},
        {"report": {"workers": [{}]}},
        {"report": {"cores": "many"}},
        {"report": {"workers": {}}},
        {"known": []},
        {"known": {"a/b": 1}},
        {"known": {"a/b/c/d": 1}},
        {"known": {"a/b/ c": 1}},
        {"known": {"a/\0/c": 1}},
        {"known": {f"a/{'u' * 37}/c": 1}},
        {"known": {"a/b/c": "1"}},
        {"known": {"a/b/c": -1}},
        {"known": {f"a/b/{number}": 1 for number in range(MAX_SEQS + 1)}},
    ],
)
def test_a_report_with_something_wrong_in_it_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(BadFrame):
        Heartbeat.from_json({**SIGN.to_json(), **change})


def test_a_worker_in_a_state_that_there_is_not_is_refused_by_name() -> None:
    sign = SIGN.to_json()
    sign["report"]["workers"][0]["state"] = "RESTING"
    with pytest.raises(BadFrame, match=r"report\.workers\.0\.state"):
        Heartbeat.from_json(sign)


@pytest.mark.slow
@given(JSON)
def test_whatever_arrives_is_understood_or_refused(anything: Any) -> None:
    for operation in ("report", "acknowledge", anything):
        try:
            parse_message(read(json.dumps({"header": {"operation": operation}, "content": json.dumps(anything)})))
            parse_message(read(json.dumps(packed(anything, operation=operation))))
        except BadFrame:
            continue


@pytest.mark.slow
@given(JSON)
def test_whatever_a_report_holds_is_understood_or_refused(anything: Any) -> None:
    for name in ("version", "address", "known", "report"):
        for sign in ({**SIGN.to_json(), name: anything}, {**SIGN.to_json(), "report": {"workers": [anything]}}):
            try:
                Heartbeat.from_json(sign)
            except BadFrame:
                continue
