"""A scripted adapter for tests: the words of a message say what its run does. It misbehaves on request.

A message is `VERB ARGUMENT...`, see `PuppetSession`. Session ids choose how a session opens and closes: one that begins
with `broken-` is refused by its adapter, one with `stuck-` never closes, `hidden-` opens and has no description in
JSON, `unreadable-` can be described once.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trunkline.gateway.hub.switch import Switch
from trunkline.protocol import names
from trunkline.protocol.envelope import Envelope
from trunkline.protocol.errors import HarnessFault, Refusal
from trunkline.protocol.ids import Ids

REVISION = "puppet-v1"
KEYS = (
    "session.open",
    "session.state",
    "session.message.submit",
    "session.message.delivery.auto",
    "session.message.delivery.queue",
    "run.streaming",
    "run.status",
    "run.cancel",
    "run.resume",
    "run.replay",
    "models.list",
    "action.tools.list",
)
DESCRIPTOR: dict[str, Any] = {
    "endpoint": {"id": "test.puppet", "name": "Puppet", "version": "1", "adapter": "puppet"},
    "protocol_versions": [names.VERSION],
    "profiles": [names.PROFILE],
    "features": {key: {"level": "native"} for key in KEYS},
    "limits": {"max_active_runs_per_session": 2, "max_queued_runs_per_session": 1},
}
POLL_S = 0.005
STREAM_S = 0.005
"""Between two deltas of `stream`: slow enough for any host on any machine."""


class PuppetAdapter:
    """The adapter. `journal` bounds one session's journal: events, bytes."""

    def __init__(self, journal: tuple[int, int] = (4096, 8 << 20)) -> None:
        self.ids = Ids()
        self._journal = journal

    def describe(self) -> tuple[str, Mapping[str, Any]]:
        return REVISION, DESCRIPTOR

    def journal(self) -> tuple[int, int]:
        return self._journal

    def open(self, request: Envelope, outlet: Any) -> PuppetSession:
        session: str = outlet.session_id
        if session.startswith("broken-"):
            raise HarnessFault("harness_start", "this session cannot be opened")
        return PuppetSession(self.ids, outlet)


class FailingAdapter(PuppetAdapter):
    """An adapter whose probe fails."""

    def describe(self) -> tuple[str, Mapping[str, Any]]:
        raise HarnessFault("harness_missing", "no such harness " + "here " * 200)


