"""Whatever a harness sends: the codec raises nothing, and each run gets exactly one terminal."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trunkline.adapters.claude.frames import MENDED_BYTES, FrameDefect, parse
from trunkline.adapters.claude.outcome import settled
from trunkline.adapters.claude.turn import Turn
from trunkline.protocol import names
from trunkline.protocol.limits import Limits

from tests.support import trace
from tests.support.claude_wire import (
    aborted,
    asks,
    block,
    call,
    control_ok,
    delta,
    desk,
    event,
    init,
    result,
    returned,
    said,
    starts,
    stops,
)
from tests.support.desk import Desk

FRAMES: tuple[dict[str, Any], ...] = (
    init(),
    starts("m1"),
    delta("text"),
    delta("thought", "thinking"),
    stops(),
    event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
    block("m1", said("text")),
    block("m1", call("t1")),
    block("m2", said("inner"), call("t2"), parent="t1"),
    block("x", said("failed"), error="server_error"),
    asks("q1", "t1"),
    asks("q2", "t2", "AskUserQuestion", {"questions": [{"question": "Which?", "options": [{"label": "A"}]}]}),
    {"type": "control_cancel_request", "request_id": "q1"},
    returned("t1", "out"),
    returned("t2", "out", is_error=True, parent="t1"),
    {"type": "system", "subtype": "task_started", "task_id": "a1", "tool_use_id": "t1"},
    {"type": "system", "subtype": "task_progress", "task_id": "a1", "tool_use_id": "t1", "description": "x"},
    {"type": "system", "subtype": "task_notification", "task_id": "a1"},
    {"type": "tool_progress", "tool_use_id": "t1", "elapsed_time_seconds": 3},
    control_ok("req_2"),
    result(),
    result(origin={"kind": "task-notification"}),
    aborted(),
    result(is_error=True, api_error_status=500),
)
ODD: Any = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.just([]),
    st.just({}),
    st.just([{"type": "tool_use"}]),
    st.just("\ud800"),
)
ACTS = ("submit", "cancel", "grant", "deny", "answer", "close", "idle", "select")


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    """A frame of the wire with one member, at any depth, dropped or replaced."""
    frame = json.loads(json.dumps(draw(st.sampled_from(FRAMES))))
    place: Any = frame
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return dict(frame)
        key = draw(st.sampled_from(keys))
        if isinstance(place[key], dict | list) and draw(st.booleans()):
            place = place[key]
            continue
        if draw(st.integers(0, 4)) == 0:
            del place[key]
        else:
            place[key] = draw(ODD)
        return dict(frame)


LINES = st.one_of(
    st.sampled_from(FRAMES),
    mutated(),
    st.binary(max_size=12),
    st.sampled_from(FRAMES).map(lambda frame: json.dumps(frame).encode()[:-1]),
)


def act(host: Desk, name: str) -> None:
    """Let the host do something, where it may."""
    live = [run for run in host.runs.values() if not run.over]
    gates = [gate for run in live for gate in run.gates.values()]
    if name == "submit" and not live:
        host.submit("hello")
    elif name == "select" and not live:
        host.submit("hello", model_id="small-1")
    elif name == "cancel" and live and live[0].id not in host.cancelled:
        host.cancel()
    elif name == "close":
        host.close()
    elif name == "idle" and host.armed.get("idle") is not None:
        host.elapsed("idle")
    elif len(gates) == 1:
        if not gates[0].permission:
            answers = [{"question_id": "question-1", "selected_option_ids": ["option-1"]}]
            host.resolve(**({"answers": answers} if name == "answer" else {}))
        elif name in ("grant", "deny"):
            host.resolve(granted=name == "grant")


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(LINES, st.sampled_from(ACTS)), max_size=30))
def test_nothing_breaks_the_codec(script: list[Any]) -> None:
    host = desk(Limits(gates_per_run=3, harness_stray_lines=4))
    host.submit("hello")
    for item in script:
        if isinstance(item, str):
            act(host, item)
        elif isinstance(item, dict):
            host.feed(json.dumps(item).encode())
        else:
            host.feed(item)
    host.gone(-9)
    pending = [run_id for run_id, run in host.runs.items() if run.sequence == 0]
    for run_id in pending:  # a submission that was refused in the end never was a run
        del host.runs[run_id]
    assert all(token in host.settled for token in range(1, host.asked + 1))
    assert all(run.over for run in host.runs.values())
    assert host.events[-1]["type"] in names.TERMINALS
    trace.check(host.events, cancels=host.cancelled)


@pytest.mark.parametrize("error", [None, {}, "no", 0])
def test_an_error_flag_of_another_kind_leaves_the_subtype_to_say(error: object) -> None:
    turn = Turn("run-1", None, 8, lambda text: None)
    result = {"subtype": "error_during_execution", "is_error": error}
    assert settled(turn, result, None, {}, {})[-1][1] == "run.failed"


def test_a_long_frame_is_not_mended() -> None:
    line = b'{"type":"x","text":"' + b"a" * MENDED_BYTES + b'\\ud800"}'
    with pytest.raises(FrameDefect, match="no strict JSON"):
        parse(line)
