"""Op lines, envelopes and events of given sizes, the same in every run: mixed words, escapes, scripts and nesting."""

from __future__ import annotations

import json
import random
from typing import Any, Final

WORDS: Final = [
    "the",
    "gateway",
    "reads",
    "one",
    "line",
    "and",
    "routes",
    "it",
    "while",
    "output",
    "of",
    "the",
    "session",
    "streams",
    "to",
    "whoever",
    "asked",
    "for",
    "it",
    "def",
    "route(line:",
    "bytes)",
    "->",
    "Op:",
    "return",
    "table[line.op]",
    "if",
    "found",
    "else",
    "refuse",
    "café",
    "naïve",
    "数据",
    "流",
    "✓",
    "→",
    '"quoted"',
    "back\\slash",
    "tab\there",
    "😀",
]
PLAIN: Final = WORDS[:32]
HEAD: Final = {
    "protocol": "open-agent-protocol",
    "version": "0.1",
    "profile": "open-agent-protocol.agent-control-core",
}
LINES: Final = {"120 B": 400, "400 B": 400, "1 KiB": 200, "64 KiB": 16, "1 MiB": 2}
"""Sizes of op lines and how many a stream has."""
BYTES: Final = {"120 B": 120, "400 B": 400, "1 KiB": 1024, "64 KiB": 1 << 16, "1 MiB": 1 << 20}


def dumps(value: Any) -> bytes:
    """Encode compactly, text as it is."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def words(rng: random.Random, size: int, of: list[str] = WORDS) -> str:
    """Return about so many bytes of text with a line break now and then."""
    parts: list[str] = []
    length = 0
    while length < size:
        parts.append(rng.choice(of))
        length += len(parts[-1].encode()) + 1
        if rng.random() < 0.06:
            parts.append("\n")
            length += 2
    return " ".join(parts)[:size]


def envelope(rng: random.Random, number: int, text: str) -> dict[str, Any]:
    """Return a submit as hosts send it."""
    return HEAD | {
        "type": "session.message.submit.request",
        "id": f"host-{number}",
        "session_id": f"s-{rng.getrandbits(32):08x}",
        "payload": {"session_id": "s", "delivery": "auto", "messages": [{"role": "user", "content": text}]},
    }


def short(rng: random.Random, number: int) -> dict[str, Any]:
    """Return an op line of about 120 bytes without a request."""
    session = f"s-{rng.getrandbits(64):016x}"
    match number % 4:
        case 0:
            return {"id": number, "op": "state", "session_id": session + words(rng, 66, PLAIN)}
        case 1:
            return {
                "id": number,
                "op": "events",
                "session_id": session,
                "after": rng.getrandbits(40),
                "run_id": "r" * 34,
            }
        case 2:
            features = ["models.list", "run.model_selection"]
            return {"id": number, "op": "models", "session_id": session, "allow_degraded_features": features}
        case _:
            return {"id": (1 << 62) + number, "op": "capabilities", "adapter": words(rng, 62, PLAIN)}


def line(rng: random.Random, number: int, size: int) -> bytes:
    """Return one op line of about so many bytes."""
    if size < 400:
        return dumps(short(rng, number))
    text = words(rng, max(16, size - 340))
    return dumps({"id": number, "op": "submit", "session_id": "s", "request": envelope(rng, number, text)})


def lines(name: str) -> list[bytes]:
    """Return the op lines of a size of `LINES`."""
    rng = random.Random(f"lines {name}")
    return [line(rng, number, BYTES[name]) for number in range(LINES[name])]


def events(count: int = 500, size: int = 350) -> list[bytes]:
    """Return the data of so many events of about that size."""
    rng = random.Random("events")
    return [
        dumps(
            HEAD
            | {
                "type": "content.delta",
                "sequence": n,
                "payload": {"part": {"type": "text", "text": words(rng, size - 180)}},
            }
        )
        for n in range(count)
    ]


def chunked(data: bytes, size: int) -> list[bytes]:
    """Cut a stream as a pipe does."""
    return [data[at : at + size] for at in range(0, len(data), size)]
