"""Tool calls and gates: asked, answered, withdrawn; what reaches the harness and what the host sees."""

from __future__ import annotations

from typing import Any

import pytest
from trunkline.protocol import names
from trunkline.protocol.errors import Refusal
from trunkline.protocol.limits import Limits

from tests.support import trace
from tests.support.claude_wire import asks, block, call, desk, init, result, returned, said
from tests.support.desk import Desk

QUESTIONS = {
    "questions": [
        {"question": "Which?", "header": "Colour", "options": [{"label": "Red"}, {"label": "Blue"}]},
        {
            "question": "Any more?",
            "multiSelect": True,
            "options": [{"label": "A", "description": "one"}, {"label": "B"}],
        },
    ]
}


def asked(**more: Any) -> Desk:
    """A run with one call that the host is asked about."""
    host = desk()
    host.submit("hello")
    host.feed(init(), block("m1", call("t1")), asks("q1", "t1", **more))
    return host


def replies(host: Desk) -> list[Any]:
    return [line["response"] for line in host.written if line["type"] == "control_response"]


def test_allowed() -> None:
    host = asked(display_name="Shell", description="does nothing")
    gate = host.gate()
    assert gate["title"] == "Allow Shell"
    assert gate["description"] == "does nothing"
    assert gate["arguments_json"] == {"command": "true"}
    assert gate["tool_call_id"] == "t1"
    assert [choice["id"] for choice in gate["choices"]] == ["approve", "deny"]
    assert host.resolve(granted=True, choice_id="approve") is None
    answer = {"behavior": "allow", "updatedInput": {"command": "true"}}
    assert replies(host) == [{"subtype": "success", "request_id": "q1", "response": answer}]
    host.feed(returned("t1", "out"), result())
    assert host.kinds()[1:] == [
        names.CALL_REQUESTED,
        names.PERMISSION_REQUESTED,
        names.PERMISSION_RESOLVED,
        names.CALL_STARTED,
        names.CALL_COMPLETED,
        names.CONTENT_DELTA,
        names.RUN_COMPLETED,
    ]
    assert host.last(names.CALL_COMPLETED)["payload"]["result"] == "out"
    trace.check(host.events)


def test_allowed_with_other_arguments() -> None:
    host = asked()
    assert host.resolve(granted=True, updated_arguments_json={"command": "false"}) is None
    assert replies(host)[0]["response"] == {"behavior": "allow", "updatedInput": {"command": "false"}}
    assert host.last(names.CALL_STARTED)["payload"]["arguments_json"] == {"command": "false"}
    assert host.last(names.CALL_REQUESTED)["payload"]["arguments_json"] == {"command": "true"}


@pytest.mark.parametrize("value", ["rm", 1, None, ["x"]])
def test_other_arguments_must_be_an_object(value: Any) -> None:
    host = asked()
    refusal = host.resolve(granted=True, updated_arguments_json=value)
    assert isinstance(refusal, Refusal)
    assert refusal.code == names.RESOLUTION_REJECTED
    assert replies(host) == []
    assert host.gate()["interaction_id"] == "permission-1"  # still open, still answerable
    assert host.resolve(granted=True) is None


@pytest.mark.parametrize(
    ("reason", "message"), [("no", "no"), ("", "The user denied this."), (None, "The user denied this.")]
)
def test_denied(reason: str | None, message: str) -> None:
    host = asked()
    assert host.resolve(granted=False, choice_id="deny", **({} if reason is None else {"reason": reason})) is None
    assert replies(host)[0]["response"] == {"behavior": "deny", "message": message}
    assert host.last(names.PERMISSION_RESOLVED)["payload"]["granted"] is False
    host.feed(returned("t1", message, is_error=True), result())
    assert host.kinds()[-3:] == [names.CALL_CANCELLED, names.CONTENT_DELTA, names.RUN_COMPLETED]
    trace.check(host.events)


def test_a_failed_tool() -> None:
    host = asked()
    host.resolve(granted=True)
    host.feed(returned("t1", [said("Exit code 1"), said("no such file")], is_error=True), result())
    error = {"code": "tool_failed", "message": "Exit code 1\nno such file"}
    assert host.last(names.CALL_FAILED)["payload"]["error"] == error
    trace.check(host.events)


def test_a_tool_that_failed_in_silence() -> None:
    host = asked()
    host.resolve(granted=True)
    host.feed(returned("t1", "", is_error=True), result())
    assert host.last(names.CALL_FAILED)["payload"]["error"]["message"]


def test_a_call_nobody_is_asked_about() -> None:
    host = desk()
    host.submit("hello")
    host.feed(init(), block("m1", call("t1", "Read", file_path="x")), returned("t1", "text"), result())
    assert host.kinds()[1:4] == [names.CALL_REQUESTED, names.CALL_STARTED, names.CALL_COMPLETED]


