"""Bytes in, frames out: lines, op lines, envelope texts and event streams. No I/O, no clock, no asyncio."""

from ..protocol.errors import EnvelopeDefect, FrameTooLarge, LineDefect
from ._select import (
    IMPLEMENTATION,
    EnvelopeHead,
    LineDecoder,
    OpLine,
    ServerSentEvent,
    SSEDecoder,
    delta_entries,
    encode_comment,
    encode_sse,
    event_lines,
    event_text,
    held_bytes,
    parse_op_line,
    response_line,
    scan_envelope,
    success_line,
)

__all__ = [
    "IMPLEMENTATION",
    "EnvelopeDefect",
    "EnvelopeHead",
    "FrameTooLarge",
    "LineDecoder",
    "LineDefect",
    "OpLine",
    "SSEDecoder",
    "ServerSentEvent",
    "delta_entries",
    "encode_comment",
    "encode_sse",
    "event_lines",
    "event_text",
    "held_bytes",
    "parse_op_line",
    "response_line",
    "scan_envelope",
    "success_line",
]
