"""The smallest honest host: spawn the gateway, write lines, read lines. Standard library only."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

HEADER = {
    "protocol": "open-agent-protocol",
    "version": "0.1",
    "profile": "open-agent-protocol.agent-control-core",
}
PATIENCE_S = 120.0


class Host:
    """One gateway process. Every line in either direction passes `seen(direction, line)` before anything else."""

    def __init__(self, options: Sequence[str], seen: Callable[[str, dict[str, Any]], None]) -> None:
        self.command = [sys.executable, "-m", "trunkline.gateway", "serve", "--stdio", *options]
        self._process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._seen = seen
        self._next = 0
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._words: list[str] = []
        self._threads = [threading.Thread(target=self._read), threading.Thread(target=self._hear)]
        for thread in self._threads:
            thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def _hear(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._words.append(line.decode(errors="replace").rstrip())

    def send(self, op: str, **parameters: Any) -> int:
        """Write one request line and return its id."""
        self._next += 1
        line = {"id": self._next, "op": op, **parameters}
        assert self._process.stdin is not None
        self._seen(">", line)
        self._process.stdin.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
        self._process.stdin.flush()
        return self._next

    def line(self) -> dict[str, Any]:
        """Read one line of the gateway."""
        raw = self._lines.get(timeout=PATIENCE_S)
        if not raw:
            raise SystemExit("the gateway ended early:\n" + "\n".join(self._words))
        line: dict[str, Any] = json.loads(raw)
        self._seen("<", line)
        return line

    def end(self) -> tuple[int, list[str]]:
        """End the input; return the exit code and what was said on stderr."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            code = self._process.wait(timeout=PATIENCE_S)
        finally:
            self._process.kill()
            for thread in self._threads:
                thread.join()
        return code, self._words


def envelope(type: str, id: str, payload: dict[str, Any], **header: Any) -> dict[str, Any]:
    """Return a request envelope, as it goes into the `request` member of a line."""
    return {**HEADER, "type": type, "id": id, **header, "payload": payload}
