"""Gates and their deadline (decision 23; spec: envelopes 9, 10; bugs M)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from trunkline.adapters.memory import MemoryAdapter
from trunkline.gateway import Hub
from trunkline.protocol import names
from trunkline.protocol.errors import HarnessFault
from trunkline.protocol.limits import Limits

from tests.support.hubs import Fake, Seat, asking, code_of, question, resolved

WITH_DEADLINE = Limits(gate_deadline_s=30)


def answered(session: Any, order: Any) -> None:
    """Publish what follows from any answer, as an honest harness does."""
    payload = order.payload
    about = {name: payload[name] for name in ("interaction_id", "requested_by", "responded_by")}
    if order.type == names.RESOLVE_PERMISSION:
        granted = {
            "outcome": "resolved",
            "granted": payload["granted"],
            "tool_call_id": f"call-{about['interaction_id']}",
        }
        session.say((payload["run_id"], names.PERMISSION_RESOLVED, {**about, **granted}))
    else:
        session.say((payload["run_id"], names.INPUT_RESOLVED, {**about, "status": "cancelled"}))


def fake_with(limits: Limits = WITH_DEADLINE, **on: Any) -> tuple[Seat, Fake, str]:
    fake = Fake(**{"resolve": answered, **on})
    seat = Seat({"fake": fake}, limits=limits)
    seat.open(adapter="fake")
    run = seat.run()
    fake.sessions[0].start(run)
    return seat, fake, run


def test_without_a_deadline_no_timer_is_armed() -> None:
    seat, fake, run = fake_with(Limits())
    fake.sessions[0].say(*asking(run, "p"), question(run, "i"))
    assert seat.timers.armed == 0
    seat.timers.advance(1e9)
    assert seat.state()["active_runs"][0]["pending_interactions"] == ["p", "i"]


def test_memory_is_denied_at_the_deadline_and_says_why() -> None:
    seat = Seat(limits=WITH_DEADLINE)
    seat.open()
    seat.run()
    seat.timers.advance(29.9)
    assert seat.types()[-1] == "action.permission.requested"
    seat.timers.advance(0.1)
    told = seat.asked(names.PERMISSION_RESOLVED)["payload"]
    assert (told["granted"], told["choice_id"], told["outcome"]) == (False, "deny", "resolved")
    assert told["reason"]["message"] == "nobody answered within 30 s"
    failed = seat.asked(names.RUN_FAILED)["payload"]["error"]
    assert failed == {"code": "permission_denied", "message": "nobody answered within 30 s"}
    assert seat.timers.armed == 0
    assert [note for note in seat.notes if "permission-2" in note]
    assert code_of(seat.permit) == "resolution_rejected"
    seat.check()


def test_a_question_is_cancelled_at_the_deadline() -> None:
    seat = Seat(limits=WITH_DEADLINE)
    seat.open()
    seat.run(tool_choice={"allowed": []})
    seat.timers.advance(30)
    assert seat.asked(names.INPUT_RESOLVED)["payload"]["status"] == "cancelled"
    failed = seat.asked(names.RUN_FAILED)["payload"]["error"]
    assert failed == {"code": "input_cancelled", "message": "nobody answered within 30 s"}
    assert code_of(seat.reply) == "resolution_rejected"
    seat.check()


def test_an_answer_in_time_meets_the_deadline() -> None:
    seat = Seat(limits=WITH_DEADLINE)
    seat.open()
    run = seat.run()
    seat.timers.advance(29)
    seat.permit()
    assert seat.timers.armed == 1
    seat.timers.advance(29)
    seat.reply()
    assert seat.timers.armed == 0
    seat.timers.advance(1000)
    assert seat.types(run=run)[-1] == "run.completed"
    assert seat.notes == []


@pytest.mark.parametrize("end", ["cancel", "close", "break"])
def test_a_run_that_ends_takes_its_deadlines_along(end: str) -> None:
    seat, fake, run = fake_with(cancel=lambda session, order: session.say((order.run_id, names.RUN_CANCELLED, {})))
    fake.sessions[0].say(*asking(run, "p"), question(run, "i"))
    assert seat.timers.armed == 2
    if end == "cancel":
        seat.cancel(run)
    elif end == "close":
        seat.session().close(insist=True)
    else:
        fake.sessions[0].outlet.failed("gone")
    assert seat.timers.armed == 0
    seat.timers.advance(1000)
    assert fake.sessions[0].asked("resolve") == []
    seat.check()


@pytest.mark.parametrize(
    ("choices", "chosen"),
    [
        (["allow_once", "reject_once"], "reject_once"),
        (["proceed", "northern_option", "notify", "abort"], "abort"),
        (["allow", "allow_always"], None),
        (["normal", "cancellation_policy"], None),
    ],
)
def test_the_denial_is_an_offered_choice_that_says_so(choices: list[str], chosen: str | None) -> None:
    seat, fake, run = fake_with()
    fake.sessions[0].say(*asking(run, "p", choices=[{"id": id, "label": id} for id in choices]))
    seat.timers.advance(30)
    (order,) = fake.sessions[0].asked("resolve")
    assert order.payload["granted"] is False
    assert order.payload.get("choice_id") == chosen
    assert order.payload["reason"] == "nobody answered within 30 s"
    assert order.payload["responded_by"] == "user"
    assert order.capability_revision == "fake-v1"


def test_a_host_and_the_deadline_do_not_both_answer() -> None:
    given: list[Any] = []
    seat, fake, run = fake_with(resolve=lambda session, order: given.append(order))
    fake.sessions[0].say(*asking(run, "p"))
    seat.permit()
    seat.timers.advance(1000)
    assert len(given) == 1
    fake.sessions[0].say(*asking(run, "q"))
    seat.timers.advance(30)
    assert code_of(seat.permit) == "resolution_rejected"
    assert [order.payload["interaction_id"] for order in given] == ["p", "q"]


def test_a_denial_that_the_adapter_refuses_is_tried_again() -> None:
    tries = []

    def refuses(session: Any, order: Any) -> None:
        tries.append(order)
        if len(tries) == 1:
            raise HarnessFault("busy", "not now")
        if len(tries) == 2:
            raise RuntimeError("a bug")
        answered(session, order)

    seat, fake, run = fake_with(resolve=refuses)
    fake.sessions[0].say(*asking(run, "p"))
    for count in (1, 2, 3):
        seat.timers.advance(30)
        assert len(tries) == count
    assert seat.timers.armed == 0
    assert seat.types()[-1] == "action.permission.resolved"


def test_an_answer_refused_late_gets_a_new_deadline() -> None:
    async def body() -> None:
        waiting: list[asyncio.Future[None]] = []

        def resolve(session: Any, order: Any) -> Any:
            waiting.append(asyncio.get_running_loop().create_future())
            return waiting[-1]

        seat, fake, run = fake_with(resolve=resolve)
        fake.sessions[0].say(*asking(run, "p"))
        answer = seat.permit()
        seat.timers.advance(100)
        assert len(waiting) == 1
        waiting[0].set_exception(HarnessFault("write", "no"))
        with pytest.raises(Exception, match="internal: no"):
            await answer
        seat.timers.advance(30)
        assert len(waiting) == 2
        fake.sessions[0].say(resolved(run, "p"))
        waiting[1].set_exception(HarnessFault("write", "no"))
        await asyncio.sleep(0)
        assert seat.timers.armed == 0

    asyncio.run(body())


def test_a_gate_id_is_asked_once_a_run() -> None:
    seat, fake, run = fake_with(Limits())
    fake.sessions[0].say(*asking(run, "p"), question(run, "p"))
    assert len(seat.notes) == 1
    seat.permit()
    fake.sessions[0].say(question(run, "p"))
    assert len(seat.notes) == 2
    assert seat.types().count("user.input.requested") == 0
    fake.sessions[0].complete(run)
    seat.check()


def test_deadlines_on_a_real_loop() -> None:
    async def body() -> list[str]:
        hub = Hub({"memory": MemoryAdapter()}, limits=Limits(gate_deadline_s=0.01))
        header = {"protocol": names.PROTOCOL, "version": names.VERSION, "profile": names.PROFILE}
        await hub.open("memory", {**header, "type": names.OPEN, "id": "o", "payload": {"session_id": "s"}})
        events = hub.subscribe("s")
        payload = {"session_id": "s", "delivery": "auto", "messages": [{"role": "user", "content": "go"}]}
        await hub.submit("s", {**header, "type": names.SUBMIT, "id": "q", "session_id": "s", "payload": payload})
        async with asyncio.timeout(30):
            return [event.type async for event in events]

    assert asyncio.run(body())[-3:] == ["action.permission.resolved", "action.call.cancelled", "run.failed"]


def test_a_gate_opened_before_anyone_listened_is_replayed() -> None:
    seat = Seat()
    seat.open()
    run = seat.run()
    assert seat.subscribe(after=0).events[-1]["type"] == "action.permission.requested"
    assert seat.subscribe(after=3, run=run).events[-1]["type"] == "action.permission.requested"
    seat.permit()
    assert seat.types()[-1] == "run.status.updated"
