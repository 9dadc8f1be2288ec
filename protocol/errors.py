"""Errors in families, by who must act: the host mends a request, the pipe is lost, or a harness failed.

The decoders' errors live here too, so that a reference and its compiled twin raise the very same classes.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, Final

REASONS: Final[Mapping[str, str]] = {
    # the text as JSON; `{}` takes the detail of the fault
    "ends": "the text ends before the JSON value does",
    "name": "expected a member name in double quotes",
    "colon": "expected a colon after the member name",
    "value": "expected a JSON value",
    "member_end": "expected a comma or a closing brace after the member",
    "item_end": "expected a comma or a closing bracket after the item",
    "trailing": "something other than white space follows the JSON value",
    "control": "a control character stands raw in a string; write it as an escape",
    "escape": "this is no escape of JSON",
    "surrogate": "an escaped surrogate stands alone; it has no UTF-8 form",
    "utf8": "the text is not valid UTF-8",
    "bom": "the text begins with a byte-order mark; write UTF-8 without one",
    "depth": "nesting is deeper than {} levels",
    "twice": "the member {} stands twice in one object",
    "missing": "the member {} is missing",
    # the line
    "blank": "the line is blank; write one request a line",
    "object": "a request is one JSON object",
    "cr_end": "the line ends in CR LF; write LF only",
    "cr": "a carriage return stands in the line; write LF only, and CR inside a string as an escape",
    "lf": "a line feed stands inside the line",
    "unknown": "{} is no member of a request",
    "alias": "{} differs from a member of a request by case only; names are case-sensitive",
    # members; `{}` is the name
    "int64": "{} must be a whole number from -9223372036854775808 to 9223372036854775807, in plain digits",
    "positive": "{} must be a whole number from 1 to 9223372036854775807, in plain digits",
    "nonempty": "{} must be a string that is not empty",
    "text": "{} must be a string or null",
    "texts": "{} must be an array of strings or null",
    "const": "{} must be the value that this version fixes",
    "is_object": "{} must be an object",
    "envelope": "an envelope is one JSON object",
}
"""What a decoder says of a fault, by kind: one table for the reference and its compiled twin."""

_SHOWN: Final = 24


def shown(name: str) -> str:
    """Return a name from outside for a message: quoted, escaped and cut after 24 characters."""
    return repr(name) if len(name) <= _SHOWN else f"{name[:_SHOWN]!r}..."


def stranger(name: str, known: Iterable[str]) -> str:
    """Return the kind of an unlisted member name: `alias` where only case tells it from a known one, else `unknown`.

    Case is folded as Unicode does it in full, so that U+017F counts as `s` and U+212A as `k` (spec: stdio 3.1).
    """
    return "alias" if len(name) <= _SHOWN and name.casefold() in known else "unknown"


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
