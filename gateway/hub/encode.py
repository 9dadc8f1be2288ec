"""Events to bytes, once. The fixed part of an event's envelope is made once a run and type, and spliced ever after."""

from __future__ import annotations

from ...framing import delta_entries, event_text
from ...protocol.json import dumps, dumps_to_keep, encoder
from ...protocol.names import CONTENT_DELTA, EXTENSION, PERMISSION_RESOLVED, PROFILE, PROTOCOL, RUN_EVENTS, VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Final

    from ...adapters.base import Draft
    from .journal import Entry
    from .runs import Run

START: Final = b'{"protocol":"%s","version":"%s","profile":"%s",' % (
    PROTOCOL.encode(),
    VERSION.encode(),
    PROFILE.encode(),
)
NUMBERS: Final = b'"id":"oap-response-%d","in_reply_to":"oap-request-%d","payload":'
"""What stands between head and payload of a response to an op without a request envelope: the two minted numbers."""


def response_head(kind: str, session_id: str) -> bytes:
    """Return what all responses of one type and session begin with."""
    return START + b'"type":%b,"session_id":%b,' % (dumps(kind), dumps(session_id))


class EventEncoder:
    """Makes the bytes of one session's events. `revision` is cited on every event (spec: envelopes 6)."""

    __slots__ = ("_dumps", "_id", "_session")

    def __init__(self, session_id: str, revision: str) -> None:
        self._dumps = encoder()
        self._id = dumps_to_keep(session_id)
        self._session = b'"session_id":%b,"capability_revision":%b,"run_id":' % (self._id, dumps(revision))

    def head(self, run: Run, kind: str) -> bytes:
        """Return the part of the envelope that all events of this run and type share, made at the first of them."""
        if not run.payload_head:
            run.id_text = dumps_to_keep(run.id)
            run.payload_head = b'{"session_id":%b,"run_id":%b' % (self._id, run.id_text)
        start = _STARTS.get(kind)
        if start is None:
            start = START + b'"type":%b,' % dumps(kind)
            if kind in RUN_EVENTS:
                _STARTS[kind] = start
        head = run.heads[kind] = b"%b%b%b," % (start, self._session, run.id_text)
        return head

    def deltas(self, run: Run, drafts: Sequence[Draft], start: int, entries: list[Entry], number: int, now: int) -> int:
        """Append the plain deltas of one run from `drafts[start]` on; return how many (see `delta_entries`)."""
        kind = CONTENT_DELTA
        head = run.heads.get(kind) or self.head(run, kind)
        opening = run.payload_head
        return delta_entries(
            entries, drafts, start, run.id, kind, head, b"", opening, number, run.sequence, now, self._dumps
        )

    def event(
        self,
        run: Run,
        kind: str,
        payload: Mapping[str, Any],
        extensions: Mapping[str, Any] | None,
        number: int,
        sequence: int,
        now: int,
    ) -> bytes:
        """Return one event's envelope. `number` makes its id; `now` is in milliseconds since 1970.

        Raises `TypeError` where the payload has no JSON form (a lone surrogate, an integer beyond 64 bits).
        """
        head = run.heads.get(kind) or self.head(run, kind)
        call = payload.get("tool_call_id")
        about = b""
        if call is not None and kind != PERMISSION_RESOLVED:  # its type has the call in the payload alone
            about = b'"tool_call_id":%b,' % self._dumps(call)
        event = event_text(head, about, number, sequence, now, run.payload_head, self._dumps(payload))
        if extensions:
            event = b'%b,"extensions":%b}' % (event[:-1], self._dumps({EXTENSION: extensions}))
        return event


_STARTS: Final[dict[str, bytes]] = {}
"""How the envelopes of an event type begin; one for each of `RUN_EVENTS` that was ever published."""
