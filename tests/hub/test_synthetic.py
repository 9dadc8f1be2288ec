"""The synthetic adapter: exact, paced, stoppable, and starving nobody (interfaces: synthetic)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from trunkline.adapters.memory import MemoryAdapter
from trunkline.gateway import Event, Hub
from trunkline.gateway.config import SYNTHETIC_DEFAULTS
from trunkline.gateway.drive.synthetic import READER_LAG, TURN_BYTES, SyntheticAdapter
from trunkline.protocol import names
from trunkline.protocol.errors import Overflow, Refusal
from trunkline.protocol.limits import Limits
from trunkline.protocol.validate import compiled

from tests.support.hubs import Seat, Taker, request
from tests.support.trace import check

PATIENCE_S = 60


def made(limits: Limits | None = None, journal: tuple[int, int] = (4096, 8 << 20), **options: Any) -> SyntheticAdapter:
    return SyntheticAdapter("load", {**SYNTHETIC_DEFAULTS, **options}, limits or Limits(), *journal)


def run(body: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await body()

    asyncio.run(main())


def ask(kind: str, **payload: Any) -> dict[str, Any]:
    return request(kind, payload).as_dict()


async def submit(hub: Hub, session: str = "s") -> str:
    message = {"role": "user", "content": "go"}
    answer = await hub.submit(session, ask(names.SUBMIT, session_id=session, delivery="auto", messages=[message]))
    assert answer.run_id is not None
    return answer.run_id


async def opened(adapter: SyntheticAdapter, limits: Limits | None = None) -> Hub:
    hub = Hub({"load": adapter, "memory": MemoryAdapter()}, limits=limits)
    await hub.open("load", ask(names.OPEN, session_id="s"))
    return hub


@pytest.mark.parametrize(
    ("deltas", "size"), [(0, 350), (1, 1), (31, 10), (32, 10), (33, 10), (1000, 350), (9, TURN_BYTES), (3, 1 << 20)]
)
def test_it_plays_so_many_deltas_of_so_many_bytes(deltas: int, size: int) -> None:
    async def body() -> None:
        hub = await opened(made(deltas=deltas, delta_bytes=size))
        events = hub.subscribe("s")
        await submit(hub)
        got = [event.envelope.as_dict() async for event in events]
        texts = [event["payload"]["part"]["text"] for event in got if event["type"] == names.CONTENT_DELTA]
        assert [len(text.encode()) for text in texts] == [size] * deltas
        assert got[-1]["type"] == names.RUN_COMPLETED
        assert got[-1]["payload"]["final_response"]["content"] == "".join(texts)
        assert len({event["payload"].get("message_id") for event in got[1:-1]}) == min(1, deltas)
        assert [event["sequence"] for event in got] == list(range(1, deltas + 3))
        if deltas < 100 and size < 100:
            check(got)

    run(body)


def test_a_text_that_no_frame_holds_becomes_a_summary() -> None:
    async def body() -> None:
        limits = Limits(frame_bytes=50_000)
        hub = await opened(made(limits, deltas=100, delta_bytes=1000), limits)
        events = hub.subscribe("s")
        await submit(hub)
        last = [event async for event in events][-1]
        content = last.envelope.payload["final_response"]["content"]
        assert content == "100 deltas of 1000 bytes were sent"
        assert len(last.bytes) < limits.frame_bytes

    run(body)


@pytest.mark.parametrize("interval", [0, 1])
def test_it_stops_at_once_wherever_it_is(interval: int) -> None:
    async def body() -> None:
        hub = await opened(made(deltas=100_000, interval_ms=interval))
        for taken in (0, 1, 3, 40):
            events = hub.subscribe("s")
            run_id = await submit(hub)
            got: list[Event] = []
            while len(got) < taken:
                got.append(await anext(events))
            answer = await hub.cancel("s", ask(names.CANCEL, session_id="s", run_id=run_id))
            assert answer.payload["status"] == "cancelling"
            got += [event async for event in events]
            assert [event.type for event in got[-2:]] == [names.RUN_STATUS, names.RUN_CANCELLED]
            check(event.envelope.as_dict() for event in got)
        assert (await hub.state("s")).payload["status"] == "idle"
        await asyncio.sleep(0.01)
        await hub.close("s")

    run(body)


def test_a_reservation_plays_after_the_run_before_it() -> None:
    async def body() -> None:
        hub = await opened(made(deltas=50))
        events = hub.subscribe("s")
        runs = [await submit(hub), await submit(hub)]
        with pytest.raises(Refusal, match="run_active"):
            await submit(hub)
        got = [event.envelope.as_dict() async for event in events]
        assert [event["run_id"] for event in got] == [runs[0]] * 52 + [runs[1]] * 52
        check(got)

    run(body)


def test_closing_with_a_live_run_is_refused_and_the_sweep_ends_it() -> None:
    async def body() -> None:
        hub = await opened(made(deltas=1 << 40))
        await submit(hub)
        with pytest.raises(Refusal, match="run_active"):
            await hub.close("s")
        assert await hub.aclose() == []
        assert (await hub.state("s")).payload["status"] == "closed"

    run(body)


@pytest.mark.parametrize("options", [{}, {"interval_ms": 1}, {"delta_bytes": 1 << 20}, {"pace": "reader"}])
def test_a_second_session_is_served_meanwhile(options: dict[str, Any]) -> None:
    async def body() -> None:
        hub = await opened(made(**{"deltas": 1 << 40, **options}))
        await submit(hub)
        await hub.open("memory", ask(names.OPEN, session_id="m"))
        events = hub.subscribe("m")
        await submit(hub, "m")
        kinds = []
        async for event in events:
            kinds.append(event.type)
            if event.type == names.PERMISSION_REQUESTED:
                asked = event.envelope.payload
                about = ("interaction_id", "requested_by", "responded_by", "session_id", "run_id")
                answer = {**{name: asked[name] for name in about}, "granted": False}
                await hub.resolve("m", ask(names.RESOLVE_PERMISSION, **answer))
        assert kinds[-1] == names.RUN_FAILED
        assert (await hub.state("s")).payload["status"] == "running"
        await hub.aclose()

    run(body)


class Slow:
    """A reader that takes a few events every now and then, never in its own turn."""

    def __init__(self, hub: Hub, most: int) -> None:
        self.most = most
        self.taker = Taker(greedy=False)
        self.taker.subscription = hub.switch.subscribe("s", self.taker, None, None)
        self.behind = 0

    async def read(self) -> None:
        subscription = self.taker.subscription
        assert subscription is not None
        while not subscription.over:
            for _ in range(3):
                await asyncio.sleep(0)
            self.behind = max(self.behind, subscription.lag)
            self.taker.take(self.most)


@pytest.mark.parametrize(
    ("journal", "size"), [((4096, 8 << 20), 350), ((4, 8 << 20), 10), ((1, 8 << 20), 10), ((4096, 20_000), 5000)]
)
@pytest.mark.parametrize("most", [1, 5, 500])
def test_paced_by_its_readers_it_loses_none(journal: tuple[int, int], size: int, most: int) -> None:
    async def body() -> None:
        hub = await opened(made(journal=journal, deltas=300, delta_bytes=size, pace="reader"))
        readers = [Slow(hub, most), Slow(hub, 500)]
        await submit(hub)
        await asyncio.gather(*(reader.read() for reader in readers))
        for reader in readers:
            assert reader.taker.outcome is None
            assert reader.taker.sequences == list(range(1, 303))
            assert reader.behind <= 2 * READER_LAG

    run(body)


def test_free_running_it_waits_for_nobody() -> None:
    async def body() -> None:
        hub = await opened(made(deltas=3000))
        stalled, reader = Taker(greedy=False), hub.subscribe("s")
        stalled.subscription = hub.switch.subscribe("s", stalled, None, None)
        await submit(hub)
        assert [event.sequence async for event in reader] == list(range(1, 3003))
        assert isinstance(stalled.outcome, Overflow)
        assert stalled.outcome.last_sequence == 64
        stalled.take_all()
        assert stalled.sequences == list(range(1, 65))

    run(body)


def test_a_paced_run_whose_reader_leaves_goes_on() -> None:
    async def body() -> None:
        hub = await opened(made(deltas=500, pace="reader"))
        stalled = Taker(greedy=False)
        stalled.subscription = hub.switch.subscribe("s", stalled, None, None)
        run_id = await submit(hub)
        for _ in range(50):
            await asyncio.sleep(0)
        stream = hub.switch.session("s").stream
        assert READER_LAG < stream.runs[run_id].sequence <= 2 * READER_LAG + 1
        stalled.subscription.detach()
        last = [event.type async for event in hub.subscribe("s", after=0)][-1]
        assert last == names.RUN_COMPLETED

    run(body)


class Blocked(Taker):
    """A reader whose sink takes nothing."""

    blocked = True


def test_a_blocked_sink_is_waited_for_within_its_grace_only() -> None:
    async def body() -> None:
        limits = Limits(stall_s=0.001, stall_run_s=0.003)
        hub = await opened(made(limits, deltas=1000), limits)
        blocked = Blocked(greedy=False)
        blocked.subscription = hub.switch.subscribe("s", blocked, None, None)
        run_id = await submit(hub)
        session = hub.switch.session("s")
        await session.settled_down()
        assert isinstance(blocked.outcome, Overflow)
        assert session.stream.runs[run_id].sequence == 1002

    run(body)


def test_the_descriptor_is_sound_and_promises_no_more_than_there_is() -> None:
    revision, payload = made().describe()
    compiled(names.RESPONSE_OF[names.CAPABILITIES], json.dumps(payload).encode())
    seat = Seat({"load": made()})
    seat.open(adapter="load")
    assert seat.switch.capabilities("load").capability_revision == revision
    features = payload["features"]
    for control, key in (
        ({"model_id": "x"}, "run.model_selection"),
        ({"instructions": "x"}, "run.instructions"),
        ({"tool_choice": {"allowed": []}}, "run.tool_selection"),
        ({"output_schema": {}}, "run.structured_output"),
    ):
        assert key not in features
        with pytest.raises(Refusal, match="unsupported_feature"):
            seat.submit(**control)
    for refused in (seat.models, seat.tools):
        with pytest.raises(Refusal, match="unsupported_feature"):
            refused()
    with pytest.raises(Refusal, match="unsupported_feature"):
        seat.open("t", adapter="load", tool_sources=[{"id": "a", "kind": "local"}])
    assert seat.state()["status"] == "idle"


def test_an_interval_is_kept_although_readers_move() -> None:
    async def body() -> None:
        hub = await opened(made(deltas=5, interval_ms=3_600_000, pace="reader"))
        events = hub.subscribe("s")
        run_id = await submit(hub)
        assert [(await anext(events)).type for _ in range(2)] == [names.RUN_STARTED, names.CONTENT_DELTA]
        for _ in range(100):
            await asyncio.sleep(0)
            await hub.subscribe("s", after=0).aclose()
        assert hub.switch.session("s").stream.runs[run_id].sequence == 2
        await hub.aclose()

    run(body)
