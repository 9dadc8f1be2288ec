"""Fuzz targets: any bytes in; a value or the documented error out, and the two twins of one mind to the byte.

Each target is a plain function of one `bytes`, so that any fuzzing engine can drive it. They raise `AssertionError`
where a promise is broken and let every undocumented error through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trunkline.protocol.errors import EnvelopeDefect, FrameTooLarge, LineDefect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.support.twins import Twin

OP_LINE = ("id", "op", "adapter", "session_id", "run_id", "after", "request", "allow_degraded_features", "present")
HEAD = (
    "type", "id", "session_id", "run_id", "turn_id", "tool_call_id", "in_reply_to", "capability_revision", "sequence",
    "timestamp_ms", "payload", "payload_start", "extensions",
)  # fmt: skip


def cut(data: bytes) -> tuple[int, Sequence[bytes], bytes]:
    """Take a limit and cuts from the first bytes: the limit, the reads, and the reads in one."""
    limit, step, rest = (data[0] or 1) if data else 1, (data[1] or 1) if len(data) > 1 else 1, data[2:]
    return limit, [rest[i : i + step] for i in range(0, len(rest), step)], rest


def frames(decoder: Any, reads: Sequence[bytes]) -> tuple[list[Any], str]:
    """Everything that a decoder gives for the reads, and how it ended."""
    found: list[Any] = []
    for read in reads:
        try:
            found += decoder.feed(read)
        except FrameTooLarge as fault:
            return found + fault.frames, str(fault)
    return found, ""


def line_decoder(twin: Twin, data: bytes) -> Any:
    """Frames are those of a split, in any cut."""
    limit, reads, whole = cut(data)
    outcome = frames(twin.LineDecoder(limit), reads)
    assert outcome == frames(twin.LineDecoder(limit), [whole])
    found, fault = outcome
    assert b"\n".join([*found, b""]) == whole[: sum(len(frame) + 1 for frame in found)]
    assert all(len(frame) <= limit for frame in found)
    assert bool(fault) == any(len(frame) > limit for frame in whole.split(b"\n"))
    return outcome


def sse_decoder(twin: Twin, data: bytes) -> Any:
    """Events are the same in any cut, and can be written and read back."""
    limit, reads, whole = cut(data)
    decoder, other = twin.SSEDecoder(limit), twin.SSEDecoder(limit)
    events, fault = frames(decoder, reads)
    again, same = frames(other, [whole])
    seen = [(event.event, event.data, event.last_event_id) for event in events]
    assert (seen, fault) == ([(event.event, event.data, event.last_event_id) for event in again], same)
    assert (decoder.last_event_id, decoder.retry_ms) == (other.last_event_id, other.retry_ms)
    for one in seen:
        (back,) = twin.SSEDecoder().feed(twin.encode_sse(one[1], event=one[0], id=one[2]))
        assert (back.event, back.data, back.last_event_id) == one
    return seen, fault, decoder.last_event_id, decoder.retry_ms


def sse_encoder(twin: Twin, data: bytes) -> Any:
    """Whatever the fields hold, at most one event is read back."""
    text = data if data[:1] == b"\xf1" else data.decode("utf-8", "surrogateescape")
    parts = data.decode("latin-1").split("|")
    fields = {"event": parts[0] if len(parts) > 1 else None, "id": parts[1] if len(parts) > 2 else None}
    try:
        written = twin.encode_sse(text, **fields)
    except ValueError as error:
        return type(error).__name__, str(error)
    decoder = twin.SSEDecoder()
    assert len(decoder.feed(written)) == 1
    assert decoder.feed(b"\n\ndata\n") == []
    return written


def bounded(data: bytes, fault: LineDefect | EnvelopeDefect) -> tuple[str, int]:
    """The words and the place of a defect, which are bounded."""
    assert len(fault.reason) <= 300
    assert 0 <= fault.offset <= len(data)
    return fault.reason, fault.offset


def op_line(twin: Twin, data: bytes) -> Any:
    """A value or a `LineDefect` with a bounded reason and a place in the line."""
    try:
        found = twin.parse_op_line(data)
    except LineDefect as fault:
        return bounded(data, fault)
    for raw in (found.after, found.request):
        assert raw is None or raw in data
    assert {"id", "op"} <= found.present
    return [getattr(found, name) for name in OP_LINE]


def envelope(twin: Twin, data: bytes) -> Any:
    """A head or an `EnvelopeDefect` with a bounded reason and a place in the text."""
    try:
        head = twin.scan_envelope(data)
    except EnvelopeDefect as fault:
        return fault.code, *bounded(data, fault)
    assert data[head.payload_start :].startswith(head.payload)
    return [getattr(head, name) for name in HEAD]


TARGETS: dict[str, Callable[[Twin, bytes], Any]] = {
    "line_decoder": line_decoder,
    "sse_decoder": sse_decoder,
    "sse_encoder": sse_encoder,
    "op_line": op_line,
    "envelope": envelope,
}


def both(name: str, twins: Sequence[Twin]) -> Callable[[bytes], None]:
    """Return the target of a name as a function of bytes alone, which also holds the twins against each other."""
    judge = TARGETS[name]

    def target(data: bytes) -> None:
        first, *others = (judge(twin, data) for twin in twins)
        for other in others:
            assert first == other

    return target


def seeds(name: str) -> Iterator[bytes]:
    """Yield inputs that reach deep, for engines that mutate."""
    if name == "line_decoder":
        yield b"\x10\x03" + b'{"id":1}\n\n\r\nabc' * 4
    elif name == "sse_decoder":
        yield b"\x40\x05" + b"\xef\xbb\xbfid: 1\r\nevent: x\rdata: a\ndata\n\nretry: 7\n: c\n\ndata: \xe2\x82\xac\n\n"
    elif name == "sse_encoder":
        yield b"name|7|data\r\nx"
        yield b"\xf1raw|\x00|bytes"
    elif name == "op_line":
        yield (
            b'{"id":-12,"op":"submit","adapter":"m","session_id":"s","run_id":null,"after":1.5e3,'
            b'"request":{"a":[1,"\\u00e9\\ud83d\\ude00",{}],"a":null},"allow_degraded_features":["x"]}'
        )
    elif name == "envelope":
        yield (
            b'{"protocol":"open-agent-protocol","version":"0.1","profile":"open-agent-protocol.agent-control-core",'
            b'"type":"run.started","id":"e","session_id":"s","sequence":1,"timestamp_ms":-1,"extensions":{"a":{}},'
            b'"payload":{"a":1,"b":[{"c":1.5},"\xe2\x82\xac"],"\\u0063":null}}'
        )
