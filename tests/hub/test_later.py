"""Answers that come later: refused, withdrawn by the waiter, given up by the adapter (spec: envelopes 8; bugs N, X)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from trunkline.gateway import Hub
from trunkline.protocol import names
from trunkline.protocol.errors import HarnessFault, Refusal
from trunkline.protocol.limits import Limits

from tests.support.hubs import Fake, Seat, asking, code_of, resolved

Body = Callable[[], Coroutine[Any, Any, None]]


class Later:
    """Hands out one Future a call, to be settled by the test."""

    def __init__(self) -> None:
        self.given: list[asyncio.Future[Any]] = []

    def __call__(self, session: Any, what: Any = None) -> asyncio.Future[Any]:
        self.given.append(asyncio.get_running_loop().create_future())
        return self.given[-1]


def in_loop(body: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test on a loop, and fail on anything that the loop's handler is told."""
    faults: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context))
        await body()
        await turns()

    asyncio.run(main())
    assert faults == []


async def turns(count: int = 4) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def seated(**on: Any) -> tuple[Seat, Fake]:
    fake = Fake(**on)
    seat = Seat({"fake": fake})
    return seat, fake


def test_a_submit_that_is_refused_later_never_was() -> None:
    async def body() -> None:
        later = Later()
        seat, _ = seated(submit=later)
        seat.open(adapter="fake")
        answer = seat.submit()
        assert seat.state() == {"session_id": "s", "status": "idle"}
        second = seat.submit()
        assert second.payload["admission"] == "queued"
        assert [run["run_id"] for run in seat.state()["active_runs"]] == [second.run_id]
        seat.cancel(second.run_id)
        later.given[0].set_exception(Refusal("invalid_submission", "no"))
        with pytest.raises(Refusal, match="invalid_submission"):
            await answer
        assert seat.state()["status"] == "idle"
        assert [event["run_id"] for event in seat.published["s"]] == [second.run_id]
        assert code_of(lambda: seat.subscribe(after=0)) == "no_run_to_resume"

    in_loop(body)


@pytest.mark.parametrize("waits", [True, False])
def test_whoever_waits_behind_a_refused_submit_gets_the_turn(waits: bool) -> None:
    async def body() -> None:
        later = Later()
        seat, fake = seated(submit=later)
        seat.open(adapter="fake")
        first = seat.submit()
        second = seat.run()
        if not waits:
            first.cancel()
        later.given[0].set_exception(HarnessFault("harness_exited", "gone"))
        await turns()
        if waits:
            with pytest.raises(Refusal, match="internal: gone"):
                await first
        assert [order.run_id for order in fake.sessions[0].asked("submit")] == ["run-1", second]
        assert seat.state()["active_run_id"] == second
        fake.sessions[0].start(second)
        fake.sessions[0].complete(second)
        later.given[1].set_result(None)
        seat.check()

    in_loop(body)


def test_a_submit_refused_after_it_published_was_admitted_and_fails() -> None:
    async def body() -> None:
        later = Later()
        seat, fake = seated(submit=later)
        seat.open(adapter="fake")
        answer = seat.submit()
        fake.sessions[0].start("run-1")
        later.given[0].set_exception(HarnessFault("harness_exited", "gone"))
        assert (await answer).run_id == "run-1"
        assert seat.types() == ["run.started", "run.failed"]
        assert seat.asked(names.RUN_FAILED)["payload"]["error"] == {"code": "harness_exited", "message": "gone"}
        seat.check()

    in_loop(body)


def test_a_submit_whose_waiter_has_gone_goes_on() -> None:
    async def body() -> None:
        later = Later()
        seat, fake = seated(submit=later)
        seat.open(adapter="fake")
        seat.submit().cancel()
        later.given[0].set_result(None)
        await turns()
        assert seat.state()["active_run_id"] == "run-1"
        fake.sessions[0].start("run-1")
        fake.sessions[0].complete("run-1")
        seat.check()

    in_loop(body)


@pytest.mark.parametrize("op", ["submit", "resolve", "cancel", "models", "tools", "open", "close"])
def test_an_answer_that_the_adapter_gives_up_is_an_error_and_no_cancellation(op: str) -> None:
    async def body() -> None:
        later = Later()
        fake = Fake(on={op: later})
        hub = Hub({"fake": fake})
        seat = Seat({"fake": fake})
        hub.switch = seat.switch
        waiting: asyncio.Future[Any]
        if op == "open":
            waiting = seat.open(adapter="fake")
        else:
            seat.open(adapter="fake")
            if op in ("resolve", "cancel"):
                run = seat.run()
                fake.sessions[0].start(run)
                fake.sessions[0].say(*asking(run, "p"))
            acts: dict[str, Callable[[], Any]] = {
                "submit": seat.submit,
                "resolve": seat.permit,
                "cancel": lambda: seat.cancel("run-1"),
                "models": seat.models,
                "tools": seat.tools,
                "close": lambda: seat.switch.close("s"),
            }
            waiting = acts[op]()
        later.given[-1].cancel()
        with pytest.raises(Refusal, match="gave the request up") as raised:
            await waiting
        assert raised.value.code == {"open": "open_failed", "tools": "tools_failed"}.get(op, "internal")
        assert raised.value.details == {"cause": "cancelled"}

    in_loop(body)


