"""A hub for tests without loop, door or clock: plain calls in, everything that was published out.

`Seat` holds a `Switch` with a hand-driven clock and timers, speaks for a host, and keeps what each session published.
`Fake` is an adapter whose every answer a test chooses: at once, later by a Future, refused, or broken.
"""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trunkline.adapters.memory import MemoryAdapter
from trunkline.framing import scan_envelope
from trunkline.gateway.hub.journal import Journal, MemoryJournal
from trunkline.gateway.hub.services import Services
from trunkline.gateway.hub.session import Session
from trunkline.gateway.hub.subscription import Subscription
from trunkline.gateway.hub.switch import Switch
from trunkline.protocol import names
from trunkline.protocol.envelope import Envelope
from trunkline.protocol.errors import Refusal
from trunkline.protocol.gate import admit_value
from trunkline.protocol.ids import Ids
from trunkline.protocol.limits import Limits

from tests.support.trace import check

BY = "fake.endpoint"
REVISION = "fake-v1"
KEYS = (
    "session.open",
    "session.state",
    "session.message.submit",
    "session.message.delivery.auto",
    "session.message.delivery.queue",
    "run.streaming",
    "run.status",
    "run.cancel",
    "run.resume",
    "run.replay",
    "models.list",
    "action.tools",
    "action.tools.list",
    "action.permissions",
    "user_input",
)
Draft = Any
COUNT = itertools.count(1)


def request(kind: str, payload: Mapping[str, Any], **header: Any) -> Envelope:
    """Return a request that passed the request gate, as the doors hand it to the switch."""
    for name in ("session_id", "run_id"):
        if name in payload:
            header.setdefault(name, payload[name])
    made = Envelope(kind, f"q-{next(COUNT)}", payload, **header)
    return admit_value(made, (kind,), scan=scan_envelope)


