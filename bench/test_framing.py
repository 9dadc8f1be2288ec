"""Lines, op lines, envelope texts and event streams, both twins beside the least that reads the same bytes."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench import corpus, rig

LIMIT = 18 << 20
READS = {"64 KiB": 1 << 16, "4 KiB": 1 << 12}

sizes = pytest.mark.parametrize("size", corpus.LINES)
reads = pytest.mark.parametrize("read", READS)


@pytest.fixture(params=rig.TWINS)
def words(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return one implementation by its public names."""
    if request.param not in rig.twins():
        pytest.skip("the accelerators are not built")
    return rig.implementation(request.param)


@sizes
@reads
def test_line_decoder(benchmark: BenchmarkFixture, words: dict[str, Any], size: str, read: str) -> None:
    lines = corpus.lines(size)
    chunks = corpus.chunked(b"\n".join(lines) + b"\n", READS[read])

    def decode() -> list[bytes]:
        decoder = words["LineDecoder"](LIMIT)
        return [frame for chunk in chunks for frame in decoder.feed(chunk)]

    benchmark.group = f"lines of {size} in reads of {read}"
    assert benchmark(decode) == lines


@sizes
def test_floor_loads(benchmark: BenchmarkFixture, size: str) -> None:
    lines = corpus.lines(size)
    benchmark.group = f"op lines of {size}"
    found = benchmark(lambda: [orjson.loads(line) for line in lines])
    assert [value["id"] for value in found] == [json.loads(line)["id"] for line in lines]


@sizes
def test_op_line(benchmark: BenchmarkFixture, words: dict[str, Any], size: str) -> None:
    lines = corpus.lines(size)
    parse = words["parse_op_line"]
    benchmark.group = f"op lines of {size}"
    found = benchmark(lambda: [parse(line) for line in lines])
    for line, one in zip(lines, found, strict=True):
        value = json.loads(line)
        assert (one.id, one.op, one.present) == (value["id"], value["op"], set(value))
        assert one.request is None or json.loads(one.request) == value["request"]


@sizes
def test_envelope_floor_loads(benchmark: BenchmarkFixture, size: str) -> None:
    texts = requests(size)
    benchmark.group = f"envelopes in op lines of {size}"
    assert len(benchmark(lambda: [orjson.loads(text) for text in texts])) == len(texts)


@sizes
def test_envelope(benchmark: BenchmarkFixture, words: dict[str, Any], size: str) -> None:
    texts = requests(size)
    scan = words["scan_envelope"]
    benchmark.group = f"envelopes in op lines of {size}"
    heads = benchmark(lambda: [scan(text) for text in texts])
    for text, head in zip(texts, heads, strict=True):
        value = json.loads(text)
        assert (head.id, head.type, json.loads(head.payload)) == (value["id"], value["type"], value["payload"])


def requests(size: str) -> list[bytes]:
    """Return the envelopes of a stream; of short lines, which carry none, the smallest."""
    found = [json.loads(line).get("request") for line in corpus.lines(size if size != "120 B" else "400 B")]
    return [corpus.dumps(value) for value in found]


def test_many_names_of_one_object(benchmark: BenchmarkFixture, words: dict[str, Any]) -> None:
    payload = {f"name {number}": number for number in range(20_000)}
    text = corpus.dumps(corpus.HEAD | {"type": "t", "id": "i", "payload": payload})
    benchmark.group = "an envelope with 20,000 names in one object"
    assert json.loads(benchmark(words["scan_envelope"], text).payload) == payload


def stream(end: bytes) -> tuple[list[bytes], bytes]:
    events = corpus.events()
    frames = [
        b"id: %d" % number + end + b"event: update" + end + b"data: " + data + end * 2
        for number, data in enumerate(events)
    ]
    return events, b"".join(frames)


@reads
@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
def test_sse_decode(benchmark: BenchmarkFixture, words: dict[str, Any], read: str, end: bytes) -> None:
    events, data = stream(end)
    chunks = corpus.chunked(data, READS[read])

    def decode() -> list[Any]:
        decoder = words["SSEDecoder"](LIMIT)
        return [event for chunk in chunks for event in decoder.feed(chunk)]

    benchmark.group = f"read events in reads of {read}, {'CR LF' if len(end) == 2 else 'LF'}"
    found = benchmark(decode)
    assert [event.data.encode() for event in found] == events
    assert found[-1].last_event_id == str(len(events) - 1)


def test_sse_encode(benchmark: BenchmarkFixture, words: dict[str, Any]) -> None:
    events, data = stream(b"\n")
    encode = words["encode_sse"]
    ids = [str(number) for number in range(len(events))]
    benchmark.group = "write events"
    written = benchmark(lambda: [encode(text, event="update", id=id) for text, id in zip(events, ids, strict=True)])
    assert b"".join(written) == data
