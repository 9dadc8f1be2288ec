"""Op line in, answer out: the whole door in process, without pipe and loop. 64 lines are one read, and one round."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.conftest import pedantic
from bench.rig import Rig
from bench.script import events_line, inline_ops, open_line, resolve_line, submit_line

DEPTH = 64
NAME = "bench"
GATES = ("action.permission.requested", "user.input.requested")


@pytest.mark.parametrize("op", ["sessions", "state", "adapters"])
def test_inline_op(benchmark: BenchmarkFixture, twin: str, op: str) -> None:
    rig = Rig()
    rig.lines(open_line(1, "memory", "bench"))
    chunk = b"".join(inline_ops(op, DEPTH))
    answers = rig.lines(chunk)
    assert [answer["id"] for answer in answers] == list(range(1, DEPTH + 1))
    before = rig.sink.bytes
    rig.feed(chunk)
    size = rig.sink.bytes - before
    rig.sink.bytes = 0

    benchmark.group = f"door: {DEPTH} lines of {op}"
    benchmark(rig.feed, chunk)

    assert size > DEPTH * 20
    assert rig.sink.bytes >= size
    assert rig.door.defect is None


@pytest.mark.parametrize("op", ["sessions", "state"])
def test_one_line(benchmark: BenchmarkFixture, twin: str, op: str) -> None:
    """A line at a time: what a call costs that cannot be shared by a read."""
    rig = Rig()
    rig.lines(open_line(1, "memory", "bench"))
    (chunk,) = inline_ops(op, 1)
    (answer,) = rig.lines(chunk)
    assert answer["ok"]
    benchmark.group = f"door: one line of {op}"
    benchmark(rig.feed, chunk)
    assert rig.sink.bytes
    assert rig.door.defect is None


def test_refused_line(benchmark: BenchmarkFixture, twin: str) -> None:
    """A line that asks for nobody's session."""
    rig = Rig()
    chunk = b"".join(inline_ops("state", DEPTH, session="nobody"))
    kept = rig.sink.kept = []
    rig.feed(chunk)
    rig.sink.kept = None
    answers = [json.loads(line) for block in kept for line in block.splitlines()]
    assert [answer["error"]["code"] for answer in answers] == ["unknown_session"] * DEPTH
    benchmark.group = f"door: {DEPTH} refused lines"
    benchmark(rig.feed, chunk)
    assert rig.door.defect is None


class Runs:
    """A session whose runs play the memory script: submit, both gates answered, completed."""

    def __init__(self) -> None:
        self.rig = Rig()
        self.rig.lines(open_line(1, "memory", NAME) + events_line(2, NAME))
        self.events: list[dict[str, Any]] = []

    def step(self, chunk: bytes) -> bytes:
        """Feed the ops of one stage; return those of the next, one a gate that opened."""
        found = [line["envelope"] for line in self.rig.lines(chunk) if line.get("event") == "envelope"]
        self.events += found
        return b"".join(resolve_line(3, event) for event in found if event["type"] in GATES)


def test_submit_and_resolve(benchmark: BenchmarkFixture, twin: str, rounds: int) -> None:
    """One run of the memory script with its events read: three requests validated, twelve events.

    A fresh adapter mints the same ids for the same lines, so that the lines of all rounds are known from a rehearsal.
    """
    rehearsal, runs = Runs(), Runs()
    stages: list[list[bytes]] = []
    for _ in range(rounds):
        submit = (events_line(2, NAME) if stages else b"") + submit_line(9, NAME)
        permission = rehearsal.step(submit)
        answer = rehearsal.step(permission)
        rehearsal.step(answer)
        stages.append([submit, permission, answer])
    assert [event["type"] for event in rehearsal.events].count("run.completed") == rounds
    turns = iter(stages)

    def run() -> None:
        for chunk in next(turns):
            runs.rig.feed(chunk)

    benchmark.group = "door: one run of the memory script"
    pedantic(benchmark, run, rounds)
    session = runs.rig.switch.session(NAME)
    assert session.live() == []
    assert runs.rig.sink.bytes == rehearsal.rig.sink.bytes
