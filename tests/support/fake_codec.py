"""A codec whose harness says what is to happen: every frame is a JSON string of words, and so is every answer to it.

Harness to codec: `ready`, `ok TOKEN`, `no TOKEN [TEXT]`, `start RUN`, `delta RUN TEXT`, `gate RUN ID`, `closed RUN ID`,
`done RUN`, `failed RUN [TEXT]`, `cancelled RUN TEXT`, `arm NAME SECONDS`, `disarm NAME`, `write TEXT`, `eof`, `stop`,
`note TEXT`, `raise [TEXT]`.
Codec to harness: `hello`, `open TOKEN`, `submit TOKEN RUN`, `cancel TOKEN RUN`, `resolve TOKEN RUN ID`, `elapsed NAME`,
`bye`, and what `write` asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trunkline.adapters.base import NOTHING, Codec, Exit, Launch, Step
from trunkline.protocol import names
from trunkline.protocol.envelope import Envelope
from trunkline.protocol.errors import Refusal

from tests.support.harnesses import script

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
    "action.permission.request",
    "action.permission.resolve",
)
DESCRIPTOR: dict[str, Any] = {
    "endpoint": {"id": "test.fake", "name": "Fake", "version": "1", "adapter": "fake"},
    "protocol_versions": [names.VERSION],
    "profiles": [names.PROFILE],
    "features": {key: {"level": "native"} for key in KEYS},
    "limits": {"max_active_runs_per_session": 2, "max_queued_runs_per_session": 4},
}

HARNESS = """
import json

def tell(*texts):
    os.write(1, b"".join(json.dumps(text).encode() + b"\\\\n" for text in texts))

ORDERS = (json.loads(line).split() for line in lines())

def orders():
    return ORDERS
"""
"""What the scripts of this codec find beside `tests.support.harnesses.PRELUDE`."""

READY = """
for words in orders():
    if words[0] == "open":
        tell("ready")
        break
