"""The JSON seam: the one place that knows the JSON library, which is imported at the first value and not before."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_dumps: Callable[[Any], bytes] | None = None
_loads: Callable[[bytes], Any] | None = None


def dumps(value: Any) -> bytes:
    """Encode compactly as UTF-8. Raises `TypeError` where the value has no JSON form."""
    return encoder()(value)


def loads(text: bytes) -> Any:
    """Decode strict JSON. Raises `ValueError`. Does not see repeated names: `framing.scan_envelope` does."""
    global _loads
    if _loads is None:
        import orjson

        _loads = orjson.loads
    return _loads(text)


def encoder() -> Callable[[Any], bytes]:
    """Return the encoding function itself, for loops that call it often."""
    global _dumps
    if _dumps is None:
        import orjson

        _dumps = orjson.dumps
    return _dumps
