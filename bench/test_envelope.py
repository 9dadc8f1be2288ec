"""One request through the gate, and its payload alone, against the least that reads the same bytes: `orjson.loads`."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from trunkline.framing import _select
from trunkline.protocol import names, validate
from trunkline.protocol.gate import admit

SUBMITS = frozenset((names.SUBMIT,))


def submit(content: Any) -> tuple[bytes, bytes, dict[str, Any]]:
    """Return the text of a submit, the text of its payload, and the payload."""
    payload = {"session_id": "bench", "messages": [{"role": "user", "content": content}], "delivery": "auto"}
    whole = {
        "protocol": "open-agent-protocol",
        "version": "0.1",
        "profile": "open-agent-protocol.agent-control-core",
        "type": names.SUBMIT,
        "id": "host-1",
        "session_id": "bench",
        "payload": payload,
    }
    return orjson.dumps(whole), orjson.dumps(payload), payload


PARTS = [
    {"type": "tool_call", "tool_call_id": f"call-{n}", "name": "grep", "arguments_json": {"pattern": "x", "n": n}}
    if n % 4 == 3
    else {"type": "text", "text": "read this, then that " * 2}
    for n in range(16)
]
MESSAGES = {
    "400 B": submit("change the title of the page " * 4),
    "1 KiB": submit("change the title of the page " * 25),
    "16 parts": submit(PARTS),
    "16 KiB": submit("change the title of the page " * 560),
}

message = pytest.mark.parametrize("message", MESSAGES)


@message
def test_floor_loads(benchmark: BenchmarkFixture, message: str) -> None:
    whole, _, payload = MESSAGES[message]
    benchmark.group = f"envelope: {message}"
    assert benchmark(orjson.loads, whole)["payload"] == payload


@message
def test_payload_compiled(benchmark: BenchmarkFixture, message: str) -> None:
    _, text, payload = MESSAGES[message]
    validate.warm(SUBMITS)
    benchmark.group = f"envelope: {message}"
    assert benchmark(validate.validate_payload, names.SUBMIT, text) == payload


@message
def test_payload_plain(benchmark: BenchmarkFixture, message: str) -> None:
    _, text, payload = MESSAGES[message]
    benchmark.group = f"envelope: {message}"
    assert benchmark(validate.plainly, names.SUBMIT, text) == payload


@message
def test_gate(benchmark: BenchmarkFixture, message: str, twin: str) -> None:
    """Scanner, header, payload and the envelope made of them."""
    whole = MESSAGES[message][0]
    validate.warm(SUBMITS)
    scan = _select.scan_envelope
    benchmark.group = f"envelope: {message}"
    envelope = benchmark(lambda: admit(whole, SUBMITS, scan=scan))
    assert json.loads(whole) == envelope.as_dict()
