"""What may follow what: runs, tool calls and interactions as tables, and what a session's status follows from.

One look-up decides each move (spec: envelopes 8, 9, 10, 12; diagnostic codes: conformance C5, C6).
"""

from __future__ import annotations

from . import names
from .errors import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Final


class RunState:
    """The states of a run. All but `ADMITTED` are also the words of the wire.

    `ADMITTED` and `QUEUED` lie before `run.started`: the first was admitted as started (on the wire it reads
    `running`), the second is a reservation.
    """

    ADMITTED: Final = "admitted"
    QUEUED: Final = "queued"
    RUNNING: Final = "running"
    WAITING: Final = "waiting_for_input"
    CANCELLING: Final = "cancelling"
    COMPLETED: Final = "completed"
    FAILED: Final = "failed"
    CANCELLED: Final = "cancelled"


class SessionStatus:
    """The statuses of a session (spec: envelopes 4)."""

    IDLE: Final = "idle"
    QUEUED: Final = "queued"
    RUNNING: Final = "running"
    WAITING: Final = "waiting_for_input"
    CLOSED: Final = "closed"
    ERROR: Final = "error"


class CallState:
    """The states of a tool call; `ABSENT` is that of an id never seen."""

    ABSENT: Final = "absent"
    REQUESTED: Final = "requested"
    STARTED: Final = "started"
    COMPLETED: Final = "completed"
    FAILED: Final = "failed"
    CANCELLED: Final = "cancelled"


class InteractionState:
    """The states of a permission or input gate. `ANSWERED`: an answer was accepted, its event is not out yet."""

    OPEN: Final = "open"
    ANSWERED: Final = "answered"
    CLOSED: Final = "closed"


_S = RunState
_C = CallState
_I = InteractionState

RUN_STATES: Final = (
    _S.ADMITTED,
    _S.QUEUED,
    _S.RUNNING,
    _S.WAITING,
    _S.CANCELLING,
    _S.COMPLETED,
    _S.FAILED,
    _S.CANCELLED,
)
UNSTARTED: Final = frozenset((_S.ADMITTED, _S.QUEUED))
ENDED: Final = frozenset((_S.COMPLETED, _S.FAILED, _S.CANCELLED))

_BEFORE: Final = {
    names.RUN_STARTED: _S.RUNNING,
    names.RUN_FAILED: _S.FAILED,
    names.RUN_CANCELLED: _S.CANCELLED,
}
_ENDS: Final = {
    names.RUN_COMPLETED: _S.COMPLETED,
    names.RUN_FAILED: _S.FAILED,
    names.RUN_CANCELLED: _S.CANCELLED,
}
_INNER: Final = names.RUN_EVENTS - names.TERMINALS - {names.RUN_STARTED, names.RUN_STATUS}

RUNS: Final[Mapping[str, Mapping[str, str]]] = {
    _S.ADMITTED: _BEFORE,
    _S.QUEUED: _BEFORE,
    _S.RUNNING: {**_ENDS, **dict.fromkeys(_INNER, _S.RUNNING)},
    _S.WAITING: {**_ENDS, **dict.fromkeys(_INNER, _S.WAITING)},
    _S.CANCELLING: {**_ENDS, **dict.fromkeys(_INNER, _S.CANCELLING)},
    _S.COMPLETED: {},
    _S.FAILED: {},
    _S.CANCELLED: {},
}
"""State, event type, next state, for every run event but `run.status.updated` (spec: envelopes 8)."""

STATUS_MOVES: Final[Mapping[str, Mapping[str, str]]] = {
    _S.ADMITTED: {},
    _S.QUEUED: {},
    _S.RUNNING: {to: to for to in (_S.RUNNING, _S.WAITING, _S.CANCELLING)},
    _S.WAITING: {to: to for to in (_S.WAITING, _S.RUNNING, _S.CANCELLING)},
    _S.CANCELLING: {_S.CANCELLING: _S.CANCELLING},
    _S.COMPLETED: {},
    _S.FAILED: {},
    _S.CANCELLED: {},
}
"""State, the status that a `run.status.updated` states, next state.

The queue's moves of spec 8 (queued to running or cancelling) are made by `run.started` and by an accepted cancel; an
event that states them would stand before `run.started` and is a defect by the same section.
"""

