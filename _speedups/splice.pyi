"""Types of the compiled twin; the rules are in the reference."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

Entry: TypeAlias = tuple[int, bytes]

def success_line(id: int, result: bytes) -> bytes: ...
def response_line(id: int, head: bytes, response: int, request: int, payload: bytes) -> bytes: ...
def event_text(
    kind: bytes, run: bytes, number: int, sequence: int, now: int, opening: bytes, payload: bytes
) -> bytes: ...
def delta_entries(
    entries: list[Entry],
    drafts: Sequence[Any],
    start: int,
    run_id: str,
    type: str,
    kind: bytes,
    run: bytes,
    opening: bytes,
    number: int,
    sequence: int,
    now: int,
    dumps: Callable[[Any], bytes],
) -> int: ...
def event_lines(prefix: bytes, entries: list[Entry]) -> bytes: ...
def held_bytes(entries: list[Entry], start: int, stop: int) -> int: ...
