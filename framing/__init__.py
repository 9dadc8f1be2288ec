"""Bytes in, frames out: lines, op lines, envelope texts and event streams. No I/O, no clock, no asyncio."""

from ..protocol.errors import EnvelopeDefect, FrameTooLarge, LineDefect
from ._select import IMPLEMENTATION, EnvelopeHead, LineDecoder, OpLine, parse_op_line, scan_envelope

__all__ = [
    "IMPLEMENTATION",
    "EnvelopeDefect",
    "EnvelopeHead",
    "FrameTooLarge",
    "LineDecoder",
    "LineDefect",
    "OpLine",
    "parse_op_line",
    "scan_envelope",
]
