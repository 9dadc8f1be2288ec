"""One live run: what the harness says in a turn, as events. Text, reasoning, tool calls; gates stand in `gates`.

A turn is fed frames that are known to be its own, and returns drafts. It writes nothing and settles nothing.
"""

from __future__ import annotations

from ...protocol import names
from .capabilities import ENDPOINT
from .frames import shallow, shown, text_of, word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Final

    from ..base import Draft

ERROR_CHARS: Final = 16_384
"""Characters of a failed tool's text that stand in the event."""

PROGRESS: Final = ("description", "last_tool_name", "usage")
"""Members of a `task_progress` frame that are passed on."""

REQUESTED, STARTED, DONE = range(3)


class Call:
    """One tool call: who made it, how far it is, what runs in the end."""

    __slots__ = ("id", "name", "parent", "state", "withheld")

    def __init__(self, id: str, name: str, parent: str | None) -> None:
        self.id = id
        self.name = name
        self.parent = parent
        self.state = REQUESTED
        self.withheld = False  # a question about it was put, and nobody has granted it

    @property
    def over(self) -> bool:
        """Whether the call has ended."""
        return self.state == DONE

    def about(self, **more: Any) -> dict[str, Any]:
        """Return the members that every event of the call has, and more."""
        return {
            "tool_call_id": self.id,
            "requested_by": ENDPOINT,
            "execution_owner": ENDPOINT,
            "name": self.name,
            **more,
        }


