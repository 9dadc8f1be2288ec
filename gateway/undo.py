"""Taking back what an op did when its answer cannot reach the host (spec: stdio 5.1). Shared by the doors."""

from __future__ import annotations

from ..protocol import names
from ..protocol.envelope import Envelope
from ..protocol.errors import Refusal
from .hub.answers import forget, waits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .hub.switch import Switch
    from .operations import Result


def undo_open(switch: Switch, result: Result, named: str | None, why: str) -> str:
    """Close a session whose id the host can never learn; one that it named stays open. Returns the message."""
    if not isinstance(result, Envelope) or result.session_id is None:
        return why
    if named is not None:
        return f"{why}; session {named[:80]} stays open"
    try:
        ending = switch.session(result.session_id).close(insist=True)
    except Refusal as refusal:
        return f"{why}; the session could not be closed again: {refusal}"
    forget(ending)
    return f"{why}; the session {'is being' if waits(ending) else 'was'} closed again"


def undo_submit(switch: Switch, result: Result, why: str) -> str:
    """Cancel a run whose id the host can never learn. Returns the message, with what was observed."""
    if not isinstance(result, Envelope) or result.session_id is None or result.run_id is None:
        return why
    session, run = result.session_id, result.run_id
    request = Envelope(
        names.CANCEL,
        switch.services.requests.mint("oap-request"),
        {"session_id": session, "run_id": run, "reason": "its acknowledgement could not be written"},
        session_id=session,
        run_id=run,
    )
    try:
        forget(switch.cancel(session, request))
    except Refusal as refusal:
        settled = (refusal.details or {}).get("status")
        return f"{why}; the run settled as {settled}" if settled else f"{why}; the run is possibly still live"
    found = switch.session(session).stream.runs.get(run)
    if found is not None and not found.over:
        return f"{why}; the run was told to stop and is possibly still live ({found.state})"
    return f"{why}; the run was cancelled"
