"""Server-sent events, read and written, reference implementation. `_speedups/sse.pyx` is the compiled twin.

Rules: the event stream of the WHATWG HTML standard. A stream is read as bytes, so a cut may stand anywhere.
"""

from __future__ import annotations

from ..protocol.errors import FrameTooLarge
from ._ndjson import ENDED, check_limit, contiguous

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from ._ndjson import Buffer

LIMIT: Final = 18 << 20
"""The default limit in bytes: that of a line of the stdio door (`Limits.frame_bytes`)."""

_BOM: Final = b"\xef\xbb\xbf"
_INT64_MAX: Final = (1 << 63) - 1


class ServerSentEvent:
    """One event that was dispatched: `event` (`message` where the stream names none), `data`, `last_event_id`."""

    __slots__ = ("data", "event", "last_event_id")

    def __init__(self, event: str, data: str, last_event_id: str) -> None:
        self.event = event
        self.data = data
        self.last_event_id = last_event_id

    def __repr__(self) -> str:
        return (
            f"ServerSentEvent(event={self.event!r}, {len(self.data)} characters, last_event_id={self.last_event_id!r})"
        )


class SSEDecoder:
    """Reads an event stream; the events do not depend on how the stream was cut into reads.

    `limit` bounds, in bytes, each line without its ending and each event's data; raises `TypeError` or `ValueError`
    where it is not a whole number of at least 1. `last_event_id` is what a client would send to resume, "" for none;
    `retry_ms` the reconnection time that the stream asked for, None for none; a number beyond 64 bits is ignored.
    """

    __slots__ = ("_cr", "_data", "_end", "_event", "_held", "_id", "_start", "last_event_id", "limit", "retry_ms")

    def __init__(self, limit: int = LIMIT) -> None:
        check_limit(limit)
        self.limit = limit
        self.last_event_id = ""
        self.retry_ms: int | None = None
        self._held = bytearray()
        self._start = True  # a byte-order mark may still come
        self._cr = False  # the last byte was CR: an LF now belongs to it
        self._id = ""
        self._event = b""
        self._data: bytes | bytearray | None = None
        self._end = ""

    def feed(self, data: Buffer) -> list[ServerSentEvent]:
        """Return the events that `data`, a bytes-like value of any size, completes.

        Raises `FrameTooLarge` as soon as a line or an event's data passes the limit, with the events that this same
        feed completed before. After that, and after `eof`, raises `ValueError`.
        """
        if self._end:
            raise ValueError(self._end)
        data = contiguous(data)
        if not data:
            return []
        if self._start and not (data := self._begin(data)):
            return []
        if self._cr and data[0] == 0x0A:
            data = data[1:]
        self._cr = data.endswith(b"\r")
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = data.split(b"\n")
        tail = lines.pop()
        events: list[ServerSentEvent] = []
        held = self._held
        if lines and held:
            self._bound(len(held) + len(lines[0]), events)
            lines[0] = bytes(held) + lines[0]
            self._held = held = bytearray()
        for line in lines:
            if len(line) > self.limit:
                raise self._too_large(events)
            if line:
                self._field(line, events)
            else:
                self._dispatch(events)
        self._bound(len(held) + len(tail), events)
        held += tail
        return events

    def eof(self) -> None:
        """End the stream: what is not complete is dropped, as the standard has it."""
        if self._end and self._end != ENDED:
            raise ValueError(self._end)
        self._end = ENDED
        self._held = bytearray()
        self._data = None

    def _begin(self, data: bytes) -> bytes:
        """Return the stream's first bytes without a byte-order mark, or nothing while it may still turn out as one."""
        data = bytes(self._held) + data
        if len(data) < 3 and _BOM.startswith(data):
            self._held = bytearray(data)
            return b""
        self._held = bytearray()
        self._start = False
        return data.removeprefix(_BOM)

    def _bound(self, size: int, events: list[ServerSentEvent]) -> None:
        if size > self.limit:
            raise self._too_large(events)

    def _too_large(self, events: list[ServerSentEvent]) -> FrameTooLarge:
        self._held = bytearray()
        self._data = None
        self._end = f"the decoder is dead: a frame was longer than {self.limit} bytes"
        return FrameTooLarge(self.limit, events)

    def _field(self, line: bytes, events: list[ServerSentEvent]) -> None:
        name, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if name == b"data":
            if self._data is None:
                self._data = value
            else:
                self._bound(len(self._data) + 1 + len(value), events)
                if isinstance(self._data, bytes):
                    self._data = bytearray(self._data)
                self._data += b"\n" + value
        elif name == b"event":
            self._event = value
        elif name == b"id":
            if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit():
            digits = value.lstrip(b"0") or b"0"
            if len(digits) < 20 and int(digits) <= _INT64_MAX:
                self.retry_ms = int(digits)

    def _dispatch(self, events: list[ServerSentEvent]) -> None:
        """A blank line: the id becomes the one to resume with; an event goes out if it has data."""
        self.last_event_id = self._id
        if self._data is not None:
            data = self._data.decode("utf-8", "replace")
            events.append(ServerSentEvent(self._event.decode("utf-8", "replace") or "message", data, self._id))
            self._data = None
        self._event = b""


def encode_sse(
    data: str | bytes, *, event: str | None = None, id: str | None = None, retry: int | None = None
) -> bytes:
    """Return one event as bytes, which every reader of the standard takes as one event with these fields.

    Line breaks in `data` (LF, CR, CR LF) reach the reader as LF. Bytes are taken as UTF-8 and not checked. `retry` is
    in milliseconds. `event` of "" is the same as None: the reader sees `message`.

    Raises `ValueError` where a field would be forged (a line break in `event` or `id`), where an id holds NUL (readers
    ignore such an id), where a text has no UTF-8 form, and where `retry` is not from 0 to 9223372036854775807;
    `TypeError` for other types.
    """
    if isinstance(data, str):
        data = data.encode()
    elif not isinstance(data, bytes):
        raise TypeError(f"data is str or bytes, not {type(data).__name__}")
    parts: list[bytes] = []
    if id is not None:
        line = _one_line("id", id)
        if b"\0" in line:
            raise ValueError("an id that holds NUL is ignored by readers")
        parts += (b"id: ", line, b"\n")
    if event is not None and (name := _one_line("event", event)):
        parts += (b"event: ", name, b"\n")
    if retry is not None:
        if not isinstance(retry, int) or isinstance(retry, bool):
            raise TypeError(f"retry is a whole number of milliseconds, not {type(retry).__name__}")
        if not 0 <= retry <= _INT64_MAX:
            raise ValueError("retry is from 0 to 9223372036854775807 milliseconds")
        parts.append(b"retry: %d\n" % retry)
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if b"\n" in data:
        data = data.replace(b"\n", b"\ndata: ")
    parts += (b"data: ", data, b"\n\n")
    return b"".join(parts)


def encode_comment(text: str = "") -> bytes:
    """Return a comment and a blank line: readers ignore it, the connection is seen alive.

    Raises `ValueError` where the text holds a line break or has no UTF-8 form, `TypeError` where it is no str.
    """
    line = _one_line("comment", text)
    return b": " + line + b"\n\n" if line else b":\n\n"


def _one_line(what: str, text: str) -> bytes:
    if not isinstance(text, str):
        raise TypeError(f"{what} is str, not {type(text).__name__}")
    if "\n" in text or "\r" in text:
        raise ValueError(f"a line break in {what} would forge a field")
    return text.encode()