class Turn:
    """The live run of a session. `most_calls` bounds the tool calls it holds (more are dropped and noted once), `note`
    takes what is worth a diagnostic."""

    __slots__ = (
        "agents",
        "begun",
        "calls",
        "cancelling",
        "closing",
        "error_kind",
        "message",
        "model",
        "most_calls",
        "note",
        "overflowed",
        "run_id",
        "selected",
        "spoke",
        "stop_reason",
        "streamed",
        "switched",
        "text",
        "unfinished",
    )

    def __init__(self, run_id: str, selected: str | None, most_calls: int, note: Callable[[str], None]) -> None:
        self.run_id = run_id
        self.most_calls = most_calls
        self.selected = selected  # the model that the submission asked for
        self.note = note
        self.switched = False  # the harness was switched to it, and is to be switched back
        self.begun = False  # the harness has said that a turn runs
        self.cancelling = False
        self.closing = False
        self.calls: dict[str, Call] = {}
        self.agents: dict[str, str] = {}  # sub-agent, as its questions name it: the call that started it
        self.message = ""  # id of the message that text is published under
        self.streamed = False  # its text came as deltas, so its whole blocks say nothing new
        self.unfinished = False  # its stream has not ended
        self.text = 0  # characters of text published under it
        self.spoke = False  # any text was published in this run
        self.model: str | None = None
        self.stop_reason: str | None = None
        self.error_kind: str | None = None
        self.overflowed = False

    # -- text ---------------------------------------------------------------------------------------------------------

    def stream(self, event: Any) -> list[Draft]:
        """Take the event of a `stream_event` frame of the main conversation."""
        if not isinstance(event, dict):
            return []
        kind = event.get("type")
        if kind == "content_block_delta":
            delta = event.get("delta")
            return self._delta(delta) if isinstance(delta, dict) else []
        if kind == "message_start":
            message = event.get("message")
            return self._message_starts(message) if isinstance(message, dict) else []
        if kind == "content_block_start":
            block = event.get("content_block")
            return self._delta(block) if isinstance(block, dict) else []
        if kind == "message_delta":
            delta = event.get("delta")
            self.stop_reason = word(delta.get("stop_reason")) if isinstance(delta, dict) else None
        elif kind == "message_stop":
            self.unfinished = False
        return []

    def _message_starts(self, message: Mapping[str, Any]) -> list[Draft]:
        self._supersede(word(message.get("id")))
        self.streamed = True
        self.unfinished = True
        self._models(message)
        return []

    def _delta(self, delta: Mapping[str, Any]) -> list[Draft]:
        """Publish the text or reasoning of a delta, or of the block that begins with some."""
        kind = delta.get("type")
        if kind == "text_delta" or kind == "text":
            text = delta.get("text")
            if isinstance(text, str) and text:
                self.text += len(text)
                self.spoke = True
                return [self._content({"type": "text", "text": text})]
        elif kind == "thinking_delta" or kind == "thinking":
            text = delta.get("thinking")
            if isinstance(text, str) and text:
                return [self._content({"type": "reasoning", "reasoning": text})]
        return []

    def _content(self, part: dict[str, Any], native: dict[str, Any] | None = None) -> Draft:
        payload: dict[str, Any] = {"message_id": self.message, "part": part} if self.message else {"part": part}
        if native is None:
            return (self.run_id, names.CONTENT_DELTA, payload)
        return (self.run_id, names.CONTENT_DELTA, payload, {"native": native})

    def _supersede(self, message_id: str) -> str | None:
        """Go on to another message. Return the id of the one before if it was broken off with text already out."""
        broken = self.message if self.unfinished and self.message != message_id and self.text else None
        if broken is not None:
            self.note(
                f"run {self.run_id}: message {shown(broken)} broke off after {self.text} characters; "
                f"the reply was made again as {shown(message_id)}"
            )
        self.message, self.text, self.unfinished = message_id, 0, False
        return broken

    def assistant(self, frame: Mapping[str, Any]) -> list[Draft]:
        """Take an `assistant` frame: one finished block of a message. Its text is new only if it was not streamed."""
        message = frame.get("message")
        if not isinstance(message, dict):
            return []
        if (kind := frame.get("error")) is not None:
            self.error_kind = word(kind) or "unknown"
            return []  # the harness's own words about a failed request; the result repeats them
        content = message.get("content")
        blocks = content if isinstance(content, list) else []
        parent = word(frame.get("parent_tool_use_id")) or None
        if parent is not None:
            return [draft for block in blocks for draft in self._foreign_block(block, parent)]
        drafts: list[Draft] = []
        native = None
        message_id = word(message.get("id"))
        if message_id != self.message or not message_id:
            broken = self._supersede(message_id)
            self.streamed = False
            self._models(message)
            native = {"supersedes_message_id": broken} if broken is not None else None
        for block in blocks:
            if not isinstance(block, dict):
                continue
            if block.get("type") == "tool_use":
                drafts += self._requested(block.get("id"), block.get("name"), block.get("input"), None)
            elif not self.streamed and (whole := self._delta(block)):
                if native is not None:
                    whole, native = [(*whole[0][:3], {"native": native})], None
                drafts += whole
        return drafts

    def _models(self, message: Mapping[str, Any]) -> None:
        name = word(message.get("model"))
        if name and not name.startswith("<"):
            self.model = name

    # -- sub-agents ---------------------------------------------------------------------------------------------------

    def _foreign_block(self, block: Any, parent: str) -> list[Draft]:
        """A sub-agent's block: its calls are calls of the run, its text is progress of the call that started it."""
        if not isinstance(block, dict):
            return []
        if block.get("type") == "tool_use":
            return self._requested(block.get("id"), block.get("name"), block.get("input"), parent)
        if block.get("type") == "text" and isinstance(block.get("text"), str):
            return self.progress(parent, {"text": block["text"]})
        return []

    def progress(self, call_id: Any, progress: dict[str, Any]) -> list[Draft]:
        """Publish a sign of life of a running call; nothing for a call that is unknown or over."""
        call = self.calls.get(call_id) if isinstance(call_id, str) else None
        if call is None or call.state == DONE:
            return []
        return [*self.started(call), (self.run_id, names.CALL_PROGRESS, call.about(progress=shallow(progress)))]

    def sign(self, frame: Mapping[str, Any]) -> list[Draft]:
        """Take a frame that shows that a call is alive: `tool_progress`, or a `system` frame of a task."""
        call, kind = word(frame.get("tool_use_id")), frame.get("subtype", frame.get("type"))
        if kind == "task_started":
            if call in self.calls and len(self.agents) < self.most_calls:
                self.agents[word(frame.get("task_id"))] = call
            return self.begin(call)
        if kind == "task_progress":
            return self.progress(call, {name: frame[name] for name in PROGRESS if name in frame})
        seconds = frame.get("elapsed_time_seconds")
        if kind == "tool_progress" and isinstance(seconds, int | float):
            return self.progress(call, {"elapsed_s": seconds})
        return []

    # -- tool calls ---------------------------------------------------------------------------------------------------

    def _requested(self, call_id: Any, name: Any, value: Any, parent: str | None) -> list[Draft]:
        """The model asks for a tool. A call that is known already says nothing new."""
        id, name = word(call_id), word(name)
        if not id or not name or id in self.calls:
            return []
        if len(self.calls) >= self.most_calls:
            if not self.overflowed:
                self.overflowed = True
                self.note(f"run {self.run_id}: more than {self.most_calls} tool calls; the rest is not shown")
            return []
        call = self.calls[id] = Call(id, name, parent)
        payload = call.about(arguments_json=shallow(value))
        if parent is None:
            return [(self.run_id, names.CALL_REQUESTED, payload)]
        drafts = self.begin(parent)
        return [*drafts, (self.run_id, names.CALL_REQUESTED, payload, {"native": {"parent_tool_call_id": parent}})]

    def asked_for(self, request: Mapping[str, Any]) -> tuple[Call | None, list[Draft]]:
        """Return the call that a permission question is about; the question may come before the call itself."""
        id = word(request.get("tool_use_id"))
        parent = self.agents.get(word(request.get("agent_id")))
        drafts = self._requested(id, request.get("tool_name"), request.get("input"), parent)
        return self.calls.get(id), drafts

    def begin(self, call_id: Any) -> list[Draft]:
        """Publish the start of a call by its id, if that is news."""
        call = self.calls.get(call_id) if isinstance(call_id, str) else None
        return self.started(call) if call is not None else []

    def started(self, call: Call, arguments: Any = None) -> list[Draft]:
        """Publish the start of a call, if that is news; `arguments` where other ones run than were asked for."""
        if call.state != REQUESTED:
            return []
        call.state, call.withheld = STARTED, False
        payload = call.about() if arguments is None else call.about(arguments_json=shallow(arguments))
        return [(self.run_id, names.CALL_STARTED, payload)]

    def results(self, frame: Mapping[str, Any]) -> list[Draft]:
        """Take a `user` frame of the harness: the tool results in it end their calls, anything else is its own note."""
        message = frame.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        drafts: list[Draft] = []
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") == "tool_result":
                call = self.calls.get(word(block.get("tool_use_id")))
                if call is not None and call.state != DONE:
                    drafts += self._ended(call, block)
        return drafts

    def _ended(self, call: Call, block: Mapping[str, Any]) -> list[Draft]:
        content = shallow(block.get("content", ""))
        if not block.get("is_error"):
            drafts = self.started(call)
            call.state = DONE
            return [*drafts, (self.run_id, names.CALL_COMPLETED, call.about(result=content))]
        if call.withheld or self.cancelling or self.closing:
            call.state = DONE
            return [(self.run_id, names.CALL_CANCELLED, call.about())]
        drafts = self.started(call)
        call.state = DONE
        message = text_of(content)[:ERROR_CHARS] or "the tool failed and said nothing"
        error = {"code": "tool_failed", "message": message}
        return [*drafts, (self.run_id, names.CALL_FAILED, call.about(error=error))]

    # -- the end ------------------------------------------------------------------------------------------------------

    def final_text(self, text: str) -> list[Draft]:
        """Return the delta that is missing when the turn ends with a text and none was published."""
        if not text or self.spoke:
            return []
        self.text = len(text)
        return [self._content({"type": "text", "text": text})]
