"""Frames of Claude Code's wire, made by hand: small streams that mean something without the recordings."""

from __future__ import annotations

from typing import Any

from trunkline.adapters.base import Settings
from trunkline.adapters.claude import ClaudeAdapter
from trunkline.protocol.errors import Refusal
from trunkline.protocol.limits import Limits

from tests.support.desk import Desk

MODELS = [
    {"value": "default", "resolvedModel": "big-1", "displayName": "Default (recommended)"},
    {"value": "big", "resolvedModel": "big-1", "displayName": "Big"},
    {"value": "small", "resolvedModel": "small-1", "displayName": "Small"},
]
PER_REQUEST = {
    "input_tokens": 100,
    "output_tokens": 4,
    "cache_read_input_tokens": 50,
    "cache_creation_input_tokens": 20,
}


def desk(limits: Limits | None = None, **options: Any) -> Desk:
    """Return a desk with a codec that has answered its handshake."""
    made = Desk(ClaudeAdapter(Settings("coder", limits or Limits(), options=options)))
    assert made.open() is ...
    made.feed(answered(MODELS))
    assert made.settled == {1: None}
    return made


def running(limits: Limits | None = None) -> Desk:
    """Return a desk with a run whose turn has begun to speak."""
    host = desk(limits)
    host.submit("hello")
    host.feed(init(), starts("m1"), delta("some"))
    return host


def refused(outcome: Any, code: str, *words: str) -> None:
    """Fail unless a request was refused with this code, for a reason that holds these words."""
    assert isinstance(outcome, Refusal), outcome
    assert outcome.code == code
    for word in words:
        assert word in outcome.message


def answered(models: Any, request_id: str = "req_1") -> dict[str, Any]:
    return control_ok(request_id, {"models": models, "commands": []})


def control_ok(request_id: str, response: Any = None) -> dict[str, Any]:
    body = {"subtype": "success", "request_id": request_id}
    if response is not None:
        body["response"] = response
    return {"type": "control_response", "response": body}


def init(model: str = "big-1", version: str = "2.1.197") -> dict[str, Any]:
    return {
        "type": "system",
        "subtype": "init",
        "session_id": "native-1",
        "model": model,
        "claude_code_version": version,
        "cwd": "/w",
        "tools": ["Bash"],
    }


def event(event: dict[str, Any], parent: str | None = None) -> dict[str, Any]:
    return {"type": "stream_event", "event": event, "parent_tool_use_id": parent, "session_id": "native-1"}


def starts(message: str, model: str = "big-1-api") -> dict[str, Any]:
    return event({"type": "message_start", "message": {"id": message, "model": model, "content": []}})


def delta(text: str, kind: str = "text") -> dict[str, Any]:
    name = {"text": "text_delta", "thinking": "thinking_delta"}[kind]
    return event({"type": "content_block_delta", "index": 0, "delta": {"type": name, kind: text}})


def stops() -> dict[str, Any]:
    return event({"type": "message_stop"})


def block(message: str, *content: dict[str, Any], parent: str | None = None, **more: Any) -> dict[str, Any]:
    body = {"id": message, "role": "assistant", "model": "big-1-api", "content": list(content)}
    return {"type": "assistant", "message": body, "parent_tool_use_id": parent, **more}


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def call(id: str, name: str = "Bash", **value: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": value or {"command": "true"}}


def returned(id: str, content: Any, is_error: bool = False, parent: str | None = None) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": id, "content": content, "is_error": is_error}
    return {"type": "user", "message": {"role": "user", "content": [block]}, "parent_tool_use_id": parent}


def asks(request_id: str, call_id: str, name: str = "Bash", value: Any = None, **more: Any) -> dict[str, Any]:
    value = {"command": "true"} if value is None else value
    request = {"subtype": "can_use_tool", "tool_name": name, "input": value, "tool_use_id": call_id, **more}
    return {"type": "control_request", "request_id": request_id, "request": request}


def result(text: str = "done", requests: int = 1, total: int = 1, **more: Any) -> dict[str, Any]:
    """`requests`: model requests of this turn, counted by `usage`; `total`: of the process, by the running totals."""
    return {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "duration_ms": 12,
        "result": text,
        "stop_reason": "end_turn",
        "terminal_reason": "completed",
        "usage": {name: count * requests for name, count in PER_REQUEST.items()},
        "modelUsage": {
            "big-1": {
                "inputTokens": 100 * total,
                "outputTokens": 4 * total,
                "cacheReadInputTokens": 50 * total,
                "cacheCreationInputTokens": 20 * total,
            }
        },
        "total_cost_usd": 0.25 * total,
        **more,
    }


def aborted(how: str = "aborted_streaming", **more: Any) -> dict[str, Any]:
    failed = {"subtype": "error_during_execution", "is_error": True, "terminal_reason": how, "stop_reason": None}
    return result(**{"errors": ["[diagnostic] aborted"], **failed, **more})
