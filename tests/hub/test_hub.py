"""`Hub`, the Python face: what it takes, what it gives, what it raises (interfaces: library)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from trunkline.adapters.memory import MemoryAdapter
from trunkline.gateway import Event, Hub, Limits, Refusal, Registry
from trunkline.protocol import names
from trunkline.protocol.envelope import Envelope
from trunkline.protocol.errors import Overflow, ReplayGap, StreamFailed

from tests.support.hubs import Fake, request, text

MESSAGE = {"role": "user", "content": "go"}


def run(body: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            await body()

    asyncio.run(main())


def order(kind: str = names.OPEN, **payload: Any) -> Envelope:
    return request(kind, payload)


def submission(session: str = "s") -> Envelope:
    return order(names.SUBMIT, session_id=session, delivery="auto", messages=[MESSAGE])


@pytest.mark.parametrize("form", [lambda e: e, lambda e: e.as_dict(), lambda e: e.encode()])
def test_a_request_is_an_envelope_a_dict_or_bytes(form: Callable[[Envelope], Any]) -> None:
    async def body() -> None:
        hub = Hub(Registry.default())
        opened = await hub.open("memory", form(order(session_id="s")))
        assert opened.session_id == "s"
        submitted = await hub.submit("s", form(submission()))
        cancel = order(names.CANCEL, session_id="s", run_id=submitted.run_id)
        assert (await hub.cancel("s", form(cancel))).payload["accepted"] is True
        await hub.close("s")

    run(body)


BAD: list[tuple[Any, str]] = [
    (None, "invalid_request"),
    (b"", "malformed_json"),
    (b"null", "invalid_request"),
    (b'{"a":1,"a":2}', "malformed_json"),
    (b"[]", "schema_invalid"),
    ({}, "schema_invalid"),
    ({"payload": object()}, "malformed_json"),
    ({"payload": "\ud800"}, "malformed_json"),
    ({**order().as_dict(), "type": "no.such.request"}, "schema_invalid"),
    ({**order().as_dict(), "payload": {"session_id": ""}}, "schema_invalid"),
    ({**order().as_dict(), "payload": {"unknown": 1}}, "schema_invalid"),
    (submission(), "type_mismatch"),
]


@pytest.mark.parametrize(("bad", "code"), BAD, ids=[f"{at}-{code}" for at, (_, code) in enumerate(BAD)])
def test_what_the_gate_refuses(bad: Any, code: str) -> None:
    async def body() -> None:
        hub = Hub(Registry.default())
        with pytest.raises(Refusal) as refused:
            await hub.open("memory", bad)
        assert refused.value.code == code
        assert hub.sessions() == {"sessions": []}

    run(body)


def test_a_request_longer_than_the_bound() -> None:
    async def body() -> None:
        hub = Hub(Registry.default(), limits=Limits(envelope_bytes=400))
        await hub.open("memory", order(session_id="s"))
        with pytest.raises(Refusal, match="request_too_large"):
            await hub.submit("s", order(names.SUBMIT, session_id="s", delivery="auto", messages=[MESSAGE] * 9))

    run(body)


def test_an_event_is_its_bytes_and_what_they_say() -> None:
    async def body() -> None:
        hub = Hub({"memory": MemoryAdapter()}, participant="someone")
        await hub.open("memory", order(session_id="s"))
        events = hub.subscribe("s")
        await hub.submit("s", submission())
        event = await anext(events)
        assert isinstance(event, Event)
        assert (event.sequence, event.type, event.run_id) == (1, names.RUN_STARTED, "run-1")
        assert event.envelope.as_dict() == json.loads(event.bytes)
        assert event.envelope is event.envelope
        asked = [await anext(events) for _ in range(3)][-1]
        assert asked.envelope.payload["responded_by"] == "someone"
        await events.aclose()

    run(body)


def test_what_is_published_between_subscribing_and_iterating_is_not_missed() -> None:
    async def body() -> None:
        hub = Hub(Registry.default())
        await hub.open("memory", order(session_id="s"))
        events = hub.subscribe("s")
        await hub.submit("s", submission())
        await asyncio.sleep(0)
        assert [(await anext(events)).sequence for _ in range(4)] == [1, 2, 3, 4]
        await hub.aclose()
        assert [event.type async for event in events][-1] == names.RUN_CANCELLED

    run(body)


def test_refusals_of_a_subscription_come_at_once() -> None:
    hub = Hub(Registry.default())
    with pytest.raises(Refusal, match="unknown_session"):
        hub.subscribe("nowhere")


def test_the_three_ends_are_raised_after_what_was_owed() -> None:
    async def body() -> None:
        fake = Fake(journal=(100, 8 << 20))
        hub = Hub({"fake": fake})
        await hub.open("fake", order(session_id="s"))
        late, session = hub.subscribe("s"), fake.sessions[0]
        current = (await hub.submit("s", submission())).run_id or ""
        session.start(current)
        session.say(*(text(current, "x") for _ in range(200)))
        assert [(await anext(late)).sequence for _ in range(64)] == list(range(1, 65))
        with pytest.raises(Overflow) as overflow:
            await anext(late)
        assert (overflow.value.run_id, overflow.value.last_sequence) == (current, 64)
        with pytest.raises(ReplayGap) as gap:
            await anext(hub.subscribe("s", after=64))
        assert (gap.value.requested_after, gap.value.oldest_available, gap.value.latest_available) == (64, 102, 201)
        resumed = hub.subscribe("s", after=110)
        session.complete(current)
        assert [event.sequence async for event in resumed] == list(range(111, 203))
        idle = hub.subscribe("s")
        session.outlet.failed("gone")
        for _ in range(2):
            with pytest.raises(StreamFailed) as failed:
                await anext(idle)
            assert (failed.value.run_id, failed.value.sequence) == ("", 0)
        await hub.close("s")

    run(body)


def test_the_end_of_a_session_ends_an_iteration_quietly() -> None:
    async def body() -> None:
        hub = Hub(Registry.default())
        await hub.open("memory", order(session_id="s"))
        waiting = asyncio.ensure_future(anext(hub.subscribe("s")))
        await asyncio.sleep(0)
        await hub.close("s")
        with pytest.raises(StopAsyncIteration):
            await waiting

    run(body)


def test_adapters_capabilities_models_and_tools() -> None:
    async def body() -> None:
        hub = Hub(Registry.default())
        listed = (await hub.adapters())["adapters"]
        assert [entry["name"] for entry in listed] == ["memory"]
        assert (await hub.capabilities("memory")).payload == listed[0]["capabilities"]
        await hub.open("memory", order(session_id="s"))
        assert len((await hub.models("s")).payload["models"]) == 2
        assert len((await hub.tools("s", ["action.tools.list"])).payload["tools"]) == 1
        with pytest.raises(Refusal, match="unknown_session"):
            await hub.tools("nowhere")

    run(body)
