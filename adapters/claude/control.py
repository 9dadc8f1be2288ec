"""Control frames: our requests with their ids, and which of them an answer belongs to."""

from __future__ import annotations

from .frames import encode, word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

OPEN: Final = 64
"""Requests of ours that may be without an answer; the oldest is forgotten first. The codec has at most a few."""


class Control:
    """The table of requests that are without an answer: request id to subtype. `last`: the id of the newest one."""

    __slots__ = ("_count", "last", "open")

    def __init__(self) -> None:
        self._count = 0
        self.last = ""
        self.open: dict[str, str] = {}

    def request(self, subtype: str, **members: Any) -> bytes:
        """Return the line of a new request."""
        self._count += 1
        self.last = id = f"req_{self._count}"
        self.open[id] = subtype
        if len(self.open) > OPEN:
            del self.open[next(iter(self.open))]
        return encode({"type": "control_request", "request_id": id, "request": {"subtype": subtype, **members}})

    def answered(self, frame: Mapping[str, Any]) -> tuple[str, str | None, Mapping[str, Any], str | None]:
        """Take a `control_response`. Return `(id, subtype, response, error)`; subtype None where nothing was asked.

        Only the id tells which request it answers: two of one subtype may be open at once.
        """
        body = frame.get("response")
        if not isinstance(body, dict):
            return "", None, {}, None
        id = word(body.get("request_id"))
        subtype = self.open.pop(id, None)
        response = body.get("response")
        error = None if body.get("subtype") == "success" else word(body.get("error")) or "no reason given"
        return id, subtype, response if isinstance(response, dict) else {}, error

    @staticmethod
    def refuse(request_id: str, reason: str) -> bytes:
        """Return the line that refuses a request of the harness, which would otherwise wait for ever."""
        body = {"subtype": "error", "request_id": request_id, "error": reason}
        return encode({"type": "control_response", "response": body})
