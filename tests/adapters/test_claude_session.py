"""The session with one process: handshake, ends, deadlines, faults."""

from __future__ import annotations

from typing import Any

import pytest
from trunkline.adapters.base import Settings
from trunkline.adapters.claude import ClaudeAdapter
from trunkline.protocol import names
from trunkline.protocol.limits import Limits

from tests.support import trace
from tests.support.claude_wire import (
    MODELS,
    aborted,
    answered,
    asks,
    block,
    call,
    control_ok,
    delta,
    desk,
    init,
    refused,
    result,
    running,
    starts,
    stops,
)
from tests.support.desk import Desk


def starting(limits: Limits | None = None) -> Desk:
    return Desk(ClaudeAdapter(Settings("coder", limits or Limits())))


# -- the handshake -----------------------------------------------------------------------------------------------------


def test_ready_at_the_answer() -> None:
    host = starting()
    assert host.open() is ...
    assert host.written == [
        {"type": "control_request", "request_id": "req_1", "request": {"subtype": "initialize", "hooks": None}}
    ]
    assert host.armed == {"start": 60.0}
    host.feed(answered(MODELS))
    assert host.settled == {1: None}
    assert host.armed["start"] is None


def test_ready_before_it_is_asked() -> None:
    host = starting()
    host.apply(host.codec.connected())
    host.feed(answered(MODELS))
    assert host.ask(names.OPEN) is None


@pytest.mark.parametrize("models", [None, "x", [], [None, {}, {"value": 3}, {"value": ""}]])
def test_an_answer_without_models_will_do(models: Any) -> None:
    host = starting()
    host.open()
    host.feed(answered(models))
    assert host.settled == {1: None}
    assert host.codec.models() == {"models": []}


def test_the_handshake_has_a_deadline() -> None:
    host = starting(Limits(harness_start_s=7))
    host.open()
    host.elapsed("start")
    refused(host.settled[1], names.OPEN_FAILED, "within 7 s")
    assert host.end == "stop"
    host.gone(-15)
    assert host.events == []


def test_a_harness_that_dies_at_once() -> None:
    host = starting()
    host.open()
    host.gone(1, "no such option --foo")
    refused(host.settled[1], names.OPEN_FAILED, "exited with code 1", "no such option")


def test_a_session_that_is_not_there() -> None:
    host = starting()
    host.open()
    host.feed(aborted(errors=["No conversation found with session ID: x"]))
    refused(host.settled[1], names.OPEN_FAILED, "No conversation found")
    host.gone(1)


def test_a_refused_handshake() -> None:
    host = starting()
    host.open()
    body = {"subtype": "error", "request_id": "req_1", "error": "not today"}
    host.feed({"type": "control_response", "response": body})
    refused(host.settled[1], names.OPEN_FAILED, "not today")


def test_text_before_the_answer_is_skipped() -> None:
    host = starting()
    host.open()
    host.feed(b"Loaded credentials.", b"", b"[1, 2]", b"\xff\xfe", answered(MODELS))
    assert host.settled == {1: None}
    assert len([note for note in host.notes if "skipped" in note]) == 3  # a sample, not all of them


def test_answers_to_nothing_are_ignored() -> None:
    host = desk()
    host.feed(
        answered(MODELS), control_ok("never"), {"type": "control_response"}, {"type": "control_response", "response": 3}
    )
    assert host.events == []
    assert host.end is None


# -- the end of a run --------------------------------------------------------------------------------------------------


