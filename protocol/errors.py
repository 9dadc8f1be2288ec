"""Errors in families, by who must act: the host mends a request, the pipe is lost, or a harness failed.

The decoders' errors live here too, so that a reference and its compiled twin raise the very same classes.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class LineDefect(ValueError):
    """One op line that breaks the rules of the line itself; the session cannot go on (spec: stdio 3.1).

    `reason` says what is wrong and how to mend it, in at most 300 characters, without a line number. `offset` is the
    byte of the line at which it was found, counted from 0.
    """

    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(f"{reason} (byte {offset})")
        self.reason = reason
        self.offset = offset


class EnvelopeDefect(ValueError):
    """One envelope whose text or header breaks the rules (spec: stdio 4.4, envelopes 2).

    `code` is `malformed_json` (not JSON, a repeated name, too deep) or `schema_invalid` (a header member absent or of
    the wrong kind). `offset` is a byte of the envelope's text, counted from 0.
    """

    def __init__(self, code: str, reason: str, offset: int) -> None:
        super().__init__(f"{reason} (byte {offset})")
        self.code = code
        self.reason = reason
        self.offset = offset


class FrameTooLarge(ValueError):
    """A frame passed the limit, whether its end was seen or not; the decoder that raised it is dead.

    `limit` is in bytes. `frames` are the complete frames of the same feed before the fault: deliver them first.
    """

    def __init__(self, limit: int, frames: list[Any]) -> None:
        super().__init__(f"a frame is longer than {limit} bytes")
        self.limit = limit
        self.frames = frames


class Refusal(Exception):
    """One request refused; nothing else is disturbed. Carries a code of `protocol.names`, a message and details."""

    def __init__(self, code: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class WireDefect(Exception):
    """The pipe to the host can no longer be trusted or used; the whole process ends with this text (spec: stdio 10)."""


class HarnessFault(Exception):
    """A harness broke its side: it cannot be started, spoke wrongly, or died. Ends a run or refuses an open.

    `code` goes on the wire in `run.failed`; the text is bounded and already redacted.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class ConfigError(ValueError):
    """The configuration cannot be used; the text names the member and the place."""


class StreamEnd(Exception):
    """Base of the three ways in which a subscription ends before its run does; each carries a place to resume."""


class Overflow(StreamEnd):
    """The subscriber fell behind and was detached. Resume with `after=last_sequence` of `run_id`."""

    def __init__(self, run_id: str, last_sequence: int) -> None:
        super().__init__(f"the subscriber fell behind in run {run_id}; resume after sequence {last_sequence}")
        self.run_id = run_id
        self.last_sequence = last_sequence


class ReplayGap(StreamEnd):
    """The cursor is older than what is retained. A usable cursor is `oldest_available - 1` or more."""

    def __init__(self, requested_after: int, oldest_available: int, latest_available: int) -> None:
        super().__init__(
            f"sequence {requested_after + 1} is no longer retained; resume after {oldest_available - 1} or later"
        )
        self.requested_after = requested_after
        self.oldest_available = oldest_available
        self.latest_available = latest_available


class StreamFailed(StreamEnd):
    """The stream of a run broke underneath. `run_id` and `sequence` are the last delivered position."""

    def __init__(self, run_id: str, sequence: int) -> None:
        super().__init__(f"the stream failed after sequence {sequence} of run {run_id or '(none)'}")
        self.run_id = run_id
        self.sequence = sequence