def test_a_long_call_shows_that_it_lives() -> None:
    host = desk()
    host.submit("hello")
    host.feed(init(), block("m1", call("t1")))
    host.feed({"type": "system", "subtype": "task_started", "task_id": "b1", "tool_use_id": "t1"})
    host.feed({"type": "tool_progress", "tool_use_id": "t1", "tool_name": "Bash", "elapsed_time_seconds": 30})
    progress = {"description": "at it", "usage": {"tool_uses": 1}}
    host.feed({"type": "system", "subtype": "task_progress", "task_id": "b1", "tool_use_id": "t1", **progress})
    host.feed(returned("t1", "x"), result())
    assert host.kinds()[1:6] == [
        names.CALL_REQUESTED,
        names.CALL_STARTED,
        names.CALL_PROGRESS,
        names.CALL_PROGRESS,
        names.CALL_COMPLETED,
    ]
    assert host.last(names.CALL_PROGRESS)["payload"]["progress"] == progress
    trace.check(host.events)


def test_two_calls_are_asked_about_one_after_the_other() -> None:
    host = desk()
    host.submit("hello")
    host.feed(init(), block("m1", call("t1")), asks("q1", "t1"), block("m1", call("t2")))
    assert host.resolve(granted=True) is None
    host.feed(asks("q2", "t2"))
    assert host.gate()["interaction_id"] == "permission-2"
    assert host.resolve(granted=False, reason="one is enough") is None
    host.feed(returned("t1", "a"), returned("t2", "one is enough", is_error=True), result())
    assert host.last(names.CALL_COMPLETED)["tool_call_id"] == "t1"
    assert host.last(names.CALL_CANCELLED)["tool_call_id"] == "t2"
    trace.check(host.events)


def test_a_question_that_comes_before_its_call() -> None:
    """Seen with sub-agents: the question is put first, the message that holds the call follows."""
    host = desk()
    host.submit("hello")
    host.feed(init(), block("m1", call("t1", "Agent", prompt="look")))
    host.feed({"type": "system", "subtype": "task_started", "task_id": "a1", "tool_use_id": "t1"})
    host.feed(asks("q1", "t2", agent_id="a1"), block("m2", call("t2"), parent="t1"))
    assert host.resolve(granted=True) is None
    host.feed(returned("t2", "x", parent="t1"), returned("t1", "y"), result())
    requested = [event for event in host.events if event["type"] == names.CALL_REQUESTED]
    assert [event["tool_call_id"] for event in requested] == ["t1", "t2"]
    assert requested[1]["extensions"][names.EXTENSION] == {"native": {"parent_tool_call_id": "t1"}}
    trace.check(host.events)


def test_a_question_to_the_user() -> None:
    host = desk()
    host.submit("hello")
    host.feed(init(), block("m1", call("t1", "AskUserQuestion", **QUESTIONS)))
    host.feed(asks("q1", "t1", "AskUserQuestion", QUESTIONS))
    gate = host.gate()
    assert gate["title"] == "Colour"
    assert [question["kind"] for question in gate["questions"]] == ["single_choice", "multi_choice"]
    assert host.last(names.RUN_STATUS)["payload"]["pending_user_input_id"] == "input-1"
    answers = [
        {"question_id": "question-1", "selected_option_ids": ["option-2"]},
        {"question_id": "question-2", "selected_option_ids": ["option-1", "option-2"]},
    ]
    assert host.resolve(answers=answers) is None
    value = {**QUESTIONS, "answers": {"Which?": "Blue", "Any more?": "A, B"}}
    assert replies(host)[0]["response"] == {"behavior": "allow", "updatedInput": value}
    assert host.last(names.INPUT_RESOLVED)["payload"]["answers"] == answers
    assert host.last(names.RUN_STATUS)["payload"] == {"session_id": "s1", "run_id": "run-1", "status": "running"}
    host.feed(returned("t1", "thanks"), result())
    trace.check(host.events)


