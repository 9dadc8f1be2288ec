"""Events over real pipes: a synthetic run streamed to 1, 8 and 64 subscribers of one pipe, beside the floor."""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.measure import AT_LEAST, AT_MOST, Figure, Plan, interleave, ratios
from bench.script import events_line, op, open_line, submit_line
from bench.wire import FLOOR, GATEWAY, ROOT, BenchError, Process, Watch, beside, pinned

EVENTS: Final = 100_000
DELTA_BYTES: Final = 100
PART: Final = "events"


class Case(NamedTuple):
    """`turn` events are published a loop turn, in calls of `step`; `goal` is a share of the floor's line rate.

    The floor writes 64 lines at once, or `turn` of them where that is fewer than 32.
    """

    subscribers: int
    pace: str
    turn: int
    step: int
    goal: float = 0
    most_cpu_s: float = 0


CASES: Final = (
    Case(1, "reader", 32, 32, 0.5, 0.2),
    Case(1, "reader", 32, 8, 0.5, 0.2),
    Case(1, "reader", 32, 1, 0.28),
    Case(1, "reader", 8, 8),
    Case(1, "reader", 1, 1),
    Case(1, "free", 32, 32),
    Case(1, "free", 1, 1),
    Case(8, "reader", 32, 32),
    Case(8, "free", 32, 32),
    Case(64, "reader", 32, 32, 1.3),
    Case(64, "reader", 1, 1),
    Case(64, "free", 32, 32),
)


class Streamed(NamedTuple):
    """One run as it arrived. `lost` counts events that an overflow kept from subscribers."""

    lines: int
    size: int
    watch: Watch
    lost: int


def synthetic(**options: Any) -> dict[str, Any]:
    """Return the configuration of one load source, named `load`."""
    defaults = {"type": "synthetic", "delta_bytes": DELTA_BYTES, "interval_ms": 0, "journal_capacity": 4096}
    return {**defaults, **options}


class Configured:
    """A configuration file for as long as the block lasts; `words` are the gateway's arguments."""

    def __init__(self, adapter: Mapping[str, Any], **limits: int) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="trunkline-bench-")
        path = Path(self._folder.name) / "config.json"
        # a small envelope bound, so that the run ends with a summary and not with one line of ten megabytes
        limits = {"envelope_bytes": 1 << 16, **limits}
        path.write_text(json.dumps({"adapters": {"load": adapter}, "limits": limits}))
        self.words = ("serve", "--stdio", "--config", str(path))

    def __enter__(self) -> Configured:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


def figures(plan: Plan) -> Iterator[Figure]:
    """Measure every event bench; in a short run those that have a goal."""
    for case in CASES:
        if case.goal or plan.scale == 1:
            yield from _case(plan, case)


def _case(plan: Plan, case: Case) -> Iterator[Figure]:
    events = EVENTS // plan.scale // (8 if case.turn == 1 else 1)
    deltas = events // case.subscribers
    environment = {"BENCH_STEP": str(case.step), "PYTHONPATH": _path()} if case.step < case.turn else {}
    options = synthetic(deltas=deltas, pace=case.pace)
    with Configured(options, frames_per_turn=case.turn) as configured, pinned(plan.core):
        words = configured.words
        command = (sys.executable, "-m", "bench.stepped", *words) if environment else (*GATEWAY[:-2], *words)
        load = Load(command, environment, case.subscribers, deltas, case.pace == "free")
        probe = stream(load, plan.core)
        line = probe.size // probe.lines
        cases: dict[str, Callable[[], Streamed]] = {
            "gateway": lambda: stream(load, plan.core),
            "floor": lambda: _floor(events, line, case.turn if case.turn < 32 else 64, plan.core),
        }
        results = interleave(cases, plan.rounds)
    ours, floor = results["gateway"], results["floor"]
    rate = [one.lines / one.watch.busy_s for one in ours]
    ratio = ratios(rate, [one.lines / one.watch.busy_s for one in floor])
    cpu = [one.watch.server_s * 1e5 / one.lines for one in ours]
    lost = statistics.median(one.lost for one in ours)
    calls = "" if case.step == case.turn else f" in calls of {case.step}"
    name = f"to {case.subscribers}, pace {case.pace}, {case.turn} a turn{calls}"
    note = f"{statistics.median(rate):,.0f} lines/s of {line} B"
    if not lost and deltas * case.subscribers == events:
        note += f"; {beside([one.watch for one in ours], [one.watch for one in floor])}"
    if lost:
        note += f"; {lost / (deltas * case.subscribers):.0%} announced as overflow"
    yield Figure(PART, f"{name}, of the floor's rate", ratio, "x", AT_LEAST if case.goal else "", case.goal, note)
    sense = AT_MOST if case.most_cpu_s else ""
    yield Figure(PART, f"{name}, CPU seconds per 100k", cpu, "s", sense, case.most_cpu_s)


class Load(NamedTuple):
    """One gateway and what it is to stream. `free`: some may be lost, if that is announced."""

    command: Sequence[str]
    environment: Mapping[str, str]
    subscribers: int
    deltas: int
    free: bool = False


def _path() -> str:
    return os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))


def stream(load: Load, core: int | None) -> Streamed:
    """Play one run to all subscribers, read it and check how much came and that the run ended well."""
    command, environment, subscribers, deltas, free = load
    due = (deltas + 2) * subscribers
    with Process(command, environment, core) as server:
        start = open_line(1, "load", "bench")
        start += b"".join(events_line(2 + number, "bench") for number in range(subscribers))
        server.write(start)
        server.read_lines(1 + subscribers)
        with Watch(server) as watch:
            server.write(submit_line(1000, "bench"))
            if free:
                lines, size, overflows = server.read_until_idle(1 + due, b'"event":"oap-overflow"')
                lines -= 1 + overflows
            else:
                size = server.read_lines(1 + due)
                lines, overflows = due, 0
        answer = server.ask(op(2000, "state", session_id="bench"))
    if lines != due and not overflows:
        raise BenchError(f"{lines} events arrived and nothing was announced, {due} were due")
    if b'"status":"idle"' not in answer or b'"sequence":%d' % (deltas + 2) not in answer:
        raise BenchError(f"the run did not end as it should: {answer[:300]!r}")
    return Streamed(lines, size, watch, due - lines)


def _floor(lines: int, line_bytes: int, batch: int, core: int | None) -> Streamed:
    with Process((*FLOOR, "60", str(line_bytes), str(batch)), core=core) as server:
        server.ask(b'{"id":1,"op":"echo"}\n')
        with Watch(server) as watch:
            server.write(b'{"id":1,"op":"stream","count":%d}\n' % lines)
            size = server.read_lines(lines)
        return Streamed(lines, size, watch, 0)