def answer_payload(event: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return the payload that answers a gate's event, plus what the answer says."""
    asked = event["payload"]
    about = ("interaction_id", "requested_by", "responded_by", "session_id", "run_id")
    return {**{name: asked[name] for name in about}, **more}


class Timer:
    """One pending call of the hand-driven clock."""

    def __init__(self, due: float, call: Callable[[], None]) -> None:
        self.due = due
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class Timers:
    """Pending calls, made when `advance` passes them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pending: list[Timer] = []

    def later(self, seconds: float, call: Callable[[], None]) -> Timer:
        self.pending.append(Timer(self.now + seconds, call))
        return self.pending[-1]

    def advance(self, seconds: float) -> None:
        self.now += seconds
        due, self.pending = (
            [timer for timer in self.pending if timer.due <= self.now],
            [timer for timer in self.pending if timer.due > self.now and timer.call is not None],
        )
        for timer in due:
            if timer.call is not None:
                timer.call()

    @property
    def armed(self) -> int:
        return sum(1 for timer in self.pending if timer.call is not None)


class Taker:
    """A reader. `greedy` takes as soon as it is told, else only when the test says so."""

    blocked = False

    def __init__(self, greedy: bool = True, drains: bool = False) -> None:
        self.greedy = greedy
        self.drains = drains
        self.told = 0
        self.events: list[dict[str, Any]] = []
        self.subscription: Subscription | None = None

    def ready(self, subscription: Subscription) -> None:
        self.told += 1
        if self.greedy:
            self.take_all()

    def drain(self, subscription: Subscription) -> None:
        if self.drains:
            self.take_all()

    def take(self, most: int = 256) -> list[tuple[int, bytes]]:
        assert self.subscription is not None
        entries = self.subscription.take(most)
        for sequence, text in entries:
            event = json.loads(text)
            assert event["sequence"] == sequence
            self.events.append(event)
        return entries

    def take_all(self) -> None:
        while self.take():
            pass

    @property
    def sequences(self) -> list[int]:
        return [event["sequence"] for event in self.events]

    @property
    def places(self) -> list[tuple[str, int]]:
        return [(event["run_id"], event["sequence"]) for event in self.events]

    @property
    def over(self) -> bool:
        assert self.subscription is not None
        return self.subscription.over

    @property
    def outcome(self) -> Any:
        assert self.subscription is not None
        return self.subscription.outcome


class Listening(MemoryJournal):
    """A journal that also keeps every event by session."""

    def __init__(self, events: int, bytes: int, published: dict[str, list[dict[str, Any]]]) -> None:
        super().__init__(events, bytes)
        self.published = published

    def append(self, entries: Sequence[tuple[int, bytes]]) -> None:
        for _, text in entries:
            event = json.loads(text)
            self.published[event["session_id"]].append(event)
        super().append(entries)


class Seat:
    """A switch and the host in front of it. `published` is what each session published, whole."""

    def __init__(self, adapters: Mapping[str, Any] | None = None, limits: Limits | None = None, **options: Any) -> None:
        self.notes: list[str] = []
        self.timers = Timers()
        self.ticks = 0
        services = Services(self.notes.append, lambda session: None, self._clock, self.timers.later)
        self.switch = Switch(
            {"memory": MemoryAdapter()} if adapters is None else adapters,
            limits or Limits(),
            services=services,
            journal=self._journal,
            **options,
        )
        self.published: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)

    def _journal(self, events: int, bytes: int) -> Journal:
        return Listening(events, bytes, self.published)

    def _clock(self) -> int:
        self.ticks += 1
        return 1_767_225_600_000 + self.ticks

    def session(self, session: str = "s") -> Session:
        return self.switch.session(session)

    def open(self, session: str | None = "s", adapter: str = "memory", revision: str | None = None, **more: Any) -> Any:
        payload = {**more} if session is None else {"session_id": session, **more}
        made = Envelope(names.OPEN, f"q-{next(COUNT)}", payload, capability_revision=revision)
        return self.switch.open(adapter, admit_value(made, (names.OPEN,), scan=scan_envelope))

    def submit(self, session: str = "s", delivery: str = "auto", revision: str | None = None, **more: Any) -> Any:
        payload = {"session_id": session, "delivery": delivery, "messages": [{"role": "user", "content": "go"}], **more}
        return self.switch.submit(session, request(names.SUBMIT, payload, capability_revision=revision))

    def run(self, session: str = "s", **more: Any) -> str:
        """Submit and return the run's id."""
        run: str = self.submit(session, **more).run_id
        return run

    def cancel(self, run: str, session: str = "s", **header: Any) -> Any:
        return self.switch.cancel(session, request(names.CANCEL, {"session_id": session, "run_id": run}, **header))

    def asked(self, kind: str, session: str = "s") -> dict[str, Any]:
        """Return the newest event of a type."""
        return next(event for event in reversed(self.published[session]) if event["type"] == kind)

    def permit(self, granted: bool = True, session: str = "s", **more: Any) -> Any:
        """Answer the newest permission gate."""
        payload = answer_payload(self.asked(names.PERMISSION_REQUESTED, session), granted=granted, **more)
        return self.switch.resolve(session, request(names.RESOLVE_PERMISSION, payload))

    def reply(self, session: str = "s", **more: Any) -> Any:
        """Answer the newest input gate with its first options."""
        asked = self.asked(names.INPUT_REQUESTED, session)
        answers = [
            {"question_id": question["id"], "selected_option_ids": [question["options"][0]["id"]]}
            for question in asked["payload"]["questions"]
        ]
        payload = answer_payload(asked, **{"answers": answers, **more})
        return self.switch.resolve(session, request(names.RESOLVE_INPUT, payload))

    def play(self, session: str = "s", **more: Any) -> str:
        """Submit, grant, answer: one whole golden run."""
        run = self.run(session, **more)
        self.permit(session=session)
        self.reply(session)
        return run

    def subscribe(
        self, session: str = "s", after: int | None = None, run: str | None = None, *, reader: Taker | None = None
    ) -> Taker:
        reader = reader or Taker()
        reader.subscription = self.switch.subscribe(session, reader, after, run)
        reader.subscription.start()
        return reader

    def state(self, session: str = "s") -> dict[str, Any]:
        """Return the state document; what is kept encoded must say the same."""
        document = dict(self.switch.state(session).payload)
        assert json.loads(self.session(session).state_text())["payload"] == document
        return document

    def models(self, session: str = "s", allow: Sequence[str] = ()) -> Any:
        return self.switch.models(session, allow)

    def tools(self, session: str = "s", allow: Sequence[str] = ()) -> Any:
        return self.switch.tools(session, allow)

    def types(self, session: str = "s", run: str | None = None) -> list[str]:
        return [event["type"] for event in self.published[session] if run is None or event["run_id"] == run]

    def check(self, session: str = "s", complete: bool = True) -> None:
        """Judge everything that a session published."""
        check(self.published[session], complete=complete)


def code_of(call: Callable[[], Any]) -> str:
    """Return the code of the refusal that a call raises."""
    return refusal_of(call).code


def refusal_of(call: Callable[[], Any]) -> Refusal:
    try:
        call()
    except Refusal as refusal:
        return refusal
    raise AssertionError("nothing was refused")


class Fake:
    """An adapter of which a test holds every string. `on[op]` is called for an op with its request; default: nothing.

    `features` changes levels of `KEYS` (None takes one away). `sessions` are the open sessions, newest last.
    """

    def __init__(
        self,
        features: Mapping[str, Any] | None = None,
        journal: tuple[int, int] = (4096, 8 << 20),
        queued: int = 1,
        on: Mapping[str, Any] | None = None,
        **also: Any,
    ) -> None:
        self.ids = Ids()
        self.on: dict[str, Any] = {**(on or {}), **also}
        self.bounds = journal
        self.sessions: list[FakeSession] = []
        levels: dict[str, Any] = {key: {"level": "native"} for key in KEYS}
        for key, value in (features or {}).items():
            levels[key] = value if isinstance(value, Mapping) else {"level": value}
        self.payload: dict[str, Any] = {
            "endpoint": {"id": BY, "name": "Fake", "version": "1", "adapter": "fake"},
            "features": {key: value for key, value in levels.items() if value["level"] is not None},
            "limits": {"max_active_runs_per_session": queued + 1, "max_queued_runs_per_session": queued},
        }

    def describe(self) -> tuple[str, Mapping[str, Any]]:
        if "describe" in self.on:
            self.on["describe"]()
        return REVISION, self.payload

    def journal(self) -> tuple[int, int]:
        return self.bounds

    def open(self, request: Envelope, outlet: Any) -> Any:
        session = FakeSession(self, outlet, request)
        self.sessions.append(session)
        answer = self.on["open"](session) if "open" in self.on else None
        return session if answer is None else answer


class FakeSession:
    """One session of a `Fake`; everything asked of it stands in `calls`."""

    def __init__(self, adapter: Fake, outlet: Any, order: Envelope) -> None:
        self.adapter = adapter
        self.outlet = outlet
        self.order = order
        self.calls: list[tuple[str, Any]] = []

    def _do(self, op: str, what: Any = None) -> Any:
        self.calls.append((op, what))
        act = self.adapter.on.get(op)
        return None if act is None else act(self, what) if callable(act) else act

    def prepare(self, run_id: str) -> None:
        self._do("prepare", run_id)

    def submit(self, request: Envelope) -> Any:
        return self._do("submit", request)

    def resolve(self, request: Envelope) -> Any:
        return self._do("resolve", request)

    def cancel(self, request: Envelope) -> Any:
        return self._do("cancel", request)

    def models(self) -> Any:
        return self._do("models")

    def tools(self) -> Any:
        return self._do("tools")

    def facts(self) -> Any:
        return self._do("facts") or {}

    def close(self) -> Any:
        return self._do("close")

    def asked(self, op: str) -> list[Any]:
        return [what for name, what in self.calls if name == op]

    # -- what it says -------------------------------------------------------------------------------------------------

    def say(self, *drafts: Draft) -> None:
        self.outlet.publish(list(drafts))

    def start(self, run: str) -> None:
        self.say((run, names.RUN_STARTED, {"status": "running"}))

    def text(self, run: str, *texts: str) -> None:
        self.say(*(text(run, one) for one in texts))

    def complete(self, run: str) -> None:
        self.say(completed(run))


def text(run: str, words: str) -> Draft:
    return (run, names.CONTENT_DELTA, {"message_id": "m", "part": {"type": "text", "text": words}})


def completed(run: str, words: str = "done") -> Draft:
    message = {"id": "m", "role": "assistant", "content": words}
    return (run, names.RUN_COMPLETED, {"final_response": message, "stop_reason": "end_turn"})


def called(run: str, call: str, kind: str = names.CALL_REQUESTED, **more: Any) -> Draft:
    about = {"tool_call_id": call, "requested_by": BY, "execution_owner": BY, "name": "tool"}
    if kind == names.CALL_REQUESTED:
        more.setdefault("arguments_json", {})
    return (run, kind, {**about, **more})


def permission(run: str, gate: str, participant: str = "user", **more: Any) -> Draft:
    choices = [{"id": "allow", "label": "Allow"}, {"id": "reject", "label": "Reject"}]
    asked = {"interaction_id": gate, "requested_by": BY, "responded_by": participant, "title": "May I?"}
    more.setdefault("tool_call_id", f"call-{gate}")
    return (run, names.PERMISSION_REQUESTED, {**asked, "choices": choices, **more})


def asking(run: str, gate: str, **more: Any) -> tuple[Draft, Draft]:
    """Return a call and the permission gate about it."""
    return called(run, f"call-{gate}"), permission(run, gate, **more)


def question(run: str, gate: str, participant: str = "user") -> Draft:
    asked = {"interaction_id": gate, "requested_by": BY, "responded_by": participant, "title": "Which?"}
    one = {"id": "q", "prompt": "Which?", "kind": "single_choice", "required": True}
    return (run, names.INPUT_REQUESTED, {**asked, "questions": [{**one, "options": [{"id": "a", "label": "A"}]}]})


def resolved(run: str, gate: str, **more: Any) -> Draft:
    about = {"interaction_id": gate, "requested_by": BY, "responded_by": "user", "outcome": "resolved"}
    return (run, names.PERMISSION_RESOLVED, {**about, "granted": True, **more})
