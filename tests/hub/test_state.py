"""The state document in every state of a session, and that its parts agree (spec: hub 9.7, envelopes 12)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from trunkline.adapters.memory import SOURCES
from trunkline.protocol import names
from trunkline.protocol.limits import Limits
from trunkline.protocol.validate import compiled

from tests.support.hubs import Fake, Seat, asking, code_of, completed, question, refusal_of

PLAIN = ("running", "cancelling")


def agree(state: dict[str, Any]) -> None:
    """Check a document against the schema and against itself."""
    compiled(names.RESPONSE_OF[names.STATE], json.dumps(state).encode())
    runs = state.get("active_runs", [])
    assert len({run["run_id"] for run in runs}) == len(runs)
    started = [run for run in runs if "queue_position" not in run]
    waiting = [run for run in runs if "queue_position" in run]
    assert len(started) <= 1
    assert runs == started + waiting
    assert [run["queue_position"] for run in waiting] == list(range(1, len(waiting) + 1))
    assert all(run["status"] == "queued" for run in waiting)
    assert all(run["status"] in (*PLAIN, "waiting_for_input") for run in started)
    assert state.get("active_run_id") == (started[0]["run_id"] if started else None)
    for run in runs:
        assert run["relationship"] == "primary"
        assert "pending_interactions" not in run or "as_of_sequence" in run
        assert run.get("pending_interactions") != []
    if started:
        pending = started[0]["status"] == "waiting_for_input" or "pending_interactions" in started[0]
        assert state["status"] == ("waiting_for_input" if pending else "running")
    elif waiting:
        assert state["status"] == "queued"
    else:
        assert state["status"] in ("idle", "closed", "error")


def looked(seat: Seat) -> dict[str, Any]:
    state = seat.state()
    agree(state)
    return state


def opened() -> Seat:
    seat = Seat()
    seat.open()
    return seat


def test_a_fresh_session_is_idle() -> None:
    assert looked(opened()) == {"session_id": "s", "status": "idle", "sources": list(SOURCES)}


def test_each_stage_of_a_run() -> None:
    seat = opened()
    order = seat.submit()
    run = order.run_id
    state = looked(seat)
    assert state["status"] == "waiting_for_input"
    assert state["active_run_id"] == run
    assert state["transcript_cursor"] == "4"
    assert state["active_runs"] == [
        {
            "run_id": run,
            "status": "running",
            "relationship": "primary",
            "as_of_sequence": 4,
            "admitted_submit_requests": [order.in_reply_to],
            "pending_interactions": ["permission-2"],
        }
    ]
    seat.permit()
    entry = looked(seat)["active_runs"][0]
    assert (entry["status"], entry["as_of_sequence"]) == ("waiting_for_input", 9)
    assert entry["pending_interactions"] == ["input-3"]
    seat.reply()
    state = looked(seat)
    assert state["status"] == "idle"
    assert "active_runs" not in state
    assert state["as_of"] == {"settled": [{"run_id": run, "sequence": 12}]}
    assert state["transcript_cursor"] == "12"


def test_with_a_reservation_and_after_it() -> None:
    seat = opened()
    first, second = seat.run(), seat.run()
    state = looked(seat)
    assert [run["run_id"] for run in state["active_runs"]] == [first, second]
    assert state["active_runs"][1]["queue_position"] == 1
    assert "as_of_sequence" not in state["active_runs"][1]
    seat.cancel(first)
    state = looked(seat)
    assert [run["run_id"] for run in state["active_runs"]] == [second]
    assert state["active_run_id"] == second
    assert state["as_of"]["settled"] == [{"run_id": first, "sequence": 8}]


def test_a_run_that_its_adapter_has_not_started_is_running_on_the_wire() -> None:
    seat = Seat({"fake": Fake()})
    seat.open(adapter="fake")
    seat.run()
    entry = looked(seat)["active_runs"][0]
    assert (entry["status"], entry["as_of_sequence"]) == ("running", 0)
    assert looked(seat)["status"] == "running"


def test_cancelling_shows_until_the_terminal() -> None:
    fake = Fake()
    seat = Seat({"fake": fake})
    seat.open(adapter="fake")
    run = seat.run()
    fake.sessions[0].start(run)
    seat.cancel(run)
    assert looked(seat)["active_runs"][0]["status"] == "cancelling"
    fake.sessions[0].say((run, names.RUN_CANCELLED, {}))
    assert looked(seat)["status"] == "idle"


def test_an_answered_gate_stays_pending_until_its_event_and_says_that_it_was_answered() -> None:
    fake = Fake()
    seat = Seat({"fake": fake})
    seat.open(adapter="fake")
    run = seat.run()
    fake.sessions[0].start(run)
    fake.sessions[0].say(*asking(run, "p"), question(run, "i"))
    assert looked(seat)["active_runs"][0]["pending_interactions"] == ["p", "i"]
    seat.permit(choice_id="allow")
    entry = looked(seat)["active_runs"][0]
    assert entry["pending_interactions"] == ["p", "i"]
    assert entry["acknowledged_interactions"] == ["p"]
    fake.sessions[0].say(completed(run))
    assert looked(seat)["status"] == "idle"


def test_settled_runs_are_the_last_that_are_kept() -> None:
    seat = Seat(limits=Limits(runs_kept=3))
    seat.open()
    runs = [seat.play() for _ in range(6)]
    state = looked(seat)
    assert state["as_of"]["settled"] == [{"run_id": run, "sequence": 12} for run in runs[-3:]]
    assert code_of(lambda: seat.cancel(runs[0])) == "run_not_found"
    assert code_of(lambda: seat.cancel(runs[-1])) == "run_terminal"
    assert len(seat.session().stream.runs) <= 4


def test_a_closed_session_keeps_its_last_state() -> None:
    seat = opened()
    run = seat.play()
    before = looked(seat)
    seat.switch.close("s")
    after = looked(seat)
    assert after == {**before, "status": "closed"}
    assert after["as_of"]["settled"] == [{"run_id": run, "sequence": 12}]


def test_a_broken_session_reads_error_and_its_runs_are_over() -> None:
    fake = Fake()
    seat = Seat({"fake": fake})
    seat.open(adapter="fake")
    run, waiting = seat.run(), seat.run()
    fake.sessions[0].start(run)
    fake.sessions[0].outlet.failed("the pipe broke")
    state = looked(seat)
    assert state["status"] == "error"
    assert [one["run_id"] for one in state["as_of"]["settled"]] == [run, waiting]
    ends = [event["payload"] for event in seat.published["s"] if event["type"] == names.RUN_FAILED]
    assert [end["settled_by"] for end in ends] == ["inferred", "inferred"]
    assert [end["error"] for end in ends] == [{"code": "stream_failed", "message": "the pipe broke"}] * 2
    assert refusal_of(seat.submit).code == "session_closed"
    assert "the pipe broke" in refusal_of(seat.submit).message
    seat.check()
    seat.switch.close("s")
    assert looked(seat)["status"] == "closed"


def test_an_adapter_may_add_facts_and_nothing_else() -> None:
    facts: dict[str, Any] = {"current_model_id": "m", "metadata": {"a": 1}, "status": "idle", "session_id": "other"}
    fake = Fake(facts=lambda session, what: facts)
    seat = Seat({"fake": fake})
    seat.open(adapter="fake")
    seat.run()
    state = looked(seat)
    assert (state["session_id"], state["status"]) == ("s", "running")
    assert (state["current_model_id"], state["metadata"]) == ("m", {"a": 1})


def test_a_state_that_cannot_be_read_is_refused_and_listed_as_error() -> None:
    broken = False

    def facts(session: Any, what: Any) -> dict[str, Any]:
        if broken:
            raise RuntimeError("no facts today")
        return {}

    seat = Seat({"fake": Fake(facts=facts)})
    seat.open(adapter="fake")
    seat.open("t", adapter="fake")
    seat.run("t")
    broken = True
    assert refusal_of(lambda: seat.switch.state("s")).code == "state_failed"
    assert refusal_of(seat.session().state_text).code == "state_failed"
    seat.session().touch()
    listed = {entry["session_id"]: entry for entry in seat.switch.sessions()["sessions"]}
    assert (listed["s"]["status"], listed["t"]["status"]) == ("error", "error")
    assert "active_runs" not in listed["t"]
    broken = False
    assert seat.switch.state("s").payload["status"] == "idle"
    seat.session().touch()
    broken = True
    seat.switch.close("s")
    assert seat.switch.state("s").payload == {"session_id": "s", "status": "closed"}


@pytest.mark.parametrize("kind", ["state", "models", "tools"])
def test_answers_without_a_request_are_numbered_and_scoped(kind: str) -> None:
    seat = opened()
    answers = [getattr(seat.switch, kind)("s") for _ in range(2)]
    for answer in answers:
        assert answer.session_id == answer.payload["session_id"] == "s"
        assert answer.id.startswith("oap-response-")
        assert answer.in_reply_to.startswith("oap-request-")
        assert answer.capability_revision == (None if kind == "state" else "reference-memory-v11")
    assert answers[0].id != answers[1].id