def test_a_promotion_refused_later_fails_the_run_that_was_admitted() -> None:
    async def body() -> None:
        later = Later()
        seat, fake = seated()
        seat.open(adapter="fake")
        first = seat.run()
        fake.sessions[0].start(first)
        second = seat.run()
        fake.on["submit"] = later
        fake.sessions[0].complete(first)
        third = seat.run()
        later.given[0].set_exception(Refusal("invalid_submission", "not now"))
        await turns()
        assert seat.types(run=second) == ["run.failed"]
        failed = seat.asked(names.RUN_FAILED)["payload"]
        assert failed["error"] == {"code": "invalid_submission", "message": "not now"}
        assert "settled_by" not in failed
        assert seat.state()["active_run_id"] == third
        assert len(later.given) == 2
        seat.check(complete=False)

    in_loop(body)


def test_a_promotion_refused_at_once_goes_on_to_the_next() -> None:
    refused: list[str] = []

    def submit(session: Any, order: Any) -> None:
        if len(session.asked("submit")) in (2, 3):
            refused.append(order.run_id)
            raise Refusal("invalid_submission", "no")

    seat, fake = seated(submit=submit, queued=3)
    seat.open(adapter="fake")
    runs = [seat.run() for _ in range(4)]
    fake.sessions[0].start(runs[0])
    fake.sessions[0].complete(runs[0])
    assert refused == runs[1:3]
    assert seat.state()["active_run_id"] == runs[3]
    assert code_of(lambda: seat.subscribe(after=1, run="run-9")) == "run_not_found"
    seat.check(complete=False)


def test_a_cancel_refused_later_can_be_asked_again() -> None:
    async def body() -> None:
        later = Later()
        seat, fake = seated(cancel=later)
        seat.open(adapter="fake")
        run = seat.run()
        fake.sessions[0].start(run)
        first = seat.cancel(run)
        second = seat.cancel(run)
        assert second.payload["status"] == "cancelling"
        assert len(later.given) == 1
        later.given[0].set_exception(HarnessFault("busy", "not now"))
        with pytest.raises(Refusal, match="internal: not now"):
            await first
        third = seat.cancel(run)
        later.given[1].set_result(None)
        assert (await third).payload["status"] == "cancelling"
        assert seat.types() == ["run.started", "run.status.updated"]
        fake.sessions[0].say((run, names.RUN_CANCELLED, {}))
        seat.check()

    in_loop(body)


def test_a_cancel_before_the_harness_started_is_asked_once() -> None:
    seat, fake = seated()
    seat.open(adapter="fake")
    run = seat.run()
    assert seat.cancel(run).payload["status"] == "cancelling"
    assert seat.cancel(run).payload["status"] == "cancelling"
    assert len(fake.sessions[0].asked("cancel")) == 1
    assert seat.types() == []
    fake.sessions[0].say((run, names.RUN_CANCELLED, {}))
    seat.check()


def test_a_run_may_complete_although_its_cancel_was_accepted() -> None:
    seat, fake = seated()
    seat.open(adapter="fake")
    run = seat.run()
    fake.sessions[0].start(run)
    seat.cancel(run)
    fake.sessions[0].complete(run)
    assert seat.types() == ["run.started", "run.status.updated", "run.completed"]
    assert code_of(lambda: seat.cancel(run)) == "run_terminal"
    seat.check()


def test_an_answer_refused_later_opens_the_gate_again() -> None:
    async def body() -> None:
        later = Later()
        seat, fake = seated(resolve=later)
        seat.open(adapter="fake")
        run = seat.run()
        fake.sessions[0].start(run)
        fake.sessions[0].say(*asking(run, "p"))
        first = seat.permit()
        assert code_of(seat.permit) == "resolution_rejected"
        later.given[0].set_exception(HarnessFault("write", "the pipe is full"))
        with pytest.raises(Refusal, match="internal: the pipe is full"):
            await first
        assert "acknowledged_interactions" not in seat.state()["active_runs"][0]
        second = seat.permit()
        fake.sessions[0].say(resolved(run, "p"))
        later.given[1].set_result(None)
        assert (await second).payload["accepted"] is True
        assert code_of(seat.permit) == "resolution_rejected"
        fake.sessions[0].complete(run)
        seat.check()

    in_loop(body)


def test_the_outcome_of_a_gate_may_come_before_its_answer() -> None:
    async def body() -> None:
        later = Later()
        seat, fake = seated(resolve=later)
        seat.open(adapter="fake")
        run = seat.run()
        fake.sessions[0].start(run)
        fake.sessions[0].say(*asking(run, "p"))
        answer = seat.permit()
        fake.sessions[0].say(resolved(run, "p"))
        fake.sessions[0].complete(run)
        later.given[0].set_exception(HarnessFault("late", "whatever"))
        with pytest.raises(Refusal):
            await answer
        seat.check()

    in_loop(body)


