"""Gates: the answers to open interactions, and their deadline (spec: envelopes 9, 10; hub 9.6; decision 23).

The first valid answer wins; a second one is refused, whether or not the first has had its effect yet.
"""

from __future__ import annotations

from ...protocol import names
from ...protocol.answers import check_answer_input, check_answer_permission
from ...protocol.capability import refuse_stale
from ...protocol.envelope import Envelope
from ...protocol.errors import Refusal
from .answers import then

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from .ports import Answer
    from .runs import Gate, Run
    from .session import Session

CANCEL_INPUT: Final = "user.input.cancel.request"
_DENYING: Final = ("deny", "reject", "no", "cancel")


def resolve(session: Session, request: Envelope) -> Answer[Envelope]:
    """Hand one answer to its gate. Raises `Refusal`, mostly `resolution_rejected`; the gate then stays open."""
    session.check_scope(request)
    port = session.port()
    payload = request.payload
    run = session.stream.runs.get(payload["run_id"])
    gate = run.gates.get(payload["interaction_id"]) if run is not None else None
    if run is None or gate is None or gate.permission != (request.type == names.RESOLVE_PERMISSION):
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

    def reopened(error: BaseException) -> BaseException:
        gate.answered = False
        session.touch()
        return error

    gate.answered = True
    session.touch()
    answer = {
        "interaction_id": gate.id,
        "session_id": session.session_id,
        "run_id": run.id,
        "accepted": True,
    }
    try:
        return then(port.resolve(request), lambda _: session.answer(request, answer, run.id), reopened)
    except Exception as error:
        reopened(error)
        raise


def arm(session: Session, run: Run, gate: Gate) -> None:
    """Give a gate that just opened its deadline, where the limits set one."""
    seconds = session.limits.gate_deadline_s
    if seconds is not None and not gate.answered and gate.id in run.gates:
        gate.timer = session.services.later(seconds, lambda: _expire(session, run, gate, seconds))


def _expire(session: Session, run: Run, gate: Gate, seconds: float) -> None:
    """The deadline passed: deny through an offered option, or cancel the question; the harness decides what follows."""
    if gate.answered or gate.id not in run.gates or session.adapter is None:
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
    kind = names.RESOLVE_PERMISSION if gate.permission else CANCEL_INPUT
    request = Envelope(
        kind,
        session.services.requests.mint("oap-request"),
        about,
        session_id=session.session_id,
        run_id=run.id,
        capability_revision=session.descriptor.revision,
    )
    session.note(f"gate {gate.id} of run {run.id} denied: {reason}")
    gate.answered = True
    try:
        answer = session.adapter.resolve(request)
    except Refusal as refusal:
        gate.answered = False
        session.note(f"gate {gate.id} could not be denied: {refusal}")
    else:
        if answer is not None:
            answer.add_done_callback(lambda done: done.cancelled() or done.exception())


def _denial(gate: Gate) -> dict[str, str]:
    """Return the offered choice that denies, if one says so by its id."""
    for choice in gate.payload["choices"]:
        if any(choice["id"].lower().startswith(word) for word in _DENYING):
            return {"choice_id": choice["id"]}
    return {}
