"""What each event does to its run: the run's state, its open calls and gates. One small rule an event type, in a table.

A draft that breaks the lifecycle is refused here (`IllegalMove`), so that no codec can break the order of a trace; and
what is still open when a run ends is closed here, in the order in which it was opened, before the terminal.
"""

from __future__ import annotations

from ...protocol import names
from ...protocol.lifecycle import (
    CALLS_OPEN,
    CallState,
    IllegalMove,
    RunState,
    advance,
    advance_call,
)
from ...protocol.limits import Limits
from .runs import Gate, Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Final

    from ...adapters.base import Draft

MOST_CALLS: Final[int] = Limits().calls_per_run


def track(run: Run, kind: str, payload: Mapping[str, Any], most_gates: int, most_calls: int = MOST_CALLS) -> None:
    """Apply one event to its run. Raises `IllegalMove` where the lifecycle has no such move; the run is unchanged then.

    `most_gates` bounds the gates that may be open at once, `most_calls` the calls and the closed gates that are
    remembered. Raises `KeyError` for a payload without the members that the event is about.
    """
    if run.state == RunState.QUEUED and kind == names.RUN_STARTED:
        raise IllegalMove("queue_order_violation", "a reservation starts when the session gives it its turn")
    state = advance(run.state, kind, payload.get("status") if kind == names.RUN_STATUS else None)
    rule = _RULES.get(kind)
    if rule is _open_gate and len(run.gates) >= most_gates:
        raise IllegalMove("too_many_gates", f"{most_gates} gates are already open")
    if kind == names.CALL_REQUESTED and len(run.calls) >= most_calls:
        _make_room(run, most_calls)
    if rule is not None:
        rule(run, kind, payload)
    if len(run.closed_gates) > most_calls:
        del run.closed_gates[next(iter(run.closed_gates))]
    run.state = state
    if kind in _GATE_CLOSERS and state == RunState.WAITING and not run.gates:
        run.state = RunState.RUNNING


def closing(run: Run, kind: str) -> list[Draft]:
    """Return the drafts that close what is still open in a run, to stand before its terminal of type `kind`."""
    code = "run_cancelled" if kind == names.RUN_CANCELLED else "run_ended"
    drafts: list[Draft] = []
    for gate in run.gates.values():
        about = {name: gate.payload[name] for name in _GATE_IDENTITY if name in gate.payload}
        if gate.permission:
            reason = {"code": code, "message": "the run ended while the question was open"}
            drafts.append((run.id, names.PERMISSION_RESOLVED, {**about, "outcome": "cancelled", "reason": reason}))
        else:
            about.pop("tool_call_id", None)
            drafts.append((run.id, names.INPUT_RESOLVED, {**about, "status": "cancelled"}))
    for state, asked in run.calls.values():
        if state in CALLS_OPEN:
            about = {name: asked[name] for name in _CALL_IDENTITY if name in asked}
            drafts.append((run.id, names.CALL_CANCELLED, about))
    return drafts


def _call(run: Run, kind: str, payload: Mapping[str, Any]) -> None:
    call = payload["tool_call_id"]
    payload["execution_owner"]  # what closing it will need
    state, asked = run.calls.get(call, (CallState.ABSENT, payload))
    state = advance_call(state, kind)
    if kind == names.CALL_REQUESTED:  # its arguments may be megabytes, and nothing here needs them
        asked = {name: payload[name] for name in _CALL_IDENTITY if name in payload}
    run.calls[call] = (state, asked if state in CALLS_OPEN else _DONE)


def _make_room(run: Run, most: int) -> None:
    """The oldest call that is over is no longer known; the run is unchanged where none is."""
    for call, (state, _) in run.calls.items():
        if state not in CALLS_OPEN:
            del run.calls[call]
            return
    raise IllegalMove("too_many_calls", f"{most} calls are already open")


def _open_gate(run: Run, kind: str, payload: Mapping[str, Any]) -> None:
    id = payload["interaction_id"]
    if id in run.gates or id in run.closed_gates:
        raise IllegalMove("duplicate_interaction", f"{id} was asked before")
    permission = kind == names.PERMISSION_REQUESTED
    for name in _PERMISSION_NEEDS if permission else _INPUT_NEEDS:
        payload[name]  # what answering and closing it, and the schema, will need
    run.gates[id] = Gate(id, payload, permission)


def _close_gate(run: Run, kind: str, payload: Mapping[str, Any]) -> None:
    gate = run.gates.get(payload["interaction_id"])
    if gate is None or gate.permission != (kind == names.PERMISSION_RESOLVED):
        raise IllegalMove("unmatched_interaction", f"{payload['interaction_id']} is not open")
    if gate.timer is not None:
        gate.timer.cancel()
    del run.gates[gate.id]
    run.closed_gates[gate.id] = None


_DONE: Final[Mapping[str, Any]] = {}
_GATE_CLOSERS: Final = frozenset((names.PERMISSION_RESOLVED, names.INPUT_RESOLVED))
_INPUT_NEEDS: Final = ("requested_by", "responded_by", "questions")
_PERMISSION_NEEDS: Final = ("requested_by", "responded_by", "choices", "tool_call_id")
_GATE_IDENTITY: Final = ("interaction_id", "requested_by", "responded_by", "tool_call_id")
_CALL_IDENTITY: Final = ("tool_call_id", "requested_by", "execution_owner", "source", "name", "interaction_id")

_RULES: Final[Mapping[str, Callable[[Run, str, Mapping[str, Any]], None]]] = {
    names.CALL_REQUESTED: _call,
    names.CALL_STARTED: _call,
    names.CALL_PROGRESS: _call,
    names.CALL_COMPLETED: _call,
    names.CALL_FAILED: _call,
    names.CALL_CANCELLED: _call,
    names.PERMISSION_REQUESTED: _open_gate,
    names.INPUT_REQUESTED: _open_gate,
    names.PERMISSION_RESOLVED: _close_gate,
    names.INPUT_RESOLVED: _close_gate,
}
