"""A small synchronous host: spawns `serve --stdio`, writes op lines, reads answers and events with deadlines.

Everything that crossed the pipe is kept in `lines`, in order, so that a test can judge the whole session afterwards.
Only the wire is known here (spec: stdio 3 to 6); nothing of the gateway is imported.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

PROTOCOL = {
    "protocol": "open-agent-protocol",
    "version": "0.1",
    "profile": "open-agent-protocol.agent-control-core",
}
SERVE = (sys.executable, "-m", "trunkline.gateway", "serve", "--stdio")
TERMINALS = ("run.completed", "run.failed", "run.cancelled")
WAIT_S = 30.0
"""How long a read waits before the test fails; no test asserts a time by it."""


class RefusedError(Exception):
    """An op was refused: `code`, `message`, `details` of the answer."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code: str = error["code"]
        self.message: str = error["message"]
        self.details: dict[str, Any] = error.get("details", {})


class Host:
    """One spawned gateway. Use as a context manager: leaving it ends the process whatever happened."""

    def __init__(
        self,
        folder: Path,
        config: dict[str, Any] | None = None,
        *flags: str,
        command: tuple[str, ...] = SERVE,
        environment: dict[str, str] | None = None,
    ) -> None:
        """`folder` is the test's own: the config file and the process's working directory. `environment` adds."""
        arguments = [*command, *flags]
        if config is not None:
            path = folder / "trunkline.json"
            path.write_text(json.dumps(config))
            arguments += ["--config", str(path)]
        self.process = subprocess.Popen(
            arguments,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self._answers: dict[int, dict[str, Any]] = {}
        self._events: dict[int, list[dict[str, Any]]] = {}
        self._stderr = bytearray()
        self._ended = False
        self._news = threading.Condition()
        self._ids = itertools.count(1)
        self._threads = [
            threading.Thread(target=self._read_stdout, daemon=True),
            threading.Thread(target=self._read_stderr, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(WAIT_S)
        for thread in self._threads:
            thread.join(WAIT_S)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    # what is sent

    def write(self, data: bytes) -> None:
        """Write raw bytes to the gateway, for lines that `send` would not make."""
        assert self.process.stdin is not None
        view = memoryview(data)
        while view:
            view = view[self.process.stdin.write(view) :]

    def send(self, op: str, **members: Any) -> int:
        """Write one op line and return its id."""
        number = next(self._ids)
        line = {"id": number, "op": op, **members}
        with self._news:
            self.lines.append((">", line))
        self.write(json.dumps(line).encode() + b"\n")
        return number

    def call(self, op: str, wait: float = WAIT_S, **members: Any) -> Any:
        """Write one op line and return the `result` of its answer. Raises `RefusedError`."""
        return self.answer(self.send(op, **members), wait)

    def answer(self, number: int, wait: float = WAIT_S) -> Any:
        """Return the `result` that answers an op. Raises `RefusedError`."""
        line = self._until(lambda: self._answers.get(number), wait, f"an answer to op {number}")
        if not line["ok"]:
            raise RefusedError(line["error"])
        return line["result"]

    def envelope(self, kind: str, session: str | None, run: str | None = None, **payload: Any) -> dict[str, Any]:
        """Return a request envelope; session and run stand in the header and the payload."""
        scope = {"session_id": session, "run_id": run}
        scope = {name: value for name, value in scope.items() if value is not None}
        header = {} if kind == "session.open.request" else scope
        return {**PROTOCOL, "type": kind, "id": f"host-{next(self._ids)}", **header, "payload": {**scope, **payload}}

    # the usual session

    def open(self, adapter: str, session: str | None = None, wait: float = 120, **payload: Any) -> str:
        """Open a session and return its id."""
        request = self.envelope("session.open.request", session, **payload)
        opened = self.call("open", wait, adapter=adapter, request=request)
        found: str = opened["payload"]["session_id"]
        return found

    def subscribe(self, session: str, **members: Any) -> int:
        """Subscribe to a session and return the subscription's id."""
        number = self.send("events", session_id=session, **members)
        self.answer(number)
        return number

    def submit(self, session: str, content: Any, **payload: Any) -> str:
        """Submit one user message and return the id of the admitted run."""
        messages = [{"role": "user", "content": content}]
        members = {"delivery": "auto", "messages": messages, **payload}
        revision = members.pop("capability_revision", None)
        request = self.envelope("session.message.submit.request", session, **members)
        if revision is not None:
            request["capability_revision"] = revision
        run: str = self.call("submit", session_id=session, request=request)["payload"]["run_id"]
        return run

    def cancel(self, session: str, run: str) -> dict[str, Any]:
        """Cancel a run and return the payload of the answer."""
        request = self.envelope("run.cancel.request", session, run)
        payload: dict[str, Any] = self.call("cancel", session_id=session, request=request)["payload"]
        return payload

    def resolve(self, gate: dict[str, Any], **payload: Any) -> dict[str, Any]:
        """Answer a gate, given its event's envelope, and return the payload of the answer."""
        asked = gate["payload"]
        kind = "user.input" if gate["type"] == "user.input.requested" else "action.permission"
        parties = {name: asked[name] for name in ("interaction_id", "requested_by", "responded_by")}
        request = self.envelope(f"{kind}.resolve.request", asked["session_id"], asked["run_id"], **parties, **payload)
        if "capability_revision" in gate:
            request["capability_revision"] = gate["capability_revision"]
        answer: dict[str, Any] = self.call("resolve", session_id=asked["session_id"], request=request)["payload"]
        return answer

    # what comes back

    def event(self, subscription: int, *kinds: str, start: int = 0, wait: float = WAIT_S) -> dict[str, Any]:
        """Return the first envelope of these types at or after position `start` of a subscription."""

        def find() -> dict[str, Any] | None:
            for line in self._events.get(subscription, ())[start:]:
                envelope: dict[str, Any] = line.get("envelope", {})
                if envelope.get("type") in kinds:
                    return envelope
            return None

        return self._until(find, wait, f"{' or '.join(kinds)} on subscription {subscription}")

    def terminal(self, subscription: int, run: str, wait: float = WAIT_S) -> dict[str, Any]:
        """Return the terminal of a run."""

        def find() -> dict[str, Any] | None:
            for envelope in self.envelopes(subscription):
                if envelope["type"] in TERMINALS and envelope["run_id"] == run:
                    return envelope
            return None

        return self._until(find, wait, f"the terminal of {run}")

    def envelopes(self, subscription: int, run: str | None = None) -> list[dict[str, Any]]:
        """Return the envelopes that a subscription has brought so far, of one run or all."""
        lines = list(self._events.get(subscription, ()))
        found = [line["envelope"] for line in lines if line["event"] == "envelope"]
        return [envelope for envelope in found if run is None or envelope.get("run_id") == run]

    def signals(self, subscription: int) -> list[dict[str, Any]]:
        """Return the lines of a subscription that are no envelopes, for instance `oap-overflow`."""
        return [line for line in list(self._events.get(subscription, ())) if line["event"] != "envelope"]

    @property
    def stderr(self) -> str:
        """What the gateway has said on stderr so far."""
        return self._stderr.decode("utf-8", "replace")

    # how it ends

    def close_input(self) -> None:
        """Close the gateway's stdin: the host is gone."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the gateway alone."""
        self.process.send_signal(number)

    def wait(self, wait: float = WAIT_S) -> int:
        """Wait for the gateway's end, read what is left, and return its exit code."""
        code = self.process.wait(wait)
        for thread in self._threads:
            thread.join(wait)
        return code

    def stop(self, wait: float = WAIT_S) -> int:
        """Close the input and wait for the end."""
        self.close_input()
        return self.wait(wait)

    # inside

    def _until(self, find: Any, wait: float, what: str) -> dict[str, Any]:
        deadline = time.monotonic() + wait
        with self._news:
            while (found := find()) is None:
                left = deadline - time.monotonic()
                if left <= 0 or self._ended:
                    why = "the gateway ended" if self._ended else f"{wait:.0f} s passed"
                    recent = "\n  ".join(json.dumps(line)[:400] for _, line in self.lines[-8:])
                    raise AssertionError(f"{what} did not come: {why}\n  {recent}\nstderr:\n{self.stderr[-4000:]}")
                self._news.wait(left)
        result: dict[str, Any] = found
        return result

    def _read_stdout(self) -> None:
        assert self.process.stdout is not None
        rest = bytearray()
        while chunk := os.read(self.process.stdout.fileno(), 1 << 16):
            rest += chunk
            *whole, tail = rest.split(b"\n")
            rest = bytearray(tail)
            with self._news:
                for line in whole:
                    self._take(json.loads(bytes(line)))
                self._news.notify_all()
        with self._news:
            self._ended = True
            if rest:
                self._stderr += b"\n(host: stdout ended inside a line)\n"
            self._news.notify_all()

    def _take(self, line: dict[str, Any]) -> None:
        self.lines.append(("<", line))
        if "event" in line:
            self._events.setdefault(line["id"], []).append(line)
        else:
            self._answers[line["id"]] = line

    def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        while chunk := os.read(self.process.stderr.fileno(), 1 << 16):
            self._stderr += chunk
