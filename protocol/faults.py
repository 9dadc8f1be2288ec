"""The plain judge of a payload: walks the tables of `shapes` over a JSON value and names the first fault and its place.

It speaks where the compiled validators only say no, and judges by itself until those are loaded. Two sorts of fault:
the schema refuses the value, or the schema takes it but no typed reader can hold it (`1.0` or 2**63 where an int64 is
wanted, a number in free JSON beyond 64 bits or beyond a double). A fault of the first sort goes first.
"""

from __future__ import annotations

from . import kinds, shapes
from .quote import clip, quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final, TypeAlias

    At: TypeAlias = "tuple[At, int | str] | None"
    """A place below a value as a linked list, so that walking builds no strings."""

INT64: Final = (-(1 << 63), (1 << 63) - 1)
LARGEST: Final = (1 << 64) - 1
"""Whole numbers in free JSON that the encoder can write again reach from the least int64 to this."""

POINTER_CHARS: Final = 200
_LEAST: Final = {"int": INT64[0], "count": 0, "ordinal": 1}
_WANTED: Final = {
    "any": "any JSON value",
    "bool": "true or false",
    "count": "a whole number from 0",
    "int": "a whole number",
    "name": "a string that is not empty",
    "object": "an object",
    "ordinal": "a whole number from 1",
    "text": "a string",
}


class Fault:
    """What is wrong and where. `pointer` is a JSON Pointer from the value, cut to 200 characters.

    `readable` is False where the schema takes the value and only a typed reader cannot hold it.
    """

    __slots__ = ("pointer", "readable", "reason")

    def __init__(self, at: At, reason: str, readable: bool) -> None:
        self.pointer = _pointer(at)
        self.reason = reason
        self.readable = readable


class UnsureError(Exception):
    """A float in free JSON may stand for a whole number that this decoder cannot show; decode exactly to know."""


class _RefusedError(Exception):
    def __init__(self, at: At, reason: str) -> None:
        super().__init__(reason)
        self.at = at
        self.reason = reason


def first_fault(name: str, value: object, *, exact: bool = True) -> Fault | None:
    """Judge a decoded value by the definition of that name; None where it holds.

    `exact` says that the decoder kept whole numbers whole; otherwise `UnsureError` is raised where that would decide.
    """
    judge = _Judge(exact)
    try:
        judge.walk(name, value, None)
    except _RefusedError as refused:
        return Fault(refused.at, refused.reason, True)
    if judge.unheld is not None:
        return Fault(*judge.unheld, False)
    return None


def holds(value: Any) -> bool:
    """Say whether free JSON holds only numbers that can be carried and written again."""
    stack = [value]
    while stack:
        here = stack.pop()
        kind = type(here)
        if kind is dict:
            stack.extend(here.values())
        elif kind is list:
            stack.extend(here)
        elif kind is int:
            if not INT64[0] <= here <= LARGEST:
                return False
        elif kind is float and not -_INFINITY < here < _INFINITY:
            return False
    return True


