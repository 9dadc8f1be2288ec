"""Submit and cancel: which run may be, and in what order it gets its turn (spec: envelopes 8, 13, 14; hub 9.4, 9.5).

One run executes at a time. One more may wait as a reservation where the descriptor offers the queue; it is promoted in
the turn in which the run before it ends.
"""

from __future__ import annotations

from ...protocol import names
from ...protocol.capability import refuse_feature, refuse_stale
from ...protocol.controls import refuse_delivery, refuse_submit
from ...protocol.envelope import Envelope
from ...protocol.errors import HarnessFault, Refusal
from ...protocol.lifecycle import RunState, cancel_status
from .answers import forget, then, waits
from .runs import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Any, Final

    from .ports import Answer
    from .session import Session

QUEUE: Final = "session.message.delivery.queue"


def submit(session: Session, request: Envelope) -> Answer[Envelope]:
    """Admit one submission and answer it. Raises `Refusal`; then no id was minted and nothing has changed."""
    session.check_scope(request)
    payload = request.payload
    refusal = refuse_stale(session.descriptor, request.capability_revision) or refuse_submit(
        payload,
        session.descriptor,
        models=_model_ids(session, payload),
        tools=_tool_names(session, payload),
        limits=session.limits,
    )
    if refusal is not None:
        raise refusal
    port = session.port()
    if (refusal := refuse_delivery(payload)) is not None:
        raise refusal
    live = session.live()
    _check_room(session, live, payload.get("allow_degraded_features", ()))
    run_id = session.ids.mint("run")
    port.prepare(run_id)
    messages = [
        message if "id" in message else {**message, "id": session.ids.mint("message")}
        for message in payload["messages"]
    ]
    submission = session.ids.mint("submission")
    order = Envelope(
        names.SUBMIT,
        request.id,
        {**payload, "messages": messages},
        session_id=session.session_id,
        run_id=run_id,
        capability_revision=session.descriptor.revision,
    )
    run = Run(run_id, order, reserved=bool(live) or payload["delivery"] == "queue")
    response = session.answer(request, _acknowledgement(session, run, submission, bool(live)), run_id)
    _register(session, run)
    if live:
        run.answered = True
        return response
    return start(session, run, response)


def start(session: Session, run: Run, response: Envelope) -> Answer[Envelope]:
    """Give a run to the adapter, and answer with `response`.

    A refusal takes the run back, and whoever waits behind it gets the turn. Once the run has published something it is
    too late for that: it was admitted, and it fails (spec: envelopes 8).
    """
    stream = session.stream
    before = stream.current
    if run.state == RunState.ADMITTED:
        stream.current = run

    def refused(error: Exception) -> Envelope:
        if run.sequence:
            if not run.over:
                _fail(session, run, error)
            return response
        if stream.current is run:
            stream.current = before
        session.withdraw(run)
        raise session.trouble("submit", error)

    def started(_: None) -> Envelope:
        run.answered = True
        session.touch()
        return response

    run.state = RunState.ADMITTED
    return then(lambda: session.port().submit(run.order), started, refused)


def promote(session: Session) -> None:
    """Start the reservation whose turn it is. Refused now, after its admission, it fails (spec: envelopes 8)."""
    run = next(iter(session.live()), None)
    if run is None or run.state != RunState.QUEUED:
        return

    def refused(error: Exception) -> None:
        if not run.over:
            _fail(session, run, error)

    run.state = RunState.ADMITTED
    session.touch()
    forget(then(lambda: session.port().submit(run.order), lambda _: None, refused))


def cancel(session: Session, request: Envelope) -> Answer[Envelope]:
    """Ask a run to stop. Idempotent on a run that is cancelling or cancelled. Raises `Refusal`."""
    session.check_scope(request)
    session.check_not_closed()
    run_id = request.payload["run_id"]
    run = session.stream.runs.get(run_id)
    if run is None or not run.shown:
        raise Refusal(names.RUN_NOT_FOUND, f"session {session.session_id} has no run {run_id}", {"run_id": run_id})
    if (refusal := refuse_stale(session.descriptor, request.capability_revision)) is not None:
        raise refusal
    status = cancel_status(run.state)
    if run.over or run.cancelling:
        return _cancel_answer(session, request, run, status)
    if not session.descriptor.affirmative("run.cancel"):
        details = {"feature": "run.cancel", "reason": names.UNADVERTISED}
        raise Refusal(names.UNSUPPORTED_FEATURE, "this adapter cannot cancel a run", details)
    if run.state == RunState.QUEUED:
        run.cancelling = True
        reason = "reservation cancelled before promotion"
        session.publish([(run.id, names.RUN_CANCELLED, {"reason": reason})])
        return _cancel_answer(session, request, run, RunState.CANCELLED)
    port = session.port()
    run.cancelling = True
    if run.started and run.state != RunState.CANCELLING:
        session.publish([(run.id, names.RUN_STATUS, {"status": RunState.CANCELLING})])

    def refused(error: Exception) -> Envelope:
        run.cancelling = False
        raise session.trouble("cancel", error)

    return then(lambda: port.cancel(request), lambda _: _cancel_answer(session, request, run, status), refused)


