"""A session that is still opening when nobody waits for it any more: its harness goes at once (decision 11)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from trunkline.protocol import names

from tests.support.fake_codec import READY, FakeFactory
from tests.support.procs import running, until
from tests.support.stages import QUICK, Stage, order, play

SLOW = QUICK.replace(harness_start_s=600.0)
NEVER_READY = "deaf(); subprocess.Popen(SLEEP, start_new_session=True); time.sleep(600)"
WHEN_ASKED = "[_ for _ in zip(range(2), lines())]; tell('note asked'); list(lines()); sys.exit(3)"


def begin(stage: Stage) -> asyncio.Future[Any]:
    opening = stage.adapter.open(order(names.OPEN), stage.outlet)
    assert isinstance(opening, asyncio.Future)
    return opening


@pytest.mark.parametrize("body", [NEVER_READY, WHEN_ASKED])
def test_an_open_that_is_given_up_stops_its_harness_at_once(loop: str, mark: str, body: str) -> None:
    async def use(stage: Stage) -> None:
        opening = begin(stage)
        await until(lambda: bool(running(mark)), "the harness")
        opening.cancel()
        await until(lambda: not stage.keeper.pids, "the end of the harness")
        assert not running(mark)
        assert "closing" in stage.codec.calls
        assert stage.codec.calls[-1] == "closed"

    stage = play(loop, Stage(FakeFactory(mark, body), SLOW), use)
    assert stage.outlet.failures == []
    assert stage.outlet.drafts == []


def test_settling_waits_for_a_harness_whose_open_was_given_up(loop: str, mark: str) -> None:
    async def use(stage: Stage) -> None:
        opening = begin(stage)
        await until(lambda: len(running(mark)) == 2, "the harness and its child")
        opening.cancel()
        assert await stage.keeper.settle(10) == []
        assert not running(mark)

    play(loop, Stage(FakeFactory(mark, NEVER_READY), SLOW), use)


def test_an_open_that_is_given_up_as_it_succeeds_leaves_no_harness(loop: str, mark: str) -> None:
    async def use(stage: Stage) -> None:
        opening = begin(stage)
        receive = stage.codec.receive

        def late(frame: bytes) -> Any:
            opening.cancel()
            return receive(frame)

        stage.codec.receive = late  # type: ignore[method-assign]  # the moment between ready and told
        await until(lambda: not stage.keeper.pids, "the end of the harness")
        assert stage.codec.calls[-1] == "closed"

    play(loop, Stage(FakeFactory(mark, READY + "list(lines())"), SLOW), use)


def test_an_open_that_has_failed_is_not_stopped_again(loop: str, mark: str) -> None:
    async def use(stage: Stage) -> None:
        opening = begin(stage)
        with pytest.raises(Exception, match="exited with code 5"):
            await opening
        assert not opening.cancel()
        await until(lambda: not stage.keeper.pids, "the end of the harness")
        assert "closing" not in stage.codec.calls

    play(loop, Stage(FakeFactory(mark, "sys.exit(5)"), SLOW), use)
