"""Sessions of the hub on real processes: the queue, several gates at once, a slow reader, closing and the sweep."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from trunkline.gateway import Hub
from trunkline.gateway.drive.adapter import ProcessAdapter
from trunkline.gateway.drive.keeper import Keeper
from trunkline.gateway.hub.subscription import Subscription
from trunkline.protocol import names
from trunkline.protocol.errors import Refusal
from trunkline.protocol.limits import Limits

from tests.support.fake_codec import READY, REVISION, FakeFactory
from tests.support.procs import run, running, until

QUICK = Limits(harness_stop_s=0.3, harness_drain_s=0.2)
HEAD = {"protocol": names.PROTOCOL, "version": names.VERSION, "profile": names.PROFILE, "id": "q"}


class House:
    """A hub with one adapter, and the requests of a host."""

    def __init__(self, factory: FakeFactory, limits: Limits = QUICK, participant: str = "user") -> None:
        self.keeper = Keeper(adopt=True)
        self.factory = factory
        self.seen: list[tuple[str, str, Any]] | None = None
        self.hub = Hub({"fake": ProcessAdapter("fake", factory, limits, keeper=self.keeper)}, limits, participant)
        self.participant = participant

    async def open(self, session: str = "s1") -> None:
        await self.hub.open("fake", {**HEAD, "type": names.OPEN, "payload": {"session_id": session}})

    async def submit(self, session: str = "s1", delivery: str = "auto") -> Any:
        messages = [{"role": "user", "content": "go"}]
        payload = {"session_id": session, "delivery": delivery, "messages": messages}
        response = await self.hub.submit(
            session, {**HEAD, "type": names.SUBMIT, "session_id": session, "payload": payload}
        )
        return response.payload

    async def resolve(self, gate: str, run_id: str = "run-1") -> Any:
        payload = {
            "session_id": "s1",
            "run_id": run_id,
            "interaction_id": gate,
            "requested_by": "fake",
            "responded_by": self.participant,
            "choice_id": "allow",
            "granted": True,
        }
        scope = {"session_id": "s1", "run_id": run_id, "capability_revision": REVISION}
        return await self.hub.resolve("s1", {**HEAD, **scope, "type": names.RESOLVE_PERMISSION, "payload": payload})

    async def cancel(self, run_id: str) -> Any:
        scope = {"session_id": "s1", "run_id": run_id}
        return await self.hub.cancel("s1", {**HEAD, **scope, "type": names.CANCEL, "payload": scope})

    def events(self, session: str = "s1") -> list[tuple[str, str, Any]]:
        """Return what is in the journal, or was in it before the end: run, type, payload."""
        if self.seen is not None:
            return self.seen
        reader = Quiet()
        subscription = Subscription(self.hub.switch.session(session).stream, reader, 0, None)
        from trunkline.protocol.json import loads

        found = []
        while entries := subscription.take():
            for _sequence, text in entries:
                value = loads(text)
                found.append((value["run_id"], value["type"], value["payload"]))
        return found

    def types(self) -> list[tuple[str, str]]:
        return [(run_id, kind) for run_id, kind, _ in self.events() if kind != names.CONTENT_DELTA]


class Quiet:
    """A reader that nobody waits for."""

    blocked = False

    def ready(self, subscription: Subscription) -> None:
        return

    def drain(self, subscription: Subscription) -> None:
        return


def play(loop: str, house: House, use: Callable[[House], Awaitable[None]]) -> House:
    async def main() -> None:
        try:
            await use(house)
        finally:
            if "s1" in house.hub.switch.table:
                house.seen = house.events()
            assert await house.hub.aclose() == []
            assert await house.keeper.settle(10) == []
            assert house.keeper.sweep_now() == []
            house.keeper.close()

    run(loop, main())
    return house


QUEUE = (
    READY
    + """
waiting = []
for words in orders():
    if words[0] == "submit":
        tell(f"ok {words[1]}", f"start {words[2]}")
        waiting.append(words[2])
        if len(waiting) == 1:
            continue  # the first run lives until the host has queued two more
        tell(f"delta {words[2]} x", f"done {words[2]}")
    if words[0] == "cancel":
        tell(f"ok {words[1]}", f"delta {waiting[0]} last", f"done {waiting[0]}")
    if words[0] == "bye":
        break
"""
)


def test_queued_runs_are_promoted_within_the_publish_that_ends_the_run_before(loop: str, mark: str) -> None:
    async def use(house: House) -> None:
        await house.open()
        first = await house.submit()
        assert first["admission"] == "started"
        for _ in range(2):
            assert (await house.submit())["admission"] == "queued"
        await house.cancel(first["run_id"])
        await until(lambda: sum(kind == names.RUN_COMPLETED for _, kind in house.types()) == 3, "three runs")

    house = play(loop, House(FakeFactory(mark, QUEUE)), use)
    order = [pair for pair in house.types() if pair[1] != names.RUN_STATUS]
    runs = list(dict.fromkeys(run_id for run_id, _ in order))
    assert len(runs) == 3
    assert order == [(run_id, kind) for run_id in runs for kind in (names.RUN_STARTED, names.RUN_COMPLETED)]
    assert house.factory.codecs[0].calls.count("request submit") == 3


def test_runs_that_wait_when_the_harness_dies_fail_with_the_reason(loop: str, mark: str) -> None:
    async def use(house: House) -> None:
        await house.open()
        first = await house.submit()
        await house.submit()
        with pytest.raises(Refusal):
            await house.cancel(first["run_id"])
        await until(lambda: sum(kind == names.RUN_FAILED for _, kind in house.types()) == 2, "two failures")
        with pytest.raises(Refusal, match="exited with code 9"):
            await house.submit()

    body = QUEUE.replace("""tell(f"ok {words[1]}", f"delta {waiting[0]} last", f"done {waiting[0]}")""", "sys.exit(9)")
    house = play(loop, House(FakeFactory(mark, body)), use)
    failures = [payload["error"]["message"] for _, kind, payload in house.events() if kind == names.RUN_FAILED]
    assert len(failures) == 2
    assert all("exited with code 9" in message for message in failures)


GATES = (
    READY
    + """
