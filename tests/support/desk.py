"""Stands in for the driver and the hub above a codec: carries out its steps, numbers its events, keeps its promises.

No process, no loop, no clock. What a codec must never do fails here at once: settle a token twice, publish for a run
that is over or unknown, write after its end.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

from trunkline.adapters.base import Codec, CodecFactory, Exit, Step
from trunkline.gateway.hub.runs import Run
from trunkline.gateway.hub.tracking import closing, track
from trunkline.protocol import names
from trunkline.protocol.envelope import Envelope
from trunkline.protocol.errors import Refusal

SESSION = "s1"
MOST_GATES = 256


class Desk:
    """One session of one codec."""

    def __init__(self, factory: CodecFactory) -> None:
        self.revision, self.descriptor = factory.describe()
        self.codec: Codec = factory.new()
        self.runs: dict[str, Run] = {}
        self.cancelled: set[str] = set()
        self.events: list[dict[str, Any]] = []
        self.written: list[dict[str, Any]] = []
        self.settled: dict[int, Any] = {}
        self.armed: dict[str, float | None] = {}
        self.notes: list[str] = []
        self.end: str | None = None
        self.asked = 0
        self._ids = itertools.count(1)
        self._closed = False

    # -- steps --------------------------------------------------------------------------------------------------------

    def apply(self, step: Step) -> Step:
        """Carry out one step as the driver does, in the order of its fields."""
        assert not (self._closed and step.write), "the codec writes to a harness that is gone"
        for block in step.write:
            *lines, rest = block.split(b"\n")
            assert rest == b"", "a frame for the harness must end with its line"
            self.written += (json.loads(line) for line in lines)
        for draft in step.publish:
            self._publish(*draft)
        for token, outcome in step.settle:
            assert token not in self.settled, f"token {token} is settled twice"
            self.settled[token] = outcome
        self.armed |= dict(step.arm)
        self.notes += step.notes
        self.end = step.end or self.end
        return step

    def _publish(self, run_id: str, kind: str, payload: dict[str, Any], extensions: Any = None) -> None:
        run = self.runs.get(run_id)
        assert run is not None, f"{kind} of run {run_id}, which nobody admitted"
        assert not run.over, f"{kind} of run {run_id} after its terminal"
        if kind in names.GATES:
            payload = {"responded_by": "user", **payload}
        if kind in names.TERMINALS:
            for draft in closing(run, kind):
                self._publish(*draft)
        track(run, kind, payload, MOST_GATES)
        run.sequence += 1
        envelope = Envelope(
            kind,
            f"event-{next(self._ids)}",
            {"session_id": SESSION, "run_id": run_id, **payload},
            session_id=SESSION,
            run_id=run_id,
            tool_call_id=payload.get("tool_call_id"),
            sequence=run.sequence,
            capability_revision=self.revision,
            extensions={names.EXTENSION: extensions} if extensions else None,
        )
        self.events.append(json.loads(envelope.encode()))

    # -- what the host asks for ---------------------------------------------------------------------------------------

    def ask(self, kind: str, run: str | None = None, **payload: Any) -> Any:
        """Hand over one request and return its outcome; `...` while it is not settled."""
        scope = {"session_id": SESSION} if run is None else {"session_id": SESSION, "run_id": run}
        self.asked = token = self.asked + 1
        request = Envelope(kind, f"request-{token}", {**scope, **payload}, session_id=SESSION, run_id=run)
        self.apply(self.codec.request(token, request))
        return self.settled.get(token, ...)

    def open(self, **payload: Any) -> Any:
        """Start the codec as the driver does, and ask it to open."""
        self.codec.launch(Envelope(names.OPEN, "open", {"session_id": SESSION, **payload}, session_id=SESSION))
        self.apply(self.codec.connected())
        return self.ask(names.OPEN, **payload)

    def submit(self, content: Any, **payload: Any) -> Any:
        """Submit one user message as run `run-N`; return the outcome."""
        run_id = f"run-{len(self.runs) + 1}"
        messages = payload.pop("messages", [{"role": "user", "content": content}])
        run = self.runs[run_id] = Run(run_id, Envelope(names.SUBMIT, run_id, {}), reserved=False)
        outcome = self.ask(names.SUBMIT, run_id, messages=messages, delivery="auto", **payload)
        if isinstance(outcome, Refusal) and run.sequence == 0:
            del self.runs[run_id]
        return outcome

    def cancel(self) -> Any:
        """Cancel the live run as the hub does: the status first, then the codec."""
        run = self.live()
        self.cancelled.add(run.id)
        if run.started:
            self._publish(run.id, names.RUN_STATUS, {"status": "cancelling"})
        return self.ask(names.CANCEL, run.id)

    def live(self) -> Run:
        """Return the run that is not over."""
        return next(run for run in self.runs.values() if not run.over)

    def gate(self) -> dict[str, Any]:
        """Return the payload of the open gate."""
        (gate,) = self.live().gates.values()
        return dict(gate.payload)

    def resolve(self, **payload: Any) -> Any:
        """Answer the open gate: `granted=...` or `answers=...`, or nothing to cancel a question."""
        gate = self.gate()
        about = {name: gate[name] for name in ("interaction_id", "requested_by", "responded_by")}
        kind = names.RESOLVE_PERMISSION if "granted" in payload else names.RESOLVE_INPUT
        if "granted" not in payload and "answers" not in payload:
            kind = names.CANCEL_INPUT
        return self.ask(kind, self.live().id, **about, **payload)

    # -- what the harness does ----------------------------------------------------------------------------------------

    def feed(self, *frames: Any) -> None:
        """Let the harness write: dicts as JSON lines, bytes as they are."""
        for frame in frames:
            line = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
            self.apply(self.codec.receive(line))

    def elapsed(self, name: str) -> None:
        """Let an armed deadline pass."""
        assert self.armed.get(name) is not None, f"{name} is not armed"
        self.armed[name] = None
        self.apply(self.codec.elapsed(name))

    def close(self) -> None:
        """Let the session close while the harness still runs."""
        self.apply(self.codec.closing())

    def gone(self, code: int | None = 0, stderr: str = "") -> None:
        """The harness is gone."""
        self._closed = True
        self.apply(self.codec.closed(Exit(code, stderr)))
        assert not [name for name, seconds in self.armed.items() if seconds is not None], "a deadline stays armed"

    # -- what came of it ----------------------------------------------------------------------------------------------

    def kinds(self, run: str | None = None) -> list[str]:
        """Return the types of the events so far, of one run or all."""
        return [event["type"] for event in self.events if run in (None, event["run_id"])]

    def text(self, run: str | None = None, part: str = "text") -> str:
        """Return the text (or reasoning) of all deltas put together."""
        deltas = (event["payload"]["part"] for event in self.events if event["type"] == names.CONTENT_DELTA)
        own = (event["run_id"] for event in self.events if event["type"] == names.CONTENT_DELTA)
        return "".join(delta.get(part, "") for delta, id in zip(deltas, own, strict=True) if run in (None, id))

    def last(self, kind: str) -> dict[str, Any]:
        """Return the newest event of a type."""
        return next(event for event in reversed(self.events) if event["type"] == kind)


def compact(events: list[dict[str, Any]]) -> list[list[Any]]:
    """Return events without what all of them repeat, and neighbouring deltas of one message put together."""
    rows: list[list[Any]] = []
    for event in events:
        hidden = ("session_id", "run_id", "requested_by", "responded_by", "execution_owner")
        payload = {name: value for name, value in event["payload"].items() if name not in hidden}
        part = payload.get("part", {})
        text = next((name for name in ("text", "reasoning") if name in part), "")
        if event["type"] == names.CONTENT_DELTA and "extensions" not in event:
            row = [event["run_id"], event["type"], payload.get("message_id"), text, 1, part[text]]
            if rows and rows[-1][:4] == row[:4] and len(rows[-1]) == len(row):
                rows[-1][4] += 1
                rows[-1][5] += part[text]
            else:
                rows.append(row)
            continue
        rows.append([event["run_id"], event["type"], payload])
        if "extensions" in event:
            rows[-1].append(event["extensions"][names.EXTENSION])
    return rows
