"""Answers before the loop exists: what is already in the pipe and needs neither loop nor JSON library.

Importing the loop takes longer than everything else of a start. A host that asks at once has its answer first; the rest
of the input is the loop's first chunk. Anything unusual is left to the loop, untouched.
"""

from __future__ import annotations

import os

from ...framing import parse_op_line
from ...protocol.envelope import Envelope
from ...protocol.errors import LineDefect, Refusal
from ...protocol.json import early
from ..operations import find
from .lines import OK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Final

    from ...protocol.limits import Limits
    from ..hub.switch import Switch

CHUNK: Final = 1 << 16

ANSWERS: Final[Mapping[str, Callable[[Switch, str], Envelope | dict[str, Any]]]] = {
    "adapters": lambda switch, adapter: switch.listing(),
    "capabilities": lambda switch, adapter: switch.capabilities(adapter),
    "sessions": lambda switch, adapter: switch.sessions(),
}
"""The ops that are answered early. None of them changes anything."""


class Prelude:
    """What is left for the loop: input that was read and not served, and output that could not be written.

    `count` lines were served. `ended`: the end of the input was read already.
    """

    __slots__ = ("count", "ended", "input", "output")

    def __init__(self) -> None:
        self.count = 0
        self.ended = False
        self.input = b""
        self.output = b""


def prelude(reader: int, writer: int, switch: Switch, limits: Limits) -> Prelude:
    """Answer the first lines, if they are there already. Reads at most one chunk, and never waits."""
    left = Prelude()
    if not _readable(reader):
        return left
    try:
        chunk = os.read(reader, CHUNK)
    except OSError:  # the loop's own read meets it again, and reports it
        return left
    left.ended = not chunk
    start = size = 0
    answers: list[bytes] = []
    while size < CHUNK and 0 <= (end := chunk.find(b"\n", start)) <= start + limits.frame_bytes:
        answer = _answer(chunk[start:end], switch, limits)
        if answer is None:
            break
        answers.append(answer)
        size += len(answer)
        start = end + 1
    left.count = len(answers)
    left.input = chunk[start:]
    left.output = _write(writer, b"".join(answers))
    return left


def _readable(reader: int) -> bool:
    """Whether a pipe, socket or terminal has something now; a regular file is left to the loop."""
    try:
        import select

        poll = select.poll()
    except (ImportError, AttributeError):
        return False
    poll.register(reader, select.POLLIN)
    return bool(poll.poll(0))


def _answer(frame: bytes, switch: Switch, limits: Limits) -> bytes | None:
    """Return the answer of one line, or None where the loop is to take it."""
    try:
        line = parse_op_line(frame, limits.depth)
        known = ANSWERS.get(line.op)
        if known is None:
            return None
        find(line)
        result = known(switch, line.adapter or "")
        answer = OK % (line.id, early(result.as_dict() if isinstance(result, Envelope) else result))
    except (LineDefect, Refusal, TypeError):  # TypeError: no JSON form
        return None
    return answer if len(answer) <= limits.frame_bytes + 1 else None


def _write(writer: int, block: bytes) -> bytes:
    """Write what the pipe takes now; return the rest."""
    if not block:
        return b""
    try:
        blocking = os.get_blocking(writer)
        os.set_blocking(writer, False)
        try:
            return block[os.write(writer, block) :]
        finally:
            os.set_blocking(writer, blocking)
    except OSError:  # full, or broken: the loop's sink meets it again, and says so
        return block