def test_two_opens_with_one_name_are_one_session() -> None:
    async def body() -> None:
        later = Later()
        seat, fake = seated(open=later)
        first = seat.open(adapter="fake")
        assert code_of(lambda: seat.open(adapter="fake")) == "session_exists"
        assert code_of(lambda: seat.switch.state("s")) == "unknown_session"
        assert seat.switch.sessions() == {"sessions": []}
        later.given[0].set_result(fake.sessions[0])
        assert (await first).session_id == "s"
        assert code_of(lambda: seat.open(adapter="fake")) == "session_exists"

    in_loop(body)


def test_a_name_is_free_again_when_its_open_fails_later() -> None:
    async def body() -> None:
        later = Later()
        seat, fake = seated(open=later)
        first = seat.open(adapter="fake")
        later.given[0].set_exception(HarnessFault("start", "no"))
        with pytest.raises(Refusal, match="open_failed"):
            await first
        second = seat.open(adapter="fake")
        later.given[1].set_result(fake.sessions[1])
        assert (await second).session_id == "s"

    in_loop(body)


def test_an_open_that_nobody_waits_for_is_closed_again() -> None:
    async def body() -> None:
        later = Later()
        fake = Fake(open=later)
        hub = Hub({"fake": fake}, limits=Limits(max_sessions=1))
        request = {
            "protocol": names.PROTOCOL,
            "version": names.VERSION,
            "profile": names.PROFILE,
            "type": names.OPEN,
            "id": "o",
            "payload": {},
        }
        waiting = asyncio.ensure_future(hub.open("fake", request))
        await turns()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        later.given[0].set_result(fake.sessions[0])
        await turns()
        assert fake.sessions[0].asked("close") == [None]
        assert [entry["status"] for entry in hub.sessions()["sessions"]] == ["closed"]
        fake.on.clear()
        await hub.open("fake", request)

    in_loop(body)


def test_a_session_closed_while_it_opens_is_not_opened_afterwards() -> None:
    async def body() -> None:
        later = Later()
        fake = Fake(open=later)
        hub = Hub({"fake": fake}, limits=Limits(max_sessions=1))
        seat = Seat({"fake": fake}, limits=Limits(max_sessions=1))
        hub.switch = seat.switch
        waiting = seat.open(adapter="fake")
        assert await hub.aclose() == []
        assert later.given[0].cancelled()  # the adapter sees that nobody wants it any more
        with pytest.raises(Refusal, match="request_cancelled"):
            await waiting
        assert seat.switch.sessions() == {"sessions": []}
        fake.on.clear()
        seat.open(adapter="fake")

    in_loop(body)


def test_a_close_that_takes_its_time() -> None:
    async def body() -> None:
        later = Later()
        seat, fake = seated(close=later)
        seat.open(adapter="fake")
        reader = seat.subscribe()
        first, second = [seat.switch.close("s") for _ in range(2)]
        assert code_of(seat.submit) == "session_closed"
        seen = [reader.over]
        later.given[0].set_result(None)
        assert first is not None
        await first
        assert first == second
        assert [*seen, reader.over] == [False, True]
        seat.switch.close("s")
        assert fake.sessions[0].asked("close") == [None]

    in_loop(body)


def test_a_closer_that_gives_up_takes_nothing_from_the_others() -> None:
    async def body() -> None:
        later = Later()
        fake = Fake(close=later)
        hub = Hub({"fake": fake})
        seat = Seat({"fake": fake})
        hub.switch = seat.switch
        seat.open(adapter="fake")
        closers = [asyncio.ensure_future(hub.close("s")) for _ in range(2)]
        await turns()
        closers[0].cancel()
        await turns()
        later.given[0].set_result(None)
        await closers[1]
        assert closers[0].cancelled()
        assert seat.state()["status"] == "closed"

    in_loop(body)


def test_the_sweep_cancels_what_runs_and_closes_what_refuses() -> None:
    async def body() -> None:
        cooperative = Fake(cancel=lambda session, order: session.say((order.run_id, names.RUN_CANCELLED, {})))
        stubborn = Fake()
        seat = Seat({"a": cooperative, "b": stubborn}, limits=Limits(sweep_s=0.2))
        hub = Hub(seat.switch)
        for session, adapter in (("s", "a"), ("t", "b")):
            seat.open(session, adapter=adapter)
            run = seat.run(session)
            seat.session(session).port().start(run)  # type: ignore[attr-defined]  # a Fake's own
            seat.submit(session)
        assert await hub.aclose() == []
        assert [entry["status"] for entry in hub.sessions()["sessions"]] == ["closed", "closed"]
        assert seat.types("s")[-1] == "run.cancelled"
        assert seat.asked(names.RUN_FAILED, "t")["payload"]["settled_by"] == "inferred"
        seat.check("s")
        seat.check("t")

    in_loop(body)
