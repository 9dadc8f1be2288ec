"""Hosts that read slowly, or not at all, while runs go on: overflow, resume, memory (spec: stdio 6 and 9, hub 5)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.raw import RawHost

MIB = 1 << 20
pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc here")


def load(**members: Any) -> dict[str, Any]:
    return {"adapters": {"load": {"type": "synthetic", **members}}}


class Reader:
    """Reads what one subscription brings. `sequences` are those that came, `ending` the line that ended it."""

    def __init__(self, number: int) -> None:
        self.prefix = b'{"event":"envelope","id":%d,' % number
        self.number = number
        self.sequences: list[int] = []
        self.ending: dict[str, Any] | None = None
        self.terminal: dict[str, Any] | None = None

    def take(self, line: bytes) -> bool:
        """Take one line; True: it was the last of this subscription."""
        if line.startswith(self.prefix):
            start = line.index(b'"sequence":') + 11
            self.sequences.append(int(line[start : line.index(b",", start)]))
            if b'"type":"run.' in line and b'"type":"run.started"' not in line:
                self.terminal = json.loads(line)["envelope"]
                return True
        elif line.startswith(b'{"event":"oap-') and b'"id":%d,' % self.number in line:
            self.ending = json.loads(line)
            return True
        return False


def read_to_the_end(host: RawHost, reader: Reader) -> None:
    for block in host.blocks():
        ended = [reader.take(line) for line in block.split(b"\n")]
        if any(ended):
            return


def resume_until_whole(host: RawHost, number: int, last: int) -> list[Reader]:
    """Resume after each overflow, and return the readers of all parts; the first is subscription `number`."""
    readers = [Reader(number)]
    while True:
        read_to_the_end(host, readers[-1])
        ending = readers[-1].ending
        if ending is None:
            return readers
        assert ending["event"] == "oap-overflow", ending
        assert ending["last_sequence"] == (readers[-1].sequences or [last])[-1]
        assert ending["session_id"] == "s"
        assert ending["run_id"]
        last = ending["last_sequence"]
        number += 1
        readers.append(Reader(number))
        host.send(number, "events", session_id="s", after=last)


def test_a_slow_reader_is_told_where_to_resume_and_misses_nothing(tmp_path: Path) -> None:
    deltas = 12_000
    with RawHost(tmp_path, load(deltas=deltas, journal_capacity=20_000, journal_bytes=64 * MIB)) as host:
        host.open("load", "s")
        host.send(10, "events", session_id="s")
        host.submit(2, "s")
        host.quiet()  # the run is over: it never waited
        readers = resume_until_whole(host, 10, 0)
        assert len(readers) > 1, "a pipe that nobody reads holds no such run"
        assert [one for reader in readers for one in reader.sequences] == list(range(1, deltas + 3))
        assert readers[-1].terminal is not None
        assert readers[-1].terminal["type"] == "run.completed"
        code, said = host.finish()
        assert code == 0, said


def test_what_was_evicted_meanwhile_is_a_gap_never_a_silent_loss(tmp_path: Path) -> None:
    deltas = 12_000
    with RawHost(tmp_path, load(deltas=deltas, journal_capacity=100)) as host:
        host.open("load", "s")
        host.send(10, "events", session_id="s")
        host.submit(2, "s")
        host.quiet()
        first = Reader(10)
        read_to_the_end(host, first)
        assert first.ending is not None
        assert first.ending["event"] == "oap-overflow"
        assert first.sequences == list(range(1, first.ending["last_sequence"] + 1))
        host.send(11, "events", session_id="s", after=first.ending["last_sequence"])
        gap = Reader(11)
        read_to_the_end(host, gap)
        assert gap.ending is not None
        assert (gap.ending["event"], gap.sequences) == ("oap-replay-gap", [])
        assert gap.ending["latest_available"] == deltas + 2
        assert gap.ending["oldest_available"] == deltas + 3 - 100
        host.send(12, "events", session_id="s", after=gap.ending["oldest_available"] - 1)
        rest = Reader(12)
        read_to_the_end(host, rest)
        assert rest.ending is None
        assert rest.sequences == list(range(deltas + 3 - 100, deltas + 3))
        code, said = host.finish()
        assert code == 0, said


def test_large_events_to_a_host_that_never_reads_are_bounded_by_bytes(tmp_path: Path) -> None:
    with RawHost(tmp_path, load(deltas=150, delta_bytes=MIB)) as host:
        host.open("load", "s")
        for number in range(10, 18):
            host.send(number, "events", session_id="s")
        before = host.memory()
        host.submit(2, "s")
        host.quiet()
        assert host.memory("VmHWM") - before < 64 * MIB
        code, said = host.finish()
        assert code == 0, said


def test_a_reader_that_stalls_once_goes_on_or_is_told(tmp_path: Path) -> None:
    with RawHost(tmp_path, load(deltas=40_000, pace="reader", journal_capacity=50_000, journal_bytes=64 * MIB)) as host:
        host.open("load", "s")
        host.send(10, "events", session_id="s")
        host.submit(2, "s")
        host.quiet()  # `pace: reader` waits for it
        readers = resume_until_whole(host, 10, 0)
        assert [one for reader in readers for one in reader.sequences] == list(range(1, 40_003))
        assert len(readers) == 1


def tails(host: RawHost, numbers: range) -> tuple[dict[int, str], int]:
    """Read subscriptions to their terminals; return a digest of what each brought behind its prefix, and the count."""
    prefixes = {b'{"event":"envelope","id":%d,"session_id":"s",' % number: number for number in numbers}
    length = {len(prefix) for prefix in prefixes}
    assert len(length) == 1
    cut = length.pop()
    digests = {number: hashlib.blake2b() for number in numbers}
    counts = dict.fromkeys(numbers, 0)
    left = set(numbers)
    for block in host.blocks():
        for line in block.split(b"\n"):
            number = prefixes.get(line[:cut])
            if number is not None:
                digests[number].update(line[cut:])
                counts[number] += 1
                if b'"type":"run.completed"' in line:
                    assert b"deltas of 40 bytes were sent" in line, "no frame holds the whole text"
                    left.discard(number)
            else:
                assert not line.startswith(b'{"event":"oap'), line
        if not left:
            break
    assert len(set(counts.values())) == 1
    return {number: digest.hexdigest() for number, digest in digests.items()}, counts[numbers[0]]


def test_a_hundred_thousand_events_reach_eight_readers_alike_in_flat_memory(tmp_path: Path) -> None:
    deltas = 100_000
    config = {**load(deltas=deltas, delta_bytes=40, pace="reader"), "limits": {"frame_bytes": MIB}}
    with RawHost(tmp_path, config) as host:
        host.open("load", "s")
        for number in range(10, 18):
            host.send(number, "events", session_id="s")
            host.result(number)
        before = host.memory()
        host.submit(2, "s")
        digests, count = tails(host, range(10, 18))
        assert count == deltas + 2
        assert len(set(digests.values())) == 1
        assert host.memory("VmHWM") - before < 12 * MIB
        code, said = host.finish()
        assert code == 0, said
