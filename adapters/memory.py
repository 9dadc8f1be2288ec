"""The memory adapter: the deterministic reference harness, no process, no clock, no randomness (spec: hub 9).

The text of messages is ignored: every run plays the same script, and only controls change it. Its ids come from one
counter for all sessions, so that a fresh adapter gives the same ids every time.
"""

from __future__ import annotations

from ..protocol import names
from ..protocol.envelope import Envelope
from ..protocol.ids import Ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Final, Protocol

    from .base import Draft

    class Outlet(Protocol):
        """The part of the hub's outlet that the script uses."""

        session_id: str
        participant: str

        def publish(self, drafts: Sequence[Draft]) -> None:
            """Publish events in order."""


REVISION: Final = "reference-memory-v11"
ENDPOINT: Final = "reference.memory"
OWNER: Final = "reference-adapter"
NATIVE: Final = "reference-native"
TOOL: Final = "scripted_tool"
JOURNAL_EVENTS: Final = 64

SOURCES: Final[Sequence[Mapping[str, Any]]] = (
    {"id": NATIVE, "kind": "native"},
    {"id": "reference-mcp", "kind": "process", "protocol": "mcp", "endpoint": "stdio:reference-tool-source"},
)
TOOLS: Final[Sequence[Mapping[str, Any]]] = (
    {
        "name": TOOL,
        "input_schema": {"type": "object", "properties": {"operation": {"type": "string"}}},
        "execution_owner": OWNER,
        "source": NATIVE,
    },
)
MODELS: Final[Mapping[str, Any]] = {
    "models": [
        {"id": "reference-model-a", "provider_id": "reference", "context_window": 8192, "default": True},
        {"id": "reference-model-b", "provider_id": "reference", "context_window": 8192},
    ],
    "providers": [{"id": "reference", "wire": "openai-chat-completions", "kind": "direct"}],
}

_SCRIPTED: Final = "played by the script, nothing is executed"
_FORGETS: Final = "nothing survives the process"
FEATURES: Final[Mapping[str, Mapping[str, Any]]] = {
    "protocol.initialize": {"level": "native"},
    "capabilities": {"level": "native"},
    "session.open": {"level": "native"},
    "session.state": {"level": "native"},
    "session.message.submit": {"level": "native"},
    "session.message.delivery.auto": {"level": "native"},
    "session.message.delivery.queue": {"level": "emulated", "reason": "the hub holds one reservation"},
    "run.streaming": {"level": "native"},
    "run.status": {"level": "native"},
    "run.reconciliation": {"level": "native"},
    "run.cancel": {"level": "emulated", "reason": _SCRIPTED},
    "run.resume": {"level": "degraded", "reason": _FORGETS},
    "run.replay": {"level": "degraded", "reason": _FORGETS},
    "action.tools": {"level": "emulated", "reason": _SCRIPTED},
    "action.tools.execute": {"level": "emulated", "reason": _SCRIPTED},
    "action.tools.list": {"level": "emulated", "reason": _SCRIPTED},
    "action.tool_sources.attach": {
        "level": "emulated",
        "reason": "attached sources are published, nothing is spawned",
        "modes": ["session_open"],
        "limits": {"max_sources": 2, "transports": ["process", "local"]},
    },
    "action.permissions": {"level": "emulated", "reason": _SCRIPTED},
    "user_input": {"level": "emulated", "reason": _SCRIPTED},
    "run.model_selection": {
        "level": "emulated",
        "reason": "named on the run's events, no model is asked",
        "scope": "run",
    },
    "run.instructions": {"level": "emulated", "reason": "repeated in front of the first text"},
    "run.tool_selection": {
        "level": "emulated",
        "reason": "the script skips a tool that is filtered out",
        "scope": "run",
    },
    "run.structured_output": {
        "level": "emulated",
        "reason": "the result is always the same object",
        "constraints": {"fixed_result": {"ok": True}},
    },
    "models.list": {"level": "native"},
}
DESCRIPTOR: Final[Mapping[str, Any]] = {
    "endpoint": {
        "id": ENDPOINT,
        "name": "Deterministic in-memory reference",
        "version": "0.1",
        "adapter": "process-memory-script",
    },
    "protocol_versions": [names.VERSION],
    "profiles": [names.PROFILE],
    "features": FEATURES,
    "tools": TOOLS,
    "sources": SOURCES,
    "limits": {"max_active_runs_per_session": 2, "max_queued_runs_per_session": 1},
}

AT_PERMISSION: Final = "permission"
AT_INPUT: Final = "input"


