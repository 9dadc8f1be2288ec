"""`Envelope`: the one value that requests, answers and events are, whichever door or harness they cross."""

from __future__ import annotations

from . import json
from .names import PROFILE, PROTOCOL, VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

HEADER: Final = (
    "session_id",
    "run_id",
    "turn_id",
    "tool_call_id",
    "sequence",
    "timestamp_ms",
    "in_reply_to",
    "capability_revision",
)
"""Optional header members, in the order in which they are written (spec: envelopes 2)."""


class Envelope:
    """One OAP envelope: header fields, payload, extensions. `None` stands for an absent optional member.

    `payload` and `extensions` are plain JSON values and are not to be changed once the envelope is made, because its
    bytes are encoded once and kept. `other` holds unknown top-level members, which are preserved when writing.
    """

    __slots__ = (
        "_bytes",
        "capability_revision",
        "extensions",
        "id",
        "in_reply_to",
        "other",
        "payload",
        "run_id",
        "sequence",
        "session_id",
        "timestamp_ms",
        "tool_call_id",
        "turn_id",
        "type",
    )

    def __init__(
        self,
        type: str,
        id: str,
        payload: Mapping[str, Any],
        *,
        session_id: str | None = None,
        run_id: str | None = None,
        turn_id: str | None = None,
        tool_call_id: str | None = None,
        sequence: int | None = None,
        timestamp_ms: int | None = None,
        in_reply_to: str | None = None,
        capability_revision: str | None = None,
        extensions: Mapping[str, Any] | None = None,
        other: Mapping[str, Any] | None = None,
    ) -> None:
        self.type = type
        self.id = id
        self.payload = payload
        self.session_id = session_id
        self.run_id = run_id
        self.turn_id = turn_id
        self.tool_call_id = tool_call_id
        self.sequence = sequence
        self.timestamp_ms = timestamp_ms
        self.in_reply_to = in_reply_to
        self.capability_revision = capability_revision
        self.extensions = extensions
        self.other = other
        self._bytes: bytes | None = None

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Envelope:
        """Take a mapping that is already known to be an envelope; no check is made. Raises `KeyError` if it is not."""
        fields = {name: value[name] for name in (*HEADER, "extensions") if name in value}
        other = {name: value[name] for name in value if name not in _KNOWN}
        return cls(value["type"], value["id"], value["payload"], **fields, other=other or None)

    def as_dict(self) -> dict[str, Any]:
        """Return the envelope as a new dict, absent members left out, in the order of the wire."""
        value: dict[str, Any] = {
            "protocol": PROTOCOL,
            "version": VERSION,
            "profile": PROFILE,
            "type": self.type,
            "id": self.id,
        }
        for name in HEADER:
            if (member := getattr(self, name)) is not None:
                value[name] = member
        value["payload"] = self.payload
        if self.extensions is not None:
            value["extensions"] = self.extensions
        if self.other:
            value.update((name, member) for name, member in self.other.items() if name not in _KNOWN)
        return value

    def encode(self) -> bytes:
        """Return the envelope as compact JSON, encoded at the first call and kept."""
        if self._bytes is None:
            self._bytes = json.dumps(self.as_dict())
        return self._bytes

    def __repr__(self) -> str:
        return f"Envelope({self.type!r}, {self.id!r}, session_id={self.session_id!r}, run_id={self.run_id!r})"


_KNOWN: Final = frozenset((*HEADER, "protocol", "version", "profile", "type", "id", "payload", "extensions"))
