"""Judges the events of a session: what any sequence of event envelopes must hold, whichever adapter made it.

Its tables are its own, written from the protocol's text, so that a fault in `protocol.lifecycle` shows here. Rules
judged: schema, scope and tool ids on envelope and payload alike, unique envelope ids, contiguous sequences from 1, the
run's states, calls and gates opened and closed in order, all closed before the terminal, one terminal and nothing after
it, one run at a time.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Any

from trunkline.protocol import validate

from tests.support.public_schema import public_fault

TERMINALS = frozenset(("run.completed", "run.failed", "run.cancelled"))
STATUS = {
    "running": frozenset(("running", "waiting_for_input", "cancelling")),
    "waiting_for_input": frozenset(("running", "waiting_for_input", "cancelling")),
    "cancelling": frozenset(("cancelling",)),
}
CALL = {
    ("", "action.call.requested"): "requested",
    ("requested", "action.call.started"): "started",
    ("requested", "action.call.cancelled"): "over",
    ("started", "action.call.progress"): "started",
    ("started", "action.call.completed"): "over",
    ("started", "action.call.failed"): "over",
    ("started", "action.call.cancelled"): "over",
}
OPENS = {"action.permission.requested": "permission", "user.input.requested": "input"}
CLOSES = {"action.permission.resolved": "permission", "user.input.resolved": "input"}
SCOPE = ("session_id", "run_id", "tool_call_id")


class Run:
    """What was seen of one run."""

    def __init__(self) -> None:
        self.sequence = 0
        self.state = ""
        self.calls: dict[str, tuple[str, dict[str, Any]]] = {}
        self.gates: dict[str, tuple[str, dict[str, Any]]] = {}


def faults(
    envelopes: Iterable[dict[str, Any]], *, complete: bool = True, cancels: Collection[str] | None = None
) -> list[str]:
    """Return what is wrong with the events of one session, in order; an empty list is a sound trace.

    `complete`: every run that began must have ended. `cancels`: the runs whose cancel was accepted; None: unknown.
    """
    found: list[str] = []
    ids: set[str] = set()
    runs: dict[str, Run] = {}
    for envelope in envelopes:
        kind, where = envelope.get("type", "?"), f"{envelope.get('run_id')}#{envelope.get('sequence')}"
        found += (f"{where} {kind}: {fault}" for fault in _shape(envelope, ids))
        run = runs.setdefault(envelope.get("run_id", ""), Run())
        others = [id for id, other in runs.items() if other is not run and other.state not in ("", "over")]
        if others and run.state == "" and kind == "run.started":
            found.append(f"{where}: starts while {others[0]} is live")
        found += (f"{where} {kind}: {fault}" for fault in _step(run, kind, envelope, cancels))
    if complete:
        found += (f"run {id} has no terminal" for id, run in runs.items() if run.state != "over")
    return found


def check(envelopes: Iterable[dict[str, Any]], **how: Any) -> None:
    """Fail the test with every fault of a trace (see `faults`)."""
    found = faults(envelopes, **how)
    assert not found, "\n".join(found)


def _shape(envelope: dict[str, Any], ids: set[str]) -> Iterable[str]:
    kind, payload = envelope.get("type", ""), envelope.get("payload", {})
    if envelope.get("id") in ids:
        yield f"the id {envelope['id']} stands twice"
    ids.add(envelope.get("id", ""))
    try:
        validate.compiled(kind, json.dumps(payload).encode())
    except Exception as error:
        yield f"our schema refuses it: {error}"
    if (fault := public_fault(envelope)) is not None:
        yield fault
    for name in SCOPE:
        alone = name == "tool_call_id" and kind == "action.permission.resolved" and name not in envelope
        if name in payload and envelope.get(name) != payload[name] and not alone:
            yield f"{name} is {payload[name]!r} in the payload and {envelope.get(name)!r} on the envelope"
        if name in envelope and name not in payload:
            yield f"{name} stands on the envelope alone"


def _step(run: Run, kind: str, envelope: dict[str, Any], cancels: Collection[str] | None) -> Iterable[str]:
    payload = envelope.get("payload", {})
    run.sequence += 1
    if envelope.get("sequence") != run.sequence:
        yield f"sequence {envelope.get('sequence')} where {run.sequence} was due"
        run.sequence = envelope.get("sequence", run.sequence)
    if run.state == "over":
        yield "stands after the terminal"
        return
    if kind == "run.started":
        if run.state:
            yield "the run had started"
        run.state = "running"
        return
    if not run.state and kind not in ("run.failed", "run.cancelled"):
        yield "stands before run.started"
    if kind == "run.status.updated":
        yield from _status(run, payload)
    elif kind in TERMINALS:
        yield from _terminal(run, kind, envelope, cancels)
    elif kind.startswith("action.call."):
        yield from _call(run, kind, payload)
    elif kind in OPENS:
        yield from _opened(run, kind, payload)
    elif kind in CLOSES:
        yield from _closed(run, kind, payload)


def _status(run: Run, payload: dict[str, Any]) -> Iterable[str]:
    status = payload.get("status", "")
    if status not in STATUS.get(run.state, ()):
        yield f"status {status} cannot follow {run.state}"
    pending = payload.get("pending_user_input_id")
    if pending is not None and pending not in run.gates:
        yield f"{pending} is not open"
    run.state = status


def _terminal(run: Run, kind: str, envelope: dict[str, Any], cancels: Collection[str] | None) -> Iterable[str]:
    run.state = "over"
    yield from (f"call {id} is {state}" for id, (state, _) in run.calls.items() if state != "over")
    yield from (f"gate {id} is open" for id in run.gates)
    if kind == "run.cancelled" and cancels is not None and envelope.get("run_id") not in cancels:
        yield "no cancel of this run was accepted"


def _call(run: Run, kind: str, payload: dict[str, Any]) -> Iterable[str]:
    id = payload.get("tool_call_id", "")
    state, asked = run.calls.get(id, ("", payload))
    after = CALL.get((state, kind))
    if after is None:
        yield f"cannot follow state {state or 'absent'} of call {id}"
        return
    for name in ("execution_owner", "requested_by", "name", "source"):
        if name in payload and payload[name] != asked.get(name):
            yield f"{name} of call {id} changes to {payload[name]!r}"
    run.calls[id] = (after, asked)


def _opened(run: Run, kind: str, payload: dict[str, Any]) -> Iterable[str]:
    id, call = payload.get("interaction_id", ""), payload.get("tool_call_id")
    if id in run.gates:
        yield f"gate {id} is open already"
    states = ("requested", "started") if OPENS[kind] == "permission" else ("requested", "started", "over")
    if call is not None and run.calls.get(call, ("",))[0] not in states:  # a question may follow its call
        yield f"gate {id} is about call {call}, which is not open"
    run.gates[id] = (OPENS[kind], payload)


def _closed(run: Run, kind: str, payload: dict[str, Any]) -> Iterable[str]:
    id = payload.get("interaction_id", "")
    opened = run.gates.pop(id, None)
    if opened is None or opened[0] != CLOSES[kind]:
        yield f"gate {id} was not open"
        return
    for name in ("requested_by", "responded_by", "tool_call_id"):
        if name in payload and payload[name] != opened[1].get(name):
            yield f"{name} of gate {id} changes to {payload[name]!r}"
    choices = {choice["id"] for choice in opened[1].get("choices", ())}
    if "choice_id" in payload and payload["choice_id"] not in choices:
        yield f"choice {payload['choice_id']!r} of gate {id} was not offered"
