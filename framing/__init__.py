"""Bytes in, frames out: lines, op lines, envelope texts and event streams. No I/O, no clock, no asyncio."""

from ..protocol.errors import EnvelopeDefect, FrameTooLarge, LineDefect
from ._select import (
    IMPLEMENTATION,
    EnvelopeHead,
    LineDecoder,
    OpLine,
    ServerSentEvent,
    SSEDecoder,
    encode_comment,
    encode_sse,
    parse_op_line,
    scan_envelope,
    splice_events,
    splice_tails,
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
    "encode_comment",
    "encode_sse",
    "parse_op_line",
    "scan_envelope",
    "splice_events",
    "splice_tails",
]
