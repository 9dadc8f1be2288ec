"""The pump on its own: turns between subscriptions, what is sent before a judgement, and the end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from trunkline.gateway.hub.switch import Switch
from trunkline.gateway.stdio.pump import BATCH, Pump, Reading
from trunkline.gateway.stdio.writer import Writer
from trunkline.protocol import names
from trunkline.protocol.envelope import Envelope
from trunkline.protocol.limits import Limits

from tests.support.puppet import PuppetAdapter
from tests.support.sinks import Pipe, Turn


class Bench:
    """A session with one started run, a pump before a pipe, and subscriptions that join when told."""

    def __init__(self, room: int = 1 << 30, events: int = 4096, **limits: int) -> None:
        bounds = Limits(**limits)
        self.pipe, self.turn = Pipe(room), Turn()
        self.writer = Writer(self.pipe, bounds, self.turn.soon)
        self.pump = Pump(self.writer, bounds.frame_bytes, self.turn.soon)
        switch = Switch({"puppet": PuppetAdapter((events, 8 << 20))}, bounds)
        switch.open("puppet", Envelope(names.OPEN, "open", {"session_id": "s"}))
        messages = [{"role": "user", "content": "live"}]
        switch.submit("s", Envelope(names.SUBMIT, "submit", {"delivery": "auto", "messages": messages}))
        self.session = switch.session("s")
        self.stream = self.session.stream

    def join(self, number: int, after: int | None = None) -> Reading:
        reading = Reading(self.pump, number, "s")
        self.pump.add(reading, self.session.subscribe(reading, after, None))
        return reading

    def publish(self, count: int, size: int = 10) -> None:
        part = {"message_id": "m", "part": {"type": "text", "text": "x" * size}}
        self.session.publish([("run-1", names.CONTENT_DELTA, part)] * count)

    def complete(self) -> None:
        message = {"id": "m", "role": "assistant", "content": "done"}
        self.session.publish([("run-1", names.RUN_COMPLETED, {"final_response": message, "stop_reason": "end_turn"})])

    def settle(self) -> None:
        while self.turn.calls:
            self.turn.end()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in b"".join(self.pipe.blocks).splitlines()]

    def of(self, number: int) -> list[int | str]:
        return [line.get("sequence", line["event"]) for line in self.lines if line["id"] == number]


def test_a_long_replay_takes_turns_with_the_others() -> None:
    bench = Bench()
    bench.publish(BATCH * 3)
    bench.join(1, after=0)
    bench.join(2, after=0)
    bench.turn.end()
    assert bench.of(1) == bench.of(2) == list(range(1, BATCH + 1)), "one batch each, then the loop goes on"
    bench.settle()
    assert bench.of(1) == bench.of(2) == list(range(1, BATCH * 3 + 2))


def test_subscriptions_at_one_position_share_their_bytes_and_each_has_its_own_prefix() -> None:
    bench = Bench()
    for number in range(1, 6):
        bench.join(number)
    bench.publish(7)
    bench.settle()
    assert len(bench.pipe.blocks) == 5
    shapes = {block.replace(b'"id":%d,"session_id"' % number, b"") for number, block in enumerate(bench.pipe.blocks, 1)}
    assert len(shapes) == 1


def test_a_subscription_is_pumped_before_it_is_judged() -> None:
    bench = Bench(mailbox=8)
    bench.join(1)
    for _ in range(5):
        bench.publish(8)
        bench.publish(8)
    bench.settle()
    assert bench.of(1) == list(range(2, 82)), "the sink took everything: nobody fell behind"


def test_what_is_owed_at_an_overflow_comes_before_the_line() -> None:
    bench = Bench(room=0, mailbox=8, events=8)
    bench.join(1)
    bench.publish(1)
    bench.settle()
    bench.publish(100)
    assert bench.of(1) == [2]
    bench.pipe.room = 1 << 30
    bench.pipe.drain()
    bench.pump.run()
    bench.settle()
    bench.writer.flush()
    assert bench.of(1) == [*range(2, 11), "oap-overflow"]
    overflow = bench.lines[-1]
    assert (overflow["last_sequence"], overflow["run_id"]) == (10, "run-1")
    assert bench.pump.readings == set()


def test_events_before_the_stop_are_served_and_none_after() -> None:
    bench = Bench()
    bench.join(1, after=0)
    bench.publish(BATCH * 2)
    bench.pump.stop()
    assert bench.of(1) == list(range(1, BATCH * 2 + 2))
    bench.publish(5)
    bench.settle()
    assert bench.of(1)[-1] == BATCH * 2 + 1
    assert bench.stream.subscriptions == []


@pytest.mark.parametrize("room", [0, 1000, 5000, 1 << 30])
def test_the_stop_waits_for_no_sink(room: int) -> None:
    bench = Bench(room=room)
    bench.join(1, after=0)
    bench.publish(BATCH * 2)
    bench.pump.stop()
    seen = bench.of(1)
    assert seen == list(range(1, len(seen) + 1))
    bench.pipe.drain()
    bench.pump.run()
    assert bench.of(1) == seen


def test_the_first_envelope_that_fits_in_no_frame_ends_the_stream_behind_what_fits() -> None:
    bench = Bench(frame_bytes=600)
    bench.join(1, after=0)
    bench.publish(2)
    bench.publish(1, size=600)
    bench.publish(3)
    bench.settle()
    bench.writer.flush()
    assert bench.of(1) == [1, 2, 3, 4]
    assert bench.lines[-1] == {"event": "oap-frame-limit", "id": 1, "session_id": "s", "run_id": "run-1", "sequence": 4}
    bench.join(2, after=4)
    bench.complete()
    bench.settle()
    assert bench.of(2) == [5, 6, 7, 8]


def test_an_ended_subscription_is_forgotten() -> None:
    bench = Bench()
    bench.join(1)
    bench.join(2, after=1)
    bench.complete()
    bench.settle()
    assert bench.of(1) == bench.of(2) == [2]
    assert bench.pump.readings == set()
    assert bench.stream.subscriptions == []
