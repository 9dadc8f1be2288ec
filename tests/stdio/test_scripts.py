"""Random sessions of a host against the door: whatever it asks, every line is answered and every stream is sound."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.doors import PairHost
from tests.support.host import TERMINALS
from tests.support.trace import faults

SESSIONS = ("a", "b")
STEPS = st.one_of(
    st.tuples(st.just("open"), st.sampled_from((*SESSIONS, None, "a"))),
    st.tuples(st.just("submit"), st.sampled_from((*SESSIONS, "nobody")), st.sampled_from(("auto", "queue", "steer"))),
    st.tuples(st.just("resolve"), st.just("a"), st.just("grant")),
    st.tuples(st.just("resolve"), st.sampled_from(SESSIONS), st.sampled_from(("grant", "deny", "bogus"))),
    st.tuples(st.just("golden"), st.just("a")),
    st.tuples(st.just("cancel"), st.sampled_from(SESSIONS), st.integers(-1, 3)),
    st.tuples(st.just("close"), st.sampled_from((*SESSIONS, "nobody"))),
    st.tuples(st.just("events"), st.sampled_from(SESSIONS), st.sampled_from((None, 0, 1, 3, 8, 12, 40, "x"))),
    st.tuples(st.sampled_from(("state", "models", "tools")), st.sampled_from((*SESSIONS, "nobody"))),
    st.tuples(st.sampled_from(("adapters", "sessions", "frobnicate"))),
    st.tuples(st.just("bad"), st.sampled_from(('{"id":%d,"op":"state","after":1}', '{"id":%d,"op":"open"}'))),
)


class Script:
    """Plays steps on a pair. Every second session has one subscription that was there from its first moment."""

    def __init__(self, host: PairHost) -> None:
        self.host = host
        self.sent: list[int] = []
        self.watchers: dict[str, int] = {}
        self.runs: dict[str, list[str]] = {name: [] for name in SESSIONS}

    def play(self, step: tuple[Any, ...], wait: bool) -> None:
        number = getattr(self, f"_{step[0]}", self._plain)(*step)
        self.sent.append(number)
        if wait:
            self.answer(number)

    def answer(self, number: int) -> dict[str, Any]:
        found: dict[str, Any] = self.host._until(lambda: self.host._answers.get(number), 10, f"an answer to {number}")
        return found

    def _plain(self, op: str, session: str | None = None) -> int:
        return self.host.send(op, **({} if session is None else {"session_id": session}))

    def _open(self, op: str, session: str | None) -> int:
        request = self.host.envelope("session.open.request", session)
        number = self.host.send(op, adapter="memory", request=request)
        if session is not None and session not in self.watchers and self.answer(number)["ok"]:
            self.watchers[session] = self.host.send("events", session_id=session)
            self.sent.append(self.watchers[session])
        return number

    def _submit(self, op: str, session: str, delivery: str) -> int:
        messages = [{"role": "user", "content": "go"}]
        request = self.host.envelope("session.message.submit.request", session, delivery=delivery, messages=messages)
        return self.host.send(op, session_id=session, request=request)

    def _resolve(self, op: str, session: str, how: str) -> int:
        gate = self._open_gate(session)
        permission = gate is None or gate["type"] == "action.permission.requested"
        asked = {"interaction_id": "permission-99", "requested_by": "reference.memory", "responded_by": "user"}
        if gate is not None:
            asked = {name: gate["payload"][name] for name in asked}
        if how == "bogus":
            asked["responded_by"] = "somebody"
        kind = "action.permission.resolve.request" if permission else "user.input.resolve.request"
        answer: dict[str, Any] = {"granted": how != "deny", "choice_id": "deny" if how == "deny" else "approve"}
        if not permission:
            answer = {"answers": [{"question_id": "choice", "selected_option_ids": ["yes"]}]}
        run = "run-1" if gate is None else gate["run_id"]
        request = self.host.envelope(kind, session, run, **asked, **answer)
        return self.host.send(op, session_id=session, request=request)

    def _golden(self, op: str, session: str) -> int:
        """Submit, and take what runs through both gates if it is there."""
        for how in ("submit", "resolve", "resolve"):
            step = (how, session, "queue" if how == "submit" else "grant")
            number = getattr(self, f"_{how}")(*step)
            self.answer(number)
            self.sent.append(number)
        self.answer(number := self.host.send("state", session_id=session))
        return number

    def _cancel(self, op: str, session: str, which: int) -> int:
        seen = [one["run_id"] for one in self._trace(session)]
        runs = list(dict.fromkeys(seen)) or ["run-1"]
        run = runs[which] if -1 <= which < len(runs) else "run-99"
        return self.host.send(op, session_id=session, request=self.host.envelope("run.cancel.request", session, run))

    def _events(self, op: str, session: str, after: int | str | None) -> int:
        return self.host.send(op, session_id=session, **({} if after is None else {"after": after}))

    def _bad(self, op: str, text: str) -> int:
        number = next(self.host._ids)
        self.host.write((text % number).encode() + b"\n")
        return number

    def _trace(self, session: str) -> list[dict[str, Any]]:
        return self.host.envelopes(self.watchers[session]) if session in self.watchers else []

    def _open_gate(self, session: str) -> dict[str, Any] | None:
        gate = None
        for envelope in self._trace(session):
            if envelope["type"] in ("action.permission.requested", "user.input.requested"):
                gate = envelope
            elif envelope["type"] in ("action.permission.resolved", "user.input.resolved"):
                gate = None
        return gate


def judge_subscription(lines: list[dict[str, Any]]) -> None:
    """One subscription: contiguous in each run, one run after another, nothing after its end."""
    position: dict[str, int] = {}
    ended: set[str] = set()
    for at, line in enumerate(lines):
        if line["event"] != "envelope":
            assert at == len(lines) - 1, "a line that ends comes last"
            continue
        envelope = line["envelope"]
        run, sequence = envelope["run_id"], envelope["sequence"]
        assert line["sequence"] == sequence
        assert run not in ended, "nothing follows a terminal"
        assert sequence == position.get(run, sequence - 1) + 1
        position[run] = sequence
        if envelope["type"] in TERMINALS:
            ended.add(run)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(st.tuples(STEPS, st.booleans()), min_size=10, max_size=60),
    capacity=st.sampled_from((300, 5000, 1 << 20)),
    limits=st.sampled_from(
        (
            {},
            {"ops": 1, "writer_lines": 1, "refusals": 1},
            {"subscriptions": 2, "mailbox": 3, "writer_lines": 2},
            {"writer_bytes": 1, "closed_sessions_kept": 1, "runs_kept": 2},
        )
    ),
)
def test_any_script_is_answered_whole(
    steps: list[tuple[tuple[Any, ...], bool]], capacity: int, limits: dict[str, int]
) -> None:
    with PairHost({"adapters": {"memory": {}}, "limits": limits}, capacity=capacity) as host:
        script = Script(host)
        script.play(("open", "a"), True)
        for step, wait in steps:
            script.play(step, wait)
        assert host.stop() == 0, host.stderr
        answers = Counter(line["id"] for way, line in host.lines if way == "<" and "event" not in line)
        assert answers == Counter(script.sent), host.stderr
        acknowledged: set[int] = set()
        for way, line in host.lines:
            if way == "<":
                assert "event" not in line or line["id"] in acknowledged, "the acknowledgement comes first"
                if "event" not in line and line["ok"] and line["result"] is None:
                    acknowledged.add(line["id"])
        for number in acknowledged:
            judge_subscription(host._events.get(number, []))
        for session, number in script.watchers.items():
            trace = host.envelopes(number)
            found = faults(trace, complete=False)
            assert not found, (session, found, json.dumps([one["type"] for one in trace]))
        assert not [note for note in host.notes if "failed inside" in note or "failed:" in note], host.notes
