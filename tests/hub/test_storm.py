"""Readers that come and go while a run streams: no gap, no duplicate, nothing left (bugs O, Q); and what one costs."""

from __future__ import annotations

import asyncio
import gc
import random
import tracemalloc
from typing import Any

import pytest
from trunkline.adapters.memory import MemoryAdapter
from trunkline.gateway import Event, Hub
from trunkline.gateway.config import SYNTHETIC_DEFAULTS
from trunkline.gateway.drive.synthetic import SyntheticAdapter
from trunkline.protocol import names
from trunkline.protocol.limits import Limits

from tests.support.hubs import Fake, Seat, Taker, request

SEED = 20_260_101


def synthetic(**options: Any) -> Hub:
    limits = Limits()
    adapter = SyntheticAdapter("load", {**SYNTHETIC_DEFAULTS, **options}, limits, 1 << 16, 64 << 20)
    return Hub({"load": adapter}, limits=limits)


async def begun(hub: Hub) -> str:
    await hub.open("load", request(names.OPEN, {"session_id": "s"}))
    payload = {"session_id": "s", "delivery": "auto", "messages": [{"role": "user", "content": "go"}]}
    return (await hub.submit("s", request(names.SUBMIT, payload))).run_id or ""


@pytest.mark.parametrize("pace", ["free", "reader"])
def test_a_reader_that_reconnects_again_and_again_misses_and_repeats_nothing(pace: str) -> None:
    async def body() -> None:
        hub, chance = synthetic(deltas=20_000, delta_bytes=10, pace=pace), random.Random(SEED)
        run = await begun(hub)
        got: list[int] = []
        connects = 0
        while True:
            connects += 1
            limit = chance.choice((1, 2, 7, 40, 64, 100))
            async with hub.subscribe("s", after=len(got), run_id=run) as events:
                async for event in events:
                    got.append(event.sequence)
                    limit -= 1
                    if not limit or event.type in names.TERMINALS:
                        break
            if event.type in names.TERMINALS:
                break
        assert got == list(range(1, 20_003))
        assert connects > 400
        assert hub.switch.session("s").stream.subscriptions == []

    asyncio.run(body())


def test_readers_that_come_and_go_together_each_get_their_own() -> None:
    async def one(hub: Hub, run: str, chance: random.Random) -> None:
        for _ in range(20):
            state = hub.switch.session("s").stream.runs[run]
            live = chance.random() < 0.5
            after = state.sequence if live else chance.randint(0, state.sequence)
            events = hub.subscribe("s", None if live else after, None if live else run)
            got: list[int] = []
            wanted = chance.randint(1, 50)
            async for event in events:
                got.append(event.sequence)
                if len(got) == wanted:
                    break
            await events.aclose()
            assert got == list(range(after + 1, after + 1 + len(got)))
            for _ in range(chance.randint(0, 3)):
                await asyncio.sleep(0)

    async def body() -> None:
        hub, chance = synthetic(deltas=1 << 40, delta_bytes=10, pace="reader"), random.Random(SEED)
        run = await begun(hub)
        await asyncio.gather(*(one(hub, run, random.Random(chance.random())) for _ in range(20)))
        stream = hub.switch.session("s").stream
        assert (stream.subscriptions, stream.idle) == ([], [])
        await hub.aclose()

    asyncio.run(body())


def test_an_iteration_that_is_dropped_or_left_detaches() -> None:
    async def body() -> None:
        hub = Hub({"memory": MemoryAdapter()})
        await hub.open("memory", request(names.OPEN, {"session_id": "s"}))
        stream = hub.switch.session("s").stream
        events = hub.subscribe("s")
        assert len(stream.subscriptions) == 1
        del events
        gc.collect()
        assert stream.subscriptions == []
        left = hub.subscribe("s")
        waiting: asyncio.Future[Event] = asyncio.ensure_future(anext(left))
        await asyncio.sleep(0)
        await left.aclose()
        with pytest.raises(StopAsyncIteration):
            await waiting
        with pytest.raises(StopAsyncIteration):
            await anext(left)
        cancelled = hub.subscribe("s")
        waiting = asyncio.ensure_future(anext(cancelled))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        payload = {"session_id": "s", "delivery": "auto", "messages": [{"role": "user", "content": "go"}]}
        await hub.submit("s", request(names.SUBMIT, payload))
        assert (await anext(cancelled)).type == names.RUN_STARTED
        await cancelled.aclose()

    asyncio.run(body())


def grown(act: Any, count: int) -> float:
    """Return the bytes of Python memory that `act(number)` leaves behind, a call."""
    act(-1)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept = [act(number) for number in range(count)]
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(kept) == count
    return (after - before) / count


IDLE_SUBSCRIPTION = 1024
SESSION = 8 * 1024
"""Loose bounds in bytes; what was measured is printed with `-rP`."""


def test_what_an_idle_subscription_and_an_idle_session_cost() -> None:
    seat = Seat({"memory": MemoryAdapter(), "fake": Fake()})
    seat.open("s")
    reader = Taker()
    subscription = grown(lambda number: seat.switch.subscribe("s", reader, None, None).start(), 2000)
    session = grown(lambda number: seat.open(f"t{number}", adapter="fake"), 500)
    print(f"idle subscription {subscription:.0f} B, idle session {session:.0f} B")
    assert subscription < IDLE_SUBSCRIPTION
    assert session < SESSION


def test_a_session_that_has_played_and_closed_costs_little_more() -> None:
    seat = Seat()

    def play(number: int) -> None:
        name = f"s{number}"
        seat.open(name)
        for _ in range(5):
            seat.play(name)
        seat.switch.close(name)
        seat.published.clear()

    closed = grown(play, 50)
    print(f"closed session after five runs {closed:.0f} B")
    assert closed < SESSION
