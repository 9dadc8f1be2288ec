"""What becomes of a payload that the encoder refused: what JSON cannot carry is replaced, and seen to be.

Only what a harness can really send is mended. Lone surrogates become U+FFFD; an integer beyond 64 bits becomes the text
of its digits, so that none is lost and no reader makes a double of it; what is nested too deeply becomes a remark. A
value that is no JSON at all (bytes, a set, an object) is a fault of the adapter and stays refused.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

TOO_DEEP: Final = "(nested too deeply to be shown)"
TOO_LONG: Final = "(a number too long to be shown)"
LONGEST_BITS: Final = 4096
_LEAST: Final = -(1 << 63)
_MOST: Final = (1 << 63) - 1


def mended(value: Any, depth: int) -> Any:
    """Return a copy of a JSON value that has a JSON form, nested at most `depth` levels deep."""
    if isinstance(value, str):
        return _whole(value)
    if isinstance(value, int):
        if _LEAST <= value <= _MOST:
            return value
        return str(value) if value.bit_length() <= LONGEST_BITS else TOO_LONG
    if isinstance(value, dict | list | tuple) and depth <= 0:
        return TOO_DEEP
    if isinstance(value, dict):
        return {
            _whole(name) if isinstance(name, str) else name: mended(item, depth - 1) for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [mended(item, depth - 1) for item in value]
    return value


def _whole(text: str) -> str:
    """Return a text without lone surrogates; two that belong together become the one character they stand for."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