class MemoryAdapter:
    """The adapter. `journal_events` and `journal_bytes` bound the replay retention of one session."""

    def __init__(self, journal_events: int = JOURNAL_EVENTS, journal_bytes: int = 8 << 20) -> None:
        self.ids = Ids()
        self._journal = (journal_events or JOURNAL_EVENTS, journal_bytes)

    def describe(self) -> tuple[str, Mapping[str, Any]]:
        """Return `(capability_revision, descriptor payload)`."""
        return REVISION, DESCRIPTOR

    def journal(self) -> tuple[int, int]:
        """Return the journal bound of one session: events, bytes."""
        return self._journal

    def open(self, request: Envelope, outlet: Outlet) -> MemorySession:
        """Open a session at once; attached sources are only published."""
        return MemorySession(self.ids, outlet, request.payload.get("tool_sources", ()))


class _Play:
    """Where one run stands in the script, and the ids that were minted for it."""

    __slots__ = ("call", "input", "order", "permission", "stage")

    def __init__(self, ids: Ids) -> None:
        self.permission = ids.mint("permission")
        self.input = ids.mint("input")
        self.call = ids.mint("tool-call")
        self.order: Envelope | None = None
        self.stage = ""


class MemorySession:
    """One session: it plays the script for each run it is given, and waits at the two gates."""

    def __init__(self, ids: Ids, outlet: Outlet, attached: Sequence[Mapping[str, Any]]) -> None:
        self._ids = ids
        self._outlet = outlet
        self._plays: dict[str, _Play] = {}
        hidden = ("command", "args", "environment")
        self._sources = [
            *SOURCES,
            *({name: value for name, value in source.items() if name not in hidden} for source in attached),
        ]

        self._facts = {"sources": self._sources}

    def prepare(self, run_id: str) -> None:
        """Mint the run's ids, in the order that fixtures rely on (spec: hub 9.2).

        Only one run may wait, so one that never got its order was cancelled while it waited.
        """
        self._plays = {run: play for run, play in self._plays.items() if play.order is not None}
        self._plays[run_id] = _Play(self._ids)

    def submit(self, request: Envelope) -> None:
        """Play the script up to its first gate."""
        run = request.run_id or ""
        play = self._plays[run]
        play.order = request
        payload = request.payload
        started = {"status": "running"}
        if "model_id" in payload:
            started["model_id"] = payload["model_id"]
        self._outlet.publish([(run, names.RUN_STARTED, started)])
        calls = _permits(payload.get("tool_choice"))
        said = f"I will {'use' if calls else 'answer without'} the scripted tool."
        if "instructions" in payload:
            said = f"{payload['instructions']} {said}"
        opening = self._text(run, said)
        if not calls:
            self._outlet.publish([opening, *self._ask(run, play, called=False)])
            return
        play.stage = AT_PERMISSION
        asked = {
            "interaction_id": play.permission,
            "requested_by": ENDPOINT,
            "responded_by": self._outlet.participant,
            "tool_call_id": play.call,
            "title": "Allow scripted tool",
            "choices": [{"id": "approve", "label": "Approve"}, {"id": "deny", "label": "Deny"}],
        }
        self._outlet.publish(
            [
                opening,
                (run, names.CALL_REQUESTED, {**_call(play), "arguments_json": {"operation": "golden"}}),
                (run, names.PERMISSION_REQUESTED, asked),
            ]
        )

    def resolve(self, request: Envelope) -> None:
        """Go on from the gate that was answered."""
        payload = request.payload
        run = payload["run_id"]
        play = self._plays[run]
        if request.type == names.RESOLVE_PERMISSION:
            self._permission(run, play, payload)
        elif request.type == names.RESOLVE_INPUT:
            self._answered(run, play, payload["answers"])
        else:
            error = {"code": "input_cancelled", "message": payload.get("reason") or "the question was cancelled"}
            about = {**self._identity(play.input), "status": "cancelled"}
            self._end(run, [(run, names.INPUT_RESOLVED, about), (run, names.RUN_FAILED, {"error": error})])

    def cancel(self, request: Envelope) -> None:
        """Stop a run: close what its stage has open, then confirm (spec: hub 9.5)."""
        run = request.payload["run_id"]
        play = self._plays[run]
        drafts: list[Draft] = []
        if play.stage == AT_PERMISSION:
            reason = {"code": "run_cancelled", "message": "the run was cancelled"}
            about = {**self._identity(play.permission), "tool_call_id": play.call}
            drafts.append((run, names.PERMISSION_RESOLVED, {**about, "outcome": "cancelled", "reason": reason}))
            drafts.append((run, names.CALL_CANCELLED, _call(play)))
        elif play.stage == AT_INPUT:
            drafts.append((run, names.INPUT_RESOLVED, {**self._identity(play.input), "status": "cancelled"}))
        self._end(run, [*drafts, (run, names.RUN_CANCELLED, {"reason": "cancel confirmed"})])

    def models(self) -> Mapping[str, Any]:
        """Return the catalog: two models, the first is the default."""
        return MODELS

    def tools(self) -> Mapping[str, Any]:
        """Return the one tool and the declared and attached sources."""
        return {"sources": self._sources, "tools": TOOLS}

    def facts(self) -> Mapping[str, Any]:
        """Return the sources for the state document."""
        return self._facts

    def close(self) -> None:
        """Nothing runs, so nothing is to be ended."""
        self._plays.clear()

    # -- the script --------------------------------------------------------------------------------------------------

    def _permission(self, run: str, play: _Play, payload: Mapping[str, Any]) -> None:
        granted = payload["granted"]
        about = {**self._identity(play.permission), "tool_call_id": play.call, "outcome": "resolved"}
        if "choice_id" in payload:
            about["choice_id"] = payload["choice_id"]
        about["granted"] = granted
        if not granted and payload.get("reason"):
            about["reason"] = {"code": "permission_denied", "message": payload["reason"]}
        resolved: Draft = (run, names.PERMISSION_RESOLVED, about)
        if not granted:
            error = about.get("reason") or {"code": "permission_denied", "message": "the scripted tool was denied"}
            self._end(
                run, [resolved, (run, names.CALL_CANCELLED, _call(play)), (run, names.RUN_FAILED, {"error": error})]
            )
            return
        arguments = payload.get("updated_arguments_json", {"operation": "golden"})
        self._outlet.publish(
            [
                resolved,
                (run, names.CALL_STARTED, {**_call(play), "arguments_json": arguments}),
                (run, names.CALL_COMPLETED, {**_call(play), "result": {"ok": True}}),
                *self._ask(run, play, called=True),
            ]
        )

    def _ask(self, run: str, play: _Play, called: bool) -> list[Draft]:
        play.stage = AT_INPUT
        asked: dict[str, Any] = self._identity(play.input)
        if called:
            asked["tool_call_id"] = play.call
        question = {
            "id": "choice",
            "prompt": "Continue?",
            "kind": "single_choice",
            "required": True,
            "options": [{"id": "yes", "label": "Yes"}],
        }
        asked.update(title="Golden input", questions=[question])
        waiting = {"status": "waiting_for_input", "pending_user_input_id": play.input}
        return [(run, names.INPUT_REQUESTED, asked), (run, names.RUN_STATUS, waiting)]

    def _answered(self, run: str, play: _Play, answers: Sequence[Mapping[str, Any]]) -> None:
        assert play.order is not None
        payload = play.order.payload
        about = {**self._identity(play.input), "status": "submitted", "answers": answers}
        self._outlet.publish([(run, names.INPUT_RESOLVED, about)])
        closing = self._text(run, "The golden script completed.")
        message = {
            "id": closing[2]["message_id"],
            "role": "assistant",
            "content": "The golden script completed.",
        }
        completed: dict[str, Any] = {"final_response": message, "stop_reason": "end_turn"}
        if "model_id" in payload:
            completed["model_id"] = payload["model_id"]
        if "output_schema" in payload:
            completed["result"] = {"ok": True}
        self._end(run, [closing, (run, names.RUN_COMPLETED, completed)])

    def _end(self, run: str, drafts: list[Draft]) -> None:
        del self._plays[run]
        self._outlet.publish(drafts)

    def _text(self, run: str, text: str) -> Draft:
        return (
            run,
            names.CONTENT_DELTA,
            {
                "message_id": self._ids.mint("message"),
                "part": {"type": "text", "text": text},
            },
        )

    def _identity(self, interaction: str) -> dict[str, Any]:
        return {
            "interaction_id": interaction,
            "requested_by": ENDPOINT,
            "responded_by": self._outlet.participant,
        }


def _call(play: _Play) -> dict[str, Any]:
    return {
        "tool_call_id": play.call,
        "requested_by": ENDPOINT,
        "execution_owner": OWNER,
        "source": NATIVE,
        "name": TOOL,
    }


def _permits(choice: Mapping[str, Any] | None) -> bool:
    """Tell whether a tool filter (already judged) lets the scripted tool be called."""
    if choice is None:
        return True
    if "allowed" in choice:
        return TOOL in choice["allowed"]
    return TOOL not in choice["disallowed"]
