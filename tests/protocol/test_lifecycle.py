"""Every state with every event: the tables against the words of the specification, written here once more."""

from __future__ import annotations

from itertools import product

import pytest
from trunkline.protocol import names
from trunkline.protocol.errors import Refusal
from trunkline.protocol.lifecycle import (
    ANSWER,
    CALLS,
    INTERACTIONS,
    RUN_STATES,
    CallState,
    IllegalMove,
    InteractionState,
    advance,
    advance_call,
    advance_interaction,
    cancel_status,
    session_status,
    wire_status,
)

ENDS = {"run.completed": "completed", "run.failed": "failed", "run.cancelled": "cancelled"}
INNER = sorted(names.RUN_EVENTS - set(ENDS) - {"run.started", "run.status.updated"})
WIRE = [state for state in RUN_STATES if state != "admitted"]
STRANGE = "session.state.updated"

EVENTS: list[tuple[str, str | None]] = [
    ("run.started", None),
    *((end, None) for end in ENDS),
    *((inner, None) for inner in INNER),
    *(("run.status.updated", status) for status in (*WIRE, "admitted", "nonsense", None)),
    (STRANGE, None),
]


def expected(state: str, event: str, status: str | None) -> str:
    """Say the next state, or the defect, in the order in which the specification states the rules."""
    if event == STRANGE:
        return "illegal_run_transition"
    if state in ENDS.values():
        return "duplicate_run_terminal" if event in ENDS else "event_after_terminal"
    if state in ("admitted", "queued"):
        legal = {"run.started": "running", "run.failed": "failed", "run.cancelled": "cancelled"}
        return legal.get(event, "missing_run_started")
    if event == "run.started":
        return "illegal_run_transition"
    if event == "run.status.updated":
        legal_status = {
            "running": ("running", "waiting_for_input", "cancelling"),
            "waiting_for_input": ("running", "waiting_for_input", "cancelling"),
            "cancelling": ("cancelling",),
        }[state]
        return status if status in legal_status and status is not None else "illegal_run_transition"
    return ENDS.get(event, state)


@pytest.mark.parametrize(("state", "event"), list(product(RUN_STATES, EVENTS)), ids=str)
def test_full_product_of_run_states_and_events(state: str, event: tuple[str, str | None]) -> None:
    kind, status = event
    want = expected(state, kind, status)
    if want in RUN_STATES:
        assert advance(state, kind, status) == want
    else:
        with pytest.raises(IllegalMove) as caught:
            advance(state, kind, status)
        assert caught.value.code == want
        assert kind in caught.value.reason


CALL_EVENTS = sorted(kind for kind in names.RUN_EVENTS if kind.startswith("action.call."))
LEGAL_CALLS = {
    ("absent", "action.call.requested"): "requested",
    ("requested", "action.call.started"): "started",
    ("requested", "action.call.cancelled"): "cancelled",
    ("started", "action.call.progress"): "started",
    ("started", "action.call.completed"): "completed",
    ("started", "action.call.failed"): "failed",
    ("started", "action.call.cancelled"): "cancelled",
}


@pytest.mark.parametrize(("state", "event"), list(product(CALLS, CALL_EVENTS)))
def test_full_product_of_call_states_and_events(state: str, event: str) -> None:
    if (want := LEGAL_CALLS.get((state, event))) is not None:
        assert advance_call(state, event) == want
        return
    with pytest.raises(IllegalMove) as caught:
        advance_call(state, event)
    assert caught.value.code == ("unmatched_tool" if state == CallState.ABSENT else "illegal_tool_transition")


LEGAL_INTERACTIONS = {
    ("open", ANSWER): "answered",
    ("open", "action.permission.resolved"): "closed",
    ("open", "user.input.resolved"): "closed",
    ("answered", "action.permission.resolved"): "closed",
    ("answered", "user.input.resolved"): "closed",
}


@pytest.mark.parametrize(
    ("state", "move"), list(product(INTERACTIONS, (ANSWER, names.PERMISSION_RESOLVED, names.INPUT_RESOLVED)))
)
def test_full_product_of_interaction_states_and_moves(state: str, move: str) -> None:
    if (want := LEGAL_INTERACTIONS.get((state, move))) is not None:
        assert advance_interaction(state, move) == want
        return
    with pytest.raises(IllegalMove, match="duplicate_interaction"):
        advance_interaction(state, move)
    assert state in (InteractionState.ANSWERED, InteractionState.CLOSED)


@pytest.mark.parametrize("state", RUN_STATES)
def test_cancel_is_idempotent_and_refused_after_an_end(state: str) -> None:
    if state in ("completed", "failed"):
        with pytest.raises(Refusal) as caught:
            cancel_status(state)
        assert caught.value.code == "run_terminal"
    else:
        assert cancel_status(state) == ("cancelled" if state == "cancelled" else "cancelling")


def test_only_the_admitted_state_has_another_word_on_the_wire() -> None:
    assert [wire_status(state) for state in RUN_STATES] == ["running", *WIRE]


@pytest.mark.parametrize(
    ("runs", "status"),
    [
        ([], "idle"),
        ([("completed", False), ("failed", False), ("cancelled", False)], "idle"),
        ([("queued", False)], "queued"),
        ([("queued", False), ("queued", False)], "queued"),
        ([("admitted", False)], "running"),
        ([("running", False)], "running"),
        ([("running", True)], "waiting_for_input"),
        ([("waiting_for_input", False)], "waiting_for_input"),
        ([("cancelling", False)], "running"),
        ([("cancelling", True)], "waiting_for_input"),
        ([("running", False), ("queued", False)], "running"),
        ([("queued", False), ("running", False)], "running"),
        ([("waiting_for_input", True), ("queued", False)], "waiting_for_input"),
        ([("completed", False), ("queued", False)], "queued"),
        ([("completed", True)], "idle"),
    ],
)
def test_session_status_follows_from_its_runs(runs: list[tuple[str, bool]], status: str) -> None:
    assert session_status(runs) == status
    assert session_status(runs, failed=True) == "error"
    assert session_status(runs, closed=True, failed=True) == "closed"