def test_two_runs_and_what_each_of_them_cost() -> None:
    host = desk()
    host.submit("one")
    host.feed(init(), result("a"))
    host.submit("two")
    host.feed(init(), result("b", requests=2, total=3))
    usages = [e["extensions"][names.EXTENSION]["usage"] for e in host.events if e["type"] == names.RUN_COMPLETED]
    assert [usage["input_tokens"] for usage in usages] == [100, 200]
    assert [usage["cost_usd"] for usage in usages] == [0.25, 0.5]
    assert usages[1] == {
        "input_tokens": 200,
        "output_tokens": 8,
        "cache_read_tokens": 100,
        "cache_write_tokens": 40,
        "cost_usd": 0.5,
        "source": "harness",
        "confidence": "approximate",
    }
    assert host.last(names.RUN_COMPLETED)["payload"]["usage"] == {"input_tokens": 200, "output_tokens": 8}
    trace.check(host.events)


@pytest.mark.parametrize(
    ("frame", "code", "retriable"),
    [
        (result("API Error: 429", is_error=True, api_error_status=429), "model_error", True),
        (result("API Error: 529", is_error=True, api_error_status=529), "model_error", True),
        (result("bad", is_error=True, api_error_status=400), "model_error", False),
        (result("cut", is_error=True, api_error_status=None), "model_error", None),
        (result("", is_error=True, subtype="error_max_turns"), "error_max_turns", None),
        (aborted("", errors=["it broke"]), "harness_error", None),
        (aborted(), "harness_interrupted", None),
        ({"type": "result"}, "harness_error", None),
        ({"type": "result", "subtype": [], "usage": "x", "modelUsage": 7, "errors": {}}, "harness_error", None),
    ],
)
def test_failed_runs(frame: dict[str, Any], code: str, retriable: bool | None) -> None:
    host = running()
    host.feed(frame)
    error = host.last(names.RUN_FAILED)["payload"]["error"]
    assert error["code"] == code
    assert error.get("retriable") == retriable
    assert "settled_by" not in host.last(names.RUN_FAILED)["payload"]
    trace.check(host.events)


def test_a_killed_harness() -> None:
    host = running()
    host.feed(block("m1", call("t1")), asks("q1", "t1"))
    host.gone(-9, "Out of memory")
    failed = host.last(names.RUN_FAILED)["payload"]
    assert failed["settled_by"] == "inferred"
    assert failed["error"]["code"] == "harness_exited"
    assert "killed by signal 9" in failed["error"]["message"]
    assert "Out of memory" in failed["error"]["message"]
    refused(host.submit("again"), names.SESSION_CLOSED)
    host.gone(-9)
    assert host.kinds().count(names.RUN_FAILED) == 1
    trace.check(host.events)


def test_an_exit_with_code_0_is_no_completion() -> None:
    host = running()
    host.gone(0)
    assert "before the turn's result" in host.last(names.RUN_FAILED)["payload"]["error"]["message"]


def test_frames_after_the_end_are_nothing() -> None:
    host = running()
    host.gone(0)
    before = len(host.events)
    host.feed(result("late"), b"{", b"text")
    assert len(host.events) == before


def test_a_result_of_nobody_is_dropped() -> None:
    host = desk()
    host.feed(result("surprise"))
    assert host.events == []
    assert any("no run was live" in note for note in host.notes)


# -- silence and faults ------------------------------------------------------------------------------------------------


def test_a_silent_run_ends() -> None:
    host = running(Limits(harness_idle_s=60))
    host.elapsed("idle")
    assert host.armed["idle"] == 60  # there were frames since the run began
    host.elapsed("idle")
    failed = host.last(names.RUN_FAILED)["payload"]
    assert failed["error"]["code"] == "harness_silent"
    assert failed["settled_by"] == "inferred"
    assert host.end == "stop"
    host.gone(-15)
    trace.check(host.events)


def test_an_open_gate_is_no_silence() -> None:
    host = running(Limits(harness_idle_s=60))
    host.feed(block("m1", call("t1")), asks("q1", "t1"))
    for _ in range(5):
        host.elapsed("idle")
    assert host.armed["idle"] == 60
    host.resolve(granted=True)
    host.elapsed("idle")
    host.elapsed("idle")
    assert host.kinds()[-1] == names.RUN_FAILED
    trace.check(host.events)


