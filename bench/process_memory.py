"""Resident memory of the real process: idle, after many events, a session, a subscription."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from bench.measure import AT_MOST, Figure, Plan, interleave
from bench.process_events import Configured, synthetic
from bench.script import events_line, op, open_line, submit_line
from bench.wire import GATEWAY, BenchError, Process

PART: Final = "memory"
MIB: Final = 1 << 20
EVENTS: Final = 1_000_000
SESSIONS: Final = (1_000, 10_000)
SUBSCRIPTIONS: Final = 10_000
BLOCK: Final = 50
SETTLE_S: Final = 0.2


def figures(plan: Plan) -> Iterator[Figure]:
    """Measure what the process holds. Memory hardly varies: half the rounds are enough."""
    rounds = max(1, plan.rounds // 2)
    cases: dict[str, Callable[[], list[float]]] = {
        "idle": lambda: [_idle() / MIB],
        "events": lambda: _events(EVENTS // plan.scale),
        **{_of(count): partial(_sessions_kib, count) for count in SESSIONS},
        "subscriptions": lambda: [_subscriptions(SUBSCRIPTIONS // plan.scale) / 1024],
    }
    found = interleave(cases, rounds, warm=0)
    if not any(found["idle"][0]):
        return  # the system does not tell
    yield Figure(PART, "idle, after the first answers", [one[0] for one in found["idle"]], "MiB", AT_MOST, 32)
    grown = [one[1] - one[0] for one in found["events"]]
    note = f"{found['events'][0][0]:.1f} MiB after the first half"
    what = f"growth over the second half of {EVENTS // plan.scale:,} events"
    yield Figure(PART, what, grown, "MiB", AT_MOST, 1, note)
    for count in SESSIONS:
        samples = [one[0] for one in found[_of(count)]]
        yield Figure(PART, _of(count), samples, "KiB", AT_MOST, 8)
    samples = [one[0] for one in found["subscriptions"]]
    what = f"an idle subscription, of {SUBSCRIPTIONS // plan.scale:,} to one session"
    yield Figure(PART, what, samples, "KiB", AT_MOST, 1)


def _idle() -> int:
    with Process(GATEWAY, core=None) as server:
        for name in ("adapters", "sessions"):
            _good(server.ask(op(1, name)))
        return _settled(server)


def _events(count: int) -> list[float]:
    """Stream events to one reader; return the memory after half of them and at the end, in MiB."""
    with (
        Configured(synthetic(deltas=count, pace="reader")) as configured,
        Process((*GATEWAY[:-2], *configured.words), core=None) as server,
    ):
        server.write(open_line(1, "load", "bench") + events_line(2, "bench"))
        server.read_lines(2)
        server.write(submit_line(3, "bench"))
        read = server.read_at_least(count // 2)
        first = server.rss_bytes() / MIB
        server.read_lines(1 + count + 2 - read)
        return [first, server.rss_bytes() / MIB]


def _of(count: int) -> str:
    return f"an idle session, of {count:,}"


def _sessions_kib(count: int) -> list[float]:
    return [_sessions(count) / 1024]


def _sessions(count: int) -> float:
    """Return the bytes that one more idle session takes."""
    with Process(GATEWAY, core=None) as server:
        _good(server.ask(open_line(1, "memory", "first")))
        before = _settled(server)
        lines = [open_line(2, "memory", f"session-{number:05}") for number in range(count)]
        for start in range(0, count, BLOCK):
            server.write(b"".join(lines[start : start + BLOCK]))
            for answer in server.collect(BLOCK):
                _good(answer)
        return (_settled(server) - before) / count


def _subscriptions(count: int) -> float:
    """Return the bytes that one more subscription takes, to a session that is idle."""
    with (
        Configured(synthetic(deltas=1), subscriptions=count) as configured,
        Process((*GATEWAY[:-2], *configured.words), core=None) as server,
    ):
        _good(server.ask(open_line(1, "load", "bench")))
        before = _settled(server)
        for start in range(0, count, BLOCK):
            server.write(b"".join(events_line(start + number, "bench") for number in range(BLOCK)))
            for answer in server.collect(BLOCK):
                _good(answer)
        return (_settled(server) - before) / count


def _settled(server: Process) -> int:
    """Return the resident memory once the process has had time to do what it does after an answer."""
    time.sleep(SETTLE_S)
    return server.rss_bytes()


def _good(answer: bytes) -> None:
    if b'"ok":true' not in answer:
        raise BenchError(f"the gateway refuses: {answer[:200]!r}")
