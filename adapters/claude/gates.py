"""Gates: the harness's `can_use_tool` questions as permission and input gates, and the answers it is given.

Every answer of "allow" states the input that is to run, and every "deny" a message: without them the harness reports
a validation error to the model instead (recording `tool_answer_odd` of its lab).
"""

from __future__ import annotations

from ...protocol import names
from ...protocol.errors import Refusal
from .capabilities import ENDPOINT
from .frames import encode, shallow, word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

    from ...protocol.envelope import Envelope
    from ..base import Draft
    from .turn import Call, Turn

ASK: Final = "AskUserQuestion"
"""The tool by which the model asks the user; its permission question is the question itself."""
APPROVE: Final = "approve"
DENY: Final = "deny"
CHOICES: Final = ({"id": APPROVE, "label": "Approve"}, {"id": DENY, "label": "Deny"})
DENIED: Final = "The user denied this."
_TITLE_CHARS: Final = 200


class Gate:
    """One open question. `questions`: what was asked of the user, None for a permission."""

    __slots__ = ("call", "id", "input", "questions", "request_id")

    def __init__(
        self, id: str, request_id: str, call: Call, input: Any, questions: list[dict[str, Any]] | None
    ) -> None:
        self.id = id
        self.request_id = request_id
        self.call = call
        self.input = input
        self.questions = questions

    def about(self, **more: Any) -> dict[str, Any]:
        """Return the members that every event of the gate has, and more."""
        return {"interaction_id": self.id, "requested_by": ENDPOINT, **more}


class Gates:
    """The open gates of the live run. Ids count over the session, so that no two gates of it share one."""

    __slots__ = ("_asked", "_most", "open")

    def __init__(self, most: int) -> None:
        self.open: dict[str, Gate] = {}  # by the harness's request id
        self._most = most
        self._asked = {"permission": 0, "input": 0}

    def ask(self, turn: Turn, request_id: str, request: Mapping[str, Any]) -> tuple[bytes | None, list[Draft]]:
        """Open the gate of a `can_use_tool` request. Return the line that denies it at once, if it is, and drafts."""
        if request_id in self.open:
            return None, []
        call, drafts = turn.asked_for(request)
        if call is None:
            return deny(request_id, "The gateway cannot tell which call this is about."), drafts
        call.withheld = True
        if turn.cancelling or turn.closing or len(self.open) >= self._most:
            ending = turn.cancelling or turn.closing
            return deny(request_id, "The run is ending." if ending else "Too many questions are open."), drafts
        value = request.get("input")
        questions = _questions(value) if request.get("tool_name") == ASK else None
        kind = "permission" if questions is None else "input"
        self._asked[kind] += 1
        gate = Gate(f"{kind}-{self._asked[kind]}", request_id, call, value, questions)
        self.open[request_id] = gate
        asked = _permission(gate, request) if questions is None else _input(gate)
        return None, [*drafts, *((turn.run_id, kind, payload) for kind, payload in asked)]

    def answer(self, turn: Turn, request: Envelope) -> tuple[bytes, list[Draft]]:
        """Take the answer to a gate. Return the line for the harness and the drafts. Raises `Refusal`."""
        id = request.payload["interaction_id"]
        gate = next((gate for gate in self.open.values() if gate.id == id), None)
        if gate is None:
            raise Refusal(names.RESOLUTION_REJECTED, f"{id} is not open; the harness may have withdrawn it")
        line, drafts = _ANSWERS[request.type](gate, turn, request.payload)
        del self.open[gate.request_id]
        return line, drafts

    def withdraw(self, turn: Turn, request_id: str) -> list[Draft]:
        """The harness needs no answer any more: close the gate."""
        gate = self.open.pop(request_id, None)
        if gate is None:
            return []
        if gate.questions is not None:
            return _input_closed(gate, turn, {"status": "cancelled"})
        code = "run_cancelled" if turn.cancelling else "withdrawn"
        reason = {"code": code, "message": "the harness withdrew the question"}
        payload = gate.about(tool_call_id=gate.call.id, outcome="cancelled", reason=reason)
        return [(turn.run_id, names.PERMISSION_RESOLVED, payload)]

    def settled(self, turn: Turn) -> list[Draft]:
        """Close the gates whose call has ended although they were never answered."""
        over = [gate.request_id for gate in self.open.values() if gate.call.over]
        return [draft for request_id in over for draft in self.withdraw(turn, request_id)]


def allow(request_id: str, value: Any) -> bytes:
    """Return the line that lets a call run with this input."""
    return _reply(request_id, {"behavior": "allow", "updatedInput": value})


def deny(request_id: str, message: str) -> bytes:
    """Return the line that keeps a call from running; the message reaches the model, and the turn goes on."""
    return _reply(request_id, {"behavior": "deny", "message": message})


def _reply(request_id: str, response: Mapping[str, Any]) -> bytes:
    body = {"subtype": "success", "request_id": request_id, "response": response}
    return encode({"type": "control_response", "response": body})