def _check_room(session: Session, live: Collection[Run], allow: Collection[str]) -> None:
    """Refuse `run_active` where no run can start and none can wait; a degraded queue is used only with consent."""
    if not live:
        return
    waiting = sum(1 for run in live if run.state == RunState.QUEUED)
    refusal = refuse_feature(session.descriptor, QUEUE, allow)
    if refusal is not None and refusal.code == names.CAPABILITY_DEGRADED:
        raise refusal
    most = 0 if refusal is not None else session.descriptor.limit("max_queued_runs_per_session") or 0
    if waiting >= most:
        what = f"{waiting} run(s) already wait" if most else "this adapter has no queue"
        raise Refusal(names.RUN_ACTIVE, f"the session is busy and {what}; submit again after the terminal")


def _register(session: Session, run: Run) -> None:
    """Add a run; the oldest ended ones beyond `Limits.runs_kept` are forgotten."""
    runs = session.stream.runs
    runs[run.id] = run
    session.notes_left = session.limits.notes_per_run
    session.touch()
    if len(runs) > session.limits.runs_kept:
        for old in [old for old in runs.values() if old.over][: len(runs) - session.limits.runs_kept]:
            if old is not session.stream.current:
                del runs[old.id]


def _acknowledgement(session: Session, run: Run, submission: str, busy: bool) -> dict[str, Any]:
    queued = run.state == RunState.QUEUED
    payload = run.order.payload
    answer: dict[str, Any] = {
        "session_id": session.session_id,
        "accepted": True,
        "submission_id": submission,
        "requested_delivery": payload["delivery"],
        "effective_delivery": "queue" if queued else "start",
        "delivery_resolution": "session_busy" if busy else "session_idle",
        "admission": "queued" if queued else "started",
        "run_id": run.id,
        "status": RunState.QUEUED if queued else RunState.RUNNING,
    }
    if "model_id" in payload:
        answer["model_id"] = payload["model_id"]
    answer["message_ids"] = [message["id"] for message in payload["messages"]]
    return answer


def _cancel_answer(session: Session, request: Envelope, run: Run, status: str) -> Envelope:
    payload = {"session_id": session.session_id, "run_id": run.id, "accepted": True, "status": status}
    return session.answer(request, payload, run.id)


def _fail(session: Session, run: Run, error: Exception) -> None:
    code = error.code if isinstance(error, Refusal | HarnessFault) else names.INTERNAL
    told = session.trouble("submit", error)
    session.publish([(run.id, names.RUN_FAILED, {"error": {"code": code, "message": told.message or code}})])


def _model_ids(session: Session, payload: Mapping[str, Any]) -> Collection[str] | None:
    """Return the catalog's model ids where the submission names a model and the catalog is known now."""
    if "model_id" not in payload or session.adapter is None:
        return None
    return _known(session, session.adapter.models, "models", "id")


def _tool_names(session: Session, payload: Mapping[str, Any]) -> Collection[str] | None:
    if "tool_choice" not in payload or session.adapter is None:
        return None
    return _known(session, session.adapter.tools, "tools", "name")


def _known(
    session: Session, ask: Callable[[], Answer[Mapping[str, Any] | None]], member: str, name: str
) -> Collection[str] | None:
    """Return the names in a catalog; None where there is none, or none now: then it binds nothing."""
    try:
        catalog: Any = ask()
        if waits(catalog):
            forget(catalog)
            return None
        return None if catalog is None else [item[name] for item in catalog.get(member) or ()]
    except Exception as error:
        session.trouble(member, error)
        return None