def test_a_question_nobody_answers_in_time() -> None:
    host = desk()
    host.submit("hello")
    host.feed(init(), asks("q1", "t1", "AskUserQuestion", QUESTIONS))
    assert host.resolve(reason="nobody answered within 5 s") is None
    assert replies(host)[0]["response"] == {"behavior": "deny", "message": "nobody answered within 5 s"}
    assert host.last(names.INPUT_RESOLVED)["payload"]["status"] == "cancelled"
    host.feed(returned("t1", "nobody answered", is_error=True), result())
    assert host.kinds()[-3] == names.CALL_CANCELLED
    trace.check(host.events)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"questions": []},
        {"questions": "x"},
        {"questions": [{"question": ""}]},
        {"questions": [{"question": "Which?", "options": []}]},
        {"questions": [{"question": "Which?", "options": [{"label": 3}]}]},
        [],
    ],
)
def test_a_question_of_another_shape_is_a_permission(value: Any) -> None:
    host = desk()
    host.submit("hello")
    host.feed(init(), asks("q1", "t1", "AskUserQuestion", value))
    assert host.gate()["interaction_id"] == "permission-1"
    assert host.resolve(granted=True) is None
    assert isinstance(replies(host)[0]["response"]["updatedInput"], dict)
    host.feed(returned("t1", "x"), result())
    trace.check(host.events)


def test_the_harness_withdraws_its_question() -> None:
    host = asked()
    host.feed({"type": "control_cancel_request", "request_id": "q1"})
    resolved = host.last(names.PERMISSION_RESOLVED)["payload"]
    assert resolved["outcome"] == "cancelled"
    assert resolved["reason"]["code"] == "withdrawn"
    assert "granted" not in resolved
    gate = {"interaction_id": "permission-1", "requested_by": "claude-code", "responded_by": "user"}
    refusal = host.ask(names.RESOLVE_PERMISSION, "run-1", **gate, granted=True)
    assert isinstance(refusal, Refusal)
    assert refusal.code == names.RESOLUTION_REJECTED
    assert replies(host) == []
    host.feed(returned("t1", "stream closed", is_error=True), result())
    trace.check(host.events)


def test_a_call_that_ended_closes_its_question() -> None:
    host = asked()
    host.feed(returned("t1", "Tool permission request failed", is_error=True), result())
    assert host.kinds()[3:5] == [names.PERMISSION_RESOLVED, names.CALL_CANCELLED]
    trace.check(host.events)


def test_the_same_question_twice_is_one() -> None:
    host = asked()
    host.feed(asks("q1", "t1"))
    assert host.kinds().count(names.PERMISSION_REQUESTED) == 1


def test_questions_have_a_bound() -> None:
    host = desk(Limits(gates_per_run=1))
    host.submit("hello")
    host.feed(init(), asks("q1", "t1"), asks("q2", "t2"))
    assert host.kinds().count(names.PERMISSION_REQUESTED) == 1
    assert replies(host) == [
        {
            "subtype": "success",
            "request_id": "q2",
            "response": {"behavior": "deny", "message": "Too many questions are open."},
        }
    ]


def test_calls_have_a_bound() -> None:
    host = desk(Limits(calls_per_run=16))
    host.submit("hello")
    host.feed(init(), *(block("m1", call(f"t{number}")) for number in range(40)))
    assert host.kinds().count(names.CALL_REQUESTED) == 16
    assert len([note for note in host.notes if "more than 16 tool calls" in note]) == 1
    host.feed(asks("q1", "t39"), returned("t39", "late"))
    assert replies(host)[0]["response"]["behavior"] == "deny"
    host.feed(result())
    trace.check(host.events)


@pytest.mark.parametrize("subtype", ["hook_callback", "mcp_message", "elicitation", "", 7])
def test_requests_that_nobody_serves_are_refused_at_once(subtype: Any) -> None:
    host = desk()
    host.feed({"type": "control_request", "request_id": "h1", "request": {"subtype": subtype}})
    assert replies(host)[0]["subtype"] == "error"
    assert replies(host)[0]["request_id"] == "h1"


def test_values_that_lie_too_deep_are_cut() -> None:
    deep: Any = "bottom"
    for _ in range(200):
        deep = [deep]
    host = desk()
    host.submit("hello")
    host.feed(init(), block("m1", call("t1", command=deep)), returned("t1", deep), result())
    assert "nested too deeply" in str(host.last(names.CALL_COMPLETED)["payload"]["result"])
    trace.check(host.events)


def test_a_result_of_no_known_call_is_dropped() -> None:
    host = desk()
    host.submit("hello")
    host.feed(init(), returned("never", "x"), result())
    assert host.kinds() == [names.RUN_STARTED, names.CONTENT_DELTA, names.RUN_COMPLETED]


def test_a_late_result_of_an_earlier_run_does_not_leak() -> None:
    host = asked()
    host.resolve(granted=True)
    host.feed(result("first"))
    assert host.kinds()[-3:] == [names.CONTENT_DELTA, names.CALL_CANCELLED, names.RUN_COMPLETED]  # closed by the hub
    host.submit("again")
    host.feed(init(), returned("t1", "late"), result("second", total=2))
    assert host.kinds("run-2") == [names.RUN_STARTED, names.CONTENT_DELTA, names.RUN_COMPLETED]
    trace.check(host.events)
