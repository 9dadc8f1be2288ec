"""Gates: the answers to open interactions, and their deadline (spec: envelopes 9, 10; hub 9.6; decision 23).

The first valid answer wins; a second one is refused, whether or not the first has had its effect yet.
"""

from __future__ import annotations

from ...protocol import names
from ...protocol.answers import check_answer_input, check_answer_permission, choice_grants
from ...protocol.capability import refuse_stale
from ...protocol.envelope import Envelope
from ...protocol.errors import Refusal
from .answers import forget, then

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from .ports import Answer
    from .runs import Gate, Run
    from .session import Session

_ANSWERS: Final = {names.RESOLVE_PERMISSION: True, names.RESOLVE_INPUT: False}
"""Whether a request answers a permission gate, or an input gate; a host has no other."""


def resolve(session: Session, request: Envelope) -> Answer[Envelope]:
    """Hand one answer to its gate. Raises `Refusal`, mostly `resolution_rejected`; the gate then stays open."""
    session.check_scope(request)
    port = session.port()
    payload = request.payload
    run = session.stream.runs.get(payload["run_id"])
    gate = run.gates.get(payload["interaction_id"]) if run is not None else None
    if run is None or gate is None or gate.permission is not _ANSWERS.get(request.type):
        raise Refusal(
            names.RESOLUTION_REJECTED,
            f"run {payload['run_id']} has no open gate {payload['interaction_id']} for {request.type}",
        )
    if gate.answered:
        raise Refusal(names.RESOLUTION_REJECTED, f"{gate.id} is already resolved")
    check = check_answer_permission if gate.permission else check_answer_input
    refusal = check(gate.payload, payload) or refuse_stale(session.descriptor, request.capability_revision)
    if refusal is not None:
        raise refusal

    answer = {
        "interaction_id": gate.id,
        "session_id": session.session_id,
        "run_id": run.id,
        "accepted": True,
    }

    def refused(error: Exception) -> Envelope:
        _reopen(session, run, gate)
        raise session.trouble("resolve", error)

    _answered(session, gate)
    return then(lambda: port.resolve(request), lambda _: session.answer(request, answer, run.id), refused)


def arm(session: Session, run: Run, gate: Gate) -> None:
    """Give a gate that is open its deadline, where the limits set one."""
    seconds = session.limits.gate_deadline_s
    if seconds is not None and not gate.answered and gate.id in run.gates:
        gate.timer = session.services.later(seconds, lambda: _expire(session, run, gate, seconds))


def _answered(session: Session, gate: Gate) -> None:
    """Take no other answer from now on; the deadline has been met."""
    gate.answered = True
    if gate.timer is not None:
        gate.timer.cancel()
    session.touch()


def _reopen(session: Session, run: Run, gate: Gate) -> None:
    """The answer did not reach the harness: the gate waits again, with a new deadline."""
    gate.answered = False
    session.touch()
    arm(session, run, gate)


def _expire(session: Session, run: Run, gate: Gate, seconds: float) -> None:
    """The deadline passed: deny through an offered option, or cancel the question; the harness decides what follows."""
    port = session.adapter
    if gate.answered or gate.id not in run.gates or port is None:
        return
    reason = f"nobody answered within {seconds:g} s"
    about: dict[str, Any] = {
        "interaction_id": gate.id,
        "requested_by": gate.payload["requested_by"],
        "responded_by": gate.payload["responded_by"],
        "session_id": session.session_id,
        "run_id": run.id,
        "reason": reason,
    }
    if gate.permission:
        about["granted"] = False
        about.update(_denial(gate))
    request = Envelope(
        names.RESOLVE_PERMISSION if gate.permission else names.CANCEL_INPUT,
        session.services.requests.mint("oap-request"),
        about,
        session_id=session.session_id,
        run_id=run.id,
        capability_revision=session.descriptor.revision,
    )
    session.note(f"gate {gate.id} of run {run.id} is denied: {reason}")

    def refused(error: Exception) -> None:
        session.note(f"gate {gate.id} could not be denied: {session.trouble('resolve', error)}")
        _reopen(session, run, gate)

    _answered(session, gate)
    forget(then(lambda: port.resolve(request), lambda _: None, refused))


def _denial(gate: Gate) -> dict[str, str]:
    """Return the offered choice that denies, if one says so by its id."""
    for choice in gate.payload["choices"]:
        if choice_grants(choice["id"]) is False:
            return {"choice_id": choice["id"]}
    return {}
