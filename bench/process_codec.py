"""Framing in this process, by CPU time: both twins and `orjson.loads` in turn in every round."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import orjson
from trunkline.framing import event_lines
from trunkline.gateway.stdio.lines import event_prefix

from bench import rig
from bench.measure import AT_LEAST, AT_MOST, Figure, Plan, cpu_seconds, interleave, ratios
from bench.script import op, submit_line, text
from bench.wire import BenchError

PART: Final = "framing"
READ: Final = 1 << 16
SMALL_READ: Final = 1 << 12
LIMIT: Final = 18 << 20

SIZES: Final = (
    # name, characters of the message (None: a line without request), lines, goals: route and read all values
    ("120 B", None, 20_000, 2.2, 1.4),
    ("400 B", 60, 10_000, 2.5, 0.95),
    ("1 KiB", 620, 5_000, 2.5, 0.95),
    ("64 KiB", 58_000, 100, 2.0, 0.95),
    ("1 MiB", 930_000, 8, 2.0, 0.95),
)
EVENTS: Final = 256
SSE_EVENTS: Final = 2_000


def figures(plan: Plan) -> Iterator[Figure]:
    """Measure framing; only the references where nothing is compiled."""
    for name, characters, count, route, full in SIZES:
        yield from _op_lines(plan, name, _lines(characters, max(4, count // plan.scale)), (route, full))
    yield from _envelopes(plan)
    yield from _sse(plan)


def _lines(characters: int | None, count: int) -> list[bytes]:
    if characters is None:
        return [op(number, "state", session_id="s" * 78).rstrip(b"\n") for number in range(10_000, 10_000 + count)]
    return [submit_line(number, "bench", characters).rstrip(b"\n") for number in range(10_000, 10_000 + count)]


def _op_lines(plan: Plan, name: str, lines: Sequence[bytes], goals: tuple[float, float]) -> Iterator[Figure]:
    """Framing and strict parse of a stream, against `orjson.loads` of lines that stand ready."""
    ids = sum(range(10_000, 10_000 + len(lines)))
    stream = b"\n".join(lines) + b"\n"
    cases: dict[str, Callable[[], float]] = {"loads": _checked(lambda: _ids(orjson.loads(line) for line in lines), ids)}
    for which in rig.twins():
        words = rig.implementation(which)
        cases[which] = _checked(partial(_read, words, stream, READ, None), ids)
        cases[f"{which}, small reads"] = _checked(partial(_read, words, stream, SMALL_READ, None), ids)
        cases[f"{which}, values"] = _checked(partial(_read, words, stream, READ, orjson.loads), ids)
    found = interleave(cases, plan.rounds)
    best = rig.twins()[-1]
    rate = len(stream) / min(found[best]) / 1e6
    sense = AT_LEAST if best == "cython" else ""
    yield Figure(
        PART,
        f"op lines of {name}, framed and routed, of orjson.loads",
        ratios(found["loads"], found[best]),
        "x",
        sense,
        goals[0],
        f"{best}, {rate:,.0f} MB/s",
    )
    with_values = ratios(found["loads"], found[f"{best}, values"])
    yield Figure(PART, f"op lines of {name}, with all values, of orjson.loads", with_values, "x", sense, goals[1])
    small = ratios(found[best], found[f"{best}, small reads"])
    yield Figure(PART, f"op lines of {name}, reads of 4 KiB, of those of 64 KiB", small, "x", sense, 0.9)
    if best == "cython":
        yield Figure(
            PART,
            f"op lines of {name}, compiled over plain",
            ratios(found["python"], found["cython"]),
            "x",
            AT_LEAST,
            10,
        )


def _read(words: dict[str, Any], stream: bytes, size: int, values: Callable[[bytes], Any] | None) -> int:
    decoder, parse = words["LineDecoder"](LIMIT), words["parse_op_line"]
    total = 0
    for start in range(0, len(stream), size):
        for frame in decoder.feed(stream[start : start + size]):
            line = parse(frame)
            total += line.id
            if values is not None and line.request is not None:
                values(line.request)
    return total


def _ids(values: Iterator[Any]) -> int:
    return sum([value["id"] for value in values])


def _checked(call: Callable[[], int], due: int) -> Callable[[], float]:
    """Time a call and refuse a wrong sum."""

    def run() -> None:
        if call() != due:
            raise BenchError("a decoder read something else than was sent")

    return cpu_seconds(run)


def _envelopes(plan: Plan) -> Iterator[Figure]:
    """Lines around stored envelopes against encoding each line whole, and what one more subscriber costs."""
    for size, goal in ((350, 3.5), (1024, 5.0)):
        payload = {"message_id": "message-8", "part": {"type": "text", "text": text(size - 160)}}
        envelope = {"type": "content.delta", "id": "event-5", "sequence": 9, "payload": payload}
        entries = [(number, orjson.dumps(envelope)) for number in range(EVENTS)]
        prefix = event_prefix(7, "bench")
        start = {"event": "envelope", "id": 7, "session_id": "bench"}
        whole = b"".join(orjson.dumps({**start, "sequence": n, "envelope": envelope}) + b"\n" for n in range(EVENTS))
        if event_lines(prefix, entries) != whole:
            raise BenchError("a spliced line differs from one that is encoded whole")

        def dumps(start: dict[str, Any] = start, envelope: dict[str, Any] = envelope) -> None:
            for _ in range(20):
                b"".join(
                    [
                        orjson.dumps({**start, "sequence": n, "envelope": envelope}, None, orjson.OPT_APPEND_NEWLINE)
                        for n in range(EVENTS)
                    ]
                )

        def splice(prefix: bytes = prefix, entries: list[tuple[int, bytes]] = entries) -> None:
            for _ in range(20):
                event_lines(prefix, entries)

        cases = {"dumps": cpu_seconds(dumps), "splice": cpu_seconds(splice)}
        found = interleave(cases, plan.rounds)
        what = f"event lines of {size} B by splice, of orjson.dumps of the whole"
        yield Figure(PART, what, ratios(found["dumps"], found["splice"]), "x", AT_LEAST, goal)
        each = [seconds / 20 / EVENTS * 1e6 for seconds in found["splice"]]
        yield Figure(PART, f"one further subscriber, an event of {size} B", each, "us", AT_MOST, 1)


def _sse(plan: Plan) -> Iterator[Figure]:
    """Event streams, compiled over plain; the peers of the goals are no dependency of this repository."""
    if len(rig.twins()) < 2:
        return
    texts = [json.dumps({"sequence": number, "text": text(200, number % 9)}) for number in range(SSE_EVENTS)]
    cases: dict[str, Callable[[], float]] = {}
    for which in rig.twins():
        words = rig.implementation(which)
        encode, decoder = words["encode_sse"], words["SSEDecoder"]
        stream = b"".join([encode(text, event="update", id=str(at)) for at, text in enumerate(texts)])

        def write(encode: Any = encode) -> int:
            return len([encode(text, event="update", id="7") for text in texts])

        def read(decoder: Any = decoder, stream: bytes = stream) -> int:
            fresh = decoder(LIMIT)
            return sum([len(fresh.feed(stream[at : at + READ])) for at in range(0, len(stream), READ)])

        cases[f"write {which}"] = _checked(write, SSE_EVENTS)
        cases[f"read {which}"] = _checked(read, SSE_EVENTS)
    found = interleave(cases, plan.rounds)
    for name, verb in (("encode", "write"), ("decode", "read")):
        samples = ratios(found[f"{verb} python"], found[f"{verb} cython"])
        yield Figure(PART, f"event streams, {name}, compiled over plain", samples, "x", AT_LEAST, 5)
