"""A codec on a real process, seen from the port: batches, order, deadlines, the sink gate."""

from __future__ import annotations

import asyncio
import logging

import pytest
from trunkline.adapters.base import Settings
from trunkline.gateway.drive.adapter import ProcessAdapter
from trunkline.protocol import names
from trunkline.protocol.errors import Refusal
from trunkline.protocol.limits import Limits

from tests.support.fake_codec import READY, FakeFactory
from tests.support.procs import running, until
from tests.support.stages import ONE_RUN, QUICK, Stage, closed, order, play

# -- the usual way --


def test_a_run_from_open_to_close(loop: str, mark: str) -> None:
    async def use(stage: Stage) -> None:
        session = await stage.open()
        await stage.submit(session)
        await until(lambda: len(stage.outlet.drafts) == 3, "the run")
        await closed(session)
        await closed(session)
        assert not running(mark)

    stage = play(loop, Stage(FakeFactory(mark, ONE_RUN)), use)
    assert stage.outlet.types("run-1") == [names.RUN_STARTED, names.RUN_COMPLETED]
    assert stage.outlet.texts("run-1") == ["hello"]
    assert stage.codec.calls[-2:] == ["closing", "closed"]
    assert stage.codec.how is not None
    assert stage.codec.how.code == 0
    assert stage.outlet.failures == []


def test_the_port_tells_what_the_codec_tells(loop: str, mark: str) -> None:
    async def use(stage: Stage) -> None:
        assert stage.adapter.journal() == (100, 1 << 20)
        assert stage.adapter.describe()[0] == "fake-v1"
        session = await stage.open()
        session.prepare("run-1")
        assert (session.models(), session.tools(), session.facts()) == (None, None, {})
        await closed(session)

    play(loop, Stage(FakeFactory(mark, ONE_RUN)), use)
    assert ProcessAdapter("x", FakeFactory(mark, ""), Limits()).journal() == (4096, 8 << 20)


def test_frames_go_up_in_batches_of_at_most_one_turn(loop: str, mark: str) -> None:
    body = (
        READY
        + """
words = next(orders())
run = words[2]
tell(f"ok {words[1]}", f"start {run}", *(f"delta {run} {n}" for n in range(998)), f"done {run}")
list(lines())
"""
    )
    ticks: list[int] = []

    async def use(stage: Stage) -> None:
        here = asyncio.get_running_loop()
        count = 0

        def tick() -> None:
            nonlocal count
            count += 1
            if not stage.outlet.drafts or stage.outlet.drafts[-1][1] != names.RUN_COMPLETED:
                here.call_soon(tick)

        stage.outlet.hook = lambda drafts: ticks.append(count)
        session = await stage.open()
        await stage.submit(session)
        here.call_soon(tick)
        await until(lambda: len(stage.outlet.drafts) == 1000, "the run")
        await closed(session)

    stage = play(loop, Stage(FakeFactory(mark, body)), use)
    sizes = [len(batch) for batch in stage.outlet.batches]
    assert max(sizes) == 32
    assert len(sizes) < 100
    assert stage.outlet.texts("run-1") == [str(n) for n in range(998)]
    assert len(set(ticks)) >= len(ticks) - 2  # others had their turn between any two batches


def test_an_answer_comes_after_what_was_said_before_it(loop: str, mark: str) -> None:
    body = (
        READY
        + """
words = next(orders())
run = words[2]
tell(f"start {run}", f"delta {run} before", f"ok {words[1]}", f"delta {run} after", f"write behind", f"done {run}")
tell("delta run-1 late " + " ".join(next(orders())))
list(lines())
"""
    )
    seen: list[list[str]] = []

    async def use(stage: Stage) -> None:
        session = await stage.open()
        submitted = session.submit(order(names.SUBMIT, "run-1"))
        assert isinstance(submitted, asyncio.Future)
        submitted.add_done_callback(lambda _: seen.append(stage.outlet.texts("run-1")))
        await submitted
        await until(lambda: len(stage.outlet.texts("run-1")) == 3, "the echo")
        await closed(session)

    stage = play(loop, Stage(FakeFactory(mark, body)), use)
    assert seen[0][0] == "before"
    assert stage.outlet.texts("run-1") == ["before", "after", "late behind"]


def test_a_refused_submit_is_refused_and_the_session_goes_on(loop: str, mark: str) -> None:
    body = (
        READY
        + """
for words in orders():
    if words[0] == "submit":
        tell(f"no {words[1]}" if words[2] == "run-1" else f"ok {words[1]}")
"""
    )

    async def use(stage: Stage) -> None:
        session = await stage.open()
        with pytest.raises(Refusal, match="the harness says no") as caught:
            await stage.submit(session)
        assert caught.value.code == names.INVALID_SUBMISSION
        await stage.submit(session, "run-2")
        await closed(session)

    stage = play(loop, Stage(FakeFactory(mark, body)), use)
    assert stage.outlet.types("run-1") == []


