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


def dumps_to_keep(value: Any) -> bytes:
    """Encode as `dumps` what is kept for long: the library's own result holds at least 4 KiB, however short it is."""
    return b"%b" % encoder()(value)


def loads(text: bytes) -> Any:
    """Decode strict JSON. Raises `ValueError`. Does not see repeated names: `framing.scan_envelope` does."""
    global _loads
    if _loads is None:
        import orjson

        _loads = orjson.loads
    return _loads(text)


def early(value: Any) -> bytes:
    """Encode dicts, lists, strings, whole numbers, booleans and None without the library: for answers before the loop.

    Slower than `dumps` and of equal meaning. Raises `TypeError` for anything else.
    """
    return _early(value).encode("ascii")


def _early(value: Any) -> str:
    if isinstance(value, str):
        from _json import encode_basestring_ascii

        return str(encode_basestring_ascii(value))
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return int.__repr__(value)
    if hasattr(value, "items"):
        return "{" + ",".join(f"{_early(str(name))}:{_early(member)}" for name, member in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_early, value)) + "]"
    raise TypeError(f"no JSON form for {type(value).__name__}")


def encoder() -> Callable[[Any], bytes]:
    """Return the encoding function itself, for loops that call it often."""
    global _dumps
    if _dumps is None:
        import orjson

        _dumps = orjson.dumps
    return _dumps
