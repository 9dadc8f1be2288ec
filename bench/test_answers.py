"""Values to lines: success, refusal, the ends of subscriptions, and one event's envelope by splice."""

from __future__ import annotations

import json

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from trunkline.gateway.hub.encode import EventEncoder
from trunkline.gateway.hub.runs import Run
from trunkline.gateway.stdio.lines import answer_line, ending_line, event_prefix, refusal_line
from trunkline.protocol.envelope import Envelope
from trunkline.protocol.errors import Overflow, Refusal

from bench.rig import implementation

LIMIT = 1 << 20
PAYLOAD = {
    "session_id": "bench",
    "run_id": "run-1",
    "accepted": True,
    "status": "running",
    "message_ids": ["message-7"],
}


def test_answer_of_an_envelope(benchmark: BenchmarkFixture) -> None:
    def answer() -> bytes:
        response = Envelope(
            "session.message.submit.response", "oap-response-1", PAYLOAD, session_id="bench", in_reply_to="host-1"
        )
        return answer_line(7, response)

    benchmark.group = "lines: an answer"
    line = benchmark(answer)
    assert json.loads(line)["result"]["payload"] == PAYLOAD


def test_answer_of_ready_bytes(benchmark: BenchmarkFixture) -> None:
    benchmark.group = "lines: an answer"
    line = benchmark(answer_line, 7, json.dumps(PAYLOAD).encode())
    assert json.loads(line) == {"id": 7, "ok": True, "result": PAYLOAD}


def test_refusal(benchmark: BenchmarkFixture) -> None:
    refusal = Refusal("run_active", "the session is busy; submit again after the terminal", {"run_id": "run-1"})
    benchmark.group = "lines: a refusal"
    line = benchmark(refusal_line, 7, refusal, LIMIT)
    assert json.loads(line)["error"]["details"] == {"run_id": "run-1"}


def test_overflow_line(benchmark: BenchmarkFixture) -> None:
    benchmark.group = "lines: the end of a subscription"
    line = benchmark(ending_line, 7, "bench", Overflow("run-1", 99), LIMIT)
    assert json.loads(line)["last_sequence"] == 99


@pytest.mark.parametrize("characters", [100, 1000])
def test_envelope_of_an_event(benchmark: BenchmarkFixture, twin: str, characters: int) -> None:
    """The parts that all events of a run share are made once; what is timed is one event."""
    encoder = EventEncoder("bench", "plain-1")
    order = Envelope("session.message.submit.request", "host-1", {})
    run = Run("run-1", order, reserved=False)
    payload = {"message_id": "message-8", "part": {"type": "text", "text": "x" * characters}}
    benchmark.group = f"lines: the envelope of a delta of {characters} characters"
    event = benchmark(encoder.event, run, "content.delta", payload, None, 5, 9, 1_700_000_000_000)
    assert json.loads(event)["payload"] == {"session_id": "bench", "run_id": "run-1", **payload}


@pytest.mark.parametrize("count", [64, 1])
def test_splice(benchmark: BenchmarkFixture, twin: str, count: int) -> None:
    """Lines of one subscriber around stored envelopes; each further subscriber costs the same again."""
    entries = [(number, b'{"text":"%b"}' % (b"x" * 430)) for number in range(count)]
    event_lines = implementation(twin)["event_lines"]
    benchmark.group = f"lines: {count} events around stored envelopes"
    block = benchmark(event_lines, event_prefix(7, "bench"), entries)
    assert [json.loads(line)["sequence"] for line in block.splitlines()] == list(range(count))