def test_deadlines_come_back_unless_disarmed(loop: str, mark: str) -> None:
    body = (
        READY
        + """
tell("arm kept 0.05", "arm moved 0.01", "arm moved 0.06", "arm never 0.02", "disarm never", "disarm unknown")
seen = [next(orders()), next(orders())]
tell("stop" if seen == [["elapsed", "kept"], ["elapsed", "moved"]] else f"note {seen}")
list(lines())
"""
    )

    async def use(stage: Stage) -> None:
        await stage.open()
        await until(lambda: "closed" in stage.codec.calls, "the stop that the codec asked for")

    stage = play(loop, Stage(FakeFactory(mark, body)), use)
    assert [call for call in stage.codec.calls if call.startswith("elapsed")] == ["elapsed kept", "elapsed moved"]
    assert len(stage.outlet.failures) == 1


def test_no_deadline_comes_after_the_end(loop: str, mark: str) -> None:
    async def use(stage: Stage) -> None:
        await stage.open()
        await until(lambda: "closed" in stage.codec.calls, "the end")
        await asyncio.sleep(0.1)

    stage = play(loop, Stage(FakeFactory(mark, READY + "tell('arm late 0.05'); sys.exit(0)")), use)
    assert "elapsed late" not in stage.codec.calls


def test_the_end_of_input_is_the_codecs_to_ask_for(loop: str, mark: str) -> None:
    body = READY + "tell('eof'); list(lines()); tell('note input is over'); sys.exit(4)"

    async def use(stage: Stage) -> None:
        await stage.open()
        await until(lambda: "closed" in stage.codec.calls, "the end")

    stage = play(loop, Stage(FakeFactory(mark, body)), use)
    assert "receive note input is over" in stage.codec.calls
    assert stage.codec.how is not None
    assert stage.codec.how.code == 4


def test_notes_are_logged_bounded_and_redacted(loop: str, mark: str, caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings("fake", QUICK, environment={"MODE": "hush-hush"})
    factory = FakeFactory(mark, READY + "tell('note see hush-hush ' + 'x' * 5000); list(lines())")

    async def use(stage: Stage) -> None:
        session = await stage.open()
        await until(lambda: "receive much" in stage.codec.calls, "the note")
        await closed(session)

    with caplog.at_level(logging.INFO, "trunkline"):
        play(loop, Stage(factory, settings=settings), use)
    (record,) = [record for record in caplog.records if "see [redacted]" in record.getMessage()]
    assert record.name == "trunkline"
    assert "fake/'s1'" in record.getMessage()
    assert len(record.getMessage()) < 500


# -- the sink gate --


BURST = (
    READY
    + """
words = next(orders())
run = words[2]
tell(f"ok {words[1]}", f"start {run}", *(f"delta {run} {n}" for n in range(500)), f"done {run}")
list(lines())
"""
)


def test_a_congested_host_holds_its_harness_until_it_moves(loop: str, mark: str) -> None:
    async def use(stage: Stage) -> None:
        session = await stage.open()
        await stage.submit(session)
        stage.outlet.congested = True
        await until(lambda: bool(stage.outlet.watchers), "the stall")
        held = len(stage.outlet.drafts)
        assert held < 502
        await asyncio.sleep(0.05)
        stage.outlet.progress()  # it moved, but is blocked again: the stall goes on
        await until(lambda: bool(stage.outlet.watchers), "the stall")
        assert len(stage.outlet.drafts) == held
        stage.outlet.congested = False
        stage.outlet.progress()
        await until(lambda: len(stage.outlet.drafts) == 502, "the rest")
        await closed(session)

    limits = QUICK.replace(stall_s=60.0, stall_run_s=60.0)
    stage = play(loop, Stage(FakeFactory(mark, BURST), limits), use)
    assert stage.outlet.texts("run-1") == [str(n) for n in range(500)]


def test_a_host_that_never_moves_holds_its_harness_for_a_bounded_time(loop: str, mark: str) -> None:
    async def use(stage: Stage) -> None:
        session = await stage.open()
        stage.outlet.congested = True
        await stage.submit(session)
        await until(lambda: len(stage.outlet.drafts) == 502, "all of it")
        await closed(session)

    play(loop, Stage(FakeFactory(mark, BURST), QUICK.replace(stall_s=0.01, stall_run_s=0.05)), use)


def test_a_host_without_grace_holds_nothing(loop: str, mark: str) -> None:
    async def use(stage: Stage) -> None:
        session = await stage.open()
        stage.outlet.congested = True
        await stage.submit(session)
        await until(lambda: len(stage.outlet.drafts) == 502, "all of it")
        assert not stage.outlet.watchers
        await closed(session)

    play(loop, Stage(FakeFactory(mark, BURST), QUICK.replace(stall_s=0, stall_run_s=0)), use)


def test_a_harness_that_dies_behind_a_congested_host_has_its_last_words(loop: str, mark: str) -> None:
    async def use(stage: Stage) -> None:
        session = await stage.open()
        stage.outlet.congested = True
        await stage.submit(session)
        await until(lambda: "closed" in stage.codec.calls, "the end")
        assert len(stage.outlet.drafts) == 502
        await closed(session)

    limits = QUICK.replace(stall_s=0.3, stall_run_s=1.0)
    play(loop, Stage(FakeFactory(mark, BURST.replace("list(lines())", "sys.exit(0)")), limits), use)
