"""The one place that chooses between the references and their compiled twins.

`TRUNKLINE_SPEEDUPS=no` takes the references, `=yes` refuses to go on without the twins, unset takes what is there.
All or none: a half-built set of twins counts as absent. Type checkers always see the references.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_WANTED: Final = os.environ.get("TRUNKLINE_SPEEDUPS", "")

if _WANTED not in ("", "yes", "no"):
    raise ImportError(f"TRUNKLINE_SPEEDUPS is {_WANTED!r}; it takes yes or no")
if TYPE_CHECKING or _WANTED == "no":
    from ._envelope import EnvelopeHead, scan_envelope
    from ._ndjson import LineDecoder
    from ._opline import OpLine, parse_op_line
    from ._splice import delta_entries, event_lines, event_text, held_bytes, response_line, success_line
    from ._sse import ServerSentEvent, SSEDecoder, encode_comment, encode_sse
else:
    try:
        from .._speedups.envelope import EnvelopeHead, scan_envelope
        from .._speedups.ndjson import LineDecoder
        from .._speedups.opline import OpLine, parse_op_line
        from .._speedups.splice import (
            delta_entries,
            event_lines,
            event_text,
            held_bytes,
            response_line,
            success_line,
        )
        from .._speedups.sse import ServerSentEvent, SSEDecoder, encode_comment, encode_sse
    except ImportError:
        if _WANTED == "yes":
            raise
        from ._envelope import EnvelopeHead, scan_envelope
        from ._ndjson import LineDecoder
        from ._opline import OpLine, parse_op_line
        from ._splice import delta_entries, event_lines, event_text, held_bytes, response_line, success_line
        from ._sse import ServerSentEvent, SSEDecoder, encode_comment, encode_sse

IMPLEMENTATION: Final = "cython" if "_speedups" in LineDecoder.__module__ else "python"
"""`cython` or `python`: which of the two is in use."""

__all__ = [
    "IMPLEMENTATION",
    "EnvelopeHead",
    "LineDecoder",
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
