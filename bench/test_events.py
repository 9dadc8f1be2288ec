"""Events: publish, journal, splice, and out to every subscriber of one door, in process. One round is 64 events."""

from __future__ import annotations

import json

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from trunkline.gateway.hub.journal import MemoryJournal

from bench.rig import Stream

EVENTS = 64


@pytest.mark.parametrize("subscribers", [1, 8, 64])
@pytest.mark.parametrize("step", [64, 32, 8, 1])
def test_publish(benchmark: BenchmarkFixture, twin: str, step: int, subscribers: int) -> None:
    stream = Stream(subscribers)
    steps = [stream.drafts(step) for _ in range(EVENTS // step)]

    def publish() -> None:
        for drafts in steps:
            stream.publish(drafts)

    kept = stream.rig.sink.kept = []
    publish()
    stream.rig.sink.kept = None
    lines = [json.loads(line) for block in kept for line in block.splitlines()]
    assert len(lines) == EVENTS * subscribers
    for subscriber in range(subscribers):
        mine = [line for line in lines if line["id"] == 2 + subscriber]
        assert [line["sequence"] for line in mine] == list(range(2, EVENTS + 2))
        assert all(line["envelope"]["sequence"] == line["sequence"] for line in mine)
        assert all(line["envelope"]["payload"]["part"] == stream.part["part"] for line in mine)

    benchmark.group = f"events: {EVENTS} to {subscribers}, by {step}"
    benchmark(publish)

    hub = stream.rig.switch.session("bench").stream
    assert (stream.rig.notes, stream.rig.door.defect) == ([], None)
    assert len(hub.subscriptions) == subscribers
    assert hub.lag == 0


@pytest.mark.parametrize("step", [64, 1])
def test_journal(benchmark: BenchmarkFixture, twin: str, step: int) -> None:
    """Append, read back and evict 64 entries, at a journal that is full."""
    journal = MemoryJournal(4096, 8 << 20)
    entry = (1, b"x" * 450)
    journal.append([entry] * 4096)
    entries = [entry] * step

    def pass_through() -> None:
        for _ in range(EVENTS // step):
            start = journal.head
            journal.append(entries)
            journal.read(start, journal.head)
            journal.trim(journal.due())

    benchmark.group = f"journal: {EVENTS} events, by {step}"
    benchmark(pass_through)
    assert journal.head - journal.base == 4096
    assert journal.read(journal.head - step, journal.head) == entries
