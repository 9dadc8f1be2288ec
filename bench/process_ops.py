"""Requests over real pipes: the gateway beside the floor, same bytes in and out, one core, in turn in every round."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from bench.measure import AT_LEAST, AT_MOST, Figure, Plan, interleave, percentile, ratios
from bench.rig import Rig
from bench.script import blocks, events_line, floor_ops, inline_ops, open_line, resolve_line, submit_line
from bench.wire import FLOOR, GATEWAY, BenchError, Process, Watch, beside, pinned, pipelined, sequential

DEPTH: Final = 64
PIPELINED: Final = 64_000
SEQUENTIAL: Final = 4_000
SESSIONS: Final = 64
PART: Final = "requests"

INLINE: Final = (("sessions", 0.8), ("state", 0.8), ("adapters", None))
"""Op, and the goal of its pipelined rate as a share of the floor's."""


class Load(NamedTuple):
    """What one server is sent: an untimed start, blocks of `DEPTH` lines, and single lines."""

    start: bytes
    blocks: Sequence[bytes]
    singles: Sequence[bytes]


class Pass(NamedTuple):
    """What one server did with it; times of single lines are sorted."""

    watch: Watch
    size: int
    singles: Sequence[float]


def figures(plan: Plan) -> Iterator[Figure]:
    """Measure every request bench."""
    for op, goal in INLINE:
        yield from _inline(plan, op, goal)
    yield from _runs(plan)


