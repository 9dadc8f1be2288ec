"""One `ProcessAdapter` over the codec of `fake_codec`, without a hub above it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from trunkline.adapters.base import Settings
from trunkline.gateway.drive.adapter import ProcessAdapter
from trunkline.gateway.drive.keeper import Keeper
from trunkline.gateway.hub.ports import AdapterSession
from trunkline.protocol import names
from trunkline.protocol.envelope import Envelope
from trunkline.protocol.limits import Limits

from tests.support.fake_codec import READY, FakeCodec, FakeFactory
from tests.support.outlets import RecordingOutlet
from tests.support.procs import run

QUICK = Limits(harness_stop_s=0.3, harness_drain_s=0.2)


def order(kind: str, run_id: str | None = None, **payload: Any) -> Envelope:
    return Envelope(kind, "q", payload, session_id="s1", run_id=run_id)


async def answer(outcome: Any) -> Any:
    return await outcome if isinstance(outcome, asyncio.Future) else outcome


class Stage:
    """One adapter over one factory, with what a test needs at hand."""

    def __init__(self, factory: FakeFactory, limits: Limits = QUICK, settings: Settings | None = None) -> None:
        self.keeper = Keeper(adopt=True)
        self.factory = factory
        self.adapter = ProcessAdapter("fake", factory, limits, 100, 1 << 20, settings=settings, keeper=self.keeper)
        self.outlet = RecordingOutlet()

    async def open(self, outlet: RecordingOutlet | None = None) -> AdapterSession:
        session: AdapterSession = await answer(self.adapter.open(order(names.OPEN), outlet or self.outlet))
        return session

    async def submit(self, session: AdapterSession, run_id: str = "run-1") -> None:
        await answer(session.submit(order(names.SUBMIT, run_id)))

    @property
    def codec(self) -> FakeCodec:
        return self.factory.codecs[0]


def play(loop: str, stage: Stage, use: Callable[[Stage], Awaitable[None]]) -> Stage:
    """Run a test on a loop; afterwards every process is gone."""

    async def main() -> None:
        try:
            await use(stage)
        finally:
            assert await stage.keeper.settle(10) == []
            assert stage.keeper.sweep_now() == []
            stage.keeper.close()
            for _ in range(5):
                await asyncio.sleep(0)

    run(loop, main())
    return stage


async def closed(session: AdapterSession) -> None:
    await answer(session.close())


ONE_RUN = (
    READY
    + """
for words in orders():
    if words[0] == "submit":
        tell(f"ok {words[1]}", f"start {words[2]}", f"delta {words[2]} hello", f"done {words[2]}")
    if words[0] == "bye":
        break
"""
)
