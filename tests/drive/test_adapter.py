"""A codec on a real process, seen from the port: batches, order, deadlines, the sink gate, and every way to die."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from trunkline.adapters.base import Settings
from trunkline.gateway.drive.adapter import ProcessAdapter
from trunkline.gateway.drive.keeper import Keeper
from trunkline.gateway.hub.ports import AdapterSession
from trunkline.protocol import names
from trunkline.protocol.envelope import Envelope
from trunkline.protocol.errors import HarnessFault, Refusal
from trunkline.protocol.limits import Limits

from tests.support.fake_codec import READY, FakeCodec, FakeFactory
from tests.support.outlets import RecordingOutlet
from tests.support.procs import run, running, until

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
    assert "fake/s1" in record.getMessage()
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


# -- the ways to die --


def test_a_crash_at_start_refuses_the_open_with_the_last_words(loop: str, mark: str) -> None:
    """PB-K08."""

    async def use(stage: Stage) -> None:
        with pytest.raises(HarnessFault, match="exited with code 1; its last words: no key in the drawer") as caught:
            await stage.open()
        assert caught.value.code == "harness_exited"
        assert len(str(caught.value)) < 500

    factory = FakeFactory(mark, "os.write(2, b'e' * 100000 + b'\\nno key in the drawer\\n'); sys.exit(1)")
    stage = play(loop, Stage(factory), use)
    assert stage.outlet.failures == []


def test_an_executable_that_is_not_there_refuses_the_open(loop: str, mark: str) -> None:
    async def use(stage: Stage) -> None:
        factory = stage.factory
        new = factory.new

        def absent() -> Any:
            codec = new()
            factory.codecs[-1]._launch.argv = ["no-such-harness-anywhere"]
            return codec

        factory.new = absent  # type: ignore[method-assign]  # the fault of a machine, not of a codec
        with pytest.raises(HarnessFault, match="no-such-harness-anywhere"):
            await stage.open()

    play(loop, Stage(FakeFactory(mark, "")), use)


def test_a_harness_that_is_never_ready_is_given_up(loop: str, mark: str) -> None:
    async def use(stage: Stage) -> None:
        with pytest.raises(HarnessFault, match="not ready within") as caught:
            await stage.open()
        assert caught.value.code == "harness_not_ready"

    play(loop, Stage(FakeFactory(mark, "deaf(); time.sleep(600)"), QUICK.replace(harness_start_s=0.3)), use)


def test_a_death_with_a_live_run_fails_it_and_every_request(loop: str, mark: str) -> None:
    """PB-K03, PB-K07, PB-X03: each waiting request gets its answer, and no completion is invented."""
    body = (
        READY
        + """
words = next(orders())
tell(f"ok {words[1]}", f"start {words[2]}", f"delta {words[2]} half")
next(orders()); next(orders())
os.write(2, b"out of luck\\n")
sys.exit(0)
"""
    ).replace("next(orders()); next(orders())", "time.sleep(0.1)")

    async def use(stage: Stage) -> None:
        session = await stage.open()
        await stage.submit(session)
        waiting = [session.cancel(order(names.CANCEL, "run-1")), session.submit(order(names.SUBMIT, "run-2"))]
        for outcome in waiting:
            with pytest.raises(Refusal):
                await answer(outcome)
        await until(lambda: bool(stage.outlet.failures), "the failure of the stream")
        with pytest.raises(Refusal, match="exited with code 0") as caught:
            session.submit(order(names.SUBMIT, "run-3"))
        assert (caught.value.code, caught.value.details) == (names.SESSION_CLOSED, {"cause": "harness_exited"})
        await closed(session)
        with pytest.raises(Refusal, match="exited with code 0"):
            session.cancel(order(names.CANCEL, "run-1"))

    stage = play(loop, Stage(FakeFactory(mark, body)), use)
    assert stage.outlet.types("run-1") == [names.RUN_STARTED, names.RUN_FAILED]
    assert "out of luck" in stage.outlet.error("run-1")["message"]
    assert len(stage.outlet.failures) == 1


def test_a_death_while_idle_is_told_and_kept(loop: str, mark: str) -> None:
    async def use(stage: Stage) -> None:
        session = await stage.open()
        await until(lambda: bool(stage.outlet.failures), "the failure of the stream")
        with pytest.raises(Refusal, match="killed by signal 9"):
            session.submit(order(names.SUBMIT, "run-1"))
        await closed(session)

    play(loop, Stage(FakeFactory(mark, READY + "os.kill(os.getpid(), 9)")), use)


def test_a_result_without_its_newline_counts_if_it_is_whole(loop: str, mark: str) -> None:
    whole = READY + "words = next(orders()); tell(f'ok {words[1]}', f'start {words[2]}')\n"
    for last, types in (
        ("os.write(1, json.dumps(f'done {words[2]}').encode()); sys.exit(0)", names.RUN_COMPLETED),
        ("os.write(1, json.dumps(f'done {words[2]}').encode()[:-1]); sys.exit(0)", names.RUN_FAILED),
    ):

        async def use(stage: Stage) -> None:
            session = await stage.open()
            await stage.submit(session)
            await until(lambda: "closed" in stage.codec.calls, "the end")
            await closed(session)

        stage = play(loop, Stage(FakeFactory(mark, whole + last)), use)
        assert stage.outlet.types("run-1") == [names.RUN_STARTED, types]


TOO_LONG = (
    READY
    + """
