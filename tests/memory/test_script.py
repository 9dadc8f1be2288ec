"""The script of the memory adapter and each of its variants (spec: hub 9.2, 9.3)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from trunkline.adapters.memory import DESCRIPTOR, MODELS, REVISION
from trunkline.protocol import names
from trunkline.protocol.validate import compiled

from tests.support.hubs import Seat, request

GOLDEN = [
    "run.started",
    "content.delta",
    "action.call.requested",
    "action.permission.requested",
    "action.permission.resolved",
    "action.call.started",
    "action.call.completed",
    "user.input.requested",
    "run.status.updated",
    "user.input.resolved",
    "content.delta",
    "run.completed",
]
WITHOUT_TOOL = [kind for kind in GOLDEN if "call" not in kind and "permission" not in kind]


def opened() -> Seat:
    seat = Seat()
    seat.open()
    return seat


def payload(seat: Seat, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = seat.asked(kind)["payload"]
    return found


def test_ids_are_minted_in_one_order() -> None:
    seat = opened()
    answer = seat.submit()
    seat.permit()
    seat.reply()
    ids = [event["id"] for event in seat.published["s"]]
    assert ids == [f"event-{n}" for n in (7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 19, 20)]
    assert seat.types() == GOLDEN
    assert (answer.run_id, answer.payload["submission_id"]) == ("run-1", "submission-6")
    assert answer.payload["message_ids"] == ["message-5"]
    assert [event["sequence"] for event in seat.published["s"]] == list(range(1, 13))
    seat.check()
    assert seat.notes == []


def test_an_open_without_a_name_mints_first_and_messages_with_ids_mint_nothing() -> None:
    seat = Seat()
    assert seat.open(None).session_id == "session-1"
    messages = [{"role": "user", "content": "a", "id": "mine"}, {"role": "user", "content": "b"}]
    answer = seat.submit("session-1", messages=messages)
    assert (answer.run_id, answer.payload["message_ids"]) == ("run-2", ["mine", "message-6"])
    assert answer.payload["submission_id"] == "submission-7"


def test_the_second_run_of_a_session_begins_at_one_and_ids_go_on() -> None:
    seat = opened()
    first, second = seat.play(), seat.play()
    assert (first, second) == ("run-1", "run-21")
    assert [event["sequence"] for event in seat.published["s"]] == [*range(1, 13), *range(1, 13)]
    seat.check()


@pytest.mark.parametrize("how", [{}, {"choice_id": "deny"}, {"choice_id": "deny", "reason": "not today"}])
def test_a_denial_ends_the_run(how: dict[str, Any]) -> None:
    seat = opened()
    seat.run()
    seat.permit(granted=False, **how)
    assert seat.types()[4:] == ["action.permission.resolved", "action.call.cancelled", "run.failed"]
    resolved = payload(seat, names.PERMISSION_RESOLVED)
    assert resolved["granted"] is False
    assert resolved["outcome"] == "resolved"
    assert payload(seat, names.RUN_FAILED)["error"]["code"] == "permission_denied"
    if "reason" in how:
        assert resolved["reason"] == {"code": "permission_denied", "message": "not today"}
        assert payload(seat, names.RUN_FAILED)["error"]["message"] == "not today"
    else:
        assert "reason" not in resolved
    seat.check()


@pytest.mark.parametrize(
    ("choice", "calls"),
    [
        ({"allowed": ["scripted_tool"]}, True),
        ({"allowed": []}, False),
        ({"disallowed": []}, True),
        ({"disallowed": ["scripted_tool"]}, False),
        ({"disallowed": ["some other tool"]}, True),
    ],
)
def test_a_tool_filter_decides_whether_the_tool_is_called(choice: dict[str, Any], calls: bool) -> None:
    seat = opened()
    seat.run(tool_choice=choice)
    if calls:
        seat.permit()
    else:
        assert "tool_call_id" not in seat.asked(names.INPUT_REQUESTED)
        assert payload(seat, names.CONTENT_DELTA)["part"]["text"] == "I will answer without the scripted tool."
    seat.reply()
    assert seat.types() == (GOLDEN if calls else WITHOUT_TOOL)
    seat.check()


def test_without_the_tool_the_ids_are_reserved_all_the_same() -> None:
    seat = opened()
    seat.run(tool_choice={"allowed": []})
    assert payload(seat, names.INPUT_REQUESTED)["interaction_id"] == "input-3"
    assert [event["id"] for event in seat.published["s"]] == ["event-7", "event-9", "event-10", "event-11"]


def test_controls_show_where_they_should() -> None:
    seat = opened()
    controls: dict[str, Any] = {
        "model_id": "reference-model-b",
        "instructions": "Be brief.",
        "output_schema": {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]},
    }
    answer = seat.submit(**controls)
    seat.permit()
    seat.reply()
    assert answer.payload["model_id"] == "reference-model-b"
    assert payload(seat, names.RUN_STARTED)["model_id"] == "reference-model-b"
    deltas = [event["payload"]["part"]["text"] for event in seat.published["s"] if event["type"] == names.CONTENT_DELTA]
    assert deltas == ["Be brief. I will use the scripted tool.", "The golden script completed."]
    done = payload(seat, names.RUN_COMPLETED)
    assert done["model_id"] == "reference-model-b"
    assert done["result"] == {"ok": True}
    assert done["stop_reason"] == "end_turn"
    assert "current_model_id" not in seat.state()
    seat.check()


def test_an_empty_instruction_is_a_control_too_and_plain_runs_carry_none() -> None:
    seat = opened()
    seat.run(instructions="")
    assert payload(seat, names.CONTENT_DELTA)["part"]["text"] == " I will use the scripted tool."
    seat.permit()
    seat.reply()
    assert "result" not in payload(seat, names.RUN_COMPLETED)
    assert "model_id" not in payload(seat, names.RUN_COMPLETED)


def test_changed_arguments_are_those_that_start() -> None:
    seat = opened()
    seat.run()
    seat.permit(updated_arguments_json={"operation": "other"})
    assert payload(seat, names.CALL_STARTED)["arguments_json"] == {"operation": "other"}


def test_the_text_of_messages_is_ignored() -> None:
    told = []
    for words in ("go", "deny everything", "\u2028 \u0085 \U0001f600"):
        seat = opened()
        seat.run(messages=[{"role": "user", "content": words}])
        seat.permit()
        seat.reply()
        told.append([{**event, "timestamp_ms": 0} for event in seat.published["s"]])
    assert told[0] == told[1] == told[2]


@pytest.mark.parametrize("participant", ["user", "someone"])
def test_gates_are_answered_by_whoever_opened(participant: str) -> None:
    seat = Seat(participant=participant)
    seat.open()
    seat.play()
    asked = (names.PERMISSION_REQUESTED, names.INPUT_REQUESTED, names.PERMISSION_RESOLVED, names.INPUT_RESOLVED)
    assert {payload(seat, kind)["responded_by"] for kind in asked} == {participant}


def test_the_descriptor_and_the_catalogs_are_sound_and_hold_what_they_promise() -> None:
    compiled(names.RESPONSE_OF[names.CAPABILITIES], json.dumps(DESCRIPTOR).encode())
    levels = {key: feature["level"] for key, feature in DESCRIPTOR["features"].items()}
    assert levels["run.resume"] == levels["run.replay"] == "degraded"
    assert levels["session.message.delivery.queue"] == "emulated"
    for key in ("session.open.subscribe", "session.model.switch", "action.tools.provide", "action.providers.attach"):
        assert key not in levels
    assert all("reason" in feature for feature in DESCRIPTOR["features"].values() if feature["level"] != "native")
    seat = opened()
    models, tools = seat.models(), seat.tools()
    for answer in (models, tools):
        compiled(answer.type, json.dumps(answer.payload).encode())
        assert answer.capability_revision == REVISION
        assert answer.session_id == answer.payload["session_id"] == "s"
    assert models.payload == {"session_id": "s", **MODELS}
    assert [tool["name"] for tool in tools.payload["tools"]] == ["scripted_tool"]


def test_input_may_not_be_cancelled_by_a_host() -> None:
    seat = opened()
    seat.run(tool_choice={"allowed": []})
    asked = seat.asked(names.INPUT_REQUESTED)["payload"]
    assert "allow_cancel" not in asked
    about = {name: asked[name] for name in ("interaction_id", "requested_by", "responded_by", "session_id", "run_id")}
    made = request("user.input.cancel.request", about)
    with pytest.raises(Exception, match="resolution_rejected"):
        seat.switch.resolve("s", made)
