"""The floor: the least that a Python process must do to answer lines over pipes. uvloop, orjson, no rule checked.

Reads `{"id": N, "op": "echo", ...}` lines and answers each with `answer_bytes` bytes in all; `{"op": "stream", "count":
N}` is answered by N lines of `event_bytes` bytes, `batch` a write and loop turn. What the gateway does beyond this is
its work.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import orjson

ANSWER_BYTES = int(sys.argv[1]) if len(sys.argv) > 1 else 60
EVENT_BYTES = int(sys.argv[2]) if len(sys.argv) > 2 else 500
BATCH = int(sys.argv[3]) if len(sys.argv) > 3 else 64
ANSWER_PAD = "x" * max(0, ANSWER_BYTES - len(orjson.dumps({"id": 100000, "ok": True, "result": ""})) - 1)
EVENT_PAD = "x" * max(0, EVENT_BYTES - len(orjson.dumps({"id": 1, "sequence": 50000, "text": ""})) - 1)


class Output(asyncio.BaseProtocol):
    """Says when the pipe takes more."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.free.set()

    def pause_writing(self) -> None:
        self.free.clear()

    def resume_writing(self) -> None:
        self.free.set()


class Lines(asyncio.Protocol):
    """Answers every line of a read in one write."""

    def __init__(self, done: asyncio.Event) -> None:
        self.done = done
        self.rest = b""
        self.output = Output()
        self.out: asyncio.WriteTransport | None = None
        self.tasks: set[asyncio.Task[None]] = set()

    def data_received(self, data: bytes) -> None:
        lines = (self.rest + data).split(b"\n")
        self.rest = lines.pop()
        answers = []
        for line in lines:
            message = orjson.loads(line)
            if message["op"] == "stream":
                task = asyncio.ensure_future(self.stream(message))
                self.tasks.add(task)
                continue
            answer = {"id": message["id"], "ok": True, "result": ANSWER_PAD}
            answers.append(orjson.dumps(answer, None, orjson.OPT_APPEND_NEWLINE))
        if answers and self.out is not None:
            self.out.write(b"".join(answers))

    async def stream(self, message: dict[str, Any]) -> None:
        assert self.out is not None
        count = message["count"]
        for start in range(0, count, BATCH):
            events = [
                orjson.dumps(
                    {"id": message["id"], "sequence": number, "text": EVENT_PAD}, None, orjson.OPT_APPEND_NEWLINE
                )
                for number in range(start + 1, min(count, start + BATCH) + 1)
            ]
            self.out.write(b"".join(events))
            if self.output.free.is_set():
                await asyncio.sleep(0)
            else:
                await self.output.free.wait()

    def connection_lost(self, error: Exception | None) -> None:
        self.done.set()


async def main() -> None:
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    lines = Lines(done)
    lines.out, _ = await loop.connect_write_pipe(lambda: lines.output, os.fdopen(1, "wb", 0))
    await loop.connect_read_pipe(lambda: lines, os.fdopen(0, "rb", 0))
    await done.wait()


if __name__ == "__main__":
    import uvloop

    bytes(8 << 20)
    uvloop.run(main())