for words in orders():
    if words[0] == "submit":
        tell(f"ok {words[1]}", f"start {words[2]}", f"delta {words[2]} good", "x" * 5000, f"done {words[2]}")
"""
)


def test_a_line_that_is_too_long_fails_its_session_and_no_other(loop: str, mark: str) -> None:
    """PB-C01, PB-C03, PB-C06."""
    other = RecordingOutlet("s2")

    async def use(stage: Stage) -> None:
        session = await stage.open()
        neighbour = await stage.open(other)
        await stage.submit(session)
        await until(lambda: bool(stage.outlet.failures), "the failure")
        with pytest.raises(Refusal, match="harness_frame_bytes") as caught:
            session.submit(order(names.SUBMIT, "run-2"))
        assert caught.value.details == {"cause": "harness_frame_too_large"}
        await stage.submit(neighbour, "run-9")
        await until(lambda: len(other.drafts) == 3, "the neighbour's run")
        await closed(session)
        await closed(neighbour)

    stage = play(loop, Stage(FakeFactory(mark, TOO_LONG, ONE_RUN), QUICK.replace(harness_frame_bytes=4096)), use)
    assert stage.outlet.texts("run-1") == ["good"]
    assert stage.outlet.types("run-1") == [names.RUN_STARTED, names.RUN_FAILED]
    error = stage.outlet.error("run-1")
    assert error["code"] == "harness_frame_too_large"
    assert "5002 bytes" in error["message"]
    assert "4096" in error["message"]
    assert other.types("run-9")[-1] == names.RUN_COMPLETED


def test_a_long_line_within_the_limit_is_a_frame(loop: str, mark: str) -> None:
    """PB-C01: a line of more than 1 MiB under the default limit."""
    body = (
        READY
        + """
words = next(orders())
tell(f"ok {words[1]}", f"start {words[2]}", f"delta {words[2]} " + "y" * (1 << 20), f"done {words[2]}")
list(lines())
"""
    )

    async def use(stage: Stage) -> None:
        session = await stage.open()
        await stage.submit(session)
        await until(lambda: names.RUN_COMPLETED in stage.outlet.types("run-1"), "the run")
        await closed(session)

    stage = play(loop, Stage(FakeFactory(mark, body)), use)
    assert [len(text) for text in stage.outlet.texts("run-1")] == [1 << 20]


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({"harness_write_bytes": 100_000}, "harness_write_overflow"),
        ({"harness_write_s": 0.2}, "harness_write_stalled"),
    ],
)
def test_a_harness_that_does_not_read_fails_its_run(loop: str, mark: str, limits: dict[str, Any], code: str) -> None:
    body = (
        READY
        + """
words = next(orders())
tell(f"ok {words[1]}", f"start {words[2]}")
tell("write " + "z" * 90000, "write " + "z" * 90000)
time.sleep(600)
"""
    )

    async def use(stage: Stage) -> None:
        session = await stage.open()
        await stage.submit(session)
        await until(lambda: bool(stage.outlet.failures), "the failure")
        await closed(session)

    stage = play(loop, Stage(FakeFactory(mark, body), QUICK.replace(**limits)), use)
    assert stage.outlet.error("run-1")["code"] == code


BUGGY = (
    READY
    + """
for words in orders():
    if words[0] == "submit":
        tell(f"ok {words[1]}", f"start {words[2]}", WORDS)
