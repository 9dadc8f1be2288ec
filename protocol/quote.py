"""Quoting a stranger's text in a message: one line, printable, short."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

QUOTED_CHARS: Final = 64


def quote(text: object, chars: int = QUOTED_CHARS) -> str:
    """Return a value as quoted ASCII text of at most about `chars` characters; longer text is cut and says so."""
    whole = text if isinstance(text, str) else str(text)
    shown = ascii(whole[:chars])
    if len(whole) <= chars and len(shown) <= chars + 2:
        return shown
    return f"{shown[:chars]}... ({len(whole)} characters)"


def clip(text: str, chars: int) -> str:
    """Return a text of at most `chars` characters, its end replaced by three dots where it was longer."""
    return text if len(text) <= chars else text[: max(chars - 3, 0)] + "..."
