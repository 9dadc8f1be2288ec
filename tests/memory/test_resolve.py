"""Which answers a gate takes (spec: hub 9.6): all that is wrong is `resolution_rejected`, and the gate stays open."""

from __future__ import annotations

import json
from typing import Any

import pytest
from trunkline.protocol import names
from trunkline.protocol.validate import compiled

from tests.support.hubs import Seat, answer_payload, code_of, request

REVISION = "reference-memory-v11"


def at(gate: str) -> Seat:
    seat = Seat()
    seat.open()
    controls: dict[str, Any] = {} if gate == "permission" else {"tool_choice": {"allowed": []}}
    seat.run(**controls)
    return seat


def resolve(seat: Seat, kind: str, payload: dict[str, Any], **header: Any) -> Any:
    return seat.switch.resolve("s", request(kind, payload, **header))


GRANT: dict[str, Any] = {"granted": True, "choice_id": "approve"}

WRONG: list[dict[str, Any]] = [
    {"interaction_id": "permission-9"},
    {"interaction_id": "input-3"},
    {"requested_by": "agent"},
    {"requested_by": "user"},
    {"responded_by": "bob"},
    {"responded_by": "reference.memory"},
    {"run_id": "run-9"},
    {"choice_id": "allow"},
    {"choice_id": "Approve"},
    {"choice_id": "deny"},
    {"granted": False},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_a_wrong_permission_answer_is_rejected_and_the_gate_stays_open(wrong: dict[str, Any]) -> None:
    seat = at("permission")
    before = list(seat.published["s"])
    payload = answer_payload(seat.asked(names.PERMISSION_REQUESTED), **{**GRANT, **wrong})
    assert code_of(lambda: resolve(seat, names.RESOLVE_PERMISSION, payload)) == "resolution_rejected"
    assert seat.published["s"] == before
    seat.permit()
    assert seat.types()[-1] == "run.status.updated"


YES = {"question_id": "choice", "selected_option_ids": ["yes"]}
WRONG_ANSWERS: list[list[dict[str, Any]]] = [
    [{"question_id": "other", "selected_option_ids": ["yes"]}],
    [YES, YES],
    [{"question_id": "choice", "selected_option_ids": ["no"]}],
    [{"question_id": "choice", "text": "yes"}],
]


@pytest.mark.parametrize("answers", WRONG_ANSWERS, ids=str)
def test_wrong_input_answers_are_rejected_and_the_gate_stays_open(answers: list[dict[str, Any]]) -> None:
    seat = at("input")
    payload = answer_payload(seat.asked(names.INPUT_REQUESTED), answers=answers)
    assert code_of(lambda: resolve(seat, names.RESOLVE_INPUT, payload)) == "resolution_rejected"
    seat.reply()
    assert seat.types()[-1] == "run.completed"
    seat.check()


@pytest.mark.parametrize("gate", ["permission", "input"])
def test_an_answer_of_the_other_kind_is_rejected(gate: str) -> None:
    seat = at(gate)
    if gate == "permission":
        payload = answer_payload(seat.asked(names.PERMISSION_REQUESTED), answers=[YES])
        assert code_of(lambda: resolve(seat, names.RESOLVE_INPUT, payload)) == "resolution_rejected"
    else:
        payload = answer_payload(seat.asked(names.INPUT_REQUESTED), **GRANT)
        assert code_of(lambda: resolve(seat, names.RESOLVE_PERMISSION, payload)) == "resolution_rejected"


def test_the_first_valid_answer_wins_and_the_second_is_refused() -> None:
    seat = at("permission")
    asked = seat.asked(names.PERMISSION_REQUESTED)
    answer = seat.permit()
    compiled(answer.type, json.dumps(answer.payload).encode())
    assert answer.payload["accepted"] is True
    events = len(seat.published["s"])
    for granted in (True, False):
        payload = answer_payload(asked, granted=granted)
        assert code_of(lambda payload=payload: resolve(seat, names.RESOLVE_PERMISSION, payload)) == (  # type: ignore[misc]
            "resolution_rejected"
        )
    seat.reply()
    assert code_of(seat.reply) == "resolution_rejected"
    assert seat.types()[events:] == ["user.input.resolved", "content.delta", "run.completed"]
    seat.check()


def test_a_gate_of_a_cancelled_run_takes_no_answer() -> None:
    seat = at("permission")
    seat.cancel("run-1")
    assert code_of(seat.permit) == "resolution_rejected"
    seat.check()


def test_scope_and_revision_are_judged_too() -> None:
    seat = at("permission")
    asked = seat.asked(names.PERMISSION_REQUESTED)
    other = {**answer_payload(asked, **GRANT), "session_id": "other"}
    assert code_of(lambda: resolve(seat, names.RESOLVE_PERMISSION, other)) == "scope_mismatch"
    payload = answer_payload(asked, **GRANT)
    kind = names.RESOLVE_PERMISSION
    assert code_of(lambda: resolve(seat, kind, payload, session_id="other")) == "scope_mismatch"
    assert code_of(lambda: resolve(seat, kind, payload, run_id="run-2")) == "scope_mismatch"
    assert code_of(lambda: resolve(seat, kind, payload, capability_revision="old")) == "stale_capabilities"
    answer = resolve(seat, kind, payload, capability_revision=REVISION)
    assert answer.capability_revision == REVISION
    assert (answer.session_id, answer.run_id) == ("s", "run-1")


def test_a_gate_of_another_session_is_unknown_here() -> None:
    seat = at("permission")
    seat.open("t")
    payload = {**answer_payload(seat.asked(names.PERMISSION_REQUESTED), **GRANT), "session_id": "t"}
    assert code_of(lambda: seat.switch.resolve("t", request(names.RESOLVE_PERMISSION, payload))) == (
        "resolution_rejected"
    )


def test_a_closed_session_takes_no_answers() -> None:
    seat = Seat()
    seat.open()
    seat.play()
    asked = seat.asked(names.PERMISSION_REQUESTED)
    seat.switch.close("s")
    payload = answer_payload(asked, **GRANT)
    assert code_of(lambda: resolve(seat, names.RESOLVE_PERMISSION, payload)) == "session_closed"
