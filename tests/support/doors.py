"""One host over two doors: the real process, and the in-process pair. The same test runs on both.

`start(...)` of a test returns a `Host`; `PairHost` is one whose pipe is memory and whose gateway is in this process.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from trunkline.gateway.config import default_config, parse_config
from trunkline.gateway.serve import make_switch
from trunkline.gateway.stdio.pair import CAPACITY, Pair

from tests.support.host import WAIT_S, Host
from tests.support.puppet import add_puppets
from tests.support.shared import ROOT

LAUNCHER = (sys.executable, "-m", "tests.support.launcher", "serve", "--stdio")
ON_PATH = {"PYTHONPATH": str(ROOT)}


class PairHost(Host):
    """A host on the in-process pair. Time passes for the gateway only while the host waits."""

    def __init__(
        self, config: dict[str, Any] | None = None, frame_limit: int | None = None, capacity: int = CAPACITY
    ) -> None:
        parsed = default_config() if config is None else parse_config(json.dumps(config).encode(), "test", {})
        if frame_limit is not None:
            parsed.limits = parsed.limits.replace(frame_bytes=frame_limit)
        self.lines = []
        self.notes: list[str] = []
        self._answers = {}
        self._events = {}
        self._ended = False
        self._news = threading.Condition()
        self._ids = itertools.count(1)
        self._loop = asyncio.new_event_loop()
        self.switch = add_puppets(make_switch(parsed))
        self.switch.services.note = self.notes.append
        self.troubles: list[str] = []
        self._finished = False
        self.pair = self._loop.run_until_complete(self._join(parsed.limits, capacity))

    def __enter__(self) -> PairHost:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._finished:
            self.switch.limits = self.switch.limits.replace(sweep_s=0.05)
            self._finish()
        pending = asyncio.all_tasks(self._loop)
        for task in pending:
            task.cancel()
        if pending:
            self._loop.run_until_complete(asyncio.wait(pending, timeout=WAIT_S))
        self._loop.close()

    @property
    def stderr(self) -> str:
        """The diagnostic as the process would print it."""
        defect = self.pair.door.defect
        said = [*([defect] if defect is not None else []), *self.troubles]
        return "".join(f"{line}\n" for line in [*self.notes, "trunkline: " + ("; ".join(said) or "stopped")])

    def write(self, data: bytes) -> None:
        """Give the door these bytes as one read."""
        self.pair.send(data)

    def close_input(self) -> None:
        """End the door's input."""
        self.pair.send(b"")

    def wait(self, wait: float = WAIT_S) -> int:
        """Read to the end of the door, sweep, and return what the exit code would be."""
        deadline = time.monotonic() + wait
        while line := self._line(deadline):
            self._take(json.loads(line))
        self._ended = True
        self._finish()
        return 1 if self.troubles or self.pair.door.defect is not None else 0

    def _finish(self) -> None:
        self._finished = True
        self.troubles = self._loop.run_until_complete(self.pair.finish())

    async def _join(self, limits: Any, capacity: int) -> Pair:
        return Pair(self.switch, limits, capacity)

    def _line(self, deadline: float) -> bytes:
        async def next_line() -> bytes:
            async with asyncio.timeout_at(self._loop.time() + max(0.0, deadline - time.monotonic())):
                return await self.pair.line()

        return self._loop.run_until_complete(next_line())

    def _until(self, find: Any, wait: float, what: str) -> dict[str, Any]:
        deadline = time.monotonic() + wait
        while (found := find()) is None:
            try:
                line = self._line(deadline)
            except TimeoutError:
                line = b""
            if not line:
                recent = "\n  ".join(json.dumps(line)[:400] for _, line in self.lines[-8:])
                raise AssertionError(f"{what} did not come\n  {recent}\n{self.stderr}")
            self._take(json.loads(line))
        result: dict[str, Any] = found
        return result


Start = Callable[..., Host]
"""`start(config=None, frame_limit=None, **environment)`: a host, closed when the test ends."""


def starter(kind: str, folder: Path, stack: ExitStack) -> Start:
    """Return the function by which a test starts its gateways: `pair` or `process`."""
    numbers = itertools.count(1)

    def start(config: dict[str, Any] | None = None, frame_limit: int | None = None, **environment: str) -> Host:
        if kind == "pair":
            return stack.enter_context(PairHost(config, frame_limit))
        place = folder / f"gateway-{next(numbers)}"
        place.mkdir()
        flags = [] if frame_limit is None else ["--frame-limit", str(frame_limit)]
        path = {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}
        return stack.enter_context(Host(place, config, *flags, command=LAUNCHER, environment={**path, **environment}))

    return start


@pytest.fixture(params=["pair", "process"])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Start]:
    """Both doors, one after the other."""
    with ExitStack() as stack:
        yield starter(request.param, tmp_path, stack)


@pytest.fixture
def start_process(tmp_path: Path) -> Iterator[Start]:
    """The real process only."""
    with ExitStack() as stack:
        yield starter("process", tmp_path, stack)


@pytest.fixture
def start_pair(tmp_path: Path) -> Iterator[Start]:
    """The pair only."""
    with ExitStack() as stack:
        yield starter("pair", tmp_path, stack)
