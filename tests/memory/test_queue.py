"""The queue of one, and cancelling at every stage (spec: hub 9.5, envelopes 8 and 14; bugs L, N)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from trunkline.protocol import names
from trunkline.protocol.validate import compiled

from tests.support.hubs import Seat, code_of, refusal_of, request

ADMITTED = {
    "started": {"admission": "started", "effective_delivery": "start", "status": "running"},
    "queued": {"admission": "queued", "effective_delivery": "queue", "status": "queued"},
}


def opened() -> Seat:
    seat = Seat()
    seat.open()
    return seat


def admission(answer: Any) -> dict[str, Any]:
    assert answer.type == names.RESPONSE_OF[names.SUBMIT]
    assert answer.payload["accepted"] is True
    assert answer.run_id == answer.payload["run_id"]
    return dict(answer.payload)


@pytest.mark.parametrize(
    ("busy", "delivery", "how", "resolution"),
    [
        (False, "auto", "started", "session_idle"),
        (False, "queue", "queued", "session_idle"),
        (True, "auto", "queued", "session_busy"),
        (True, "queue", "queued", "session_busy"),
    ],
)
def test_admission_says_what_became_of_the_delivery(busy: bool, delivery: str, how: str, resolution: str) -> None:
    seat = opened()
    if busy:
        seat.run()
    told = admission(seat.submit(delivery=delivery))
    assert ADMITTED[how].items() <= told.items()
    assert told["requested_delivery"] == delivery
    assert told["delivery_resolution"] == resolution
    started = [event["run_id"] for event in seat.published["s"] if event["type"] == names.RUN_STARTED]
    assert (told["run_id"] in started) is (not busy)


def test_a_reservation_is_promoted_in_the_turn_of_the_terminal_with_sequences_of_its_own() -> None:
    seat = opened()
    first = seat.run()
    second = seat.run()
    seat.permit()
    assert seat.types(run=second) == []
    seat.reply()
    assert seat.types(run=first)[-1] == "run.completed"
    assert seat.types(run=second)[0] == "run.started"
    of_second = [event["sequence"] for event in seat.published["s"] if event["run_id"] == second]
    assert of_second == [1, 2, 3, 4]
    places = [event["run_id"] for event in seat.published["s"]]
    assert places == [first] * 12 + [second] * 4
    third = seat.run()
    seat.permit()
    seat.reply()
    assert seat.types(run=third)[0] == "run.started"
    seat.check(complete=False)


def test_a_second_reservation_is_refused_until_there_is_room_and_mints_nothing() -> None:
    seat = opened()
    first, second = seat.run(), seat.run()
    last = seat.session().ids.last
    for delivery in ("auto", "queue"):
        assert code_of(lambda delivery=delivery: seat.submit(delivery=delivery)) == "run_active"  # type: ignore[misc]
    assert seat.session().ids.last == last
    seat.cancel(second)
    third = seat.run()
    assert third != second
    seat.cancel(first)
    assert seat.types(run=third)[0] == "run.started"
    seat.check(complete=False)


@pytest.mark.parametrize("terminal", ["completed", "denied", "cancelled"])
def test_every_way_to_end_promotes(terminal: str) -> None:
    seat = opened()
    first, second = seat.run(), seat.run()
    if terminal == "completed":
        seat.permit()
        seat.reply()
    elif terminal == "denied":
        seat.permit(granted=False)
    else:
        seat.cancel(first)
    assert seat.types(run=second)[:1] == ["run.started"]
    assert seat.state()["active_run_id"] == second


def at_permission(seat: Seat) -> str:
    return seat.run()


def at_input(seat: Seat) -> str:
    run = seat.run()
    seat.permit()
    return run


def at_input_without_tool(seat: Seat) -> str:
    return seat.run(tool_choice={"allowed": []})


@pytest.mark.parametrize(
    ("stage", "closes"),
    [
        (at_permission, ["action.permission.resolved", "action.call.cancelled"]),
        (at_input, ["user.input.resolved"]),
        (at_input_without_tool, ["user.input.resolved"]),
    ],
)
def test_cancel_closes_what_its_stage_has_open(stage: Callable[[Seat], str], closes: list[str]) -> None:
    seat = opened()
    run = stage(seat)
    before = len(seat.types())
    answer = seat.cancel(run, capability_revision="reference-memory-v11")
    compiled(answer.type, json.dumps(answer.payload).encode())
    assert answer.payload == {"session_id": "s", "run_id": run, "accepted": True, "status": "cancelling"}
    assert answer.capability_revision == "reference-memory-v11"
    assert seat.types()[before:] == ["run.status.updated", *closes, "run.cancelled"]
    told = seat.published["s"][before:]
    assert told[0]["payload"]["status"] == "cancelling"
    assert told[-1]["payload"]["reason"] == "cancel confirmed"
    if stage is at_permission:
        assert told[1]["payload"]["outcome"] == "cancelled"
        assert told[1]["payload"]["reason"]["code"] == "run_cancelled"
    else:
        assert told[1]["payload"]["status"] == "cancelled"
        assert "answers" not in told[1]["payload"]
    seat.check()
    again = seat.cancel(run)
    assert again.payload["status"] == "cancelled"
    assert seat.types()[-1] == "run.cancelled"


def test_cancel_of_a_reservation_is_one_event_with_sequence_one() -> None:
    seat = opened()
    first, second = seat.run(), seat.run()
    answer = seat.cancel(second)
    assert answer.payload["status"] == "cancelled"
    told = [event for event in seat.published["s"] if event["run_id"] == second]
    assert [(event["type"], event["sequence"]) for event in told] == [("run.cancelled", 1)]
    assert told[0]["payload"]["reason"] == "reservation cancelled before promotion"
    assert seat.cancel(second).payload["status"] == "cancelled"
    seat.permit()
    seat.reply()
    assert seat.types(run=second) == ["run.cancelled"]
    assert seat.state()["as_of"]["settled"] == [{"run_id": second, "sequence": 1}, {"run_id": first, "sequence": 12}]
    seat.check()


def test_cancelled_reservations_leave_nothing_in_the_adapter() -> None:
    seat = opened()
    first = seat.run()
    for _ in range(50):
        seat.cancel(seat.run())
    port = seat.session().port()
    assert len(port._plays) <= 2  # type: ignore[attr-defined]  # the one place where a leak would show
    seat.permit()
    seat.reply()
    assert seat.types(run=first)[-1] == "run.completed"
    seat.check()


def test_cancel_of_what_is_over_or_unknown() -> None:
    seat = opened()
    done = seat.play()
    refusal = refusal_of(lambda: seat.cancel(done))
    assert (refusal.code, refusal.details) == ("run_terminal", {"status": "completed"})
    failed = seat.run()
    seat.permit(granted=False)
    assert refusal_of(lambda: seat.cancel(failed)).details == {"status": "failed"}
    assert code_of(lambda: seat.cancel("run-999")) == "run_not_found"
    payload = {"session_id": "other", "run_id": done}
    assert code_of(lambda: seat.switch.cancel("s", request(names.CANCEL, payload))) == "scope_mismatch"
    payload = {"session_id": "s", "run_id": done}
    assert code_of(lambda: seat.switch.cancel("s", request(names.CANCEL, payload, run_id="run-2"))) == "scope_mismatch"
    assert code_of(lambda: seat.cancel(done, capability_revision="old")) == "stale_capabilities"
    assert code_of(lambda: seat.switch.cancel("nobody", request(names.CANCEL, payload))) == "unknown_session"
    before = len(seat.types())
    assert before == len(seat.published["s"])
    seat.check()


def test_a_submit_right_after_the_terminal_is_admitted() -> None:
    seat = opened()
    told: list[str] = []

    class Eager:
        """A host that submits as soon as it sees a terminal."""

        blocked = False

        def ready(self, subscription: Any) -> None:
            for _, text in subscription.take():
                if b"run.completed" in text and len(told) < 3:
                    told.append(seat.submit().payload["admission"])

        def drain(self, subscription: Any) -> None:
            """Nothing more to take."""

    reader = Eager()
    seat.switch.subscribe("s", reader, None, None).start()
    seat.play()
    assert told == ["started"]
    assert seat.state()["status"] == "running" or seat.state()["status"] == "waiting_for_input"
    seat.check(complete=False)


def test_a_submission_while_a_run_is_cancelling_waits_its_turn() -> None:
    seat = opened()
    first = seat.run()
    second = seat.run()
    seat.cancel(first)
    seat.permit()
    seat.reply()
    assert seat.types(run=second)[-1] == "run.completed"
    seat.check()
