"""Values to lines: answers, refusals and subscription lines of the stdio door (spec: stdio 5 and 6). Sans-I/O."""

from __future__ import annotations

from ...protocol import names
from ...protocol.envelope import Envelope
from ...protocol.errors import Overflow, Refusal, ReplayGap, StreamEnd, StreamFailed
from ...protocol.json import dumps
from ..hub.subscription import SessionEnded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

    from ..operations import Result

OK: Final = b'{"id":%d,"ok":true,"result":%b}\n'
REFUSED: Final = b'{"id":%d,"ok":false,"result":null,"error":%b}\n'
EVENT_PREFIX: Final = b'{"event":"envelope","id":%d,"session_id":%b,"sequence":'

_SHORT: Final = 60


def answer_line(id: int, result: Result) -> bytes:
    """Return the success line of an op. Raises `TypeError` where the result has no JSON form."""
    if type(result) is bytes:
        return OK % (id, result)
    if result is None:
        return OK % (id, b"null")
    return OK % (id, result.encode() if isinstance(result, Envelope) else dumps(result))


def refusal_line(id: int, refusal: Refusal, limit: int, chars: int = 300) -> bytes:
    """Return the refusal line of an op, made to fit `limit` bytes without its newline (spec: stdio 5.1).

    In order: the full line; the same code with a shortened message and no details; the fixed `response_too_large`.
    Messages are at most `chars` code points, then an ellipsis.
    """
    error: dict[str, Any] = {"code": refusal.code, "message": clipped(refusal.message, chars)}
    if refusal.details:
        error["details"] = refusal.details
    short = clipped(refusal.message, _SHORT).encode("utf-8", "replace").decode()
    for attempt in (error, {"code": refusal.code, "message": short}):
        try:
            line = REFUSED % (id, dumps(attempt))
        except TypeError:  # a lone surrogate out of a harness, say: the code still arrives
            continue
        if len(line) <= limit + 1:
            return line
    return too_large_line(id, "the refusal does not fit")


def too_large_line(id: int, message: str) -> bytes:
    """Return the fixed refusal of an answer that does not fit in a frame."""
    return REFUSED % (id, dumps({"code": names.RESPONSE_TOO_LARGE, "message": message}))


def event_prefix(id: int, session_id: str) -> bytes:
    """Return what all envelope lines of one subscription begin with."""
    return EVENT_PREFIX % (id, dumps(session_id))


def ending_line(id: int, session_id: str, outcome: StreamEnd, limit: int) -> bytes:
    """Return the line that ends a subscription; what would not fit is dropped from it (spec: stdio 6)."""
    name, members = _ending(outcome)
    line = _signal(name, id, {"session_id": session_id, **members})
    if len(line) > limit + 1:
        numbers = {key: value for key, value in members.items() if key not in ("run_id", "message")}
        line = _signal(name, id, numbers)
    return line


def frame_limit_line(id: int, session_id: str, run_id: str, sequence: int, limit: int) -> bytes:
    """Return the line for an envelope that does not fit in a frame; resuming after `sequence` skips it."""
    line = _signal("oap-frame-limit", id, {"session_id": session_id, "run_id": run_id, "sequence": sequence})
    return line if len(line) <= limit + 1 else _signal("oap-frame-limit", id, {"sequence": sequence})


def clipped(message: str, chars: int) -> str:
    """Return a message of at most `chars` code points, then an ellipsis."""
    return message if len(message) <= chars else message[:chars] + "…"


def _signal(name: str, id: int, members: Mapping[str, Any]) -> bytes:
    return dumps({"event": name, "id": id, **members}) + b"\n"


def _ending(outcome: StreamEnd) -> tuple[str, dict[str, Any]]:
    if isinstance(outcome, Overflow):
        members: dict[str, Any] = {"run_id": outcome.run_id, "last_sequence": outcome.last_sequence}
        return "oap-overflow", {**members, "message": str(outcome)}
    if isinstance(outcome, ReplayGap):
        return "oap-replay-gap", {
            "requested_after": outcome.requested_after,
            "oldest_available": outcome.oldest_available,
            "latest_available": outcome.latest_available,
            "message": str(outcome),
        }
    if isinstance(outcome, StreamFailed):
        return "oap-stream-failed", {"run_id": outcome.run_id, "sequence": outcome.sequence}
    assert isinstance(outcome, SessionEnded)
    return "oap-session-closed", {}
