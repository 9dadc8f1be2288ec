"""Strict reading of one JSON document that a person wrote: every fault is named with its place, none is let through.

Strict means: UTF-8 without a mark, no repeated member anywhere, no two members that differ only by case, nothing after
the value, no NaN, no lone surrogate. A *place* is written like `adapters.coder.args[1]`; values are never shown,
because they may be secrets. The JSON library is imported by `load` only: a start without a file does without it.
"""

from __future__ import annotations

from ..protocol.errors import ConfigError
from ..protocol.limits import CONFIG_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any, NoReturn

_SHOWN = 80
"""Characters of a name from the file that a message shows at most."""


class _Members(dict[str, "Any"]):
    """One JSON object that remembers the first name it held twice."""

    __slots__ = ("repeated",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__()
        self.repeated: str | None = None
        for name, value in pairs:
            if name in self and self.repeated is None:
                self.repeated = name
            self[name] = value


def load(text: bytes) -> dict[str, Any]:
    """Return the one object that the text is. Raises `ConfigError` with line and column, or with the place."""
    if len(text) > CONFIG_BYTES:
        raise ConfigError(f"longer than {CONFIG_BYTES} bytes")
    value = _parsed(_decoded(text))
    if not isinstance(value, _Members):
        raise ConfigError(f"the document must be an object, not {kind(value)}")
    for place, part in _parts(value):
        _check_part(place, part)
    return value


def _decoded(text: bytes) -> str:
    if text.startswith(b"\xef\xbb\xbf"):
        raise ConfigError("line 1 column 1: a byte order mark; save the file as UTF-8 without one")
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        column = error.start - text.rfind(b"\n", 0, error.start)
        raise ConfigError(f"line {line} column {column}: not UTF-8") from None


def _parsed(text: str) -> Any:
    import json

    try:
        return json.loads(text, object_pairs_hook=_Members, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        what = "something follows the document's end" if error.msg == "Extra data" else error.msg
        raise ConfigError(f"line {error.lineno} column {error.colno}: {what}") from None
    except RecursionError:
        raise ConfigError("nested too deeply") from None
    except ConfigError:
        raise
    except ValueError:
        raise ConfigError("a number has too many digits") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ConfigError(f"{name} is not JSON")


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield each value with its place, in the order of the document. Not recursive: the depth is the writer's."""
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:
        place, part = waiting.pop()
        yield place, part
        inner: Iterable[tuple[str, Any]] = ()
        if isinstance(part, dict):
            inner = ((member(place, name), part[name]) for name in part)
        elif isinstance(part, list):
            inner = ((f"{place}[{index}]", item) for index, item in enumerate(part))
        waiting.extend(reversed(list(inner)))


def _check_part(place: str, part: Any) -> None:
    if isinstance(part, str):
        _check_text(place, part)
    elif isinstance(part, _Members):
        if part.repeated is not None:
            raise ConfigError(f"{member(place, part.repeated)}: stands twice")
        folded: dict[str, str] = {}
        for name in part:
            _check_text(place, name)
            if (other := folded.setdefault(name.lower(), name)) != name:
                raise ConfigError(f"{member(place, name)}: differs from {shown(other)} only by case")


def _check_text(place: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{place or 'the document'}: holds half of a surrogate pair") from None


def shown(name: str) -> str:
    """Return a name from the file in quotes, bounded, and with nothing that a terminal would obey."""
    return ascii(name if len(name) <= _SHOWN else name[:_SHOWN] + "...")


def member(place: str, name: str) -> str:
    """Return the place of a member of the object at `place` ("": the document itself)."""
    if name.replace("-", "_").isidentifier() and name.isascii() and len(name) <= _SHOWN:
        return f"{place}.{name}" if place else name
    return f"{place}[{shown(name)}]"


def kind(value: object) -> str:
    """Return what a JSON value is, in words; never the value itself."""
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "an array"}
    return names.get(type(value), "an object")


def members(value: object, place: str, known: Iterable[str]) -> Mapping[str, Any]:
    """Return an object that holds only known members. Of several others, the first in sorted order is named."""
    found = mapping(value, place)
    allowed = frozenset(known)
    for name in sorted(found.keys() - allowed):
        meant = name.lower()
        hint = f"; write {shown(meant)}" if meant in allowed else ""
        raise ConfigError(f"{member(place, name)}: unknown member{hint}")
    return found


def mapping(value: object, place: str) -> Mapping[str, Any]:
    """Return an object of free, non-empty names."""
    if not isinstance(value, dict):
        raise ConfigError(f"{place}: must be an object, not {kind(value)}")
    if "" in value:
        raise ConfigError(f"{member(place, '')}: a name must not be empty")
    return value


def text(value: object, place: str, least: int = 1) -> str:
    """Return a string without NUL, of at least `least` characters."""
    if not isinstance(value, str):
        raise ConfigError(f"{place}: must be a string, not {kind(value)}")
    if len(value) < least:
        raise ConfigError(f"{place}: must not be empty")
    if "\0" in value:
        raise ConfigError(f"{place}: must not hold NUL")
    return value


def texts(value: object, place: str) -> tuple[str, ...]:
    """Return an array of strings without NUL; an element may be empty."""
    if not isinstance(value, list):
        raise ConfigError(f"{place}: must be an array of strings, not {kind(value)}")
    return tuple(text(item, f"{place}[{index}]", least=0) for index, item in enumerate(value))


def whole(value: object, place: str, least: int = 0, most: int = 1 << 53) -> int:
    """Return a whole number within bounds."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(
            f"{place}: must be a whole number, not {'a fraction' if type(value) is float else kind(value)}"
        )
    if not least <= value <= most:
        raise ConfigError(f"{place}: must be {least} to {most}")
    return value


def flag(value: object, place: str) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise ConfigError(f"{place}: must be true or false, not {kind(value)}")
    return value


def choice(value: object, place: str, *words: str) -> str:
    """Return one of the words."""
    if value not in words or not isinstance(value, str):
        raise ConfigError(f"{place}: must be one of {', '.join(words)}")
    return value