"""
)


@pytest.mark.parametrize(
    ("raises", "words", "code"),
    [
        ("", "raise", "internal"),
        ("elapsed", "arm t 0.01", "internal"),
        ("closed", "stop", "harness_exited"),
    ],
)
def test_a_bug_in_a_codec_ends_its_session_and_no_other(
    loop: str, mark: str, raises: str, words: str, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    other = RecordingOutlet("s2")

    async def use(stage: Stage) -> None:
        session = await stage.open()
        stage.factory.raises.add(raises)
        neighbour = await stage.open(other)
        await stage.submit(session)
        await until(lambda: bool(stage.outlet.failures), "the failure")
        stage.factory.raises.clear()
        await stage.submit(neighbour, "run-9")
        await until(lambda: len(other.drafts) == 3, "the neighbour's run")
        await closed(session)
        await closed(neighbour)

    with caplog.at_level(logging.ERROR, "trunkline"):
        stage = play(loop, Stage(FakeFactory(mark, BUGGY.replace("WORDS", repr(words)), ONE_RUN)), use)
    assert stage.outlet.error("run-1")["code"] == code
    assert "a bug in" in caplog.text
    assert "fake/s1" in caplog.text


def test_a_bug_in_the_taking_of_a_request_refuses_it(loop: str, mark: str) -> None:
    async def use(stage: Stage) -> None:
        session = await stage.open()
        stage.factory.raises.add("request")
        with pytest.raises(Refusal, match="a bug in request submit") as caught:
            await stage.submit(session)
        assert caught.value.details == {"cause": "internal"}
        await until(lambda: bool(stage.outlet.failures), "the failure")
        await closed(session)

    stage = play(loop, Stage(FakeFactory(mark, ONE_RUN)), use)
    assert stage.outlet.types("run-1") == []


@pytest.mark.parametrize("where", ["launch", "connected", "request"])
def test_a_bug_in_a_codec_refuses_the_open(loop: str, mark: str, where: str) -> None:
    async def use(stage: Stage) -> None:
        with pytest.raises((HarnessFault, ValueError), match="a bug in"):
            await stage.open()

    play(loop, Stage(FakeFactory(mark, READY + "list(lines())", raises=[where])), use)


def test_an_open_that_the_harness_refuses_keeps_its_code_and_leaves_no_process(loop: str, mark: str) -> None:
    body = "words = next(w for w in orders() if w[0] == 'open'); tell(f'no {words[1]}'); deaf(); time.sleep(600)"

    async def use(stage: Stage) -> None:
        with pytest.raises(Refusal, match="the harness says no"):
            await stage.open()

    stage = play(loop, Stage(FakeFactory(mark, body)), use)
    assert stage.outlet.failures == []


def test_a_close_with_a_live_run_ends_it(loop: str, mark: str) -> None:
    body = READY + "words = next(orders()); tell(f'ok {words[1]}', f'start {words[2]}'); deaf(); time.sleep(600)"

    async def use(stage: Stage) -> None:
        session = await stage.open()
        await stage.submit(session)
        await until(lambda: bool(stage.outlet.drafts), "the start")
        await closed(session)
        assert not running(mark)

    stage = play(loop, Stage(FakeFactory(mark, body)), use)
    assert stage.outlet.types("run-1") == [names.RUN_STARTED, names.RUN_FAILED]
    assert stage.outlet.failures == []


def test_an_open_that_nobody_waits_for_any_more_is_closed_again(loop: str, mark: str) -> None:
    async def use(stage: Stage) -> None:
        opening = stage.adapter.open(order(names.OPEN), stage.outlet)
        assert isinstance(opening, asyncio.Future)
        opening.cancel()
        await until(lambda: "closed" in stage.codec.calls, "the end")

    play(loop, Stage(FakeFactory(mark, ONE_RUN)), use)


def test_of_twelve_sessions_the_silent_two_do_not_disturb_the_others(loop: str, mark: str) -> None:
    """PB-K04."""
    silent = READY + "deaf(); time.sleep(600)"
    outlets = [RecordingOutlet(f"s{number}") for number in range(12)]

    async def use(stage: Stage) -> None:
        sessions = [await stage.open(outlet) for outlet in outlets]
        submits = [session.submit(order(names.SUBMIT, "run-1")) for session in sessions]
        await asyncio.gather(*(answer(submit) for submit in submits[2:]))
        await until(lambda: all(len(outlet.drafts) == 3 for outlet in outlets[2:]), "the ten")
        assert not any(outlet.drafts for outlet in outlets[:2])
        closes = [answer(session.close()) for session in sessions]
        for submit in submits[:2]:
            with pytest.raises(Refusal):
                await answer(submit)
        await asyncio.gather(*closes)

    play(loop, Stage(FakeFactory(mark, silent, silent, ONE_RUN)), use)
