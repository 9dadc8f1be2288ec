"""How a turn ended: the terminal of a run from the harness's `result` frame, or from what happened instead of one.

`subtype` alone says nothing (a failed model request is a `success` with `is_error`): the first rule that fits, fits.
"""

from __future__ import annotations

from ...protocol import names
from .frames import whole, word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

    from ..base import Draft
    from .turn import Turn

MESSAGE_CHARS: Final = 4096
"""Characters of the harness's error text that stand in the event."""
EXECUTION_ERROR: Final = "error_during_execution"
_RETRIABLE: Final = frozenset((408, 409, 429))


def settled(
    turn: Turn, result: Mapping[str, Any], model: str | None, usage: dict[str, int], about: dict[str, Any]
) -> list[Draft]:
    """Return the drafts that end a run as its `result` frame says. `model`: what the harness called the turn's model.

    `usage` and `about` are the payload and the extension of `Meter.turn`.
    """
    reason = word(result.get("terminal_reason"))
    subtype = word(result.get("subtype"))
    error = result.get("is_error")
    failed = error if isinstance(error, bool) else subtype != "success"
    aborted = failed and (reason.startswith("aborted") or subtype == EXECUTION_ERROR)
    common: dict[str, Any] = {"usage": usage} if usage else {}
    if (duration := whole(result.get("duration_ms"))) is not None:
        common["duration_ms"] = duration
    said = {"subtype": subtype, "terminal_reason": reason, "model": turn.model}
    native: dict[str, Any] = {name: value for name, value in said.items() if value}
    extension = {"usage": about, "native": native}
    payload: dict[str, Any]
    drafts: list[Draft] = []
    if aborted and turn.cancelling:
        kind, payload = names.RUN_CANCELLED, {"reason": "the harness stopped the turn as asked"}
    elif failed:
        kind, payload = names.RUN_FAILED, {"error": _error(turn, result, subtype, reason)}
    else:
        text = word(result.get("result"))
        drafts = turn.final_text(text)
        kind, payload = names.RUN_COMPLETED, _completion(turn, result, text, reason, model)
    return [*drafts, (turn.run_id, kind, {**payload, **common}, extension)]


def lost(turn: Turn, code: str, message: str) -> Draft:
    """Return the terminal of a run of which the harness will say nothing more (spec: envelopes 18)."""
    if turn.cancelling:
        payload: dict[str, Any] = {"reason": message[:MESSAGE_CHARS]}
        return (turn.run_id, names.RUN_CANCELLED, {**payload, "settled_by": "inferred"})
    if turn.closing:
        code = names.SESSION_CLOSED
    payload = {"error": {"code": code, "message": message[:MESSAGE_CHARS]}}
    return (turn.run_id, names.RUN_FAILED, {**payload, "settled_by": "inferred"})


def error_text(result: Mapping[str, Any]) -> str:
    """Return what a `result` frame says went wrong; never empty."""
    errors = result.get("errors")
    listed = [text for text in errors if isinstance(text, str) and text] if isinstance(errors, list) else []
    text = "; ".join(listed) or word(result.get("result")) or "the harness gave no reason"
    return text[:MESSAGE_CHARS]


def _completion(turn: Turn, result: Mapping[str, Any], text: str, reason: str, model: str | None) -> dict[str, Any]:
    response: dict[str, Any] = {"role": "assistant", "content": text}
    if turn.message and turn.text:
        response["id"] = turn.message
    stop = word(result.get("stop_reason")) or turn.stop_reason or reason or "completed"
    payload: dict[str, Any] = {"final_response": response, "stop_reason": stop}
    if turn.model is not None and model and turn.selected in (None, model):
        payload["model_id"] = model
    return payload


def _error(turn: Turn, result: Mapping[str, Any], subtype: str, reason: str) -> dict[str, Any]:
    message = error_text(result)
    if reason.startswith("aborted"):
        code = names.SESSION_CLOSED if turn.closing else "harness_interrupted"
        return {"code": code, "message": f"the turn was interrupted, and not at this host's request: {message}"}
    if subtype != "success":
        return {"code": "harness_error" if subtype in ("", EXECUTION_ERROR) else subtype, "message": message}
    status = whole(result.get("api_error_status"))
    error: dict[str, Any] = {"code": "model_error", "message": message}
    details: dict[str, Any] = {"kind": turn.error_kind} if turn.error_kind else {}
    if status is not None:
        details["status"] = status
        error["retriable"] = status in _RETRIABLE or status >= 500
    if details:
        error["details"] = details
    return error
