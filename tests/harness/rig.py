"""What a real-process test of Claude Code stands on: a gateway, a mock model, a home and a folder of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from demo.mock_model import MockModel
from tests.harness.install import installed
from tests.support import trace
from tests.support.host import Host

WAIT_S = 60.0
"""How long a wait may take before the test fails; the native binary starts slowly on a cold disk."""
VARIABLE = "TRUNKLINE_CLAUDE_BIN"


def claude() -> str:
    """Return the executable under test. Skips the test where there is none, and says how to get one."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        if not Path(named).is_absolute() or not os.access(named, os.X_OK):
            pytest.fail(f"{VARIABLE} must name an absolute executable, not {named!r}")
        return named
    path = installed("claude")
    if not path.exists():
        pytest.skip(f"no Claude Code: `make test-harness` installs the pinned one, or set {VARIABLE}")
    return str(path)


class Rig:
    """One test's gateway with one adapter, `coder`, of type claude."""

    def __init__(self, folder: Path, mock: MockModel, **members: Any) -> None:
        """`members` are added to the adapter's entry in the configuration."""
        self.folder = folder
        self.home, self.work = folder / "home", folder / "work"
        for own in (self.home, self.work, folder / "tmp"):
            own.mkdir()
        self.mock = mock
        limits = members.pop("limits", {})
        variables = [
            "PATH",
            f"HOME={self.home}",
            f"TMPDIR={folder / 'tmp'}",
            f"CLAUDE_CONFIG_DIR={self.home / '.claude'}",
            f"ANTHROPIC_BASE_URL={mock.url}",
            "ANTHROPIC_API_KEY=test-key",
            "CLAUDE_CODE_MAX_RETRIES=1",
        ]
        entry = {
            "type": "claude",
            "executable": claude(),
            "working_directory": str(self.work),
            "environment": variables,
            "unrestricted_tools": True,
        }
        if "allowed_tools" in members:
            del entry["unrestricted_tools"]
        config: dict[str, Any] = {"adapters": {"coder": {**entry, **members}}}
        if limits:
            config["limits"] = limits
        self.host = Host(folder, config)
        self.cancelled: set[str] = set()
        self.session = ""
        self.subscription = 0

    def open(self, **payload: Any) -> None:
        """Open the session `s1`."""
        self.session = self.host.open("coder", "s1", **payload)

    def submit(self, content: Any, **payload: Any) -> str:
        """Subscribe, submit, and return the run's id. A subscription ends with its run, so each submit has its own."""
        self.subscription = self.host.subscribe(self.session)
        return self.host.submit(self.session, content, **payload)

    def event(self, *kinds: str) -> dict[str, Any]:
        """Wait for the first event of these types in the newest subscription."""
        return self.host.event(self.subscription, *kinds, wait=WAIT_S)

    def end(self, run: str) -> dict[str, Any]:
        """Wait for a run's terminal."""
        return self.host.terminal(self.subscription, run, wait=WAIT_S)

    def cancel(self, run: str) -> None:
        """Cancel a run; it must be accepted."""
        assert self.host.cancel(self.session, run)["accepted"] is True
        self.cancelled.add(run)

    def events(self, run: str | None = None) -> list[dict[str, Any]]:
        """Return the events of the newest subscription."""
        return self.host.envelopes(self.subscription, run)

    def kinds(self, run: str) -> list[str]:
        """Return the event types of a run, neighbouring deltas as one."""
        found: list[str] = []
        for event in self.events(run):
            if event["type"] != "content.delta" or found[-1:] != ["content.delta"]:
                found.append(event["type"])
        return found

    def text(self, run: str, part: str = "text") -> str:
        """Return what the deltas of a run say, put together."""
        deltas = [event["payload"]["part"] for event in self.events(run) if event["type"] == "content.delta"]
        return "".join(delta.get(part, "") for delta in deltas)

    def judge(self) -> None:
        """Judge every event that came over the pipe, each subscription's by itself."""
        subscriptions = {line["id"] for direction, line in self.host.lines if direction == "<" and "event" in line}
        for subscription in subscriptions:
            trace.check(self.host.envelopes(subscription), complete=False, cancels=self.cancelled)

    def stop(self) -> None:
        """End the host's input: exit 0, nothing dropped, nobody left."""
        assert self.host.stop(WAIT_S) == 0, self.host.stderr
        assert "stopped" in self.host.stderr
        self.judge()
        assert_empty(self.folder)

    def harness(self) -> int:
        """Return the process id of the harness."""
        (pid,) = [pid for pid, line in inside(self.work).items() if "stream-json" in line]
        return pid


@contextlib.contextmanager
def rig(folder: Path, **members: Any) -> Iterator[Rig]:
    """Yield a rig; whatever happens, no process of it outlives the test."""
    with MockModel() as mock:
        made = Rig(folder, mock, **members)
        try:
            with made.host:
                yield made
        finally:
            for pid in inside(folder):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def inside(folder: Path) -> dict[int, str]:
    """Return the processes whose working directory lies in a folder: id and command line."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            here = os.readlink(entry / "cwd")
            if here == str(folder) or here.startswith(f"{folder}/"):
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
                if line:
                    found[int(entry.name)] = line
    return found


def until(true: Any, what: str) -> None:
    """Wait until something is true. Raises `AssertionError` after `WAIT_S`."""
    deadline = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < deadline, f"{what} did not come about"
        time.sleep(0.02)


def assert_empty(folder: Path) -> None:
    """Fail if a process is left in a folder when the gateway has said that it is done: not soon after, but then."""
    if sys.platform == "linux":
        assert inside(folder) == {}
