"""Slow judges of op lines and envelope headers, made from the standard library's JSON reader and nothing of ours."""

from __future__ import annotations

import json
from typing import Any

INT64 = range(-(1 << 63), 1 << 63)


class Refused(Exception):
    """The text breaks a rule."""


class Number:
    """A number as it was written."""

    def __init__(self, text: str) -> None:
        self.text = text


class Object:
    """An object as it was written, repeats and order kept."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs


def _no_constant(text: str) -> Any:
    raise Refused(text)


def read(text: bytes, depth: int) -> Any:
    """Return the value of strict JSON, objects as `Object`, numbers as `Number`. Raises `Refused`."""
    try:
        value = json.loads(
            text.decode("utf-8"),
            object_pairs_hook=Object,
            parse_int=Number,
            parse_float=Number,
            parse_constant=_no_constant,
        )
    except (ValueError, RecursionError) as error:
        raise Refused(str(error)) from error
    _check(value, depth)
    return value


def _check(value: Any, depth: int) -> None:
    """Refuse what is too deep and what has no UTF-8 form."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise Refused("surrogate") from error
    elif isinstance(value, Object | list):
        if depth < 1:
            raise Refused("too deep")
        inner = value if isinstance(value, list) else [part for pair in value.pairs for part in pair]
        for part in inner:
            _check(part, depth - 1)


def no_repeats(value: Any) -> None:
    """Refuse a name that stands twice in one object, at any depth."""
    if isinstance(value, Object):
        if len(dict(value.pairs)) != len(value.pairs):
            raise Refused("a name twice")
        for _, inner in value.pairs:
            no_repeats(inner)
    elif isinstance(value, list):
        for inner in value:
            no_repeats(inner)


def int64(value: Any) -> int | None:
    """Return the value of an integer of 64 bits written in plain digits, else None."""
    if not isinstance(value, Number) or any(mark in value.text for mark in ".eE") or len(value.text) > 20:
        return None
    return int(value.text) if int(value.text) in INT64 else None


def _text(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise Refused("not a string")
    return value


def _need(condition: bool) -> None:
    if not condition:
        raise Refused("a rule of the line")


def _raw(text: bytes, name: str) -> bytes | None:
    """Return the raw bytes of a top-level member's value: decode member by member from the front."""
    decoder = json.JSONDecoder()
    whole = text.decode()
    at = whole.index("{") + 1
    while True:
        at += len(whole[at:]) - len(whole[at:].lstrip(" \t,"))
        found, at = decoder.raw_decode(whole, at)
        at += len(whole[at:]) - len(whole[at:].lstrip(" \t"))
        at += 1
        at += len(whole[at:]) - len(whole[at:].lstrip(" \t"))
        _, end = decoder.raw_decode(whole, at)
        if found == name:
            raw = whole[at:end].encode()
            return None if raw == b"null" else raw
        at = end + len(whole[end:]) - len(whole[end:].lstrip(" \t"))


def op_line(text: bytes, depth: int = 128) -> dict[str, Any]:
    """Return the members of a request line by name. Raises `Refused` for every framing defect (spec: stdio 3.1)."""
    _need(b"\r" not in text and b"\n" not in text)
    value = read(text, depth)
    _need(isinstance(value, Object))
    found = dict(value.pairs)
    known = ("id", "op", "adapter", "session_id", "run_id", "after", "request", "allow_degraded_features")
    _need(len(found) == len(value.pairs) and set(found) <= set(known))
    number = int64(found.get("id"))
    _need(number is not None)
    _need(isinstance(found.get("op"), str) and found["op"] != "")
    features = found.get("allow_degraded_features")
    _need(features is None or (isinstance(features, list) and all(isinstance(one, str) for one in features)))
    return {
        "id": number,
        "op": found["op"],
        **{name: _text(found.get(name)) for name in ("adapter", "session_id", "run_id")},
        **{name: _raw(text, name) if name in found else None for name in ("after", "request")},
        "allow_degraded_features": None if features is None else tuple(features),
        "present": frozenset(found),
    }


HEADER_TEXTS = ("session_id", "run_id", "turn_id", "tool_call_id", "in_reply_to", "capability_revision")
FIXED = {
    "protocol": "open-agent-protocol",
    "version": "0.1",
    "profile": "open-agent-protocol.agent-control-core",
}


def envelope(text: bytes, depth: int = 127) -> dict[str, Any]:
    """Return the header members of an envelope. Raises `Refused`, whose first word is `malformed` or `invalid`."""
    try:
        value = read(text, depth)
        no_repeats(value)
    except Refused as error:
        raise Refused(f"malformed {error}") from None
    if not isinstance(value, Object):
        raise Refused("invalid: no object")
    found = dict(value.pairs)
    for name, fixed in FIXED.items():
        if found.get(name) != fixed:
            raise Refused(f"invalid {name}")
    for name in ("type", "id", *HEADER_TEXTS):
        needed = name in {"type", "id"} or name in found
        if needed and not (isinstance(found.get(name), str) and found[name]):
            raise Refused(f"invalid {name}")
    for name, least in (("sequence", 1), ("timestamp_ms", INT64[0])):
        number = int64(found.get(name))
        if name in found and (number is None or number < least):
            raise Refused(f"invalid {name}")
    for name in ("payload", "extensions"):
        if (name == "payload" or name in found) and not isinstance(found.get(name), Object):
            raise Refused(f"invalid {name}")
    return {
        "type": found["type"],
        "id": found["id"],
        **{name: found.get(name) for name in HEADER_TEXTS},
        "sequence": int64(found.get("sequence")),
        "timestamp_ms": int64(found.get("timestamp_ms")),
    }
