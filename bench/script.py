"""What the host of a bench says: op lines with their requests, as bytes, ready before any clock runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from random import Random
from typing import Any, Final

from trunkline.protocol.names import PROFILE, PROTOCOL, VERSION

OP: Final = b'{"id":%d,"op":"%b"%b}\n'
_SAID: Final = """\
please read src/codec.py and explain why the reader stops after one line; then mend it and add a test that would have \
found it, def feed(self, chunk: bytes) -> list[bytes]: return self.cut(chunk) if chunk else [] # never waits, and say \
"quoted" C:\\temp\\notes.txt {"key": [1, 2]} <b>bold</b> Füße naïve 你好 → ✓ 😀 where it helps"""
"""Words of prompts and code: most of them ASCII, some with what must be escaped, some of two to four bytes a letter."""


@cache
def text(characters: int, seed: int = 1) -> str:
    """Return so many characters of words with a line break now and then; the same for the same arguments."""
    draw = Random(seed)
    words = _SAID.split(" ")
    parts: list[str] = []
    size = 0
    while size < characters:
        part = draw.choice(words) + ("\n" if draw.random() < 0.06 else " ")
        parts.append(part)
        size += len(part)
    return "".join(parts)[:characters]


def op(id: int, name: str, **members: Any) -> bytes:
    """Return the line of one op."""
    return json.dumps({"id": id, "op": name, **members}, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def request(kind: str, payload: Mapping[str, Any], id: str = "host-1", **header: Any) -> dict[str, Any]:
    """Return a request envelope."""
    start = {"protocol": PROTOCOL, "version": VERSION, "profile": PROFILE, "type": kind, "id": id}
    return {**start, **header, "payload": payload}


def open_line(id: int, adapter: str, session: str) -> bytes:
    """Return the line that opens a named session."""
    return op(id, "open", adapter=adapter, request=request("session.open.request", {"session_id": session}))


def events_line(id: int, session: str) -> bytes:
    """Return the line that subscribes to a session, live."""
    return op(id, "events", session_id=session)


def submit_line(id: int, session: str, characters: int = 100) -> bytes:
    """Return the line that submits one message of so many characters."""
    messages = [{"role": "user", "content": text(characters)}]
    payload = {"session_id": session, "delivery": "auto", "messages": messages}
    kind = "session.message.submit.request"
    return op(id, "submit", session_id=session, request=request(kind, payload, session_id=session))


def resolve_line(id: int, event: Mapping[str, Any]) -> bytes:
    """Return the line that answers a gate as its event asks: the first choice, the first option of each question."""
    asked = event["payload"]
    names = ("interaction_id", "requested_by", "responded_by", "session_id", "run_id")
    payload: dict[str, Any] = {name: asked[name] for name in names}
    if event["type"] == "action.permission.requested":
        kind = "action.permission.resolve.request"
        payload |= {"choice_id": asked["choices"][0]["id"], "granted": True}
    else:
        kind = "user.input.resolve.request"
        payload["answers"] = [
            {"question_id": question["id"], "selected_option_ids": [question["options"][0]["id"]]}
            for question in asked["questions"]
        ]
    session, run = asked["session_id"], asked["run_id"]
    return op(id, "resolve", session_id=session, request=request(kind, payload, session_id=session, run_id=run))


def inline_ops(name: str, count: int, session: str = "bench") -> list[bytes]:
    """Return so many lines of one op that needs no request."""
    members = b',"session_id":"%b"' % session.encode() if name == "state" else b""
    return [OP % (number, name.encode(), members) for number in range(1, count + 1)]


def floor_ops(lines: list[bytes]) -> list[bytes]:
    """Return lines for the floor, each as long as its counterpart."""
    return [(b'{"id":%d,"op":"echo"' % number).ljust(len(line) - 2) + b"}\n" for number, line in enumerate(lines, 1)]


def blocks(lines: list[bytes], depth: int) -> list[bytes]:
    """Join lines into blocks of `depth`; their number must be a multiple of it."""
    assert len(lines) % depth == 0
    return [b"".join(lines[start : start + depth]) for start in range(0, len(lines), depth)]