def _inline(plan: Plan, op: str, goal: float | None) -> Iterator[Figure]:
    lines = inline_ops(op, PIPELINED // plan.scale)
    start = open_line(1, "memory", "bench")
    answer = _sample(start, lines[-1])
    ours = Load(start, blocks(lines, DEPTH), lines[: SEQUENTIAL // plan.scale])
    same = floor_ops(lines)
    floor = Load(b"", blocks(same, DEPTH), same[: SEQUENTIAL // plan.scale])
    passes = _against_floor(plan, ours, floor, len(answer) + 1)
    gateway, bottom = passes["gateway"], passes["floor"]
    _same_size(gateway, bottom, op)
    count = len(lines)
    ours_s, floor_s = [one.watch for one in gateway], [one.watch for one in bottom]
    cpu = [watch.server_s * 1e5 / count for watch in ours_s]
    ratio = ratios([watch.busy_s for watch in floor_s], [watch.busy_s for watch in ours_s])
    rate = statistics.median(count / watch.busy_s for watch in ours_s)
    note = f"{rate:,.0f} ops/s; {beside(ours_s, floor_s)}; {len(answer) + 1} B an answer"
    sense = AT_LEAST if goal else ""
    yield Figure(PART, f"{op}, {DEPTH} pipelined, of the floor's rate", ratio, "x", sense, goal or 0, note)
    yield Figure(PART, f"{op}, CPU seconds per 100k", cpu, "s", AT_MOST if goal else "", 0.12 if goal else 0)
    for share, most in ((0.5, 1.15), (0.99, 2.0)):
        times = [percentile(one.singles, share) for one in gateway]
        ratio = ratios(times, [percentile(one.singles, share) for one in bottom])
        what = f"{op}, one at a time, p{share * 100:.0f} of the floor's"
        absolute = f"{statistics.median(times) * 1e6:.1f} us"
        yield Figure(PART, what, ratio, "x", AT_MOST if goal else "", most if goal else 0, absolute)


def _runs(plan: Plan) -> Iterator[Figure]:
    """Whole runs of the memory script in 64 sessions: three requests, three answers and twelve events each."""
    script = _rehearse(max(1, 24 // plan.scale))
    requests = b"".join(script.blocks)
    count = requests.count(b"\n")
    average = len(requests) // count
    same = [(b'{"id":%d,"op":"echo"' % number).ljust(average - 2) + b"}\n" for number in range(1, count + 1)]
    floor = blocks(same, DEPTH)

    def gateway_case() -> Watch:
        with Process(GATEWAY, core=plan.core) as server:
            server.write(script.start)
            server.read_lines(script.start_lines)
            with Watch(server) as watch:
                size = pipelined(server, script.blocks, script.counts)
            if size != script.size:
                raise BenchError(f"submit and resolve: {size} bytes came back, {script.size} were due")
            return watch

    def floor_case() -> Watch:
        with Process((*FLOOR, str(script.size // sum(script.counts))), core=plan.core) as server:
            depths = [DEPTH] * len(floor)
            pipelined(server, floor[:20], depths[:20])
            with Watch(server) as watch:
                pipelined(server, floor, depths)
            return watch

    cases: dict[str, Callable[[], Watch]] = {"gateway": gateway_case, "floor": floor_case}
    with pinned(plan.core):
        results = interleave(cases, plan.rounds)
    lines = count + sum(script.counts)
    rate = [lines / watch.busy_s for watch in results["gateway"]]
    floor_rate = [2 * count / watch.busy_s for watch in results["floor"]]
    absolute = statistics.median(rate)
    note = f"{absolute:,.0f} lines/s with {absolute * count / lines:,.0f} requests/s"
    what = f"submit and resolve in {SESSIONS} sessions with events, lines in and out, of the floor's"
    yield Figure(PART, what, ratios(rate, floor_rate), "x", AT_LEAST, 0.2, note)
    cpu = [watch.server_s * 1e5 / lines for watch in results["gateway"]]
    yield Figure(PART, "submit and resolve, CPU seconds per 100k lines in and out", cpu, "s")


class _Script(NamedTuple):
    """`counts` are the lines due after each block, `size` the bytes of them all."""

    start: bytes
    start_lines: int
    blocks: Sequence[bytes]
    counts: Sequence[int]
    size: int


def _rehearse(runs: int) -> _Script:
    """Play the runs in this process to learn every line: a fresh adapter mints the same ids for the same requests."""
    rig = Rig()
    names = [f"session-{number:02}" for number in range(SESSIONS)]
    subscribe = b"".join(events_line(number, name) for number, name in enumerate(names, 100))
    start = b"".join(open_line(1, "memory", name) for name in names) + subscribe
    rig.lines(start)
    said: list[bytes] = []
    counts: list[int] = []
    begin = rig.sink.bytes
    for number in range(runs):
        chunk = b"".join(submit_line(7, name) for name in names)
        if number:
            chunk = subscribe + chunk  # each subscription ended with the run before
        while chunk:
            found = rig.lines(chunk)
            said.append(chunk)
            counts.append(len(found))
            chunk = b"".join(_answers(found))
    return _Script(start, 2 * SESSIONS, said, counts, rig.sink.bytes - begin)


def _answers(found: Sequence[dict[str, Any]]) -> Iterator[bytes]:
    gates = ("action.permission.requested", "user.input.requested")
    for line in found:
        if line.get("event") == "envelope" and line["envelope"]["type"] in gates:
            yield resolve_line(8, line["envelope"])


def _sample(start: bytes, line: bytes) -> bytes:
    """Return the gateway's answer to one line, from a process of its own."""
    with Process(GATEWAY) as server:
        answer = server.ask(start)
        if b'"ok":true' not in answer:
            raise BenchError(f"the gateway refuses: {answer[:200]!r}")
        answer = server.ask(line)
    if b'"ok":true' not in answer:
        raise BenchError(f"the gateway refuses: {answer[:200]!r}")
    return answer


def _against_floor(plan: Plan, ours: Load, floor: Load, size: int) -> dict[str, list[Pass]]:
    cases = {
        "gateway": lambda: _pass(GATEWAY, ours, plan.core),
        "floor": lambda: _pass((*FLOOR, str(size)), floor, plan.core),
    }
    with pinned(plan.core):
        return interleave(cases, plan.rounds)


def _pass(command: Sequence[str], load: Load, core: int | None) -> Pass:
    with Process(command, core=core) as server:
        if load.start:
            server.ask(load.start)
        depths = [DEPTH] * len(load.blocks)
        pipelined(server, load.blocks[:20], depths[:20])
        with Watch(server) as watch:
            size = pipelined(server, load.blocks, depths)
        return Pass(watch, size, sequential(server, load.singles))


def _same_size(ours: Sequence[Pass], floor: Sequence[Pass], op: str) -> None:
    """Both must have sent about the same: ids and counters inside the answers differ by some digits."""
    for one, other in zip(ours, floor, strict=True):
        if abs(one.size - other.size) > 0.1 * other.size:
            raise BenchError(f"{op}: the gateway sent {one.size} bytes, the floor {other.size}")