class PuppetSession:
    """One session. The verbs of a message, after `run.started` unless said otherwise:

    - `burst N SIZE`: N deltas of SIZE bytes in one publish, then completed
    - `stream PATH`: one delta after the other until that file exists, then completed
    - `live`: nothing more, it waits for a cancel; `stubborn`: the same, and cancels do nothing
    - `done`: completed before the submit returns
    - `wait PATH`: the submit is not answered until that file exists; only then `run.started`, and completed
    - `break`: the stream fails; `breaks PATH`: completed, and the stream fails once that file exists
    - `raise`: the submit raises; `refuse`: it is refused
    - `print TEXT`: written to descriptor 1 by print, by a system call and by a child, then completed
    - `list`: a child lists its descriptors, then completed
    - `unspeakable`: a delta and an outcome without a JSON form
    """

    def __init__(self, ids: Ids, outlet: Any) -> None:
        self._ids = ids
        self._outlet = outlet
        self._stubborn = False
        self._asked = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def prepare(self, run_id: str) -> None:
        """Nothing is minted ahead."""

    def submit(self, request: Envelope) -> asyncio.Future[None] | None:
        run = request.run_id or ""
        content = request.payload["messages"][0]["content"]
        verb, *words = (content if isinstance(content, str) else "live").split(" ")
        if verb == "raise":
            raise RuntimeError("the adapter has a fault")
        if verb == "refuse":
            raise Refusal(names.INVALID_SUBMISSION, "the adapter does not like it")
        if verb == "wait":
            return self._task(self._wait(run, Path(words[0])))
        self._say(run, names.RUN_STARTED, {"status": "running"})
        if verb == "burst":
            self._outlet.publish([self._delta(run, int(words[1]))] * int(words[0]))
            self._complete(run)
        elif verb == "stream":
            self._task(self._stream(run, Path(words[0])))
        elif verb == "break":
            self._outlet.failed("the harness broke")
        elif verb == "breaks":
            self._complete(run)
            self._task(self._break(Path(words[0])))
        elif verb == "print":
            self._print(run, words[0])
        elif verb == "list":
            os.system("ls /proc/self/fd")  # it inherits what a careless child would
            self._complete(run)
        elif verb == "unspeakable":
            delta = (run, names.CONTENT_DELTA, {"message_id": "m", "part": {"type": "text", "text": "\ud800"}})
            final = {"final_response": {"id": "m", "role": "assistant", "content": "\ud800"}, "stop_reason": "end_turn"}
            self._outlet.publish([delta, (run, names.RUN_COMPLETED, final)])
        elif verb == "done":
            self._complete(run)
        self._stubborn = self._stubborn or verb == "stubborn"
        return None

    def resolve(self, request: Envelope) -> None:
        """Never called: it opens no gates."""

    def cancel(self, request: Envelope) -> None:
        if not self._stubborn:
            self._stop()
            self._say(request.payload["run_id"], names.RUN_CANCELLED, {"reason": "cancel confirmed"})

    def models(self) -> None:
        """No catalog, though the descriptor promises one."""

    def tools(self) -> dict[str, Any]:
        return {"sources": [], "tools": None}

    def facts(self) -> Mapping[str, Any]:
        self._asked += 1
        if self._outlet.session_id.startswith("unreadable-") and self._asked > 1:
            raise RuntimeError("the adapter has a fault")
        return {"metadata": {"text": "\ud800"}} if self._outlet.session_id.startswith("hidden-") else {}

    def close(self) -> asyncio.Future[None] | None:
        self._stop()
        if self._outlet.session_id.startswith("stuck-"):
            return asyncio.get_running_loop().create_future()
        return None

    def _say(self, run: str, kind: str, payload: dict[str, Any]) -> None:
        self._outlet.publish([(run, kind, payload)])

    def _delta(self, run: str, size: int) -> tuple[str, str, dict[str, Any]]:
        return run, names.CONTENT_DELTA, {"message_id": "m-1", "part": {"type": "text", "text": "x" * size}}

    def _complete(self, run: str) -> None:
        message = {"id": "m-1", "role": "assistant", "content": "done"}
        self._say(run, names.RUN_COMPLETED, {"final_response": message, "stop_reason": "end_turn"})

    def _print(self, run: str, text: str) -> None:
        print(text, flush=True)
        os.write(1, text.encode() + b"\n")
        os.system(f"echo {text}")  # the point is what a careless library does
        self._complete(run)

    def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _task(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _wait(self, run: str, path: Path) -> None:
        while not path.exists():
            await asyncio.sleep(POLL_S)
        self._say(run, names.RUN_STARTED, {"status": "running"})
        self._complete(run)

    async def _break(self, path: Path) -> None:
        while not path.exists():
            await asyncio.sleep(POLL_S)
        self._outlet.failed("the harness broke")

    async def _stream(self, run: str, path: Path) -> None:
        while not path.exists():
            self._outlet.publish([self._delta(run, 20)])
            await asyncio.sleep(STREAM_S)
        self._complete(run)


def add_puppets(switch: Switch) -> Switch:
    """Add the test adapters to a switch and return it. `small` keeps eight events a session."""
    added = {"puppet": PuppetAdapter(), "small": PuppetAdapter((8, 8 << 20)), "failing": FailingAdapter()}
    switch.adapters = dict(sorted({**switch.adapters, **added}.items()))
    return switch
