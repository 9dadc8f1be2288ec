"""Every way in which a harness or a codec fails: who is told what, and that nobody else notices."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from trunkline.protocol import names
from trunkline.protocol.errors import HarnessFault, Refusal

from tests.support.fake_codec import READY, FakeFactory
from tests.support.outlets import RecordingOutlet
from tests.support.procs import running, until
from tests.support.stages import ONE_RUN, QUICK, Stage, answer, closed, order, play


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
    assert "fake/'s1'" in caplog.text


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
