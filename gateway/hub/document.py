"""The state document of a session, made from its runs (spec: envelopes 12, hub 9.7)."""

from __future__ import annotations

from ...protocol.lifecycle import RunState, session_status, wire_status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from .session import Session

_FACTS: Final = ("current_model_id", "metadata", "sources")
"""What an adapter may add; everything else of the document is the hub's own to say."""


def state_document(session: Session) -> dict[str, Any]:
    """Return the document: status, nonterminal runs in order of admission, what has settled, the adapter's facts."""
    live = [run for run in session.live() if run.shown]
    status = session_status(((run.state, bool(run.gates)) for run in live), failed=session.broken is not None)
    document: dict[str, Any] = {"session_id": session.session_id, "status": status}
    entries: list[dict[str, Any]] = []
    place = 0
    for run in live:
        entry: dict[str, Any] = {"run_id": run.id, "status": wire_status(run.state), "relationship": "primary"}
        if run.state == RunState.QUEUED:
            place += 1
            entry["queue_position"] = place
        else:
            document.setdefault("active_run_id", run.id)
            entry["as_of_sequence"] = run.sequence
        entry["admitted_submit_requests"] = [run.order.id]
        if run.gates:  # pending until its resolved event: the entry speaks as of a sequence (spec: envelopes 12)
            entry["pending_interactions"] = list(run.gates)
            if acknowledged := [gate.id for gate in run.gates.values() if gate.answered]:
                entry["acknowledged_interactions"] = acknowledged
        entries.append(entry)
    if entries:
        document["active_runs"] = entries
    if (current := session.stream.current) is not None and current.shown:
        document["transcript_cursor"] = str(current.sequence)
    elif session.settled:
        document["transcript_cursor"] = str(session.settled[-1]["sequence"])
    if session.settled:
        document["as_of"] = {"settled": list(session.settled)}
    if session.adapter is not None:
        facts = session.adapter.facts()
        document.update((name, facts[name]) for name in _FACTS if name in facts)
    return document