# -- what is asked ----------------------------------------------------------------------------------------------------


def _permission(gate: Gate, request: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    name = word(request.get("display_name")) or gate.call.name
    payload = gate.about(
        tool_call_id=gate.call.id,
        title=f"Allow {name}"[:_TITLE_CHARS],
        choices=[dict(choice) for choice in CHOICES],
        arguments_json=shallow(gate.input),
    )
    if description := word(request.get("description")):
        payload["description"] = description
    return [(names.PERMISSION_REQUESTED, payload)]


def _input(gate: Gate) -> list[tuple[str, dict[str, Any]]]:
    questions = gate.questions or []
    header = word(gate.input["questions"][0].get("header")) or "Question"
    asked = gate.about(tool_call_id=gate.call.id, title=header[:_TITLE_CHARS], questions=questions)
    waiting = {"status": "waiting_for_input", "pending_user_input_id": gate.id}
    return [(names.INPUT_REQUESTED, asked), (names.RUN_STATUS, waiting)]


def _questions(value: Any) -> list[dict[str, Any]] | None:
    """Return the questions of an `AskUserQuestion` input, or None where it is not of the known shape."""
    asked = value.get("questions") if isinstance(value, dict) else None
    if not isinstance(asked, list) or not asked:
        return None
    found = [_question(f"question-{number}", question) for number, question in enumerate(asked, 1)]
    return [question for question in found if question is not None] if None not in found else None


def _question(id: str, asked: Any) -> dict[str, Any] | None:
    if not isinstance(asked, dict) or not (prompt := word(asked.get("question"))):
        return None
    options: list[dict[str, Any]] = []
    offered = asked.get("options")
    for number, option in enumerate(offered if isinstance(offered, list) else (), 1):
        label = word(option.get("label")) if isinstance(option, dict) else ""
        if not label:
            return None
        options.append({"id": f"option-{number}", "label": label})
        if description := word(option.get("description")):
            options[-1]["description"] = description
    if not options:
        return None
    kind = "multi_choice" if asked.get("multiSelect") is True else "single_choice"
    return {"id": id, "prompt": prompt, "kind": kind, "required": True, "options": options}


# -- what is answered -------------------------------------------------------------------------------------------------


def _permission_answered(gate: Gate, turn: Turn, payload: Mapping[str, Any]) -> tuple[bytes, list[Draft]]:
    granted = payload["granted"]
    resolved = gate.about(
        tool_call_id=gate.call.id,
        outcome="resolved",
        choice_id=payload.get("choice_id", APPROVE if granted else DENY),
        granted=granted,
    )
    drafts: list[Draft] = [(turn.run_id, names.PERMISSION_RESOLVED, resolved)]
    if not granted:
        return deny(gate.request_id, payload.get("reason") or DENIED), drafts
    value = gate.input if isinstance(gate.input, dict) else {}
    if "updated_arguments_json" in payload:
        value = payload["updated_arguments_json"]
        if not isinstance(value, dict):
            raise Refusal(names.RESOLUTION_REJECTED, "updated_arguments_json must be an object for Claude Code")
    return allow(gate.request_id, value), [*drafts, *turn.started(gate.call, value)]


def _input_answered(gate: Gate, turn: Turn, payload: Mapping[str, Any]) -> tuple[bytes, list[Draft]]:
    questions = {question["id"]: question for question in gate.questions or ()}
    answers: dict[str, str] = {}
    for answer in payload["answers"]:
        question = questions.get(answer["question_id"])
        if question is None:
            raise Refusal(names.RESOLUTION_REJECTED, f"{gate.id} asked no question {answer['question_id']}")
        labels = {option["id"]: option["label"] for option in question["options"]}
        chosen = [labels[id] for id in answer.get("selected_option_ids", ()) if id in labels]
        answers[question["prompt"]] = ", ".join(chosen) or answer.get("text", "")
    value = {**gate.input, "answers": answers}
    drafts = _input_closed(gate, turn, {"status": "submitted", "answers": payload["answers"]})
    return allow(gate.request_id, value), [*drafts, *turn.started(gate.call)]


def _input_cancelled(gate: Gate, turn: Turn, payload: Mapping[str, Any]) -> tuple[bytes, list[Draft]]:
    line = deny(gate.request_id, payload.get("reason") or "The user did not answer.")
    return line, _input_closed(gate, turn, {"status": "cancelled"})


def _input_closed(gate: Gate, turn: Turn, how: Mapping[str, Any]) -> list[Draft]:
    """Close an input gate; the run runs again unless it is on its way to the end."""
    drafts: list[Draft] = [(turn.run_id, names.INPUT_RESOLVED, gate.about(**how))]
    if not turn.cancelling:
        drafts.append((turn.run_id, names.RUN_STATUS, {"status": "running"}))
    return drafts


_ANSWERS: Final = {
    names.RESOLVE_PERMISSION: _permission_answered,
    names.RESOLVE_INPUT: _input_answered,
    names.CANCEL_INPUT: _input_cancelled,
}
