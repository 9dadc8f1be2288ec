"""A host that reads when it is told to, and not before: raw bytes over real pipes, for tests of backpressure."""

from __future__ import annotations

import json
import os
import select
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.host import PROTOCOL
from tests.support.spawn import RUN_S, SERVE, environment


class RawHost:
    """One gateway on pipes. Use as a context manager. Nothing is read unless a method says so."""

    def __init__(self, folder: Path, config: dict[str, Any] | None = None, command: tuple[str, ...] = SERVE) -> None:
        arguments = [*command]
        if config is not None:
            path = folder / "raw.json"
            path.write_text(json.dumps(config))
            arguments += ["--config", str(path)]
        self.process = subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=environment(),
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in = self.process.stdin
        self._out = self.process.stdout.fileno()
        self._rest = b""
        self._writers: list[threading.Thread] = []

    def __enter__(self) -> RawHost:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(RUN_S)
        for writer in self._writers:
            writer.join()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()

    def write(self, data: bytes) -> None:
        """Write all of it; waits for the gateway where the pipe is full."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._in.fileno(), view) :]

    def write_beside(self, data: bytes) -> threading.Thread:
        """Write all of it on a thread, which is returned."""
        writer = threading.Thread(target=self._write_quietly, args=(data,), daemon=True)
        self._writers.append(writer)
        writer.start()
        return writer

    def send(self, number: int, op: str, **members: Any) -> None:
        """Write one op line."""
        self.write(json.dumps({"id": number, "op": op, **members}).encode() + b"\n")

    def end(self) -> None:
        """Close the gateway's input."""
        self._in.close()

    def blocks(self) -> Iterator[bytes]:
        """Yield whole lines as they come, several to a block, until the end of the output."""
        while True:
            ready, _, _ = select.select([self._out], [], [], RUN_S)
            assert ready, "nothing came"
            chunk = os.read(self._out, 1 << 18)
            if not chunk:
                assert not self._rest, "the output ended inside a line"
                return
            whole, newline, rest = chunk.rpartition(b"\n")
            if newline:
                block, self._rest = self._rest + whole + newline, rest
                yield block
            else:
                self._rest += rest

    def lines(self) -> Iterator[bytes]:
        """Yield lines, one by one, without their newlines. Lines of a block that are not taken are lost."""
        for block in self.blocks():
            yield from block.split(b"\n")[:-1]

    def result(self, number: int) -> Any:
        """Read on to the answer of an op and return its result; lines before it are dropped."""
        prefix = b'{"id":%d,"ok":' % number
        for block in self.blocks():
            for line in block.split(b"\n"):
                if line.startswith(prefix):
                    answer = json.loads(line)
                    assert answer["ok"], answer
                    return answer["result"]
        raise AssertionError(f"no answer to {number}")

    def open(self, adapter: str, session: str) -> None:
        """Open a session, and read to the answer."""
        request = {**PROTOCOL, "type": "session.open.request", "id": "open", "payload": {"session_id": session}}
        self.send(1, "open", adapter=adapter, request=request)
        self.result(1)

    def submit(self, number: int, session: str, content: str = "go") -> None:
        """Write a submit; its answer is not read."""
        payload = {"session_id": session, "delivery": "auto", "messages": [{"role": "user", "content": content}]}
        kind = "session.message.submit.request"
        request = {**PROTOCOL, "type": kind, "id": f"submit-{number}", "session_id": session, "payload": payload}
        self.send(number, "submit", session_id=session, request=request)

    def memory(self, name: str = "VmRSS") -> int:
        """Return the gateway's memory in bytes: `VmRSS` now, `VmHWM` at its highest."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
        raise AssertionError(f"no {name}")

    def quiet(self, seconds: float = 0.3) -> None:
        """Wait until the gateway has slept for a while and was not woken: it is blocked, or has nothing to do."""
        deadline = time.monotonic() + RUN_S
        seen, since = self._life(), time.monotonic()
        while time.monotonic() - since < seconds:
            assert time.monotonic() < deadline, "the gateway is never quiet"
            time.sleep(0.02)
            if (now := self._life()) != seen or now[0] != "S":
                seen, since = now, time.monotonic()

    def finish(self) -> tuple[int, str]:
        """Close the input, wait for the end; return the exit code and stderr. What is left on stdout is dropped."""
        if not self._in.closed:
            self._in.close()
        for _ in self.blocks():
            pass
        assert self.process.stderr is not None
        said = self.process.stderr.read().decode()
        return self.process.wait(RUN_S), said

    def _life(self) -> tuple[str, ...]:
        """Return the state of the process, and how often it went to sleep or was put aside."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        return found["State"][:1], found["voluntary_ctxt_switches"], found["nonvoluntary_ctxt_switches"]

    def _write_quietly(self, data: bytes) -> None:
        try:
            self.write(data)
        except (OSError, ValueError):  # the gateway ended first, or the test did
            return