"""


class FakeFactory:
    """`bodies` are the scripts of the sessions, in order of opening; the last one serves all that follow.

    `raises` names the methods that shall raise; `codecs` are those that were made.
    """

    def __init__(
        self, mark: str, *bodies: str, raises: Sequence[str] = (), environment: Mapping[str, str] | None = None
    ) -> None:
        self.mark = mark
        self.bodies = [HARNESS.replace("\\\\n", "\\n") + body for body in bodies]
        self.raises = set(raises)
        self.environment = environment
        self.codecs: list[FakeCodec] = []

    def describe(self) -> tuple[str, Mapping[str, Any]]:
        return REVISION, DESCRIPTOR

    def new(self) -> Codec:
        body = self.bodies[min(len(self.codecs), len(self.bodies) - 1)]
        self.codecs.append(FakeCodec(script(body, self.mark, self.environment), self.raises))
        return self.codecs[-1]


class FakeCodec:
    """See the module's docstring. `calls` records what it was told, in order."""

    def __init__(self, launch: Launch, raises: set[str]) -> None:
        self._launch = launch
        self._raises = raises
        self._open = 0
        self.tokens: list[int] = []
        self.runs: list[str] = []
        self.started_by: dict[int, str] = {}
        self.calls: list[str] = []
        self.how: Exit | None = None

    def launch(self, request: Envelope) -> Launch:
        self._told("launch")
        return self._launch

    def connected(self) -> Step:
        self._told("connected")
        return Step([_line("hello")])

    def receive(self, frame: bytes) -> Step:
        try:
            text = json.loads(frame)
        except ValueError:
            return Step(notes=[f"not a frame: {frame[:60]!r}"])
        self._told(f"receive {text}" if len(text) < 100 else "receive much")
        word, _, rest = text.partition(" ")
        act = _FRAMES.get(word)
        return NOTHING if act is None else act(self, rest)

    def request(self, token: int, request: Envelope) -> Step:
        word = request.type.split(".")[-2]
        word = {"open": "open", "submit": "submit", "cancel": "cancel", "resolve": "resolve"}[word]
        self._told(f"request {word}")
        self.tokens.append(token)
        if word == "open":
            self._open = token
        if word == "submit":
            self.runs.append(request.run_id or "")
            self.started_by[token] = self.runs[-1]
        about = " ".join(filter(None, (request.run_id, request.payload.get("interaction_id"))))
        return Step([_line(f"{word} {token} {about}".rstrip())])

    def elapsed(self, name: str) -> Step:
        self._told(f"elapsed {name}")
        return Step([_line(f"elapsed {name}")])

    def closing(self) -> Step:
        self._told("closing")
        return Step([_line("bye")])

    def closed(self, how: Exit) -> Step:
        self.how = how
        self._told("closed")
        error = {"code": "harness_exited", "message": str(how)[:300]}
        gone = Refusal(names.SESSION_CLOSED, "the harness is gone")
        return Step(
            publish=[(run, names.RUN_FAILED, {"error": error}) for run in self.runs],
            settle=[(token, gone) for token in self.tokens if token != self._open],
        )

    def models(self) -> Mapping[str, Any] | None:
        return None

    def tools(self) -> Mapping[str, Any] | None:
        return None

    def facts(self) -> Mapping[str, Any]:
        return {}

    def _told(self, what: str) -> None:
        self.calls.append(what)
        if what.split()[0] in self._raises:
            raise ValueError(f"a bug in {what}")

    # -- what frames do --

    def _ready(self, _: str) -> Step:
        return Step(settle=[(self._settle(self._open), None)])

    def _ok(self, token: str) -> Step:
        return Step(settle=[(self._settle(int(token)), None)])

    def _no(self, rest: str) -> Step:
        token, _, words = rest.partition(" ")
        self.runs = [run for run in self.runs if self.started_by.get(int(token)) != run]
        return Step(settle=[(self._settle(int(token)), _refusal(words or "the harness says no"))])

    def _settle(self, token: int) -> int:
        self.tokens.remove(token)
        return token

    def _gate(self, rest: str) -> Step:
        run, gate = rest.split()
        return Step(publish=[(run, names.PERMISSION_REQUESTED, _gate_payload(gate))])

    def _gate_closed(self, rest: str) -> Step:
        run, gate = rest.split()
        asked = _gate_payload(gate)
        about = {name: asked[name] for name in ("interaction_id", "requested_by", "tool_call_id")}
        return Step(publish=[(run, names.PERMISSION_RESOLVED, {**about, "outcome": "resolved", "choice_id": "allow"})])

    def _done(self, run: str) -> Step:
        self.runs.remove(run)
        final = {"role": "assistant", "content": "done"}
        return Step(publish=[(run, names.RUN_COMPLETED, {"final_response": final, "stop_reason": "end_turn"})])

    def _failed(self, rest: str) -> Step:
        run, _, words = rest.partition(" ")
        self.runs.remove(run)
        error = {"code": "fake", "message": words or "the harness says so", "details": {"said": [words]}}
        return Step(publish=[(run, names.RUN_FAILED, {"error": error})])

    def _cancelled(self, rest: str) -> Step:
        run, _, words = rest.partition(" ")
        self.runs.remove(run)
        return Step(publish=[(run, names.RUN_CANCELLED, {"reason": words})])

    def _arm(self, rest: str) -> Step:
        name, seconds = rest.split()
        return Step(arm=[(name, float(seconds))])

    def _raise(self, words: str) -> Step:
        raise ValueError(f"a bug in receive, with {words or 'nothing'} in its text") from KeyError(words)


def _refusal(words: str) -> Refusal:
    return Refusal(names.INVALID_SUBMISSION, words, {"said": [words]})


def _line(text: str) -> bytes:
    return json.dumps(text).encode() + b"\n"


def _delta(_: FakeCodec, rest: str) -> Step:
    run, _space, text = rest.partition(" ")
    return Step(publish=[(run, names.CONTENT_DELTA, {"kind": "text", "text": text})])


def _start(_: FakeCodec, run: str) -> Step:
    return Step(publish=[(run, names.RUN_STARTED, {})])


def _gate_payload(gate: str) -> dict[str, Any]:
    return {
        "interaction_id": gate,
        "tool_call_id": f"call-{gate}",
        "requested_by": "fake",
        "title": f"may I {gate}",
        "choices": [{"id": "allow", "label": "Allow"}, {"id": "deny", "label": "Deny"}],
    }


_FRAMES: dict[str, Callable[[FakeCodec, str], Step]] = {
    "ready": FakeCodec._ready,
    "ok": FakeCodec._ok,
    "no": FakeCodec._no,
    "start": _start,
    "delta": _delta,
    "gate": FakeCodec._gate,
    "closed": FakeCodec._gate_closed,
    "done": FakeCodec._done,
    "failed": FakeCodec._failed,
    "cancelled": FakeCodec._cancelled,
    "arm": FakeCodec._arm,
    "disarm": lambda codec, name: Step(arm=[(name, None)]),
    "write": lambda codec, text: Step([_line(text)]),
    "eof": lambda codec, rest: Step(end="eof"),
    "stop": lambda codec, rest: Step(end="stop"),
    "note": lambda codec, text: Step(notes=[text]),
    "raise": FakeCodec._raise,
}
