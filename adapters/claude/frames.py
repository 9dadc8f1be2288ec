"""Frames of the harness: read leniently but safely, written compactly. Nothing here raises for what a harness sent,
except `FrameDefect`, which names the fault of one line.
"""

from __future__ import annotations

from ...protocol.json import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

DEPTH: Final = 64
"""Levels kept of a value that is passed through (tool input, tool result). The wire allows 128 for a whole line, and
such a value stands four levels deep in one."""
DEEPER: Final = "(nested too deeply to be passed on)"
SHOWN: Final = 120
"""Characters of foreign text that a note shows."""
MOST: Final = 1 << 53
"""From here on a number may not be what the harness meant: JavaScript holds no greater whole numbers exactly."""
MENDED_BYTES: Final = 1 << 20
"""The longest frame that is read leniently where it is no strict JSON: about a quarter of a second."""
_PLAIN_DIGITS: Final = 19


class FrameDefect(ValueError):
    """One line that is no frame. `stray`: it does not even begin like one, so it is foreign text on the pipe."""

    def __init__(self, reason: str, stray: bool) -> None:
        super().__init__(reason)
        self.stray = stray


def parse(line: bytes) -> dict[str, Any]:
    """Return the object of one line. Raises `FrameDefect`.

    Strict JSON is the fast way. What it refuses and JavaScript writes is mended: a lone surrogate becomes U+FFFD, bad
    UTF-8 likewise, a number that is no number becomes null, and one beyond 64 bits a float. Of a repeated name the last
    stands.
    """
    try:
        value = loads(line)
    except ValueError:
        if not line.lstrip().startswith(b"{"):
            raise FrameDefect(f"no frame but text: {shown(line)}", True) from None
        value = _mended(line)
    if not isinstance(value, dict):
        raise FrameDefect(f"JSON but no object: {shown(line)}", True)
    return value


def encode(frame: Mapping[str, Any]) -> bytes:
    """Return one frame as a line for the harness."""
    return dumps(frame) + b"\n"


def shown(text: object) -> str:
    """Return foreign text for a note: bounded, and with everything unprintable escaped."""
    if isinstance(text, bytes):
        text = text[: 4 * SHOWN].decode("utf-8", "replace")
    if not isinstance(text, str):
        return f"({type(text).__name__})"
    return ascii(text[:SHOWN]) + ("..." if len(text) > SHOWN else "")


def shallow(value: Any, levels: int = DEPTH) -> Any:
    """Return a JSON value with what lies deeper than `levels` replaced; the value itself where nothing does."""
    return _cut(value, levels) if _deeper(value, levels) else value


def text_of(content: Any) -> str:
    """Return the text of a content value: a string, or the text blocks of a list, joined by line feeds."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "\n".join(
        block["text"] for block in content if isinstance(block, dict) and isinstance(block.get("text"), str)
    )


def word(value: Any) -> str:
    """Return a member that must be a non-empty string; anything else reads as the empty one."""
    return value if isinstance(value, str) else ""


def whole(value: Any) -> int | None:
    """Return a member that counts: a whole number from 0 to below 2^53; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST else None


def _mended(line: bytes) -> Any:
    """Read a frame that the fast library refuses; slow, and therefore bounded: the loop waits meanwhile."""
    import json

    if len(line) > MENDED_BYTES:
        raise FrameDefect(f"a frame of {len(line)} bytes that is no strict JSON: {shown(line)}", False)
    try:
        value = json.loads(
            line.decode("utf-8", "replace"),
            parse_int=lambda digits: int(digits) if len(digits) <= _PLAIN_DIGITS else float(digits),
            parse_constant=lambda name: None,
        )
        return _clean(value)
    except (ValueError, RecursionError) as error:
        cause = "nesting is too deep" if isinstance(error, RecursionError) else str(error)[:SHOWN]
        raise FrameDefect(f"a frame that is no JSON ({cause}): {shown(line)}", False) from None


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {_clean(name): _clean(item) for name, item in value.items()}
    return value


def _deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    if levels <= 0:
        return True
    return any(_deeper(item, levels - 1) for item in (value.values() if isinstance(value, dict) else value))


def _cut(value: Any, levels: int) -> Any:
    if not isinstance(value, dict | list):
        return value
    if levels <= 0:
        return DEEPER
    if isinstance(value, dict):
        return {name: _cut(item, levels - 1) for name, item in value.items()}
    return [_cut(item, levels - 1) for item in value]