CALLS: Final[Mapping[str, Mapping[str, str]]] = {
    _C.ABSENT: {names.CALL_REQUESTED: _C.REQUESTED},
    _C.REQUESTED: {names.CALL_STARTED: _C.STARTED, names.CALL_CANCELLED: _C.CANCELLED},
    _C.STARTED: {
        names.CALL_PROGRESS: _C.STARTED,
        names.CALL_COMPLETED: _C.COMPLETED,
        names.CALL_FAILED: _C.FAILED,
        names.CALL_CANCELLED: _C.CANCELLED,
    },
    _C.COMPLETED: {},
    _C.FAILED: {},
    _C.CANCELLED: {},
}
"""State, event type, next state of a tool call (spec: conformance C5, tool lifecycle)."""

CALLS_OPEN: Final = frozenset((_C.REQUESTED, _C.STARTED))

ANSWER: Final = "answer"
"""The move of an interaction that an accepted resolve or cancel request makes."""

INTERACTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    _I.OPEN: {ANSWER: _I.ANSWERED, names.PERMISSION_RESOLVED: _I.CLOSED, names.INPUT_RESOLVED: _I.CLOSED},
    _I.ANSWERED: {names.PERMISSION_RESOLVED: _I.CLOSED, names.INPUT_RESOLVED: _I.CLOSED},
    _I.CLOSED: {},
}
"""State, `ANSWER` or event type, next state. An event may close a gate that nobody answered (a cancelled run)."""


class IllegalMove(ValueError):
    """A move that no table has. `code` is the diagnostic code of the conformance notes C6."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code
        self.reason = reason


def advance(state: str, event_type: str, status: str | None = None) -> str:
    """Return the run state after an event; `status` is what a `run.status.updated` states.

    Raises `IllegalMove` with `missing_run_started`, `illegal_run_transition`, `duplicate_run_terminal` or
    `event_after_terminal`. Whether a `run.cancelled` had its accepted cancel is for the caller, who saw it.
    """
    after = STATUS_MOVES[state].get(status or "") if event_type == names.RUN_STATUS else RUNS[state].get(event_type)
    if after is None:
        raise IllegalMove(_code(state, event_type), f"{_said(event_type, status)} cannot follow state {state}")
    return after


def advance_call(state: str, event_type: str) -> str:
    """Return the state of a tool call after an event.

    Raises `IllegalMove` with `unmatched_tool` (the call was never requested) or `illegal_tool_transition`.
    """
    after = CALLS[state].get(event_type)
    if after is None:
        code = "unmatched_tool" if state == _C.ABSENT else "illegal_tool_transition"
        raise IllegalMove(code, f"{event_type} cannot follow state {state}")
    return after


def advance_interaction(state: str, move: str) -> str:
    """Return the state of an interaction after `ANSWER` or its resolved event; raises `IllegalMove`."""
    after = INTERACTIONS[state].get(move)
    if after is None:
        raise IllegalMove("duplicate_interaction", f"{move} cannot follow state {state}")
    return after


def cancel_status(state: str) -> str:
    """Return the status that an accepted `run.cancel.response` states for a run in this state.

    Cancelling is idempotent on a run that is cancelling or cancelled. Raises `Refusal("run_terminal")` for a completed
    or failed run (spec: envelopes 8, cancellation).
    """
    if state in (_S.COMPLETED, _S.FAILED):
        raise Refusal(names.RUN_TERMINAL, f"the run has already {state}", {"status": state})
    return _S.CANCELLED if state == _S.CANCELLED else _S.CANCELLING


def wire_status(state: str) -> str:
    """Return the word that the wire has for a run state."""
    return _S.RUNNING if state == _S.ADMITTED else state


def session_status(runs: Iterable[tuple[str, bool]], *, closed: bool = False, failed: bool = False) -> str:
    """Return the session's status from its runs `(state, has open interactions)`, ended ones allowed.

    One started run decides: `waiting_for_input` or `running`; only reservations: `queued`; none: `idle`. A closed
    session reads `closed`, one whose harness is lost `error` (spec: envelopes 12, status agreement).
    """
    if closed:
        return SessionStatus.CLOSED
    if failed:
        return SessionStatus.ERROR
    found = SessionStatus.IDLE
    for state, pending in runs:
        if state == _S.QUEUED:
            if found == SessionStatus.IDLE:
                found = SessionStatus.QUEUED
        elif state not in ENDED:
            if pending or state == _S.WAITING:
                return SessionStatus.WAITING
            found = SessionStatus.RUNNING
    return found


def _code(state: str, event_type: str) -> str:
    if event_type not in names.RUN_EVENTS:
        return "illegal_run_transition"
    if state in UNSTARTED:
        return "missing_run_started"
    if state in ENDED:
        return "duplicate_run_terminal" if event_type in names.TERMINALS else "event_after_terminal"
    return "illegal_run_transition"


def _said(event_type: str, status: str | None) -> str:
    return f"{event_type} {status!r}" if event_type == names.RUN_STATUS else event_type