words = next(orders())
run = words[2]
tell(f"ok {words[1]}", f"start {run}", *(f"gate {run} g{n}" for n in range(5)))
for words in orders():
    if words[0] == "resolve":
        tell(f"ok {words[1]}", f"closed {run} {words[3]}", f"delta {run} {words[3]}")
        if words[3] == "g1":
            tell(f"done {run}")
    if words[0] == "bye":
        break
"""
)


def test_several_gates_are_open_at_once_and_answered_in_any_order(loop: str, mark: str) -> None:
    async def use(house: House) -> None:
        await house.open()
        run_id = (await house.submit())["run_id"]
        await until(lambda: len(house.types()) >= 6, "five gates")
        for gate in ("g3", "g0"):
            assert (await house.resolve(gate, run_id)).payload["accepted"] is True
        with pytest.raises(Refusal) as caught:
            await house.resolve("g3", run_id)
        assert caught.value.code == names.RESOLUTION_REJECTED
        await asyncio.gather(*(house.resolve(gate, run_id) for gate in ("g4", "g2", "g1")))
        await until(lambda: house.types()[-1][1] == names.RUN_COMPLETED, "the end")

    house = play(loop, House(FakeFactory(mark, GATES)), use)
    resolved = [payload["interaction_id"] for _, kind, payload in house.events() if kind == names.PERMISSION_RESOLVED]
    assert resolved[:2] == ["g3", "g0"]
    assert sorted(resolved) == [f"g{n}" for n in range(5)]


def test_whoever_opened_the_session_answers_its_gates(loop: str, mark: str) -> None:
    async def use(house: House) -> None:
        await house.open()
        run_id = (await house.submit())["run_id"]
        await until(lambda: len(house.types()) >= 6, "five gates")
        await house.resolve("g1", run_id)
        await until(lambda: house.types()[-1][1] == names.RUN_COMPLETED, "the end")

    house = play(loop, House(FakeFactory(mark, GATES), participant="alice"), use)
    gates = [payload for _, kind, payload in house.events() if kind in names.GATES]
    assert len(gates) == 10
    assert {payload["responded_by"] for payload in gates} == {"alice"}


FLOOD = (
    READY
    + """
words = next(orders())
run = words[2]
tell(f"ok {words[1]}", f"start {run}")
for n in range(60):
    tell(*(f"delta {run} {n}-{m}" for m in range(50)))
tell(f"done {run}")
list(lines())
"""
)


class Slow(Quiet):
    """A reader whose sink is blocked now and then, and takes a little when it is not."""

    def __init__(self) -> None:
        self.blocked = False
        self.taken = 0
        self.outcome: BaseException | None = None

    def ready(self, subscription: Subscription) -> None:
        asyncio.get_running_loop().call_soon(self.pump, subscription)

    def drain(self, subscription: Subscription) -> None:
        if not self.blocked:
            self.pump(subscription)

    def pump(self, subscription: Subscription) -> None:
        if self.blocked:
            return
        entries = subscription.take(16)
        self.taken += len(entries)
        if subscription.over:
            self.outcome = subscription.outcome
            return
        if entries:
            self.blocked = True
            asyncio.get_running_loop().call_later(0.001, self.free, subscription)

    def free(self, subscription: Subscription) -> None:
        self.blocked = False
        self.pump(subscription)


def test_a_host_that_is_slow_but_reads_loses_nothing_within_its_grace(loop: str, mark: str) -> None:
    reader = Slow()

    async def use(house: House) -> None:
        await house.open()
        subscription = house.hub.switch.subscribe("s1", reader, None, None)
        start = getattr(subscription, "start", None)
        if start is not None:
            start()
        await house.submit()
        await until(lambda: reader.taken == 3002 or reader.outcome is not None, "all of it")

    play(loop, House(FakeFactory(mark, FLOOD), QUICK.replace(stall_s=5.0, stall_run_s=60.0)), use)
    assert reader.outcome is None
    assert reader.taken == 3002


def test_the_hub_closes_deaf_harnesses_and_all_that_they_started(loop: str, mark: str) -> None:
    body = (
        READY
        + """
deaf()
subprocess.Popen(SLEEP, start_new_session=True)
for words in orders():
    if words[0] in ("submit", "cancel"):
        tell(f"ok {words[1]}", *([f"start {words[2]}"] if words[0] == "submit" else []))
time.sleep(600)
"""
    )

    async def use(house: House) -> None:
        for number in range(3):
            await house.open(f"s{number}")
            await house.submit(f"s{number}")
        assert len(running(mark)) >= 3
        assert await house.hub.aclose() == []
        assert not running(mark)

    play(loop, House(FakeFactory(mark, body), QUICK.replace(sweep_s=8.0)), use)


def test_an_open_that_fails_leaves_no_session_and_says_why(loop: str, mark: str) -> None:
    async def use(house: House) -> None:
        with pytest.raises(Refusal, match="no license to code") as caught:
            await house.open()
        assert caught.value.code == names.OPEN_FAILED
        assert caught.value.details == {"cause": "harness_exited"}
        assert house.hub.sessions() == {"sessions": []}

    play(loop, House(FakeFactory(mark, "os.write(2, b'no license to code\\n'); sys.exit(1)")), use)