class _Judge:
    __slots__ = ("exact", "unheld")

    def __init__(self, exact: bool) -> None:
        self.exact = exact
        self.unheld: tuple[At, str] | None = None

    def walk(self, kind: kinds.Kind, value: object, at: At) -> None:
        if isinstance(kind, str):
            if kind in kinds.SCALARS:
                self.scalar(kind, value, at)
            else:
                self.walk(shapes.definition(kind), value, at)
        elif isinstance(kind, kinds.Shape):
            self.shape(kind, value, at, None)
        elif isinstance(kind, kinds.Enum):
            if not isinstance(value, str) or value not in kind.values:
                raise _RefusedError(at, _wrong("one of " + ", ".join(kind.values), value))
        elif isinstance(kind, kinds.Each):
            self.each(kind, value, at)
        elif isinstance(kind, kinds.Table):
            for name, below in _object(value, at).items():
                self.walk(kind.value, below, (at, name))
        elif isinstance(kind, kinds.OrNull):
            if value is not None:
                self.walk(kind.kind, value, at)
        elif isinstance(kind, kinds.TextOr):
            if not isinstance(value, str | list):
                raise _RefusedError(at, _wrong("a string or an array", value))
            if isinstance(value, list):
                self.each(kind.array, value, at)
        else:
            self.tagged(kind, value, at)

    def scalar(self, kind: str, value: object, at: At) -> None:
        if kind == "any":
            self.free(value, at)
        elif kind == "object":
            self.free(_object(value, at), at)
        elif kind == "bool":
            if not isinstance(value, bool):
                raise _RefusedError(at, _wrong(_WANTED[kind], value))
        elif kind in ("name", "text"):
            if not isinstance(value, str) or (not value and kind == "name"):
                raise _RefusedError(at, _wrong(_WANTED[kind], value))
        else:
            self.number(kind, value, at)

    def number(self, kind: str, value: object, at: At) -> None:
        whole = isinstance(value, int) and not isinstance(value, bool)
        integral = isinstance(value, float) and value == value // 1  # infinity is the reading of a whole 1e400
        if not isinstance(value, int | float) or not (whole or integral or value in (_INFINITY, -_INFINITY)):
            raise _RefusedError(at, _wrong(_WANTED[kind], value))
        if value < _LEAST[kind] and kind != "int":
            raise _RefusedError(at, _wrong(_WANTED[kind], value))
        if not whole or not INT64[0] <= value <= INT64[1]:
            self.cannot_hold(at, "must be a whole number of 64 bits in plain digits")

    def shape(self, kind: kinds.Shape, value: object, at: At, tag: str | None) -> None:
        members = _object(value, at)
        known = kind.members
        for name, below in members.items():
            if name in known:
                self.walk(known[name], below, (at, name))
            elif not kind.closed:
                self.free(below, (at, name))
            elif name != tag:
                raise _RefusedError((at, name), "is no member here")
        for name in known:
            if name in kind.required and name not in members:
                raise _RefusedError((at, name), "is missing")
        for rule in kind.rules:
            if rule.member in members and (not rule.values or members[rule.member] in rule.values):
                _apply(rule, members, at)
        if kind.arms and {name for arm in kind.arms for name in arm if name in members} not in kind.arms:
            arms = " or ".join(" with ".join(sorted(arm)) for arm in kind.arms)
            raise _RefusedError(at, f"must have {arms}, and only that")

    def each(self, kind: kinds.Each, value: object, at: At) -> None:
        if not isinstance(value, list):
            raise _RefusedError(at, _wrong("an array", value))
        if len(value) < kind.least:
            raise _RefusedError(at, "must have at least one item")
        for index, item in enumerate(value):
            self.walk(kind.item, item, (at, index))
        if kind.unique and len(set(value)) != len(value):
            raise _RefusedError(at, "has an item twice")

    def tagged(self, kind: kinds.Tagged, value: object, at: At) -> None:
        members = _object(value, at)
        if kind.member not in members:
            raise _RefusedError((at, kind.member), "is missing")
        tag = members[kind.member]
        if not isinstance(tag, str) or tag not in kind.arms:
            raise _RefusedError((at, kind.member), _wrong("one of " + ", ".join(kind.arms), tag))
        arm = shapes.definition(kind.arms[tag])
        assert isinstance(arm, kinds.Shape)
        self.shape(arm, members, at, kind.member)

    def free(self, value: object, at: At) -> None:
        if isinstance(value, str):
            return
        stack: list[tuple[object, At]] = [(value, at)]
        while stack:
            here, place = stack.pop()
            if isinstance(here, dict):
                stack.extend((here[name], (place, name)) for name in reversed(here) if not isinstance(here[name], str))
            elif isinstance(here, list):
                last = len(here) - 1
                stack.extend(
                    (item, (place, last - n)) for n, item in enumerate(reversed(here)) if not isinstance(item, str)
                )
            elif isinstance(here, int):
                if not INT64[0] <= here <= LARGEST:
                    self.cannot_hold(place, "is a whole number beyond 64 bits; write it as a string")
            elif isinstance(here, float):
                if not -_INFINITY < here < _INFINITY:
                    self.cannot_hold(place, "is a number beyond what a double holds; write it as a string")
                elif not self.exact and not INT64[0] < here < -INT64[0]:
                    raise UnsureError

    def cannot_hold(self, at: At, reason: str) -> None:
        if self.unheld is None:
            self.unheld = at, reason


_INFINITY: Final = float("inf")
_SHOWN_BELOW: Final = 1 << 53
"""From here on the two decoders may show one number differently."""


def _apply(rule: kinds.Rule, members: dict[str, Any], at: At) -> None:
    said = f"while {rule.member} is {_json(members[rule.member])}" if rule.values else f"with {rule.member}"
    for name in rule.needs:
        if name not in members:
            raise _RefusedError((at, name), f"is missing, {said}")
    for name in rule.bars:
        if name in members:
            raise _RefusedError((at, name), f"must be absent {said}")


def _object(value: object, at: At) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _RefusedError(at, _wrong("an object", value))
    return value


def _wrong(wanted: str, value: object) -> str:
    return f"must be {wanted}, not {_json(value)}"


def _json(value: object) -> str:
    """Name a value as JSON has it, short."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, str):
        return quote(value) if value else "an empty string"
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    return str(value) if isinstance(value, int | float) and abs(value) < _SHOWN_BELOW else "a large number"


def _pointer(at: At) -> str:
    parts: list[str] = []
    while at is not None:
        at, part = at
        parts.append(clip(str(part), POINTER_CHARS).replace("~", "~0").replace("/", "~1"))
    return clip("".join(f"/{part}" for part in reversed(parts)), POINTER_CHARS)
