"""Lines for people: who sent what, and what it means. The whole line is shortened, never changed in meaning."""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import Any

COLOURS = {">": "36", "<": "32", "event": "33", "note": "2", "title": "1"}
HIDDEN = ("protocol", "version", "profile", "timestamp_ms", "capability_revision", "in_reply_to")
REPEATED = ("session_id", "run_id", "tool_call_id", "requested_by", "responded_by", "execution_owner", "source")

MEANINGS = {
    "open": "open a session on the adapter",
    "events": "subscribe: every event of the session, from now on",
    "submit": "give the agent a message; the answer says which run it became",
    "resolve": "answer a question that the agent has open",
    "close": "close the session",
    "models": "which models are there?",
    "run.started": "the run begins; sequence 1 of its own count",
    "run.status.updated": "the run's status changed",
    "content.delta": "a piece of the agent's text",
    "action.call.requested": "the agent wants to call a tool",
    "action.permission.requested": "GATE: may it? The run waits for an answer",
    "action.permission.resolved": "the gate is answered",
    "action.call.started": "the tool runs",
    "action.call.completed": "the tool is done",
    "action.call.failed": "the tool failed",
    "action.call.cancelled": "the tool was not run",
    "user.input.requested": "GATE: the agent asks the person something",
    "user.input.resolved": "the question is answered",
    "run.completed": "the run is over: exactly one terminal, nothing after it",
    "run.failed": "the run is over, and failed",
    "run.cancelled": "the run is over: it was cancelled",
}


def paint(kind: str, text: str) -> str:
    """Colour a text where the output is a terminal."""
    if not sys.stdout.isatty() or "NO_COLOR" in os.environ:
        return text
    return f"\x1b[{COLOURS[kind]}m{text}\x1b[0m"


def title(text: str) -> None:
    """Head a step of the story."""
    print("\n" + paint("title", text), flush=True)


def say(text: str) -> None:
    """Explain something."""
    print(paint("note", "  " + text), flush=True)


def show(direction: str, line: dict[str, Any]) -> None:
    """Print one line of the pipe: direction, meaning, and what stands in it, fixed and repeated members left out."""
    kind = "event" if "event" in line else direction
    width = max(60, shutil.get_terminal_size((118, 24)).columns - 2)
    text = json.dumps(_core(line), ensure_ascii=False)
    if len(text) > width - 7:
        text = text[: width - 8] + "…"
    who = "host    >" if direction == ">" else "gateway <"
    print(f"  {paint(kind, who)} {_meaning(direction, line)}\n      {paint('note', text)}", flush=True)


def _meaning(direction: str, line: dict[str, Any]) -> str:
    if direction == ">":
        meaning = "replay what followed a sequence, then go on" if "after" in line else MEANINGS[line["op"]]
        return f"{line['op']} (id {line['id']}): {meaning}"
    if "event" not in line:
        how = "done" if line["ok"] else f"refused, {line['error']['code']}"
        return f"answer to id {line['id']}: {how}"
    if line["event"] != "envelope":
        return f"{line['event']} for id {line['id']}"
    type = line["envelope"]["type"]
    return f"event {line['sequence']} for id {line['id']}: {type}: {MEANINGS.get(type, 'an event')}"


def _core(line: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a line that is worth a look: an envelope is shown as its payload under its type."""
    core = dict(line)
    for member in ("request", "result", "envelope"):
        inner = core.get(member)
        if isinstance(inner, dict) and "payload" in inner:
            payload = {name: value for name, value in inner["payload"].items() if name not in REPEATED}
            if member == "envelope":
                return dict(_short(payload))
            core[member] = {inner["type"]: payload}
    return dict(_short(core))


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _short(member) for name, member in value.items() if name not in HIDDEN}
    if isinstance(value, list):
        return [_short(item) for item in value]
    return value
