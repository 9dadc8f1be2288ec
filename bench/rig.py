"""The stdio door in this process, for benches: chunks in, a sink that counts, and loop turns made by hand."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from trunkline.adapters.memory import MemoryAdapter
from trunkline.framing import _select
from trunkline.gateway.hub.switch import Switch
from trunkline.gateway.stdio.door import Door
from trunkline.protocol.envelope import Envelope
from trunkline.protocol.ids import Ids
from trunkline.protocol.limits import Limits

from bench.script import events_line, open_line, submit_line
from bench.wire import BenchError

if TYPE_CHECKING:
    from trunkline.adapters.base import Draft
    from trunkline.gateway.hub.ports import Adapter, Outlet

TWINS: Final = ("python", "cython")


class CountingSink:
    """Takes every block, and counts bytes and lines; keeps the blocks where told."""

    def __init__(self) -> None:
        self.blocked = False
        self.pending = 0
        self.bytes = 0
        self.kept: list[bytes] | None = None

    def send(self, block: bytes) -> bool:
        self.bytes += len(block)
        if self.kept is not None:
            self.kept.append(block)
        return True


class Rig:
    """A door on a switch. `feed` is one read of the host's input; `turn` runs what the loop would run then."""

    def __init__(self, adapters: Mapping[str, Adapter] | None = None, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.notes: list[str] = []
        self.switch = Switch(adapters or {"memory": MemoryAdapter()}, self.limits, note=self.notes.append)
        self.sink = CountingSink()
        self._soon: list[Callable[[], None]] = []
        nothing = _nothing
        self.door = Door(self.switch, self.limits, self.sink, self._soon.append, nothing, nothing, nothing)

    def feed(self, chunk: bytes) -> None:
        """Give the door one read, and end the turn."""
        self.door.feed(chunk)
        self.turn()

    def turn(self) -> None:
        """Run the calls that were planned for the end of this turn, and those that they plan."""
        while self._soon:
            planned = self._soon[:]
            self._soon.clear()
            for call in planned:
                call()

    def lines(self, chunk: bytes) -> list[dict[str, Any]]:
        """Feed a chunk and return what came back, read; untimed."""
        kept = self.sink.kept = []
        self.feed(chunk)
        self.sink.kept = None
        if self.door.defect is not None or self.notes:
            raise BenchError(f"the gateway complains: {self.door.defect or self.notes}")
        found: list[dict[str, Any]] = [json.loads(line) for block in kept for line in block.splitlines()]
        for line in found:
            if line.get("ok") is False:
                raise BenchError(f"the gateway refuses: {line['error']}")
        return found


class PlainSession:
    """A session of no harness: its run starts, and what it publishes is up to the bench."""

    def __init__(self, outlet: Outlet) -> None:
        self.outlet = outlet
        self.run = ""

    def prepare(self, run_id: str) -> None: ...

    def submit(self, request: Envelope) -> None:
        self.run = request.run_id or ""
        self.outlet.publish([(self.run, "run.started", {"status": "running"})])

    def resolve(self, request: Envelope) -> None: ...

    def cancel(self, request: Envelope) -> None: ...

    def models(self) -> None: ...

    def tools(self) -> None: ...

    def facts(self) -> Mapping[str, Any]:
        return {}

    def close(self) -> None: ...


class PlainAdapter:
    """An adapter whose sessions a bench publishes for by hand. `opened` is the newest."""

    def __init__(self) -> None:
        self.ids = Ids()
        self.opened: PlainSession | None = None

    def describe(self) -> tuple[str, Mapping[str, Any]]:
        return "plain-1", {"features": {"session.message.submit": {"level": "native"}}}

    def journal(self) -> tuple[int, int]:
        return 4096, 8 << 20

    def open(self, request: Envelope, outlet: Outlet) -> PlainSession:
        self.opened = PlainSession(outlet)
        return self.opened


class Stream:
    """One running run with so many subscribers on one door; `publish` is one step of a harness, then the turn's end."""

    def __init__(self, subscribers: int, characters: int = 100) -> None:
        adapter = PlainAdapter()
        self.rig = Rig({"plain": adapter}, Limits(subscriptions=max(64, subscribers)))
        chunk = [open_line(1, "plain", "bench")]
        chunk += [events_line(2 + number, "bench") for number in range(subscribers)]
        self.rig.lines(b"".join(chunk))
        self.rig.lines(submit_line(1000, "bench"))
        assert adapter.opened is not None
        self.session = adapter.opened
        self.part = {"message_id": "message-8", "part": {"type": "text", "text": "x" * characters}}

    def drafts(self, count: int) -> list[Draft]:
        """Return a step of so many text deltas."""
        return [(self.session.run, "content.delta", dict(self.part)) for _ in range(count)]

    def publish(self, drafts: Sequence[Draft]) -> None:
        """Publish one step; what it leads to happens in the same turn."""
        self.session.outlet.publish(drafts)
        self.rig.turn()


@contextmanager
def twin(name: str) -> Iterator[None]:
    """Put the references or the compiled twins in the place of what is in use, wherever it was imported to."""
    chosen = implementation(name)
    undo: list[tuple[ModuleType, str, object]] = []
    places = ("trunkline.gateway", "trunkline.framing")
    owners = {word.__module__ for which in twins() for word in implementation(which).values()}
    importers = [module for at, module in sys.modules.items() if at.startswith(places) and at not in owners]
    for module in importers:
        for public, word in chosen.items():
            used = vars(module).get(public)
            if used is not None and used is not word and used.__module__ in owners:
                undo.append((module, public, used))
                setattr(module, public, word)
    try:
        yield
    finally:
        for module, public, used in undo:
            setattr(module, public, used)


def twins() -> Sequence[str]:
    """Return the twins that are here: the references always, the compiled ones where they are built."""
    try:
        implementation("cython")
    except ImportError:
        return TWINS[:1]
    return TWINS


def implementation(name: str) -> dict[str, Any]:
    """Return the public names of framing as one twin has them. Raises `ImportError` where it is not built."""
    room, mark = ("trunkline.framing", "_") if name == "python" else ("trunkline._speedups", "")
    found: dict[str, Any] = {}
    for public in _select.__all__:
        home = getattr(getattr(_select, public), "__module__", None)
        if home is not None:  # IMPLEMENTATION is a text
            module = import_module(f"{room}.{mark}{home.rpartition('.')[2].lstrip('_')}")
            found[public] = getattr(module, public)
    return found


def _nothing() -> None: ...