def test_no_idle_limit_arms_nothing() -> None:
    assert running(Limits(harness_idle_s=None)).armed["idle"] is None


@pytest.mark.parametrize("line", [b'{"type":"assistant"', b'{"type":}', b"{" * 100_000, b'{"a":1}{"b":2}'])
def test_a_broken_frame_ends_run_and_process(line: bytes) -> None:
    host = running()
    host.feed(line)
    failed = host.last(names.RUN_FAILED)["payload"]
    assert failed["error"]["code"] == "harness_protocol"
    assert len(failed["error"]["message"]) < 500
    assert host.end == "stop"
    refused(host.submit("next"), names.SESSION_CLOSED)
    host.feed(result("late"), line)
    host.gone(-15)
    assert host.kinds().count(names.RUN_FAILED) == 1
    trace.check(host.events)


def test_foreign_text_is_skipped_within_a_bound() -> None:
    host = desk(Limits(harness_stray_lines=5))
    host.submit("hello")
    host.feed(init(), *(b"npm warn something" for _ in range(5)))
    assert host.end is None
    host.feed(b"npm warn something")
    assert host.last(names.RUN_FAILED)["payload"]["error"]["code"] == "harness_protocol"
    assert host.end == "stop"


def test_text_glued_to_a_frame_loses_that_line_alone() -> None:
    host = running()
    host.feed(b'debug: {"type":"keep_alive"}', delta(" more"), stops(), result("some more"))
    assert host.text() == "some more"
    assert host.kinds()[-1] == names.RUN_COMPLETED


def test_a_broken_frame_at_rest_is_only_noted() -> None:
    host = desk()
    host.feed(b'{"type":')
    assert host.end is None
    assert any("no JSON" in note for note in host.notes)


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"result","type":"keep_alive"}',
        b'{"type":"keep_alive","n":123456789012345678901234567890}',
        b'{"type":"keep_alive","n":NaN}',
        b'{"type":"keep_alive","text":"\\ud800"}',
        b'{"type":"keep_alive","text":"\xff"}',
        b' {"type":"keep_alive"}\r',
    ],
)
def test_odd_json_is_read(line: bytes) -> None:
    host = running()
    host.feed(line)
    assert host.notes == []
    assert host.live().id == "run-1"


def test_lone_surrogates_are_replaced() -> None:
    host = running()
    body = b'{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"%b"}}}'
    host.feed(body % b"a\\ud83d", body % b"\\ud83d\\ude00")
    assert host.text() == "somea\ufffd\U0001f600"


def test_unknown_frames_are_noted_once() -> None:
    host = running()
    for _ in range(50):
        host.feed({"type": "brand_new"}, {"type": 7}, {}, {"type": "system", "subtype": "weather"})
    assert len(host.notes) == 4
    assert host.live().id == "run-1"


def test_notes_have_a_bound() -> None:
    host = desk()
    for number in range(200):
        host.submit("x")
        host.feed(init(), starts(f"a{number}"), delta("x"), starts(f"b{number}"), stops(), result(total=number))
    assert len(host.notes) == 64
    assert "left out" in host.notes[-1]


def test_another_version_is_noted_once() -> None:
    host = desk()
    for number in (1, 2):
        host.submit("x")
        host.feed(init(version="9.9.9"), result(total=number))
    assert [note for note in host.notes if "9.9.9" in note] == [
        "this claude is version 9.9.9; the codec was proved against 2.1.197"
    ]


def test_the_native_handle() -> None:
    host = desk()
    assert host.codec.facts() == {
        "current_model_id": "big-1",
        "metadata": {names.EXTENSION: {"native": {"harness": "claude"}}},
    }
    host.submit("x")
    host.feed(init(), result())
    native = {"harness": "claude", "session_id": "native-1", "version": "2.1.197", "cwd": "/w"}
    assert host.codec.facts()["metadata"] == {names.EXTENSION: {"native": native}}
