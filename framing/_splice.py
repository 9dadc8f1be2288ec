"""Text of the wire out of ready pieces, reference implementation. `_speedups/splice.pyx` is the compiled twin.

What all events of a run share is made once, an envelope is encoded once, and lines are spliced around it. Nothing here
knows the JSON library: whoever has a value to encode brings the encoder.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Final, TypeAlias

    Entry: TypeAlias = tuple[int, bytes]
    """`(sequence, envelope text)`."""

ANSWER: Final = b'{"id":%d,"ok":true,"result":%b}\n'
RESPONSE: Final = b'%b"id":"oap-response-%d","in_reply_to":"oap-request-%d","payload":%b}'
EVENT: Final = b'%b%b"id":"event-%d","sequence":%d,"timestamp_ms":%d,"payload":%b%b}'
LINE: Final = b'%b%d,"envelope":%b}\n'


def success_line(id: int, result: bytes) -> bytes:
    """Return the success line of an op; `result` is JSON text."""
    return ANSWER % (id, result)


def response_line(id: int, head: bytes, response: int, request: int, payload: bytes) -> bytes:
    """Return the success line whose result is a response envelope: its head, the two minted numbers, its payload."""
    return ANSWER % (id, RESPONSE % (head, response, request, payload))


def event_text(kind: bytes, run: bytes, number: int, sequence: int, now: int, opening: bytes, payload: bytes) -> bytes:
    """Return an event's envelope.

    `kind` is what all events of a type begin with, `run` what follows for all events of a run, `opening` the begin of
    their payloads without its comma; `payload` is the text of the rest, an object.
    """
    rest = b"," + payload[1:] if len(payload) > 2 else b"}"
    return EVENT % (kind, run, number, sequence, now, opening, rest)


def delta_entries(
    entries: list[Entry],
    drafts: Sequence[Any],
    start: int,
    run_id: str,
    type: str,
    kind: bytes,
    run: bytes,
    opening: bytes,
    number: int,
    sequence: int,
    now: int,
    dumps: Callable[[Any], bytes],
) -> int:
    """Append the entries of plain drafts of one run and type, from `drafts[start]` on; return how many they were.

    It ends before the first draft of another run or type, with extensions, without a `part`, or without JSON form
    (`dumps` raises `TypeError`). The pieces are those of `event_text`; `number` and `sequence` are the ones before the
    first. Each payload must be a dict.
    """
    for at in range(start, len(drafts)):
        draft = drafts[at]
        if len(draft) != 3 or draft[1] != type or draft[0] != run_id or "part" not in draft[2]:
            return at - start
        try:
            payload = dumps(draft[2])
        except TypeError:
            return at - start
        number += 1
        sequence += 1
        entries.append((sequence, event_text(kind, run, number, sequence, now, opening, payload)))
    return len(drafts) - start


def event_lines(prefix: bytes, entries: Sequence[Entry]) -> bytes:
    """Return the lines of one subscription: `prefix` and the sequence before, the end after each stored envelope."""
    return b"".join([LINE % (prefix, sequence, envelope) for sequence, envelope in entries])


def held_bytes(entries: Sequence[Entry], start: int, stop: int) -> int:
    """Return the bytes of the envelopes of `entries[start:stop]`."""
    return sum([len(entry[1]) for entry in entries[start:stop]])
