"""An adapter that publishes what it must not never breaks the trace (spec: envelopes 8, 9, 10; bugs G, K, L)."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trunkline.framing import scan_envelope
from trunkline.gateway.hub.mend import TOO_DEEP, TOO_LONG, mended
from trunkline.protocol import names
from trunkline.protocol.errors import Refusal
from trunkline.protocol.json import dumps
from trunkline.protocol.limits import Limits

from tests.support.hubs import (
    BY,
    Fake,
    FakeSession,
    Seat,
    asking,
    called,
    completed,
    permission,
    question,
    resolved,
    text,
)
from tests.support.trace import faults


def running(limits: Limits | None = None, queued: int = 1) -> tuple[Seat, FakeSession, str]:
    fake = Fake(queued=queued)
    seat = Seat({"fake": fake}, limits=limits)
    seat.open(adapter="fake")
    run = seat.run()
    fake.sessions[0].start(run)
    return seat, fake.sessions[0], run


FAILED = {"error": {"code": "x", "message": "y"}}


@pytest.mark.parametrize(
    ("drafts", "kept"),
    [
        (lambda r: [completed(r), completed(r)], ["run.completed"]),
        (lambda r: [completed(r), (r, names.RUN_FAILED, FAILED)], ["run.completed"]),
        (lambda r: [completed(r), text(r, "late")], ["run.completed"]),
        (lambda r: [(r, names.RUN_STARTED, {"status": "running"})], []),
        (lambda r: [(r, "run.exploded", {})], []),
        (lambda r: [(r, "session.state.updated", {})], []),
        (lambda r: [(r, names.RUN_STATUS, {"status": "completed"})], []),
        (lambda r: [(r, names.RUN_STATUS, {"status": ["running"]})], []),
        (lambda r: [(r, names.RUN_STATUS, {})], []),
        (lambda r: [("run-999", names.CONTENT_DELTA, {})], []),
        (lambda r: [called(r, "c"), called(r, "c")], ["action.call.requested"]),
        (lambda r: [called(r, "c", names.CALL_COMPLETED, result=1)], []),
        (lambda r: [called(r, "c"), called(r, "c", names.CALL_COMPLETED, result=1)], ["action.call.requested"]),
        (lambda r: [called(r, "c", names.CALL_PROGRESS, progress=1)], []),
        (lambda r: [*asking(r, "p"), permission(r, "p")], ["action.call.requested", "action.permission.requested"]),
        (lambda r: [question(r, "p"), permission(r, "p")], ["user.input.requested"]),
        (lambda r: [resolved(r, "p")], []),
        (lambda r: [question(r, "p"), resolved(r, "p")], ["user.input.requested"]),
        (lambda r: [(r, names.PERMISSION_REQUESTED, {})], []),
        (lambda r: [(r, names.PERMISSION_REQUESTED, {"interaction_id": "p", "requested_by": BY})], []),
        (lambda r: [(r, names.INPUT_REQUESTED, {"interaction_id": ["p"]})], []),
        (lambda r: [(r, names.CALL_REQUESTED, {"name": "tool"})], []),
        (lambda r: [(r, names.CALL_REQUESTED, {"tool_call_id": "c", "name": "tool"})], []),
        (lambda r: [(r, names.CALL_REQUESTED, {"tool_call_id": {}, "execution_owner": BY})], []),
        (lambda r: [(r, names.CONTENT_DELTA, [])], []),
        (lambda r: [(r, names.CONTENT_DELTA, {"part": {"type": "text", "text": b"bytes"}})], []),
        (
            lambda r: [text(r, "a"), (r, names.CONTENT_DELTA, {"part": {1: object()}}), text(r, "b")],
            ["content.delta"] * 2,
        ),
    ],
)
def test_what_the_lifecycle_forbids_is_dropped_and_noted(drafts: Any, kept: list[str]) -> None:
    seat, session, run = running()
    made = drafts(run)
    session.say(*made)
    assert seat.types()[1:] == kept
    assert len(seat.notes) == len(made) - len(kept)
    assert all(note.startswith("session s: dropped ") for note in seat.notes)
    if "run.completed" not in kept:
        session.complete(run)
    seat.check()
    ids = [int(event["id"].removeprefix("event-")) for event in seat.published["s"]]
    assert ids == list(range(ids[0], ids[0] + len(ids)))


@pytest.mark.parametrize(
    "draft",
    [
        lambda r: text(r, "early"),
        lambda r: (r, names.RUN_STATUS, {"status": "running"}),
        lambda r: called(r, "c"),
        lambda r: question(r, "p"),
    ],
)
def test_nothing_stands_before_the_start(draft: Any) -> None:
    fake = Fake()
    seat = Seat({"fake": fake})
    seat.open(adapter="fake")
    run = seat.run()
    fake.sessions[0].say(draft(run))
    assert seat.types() == []
    assert seat.state()["active_runs"][0]["as_of_sequence"] == 0
    fake.sessions[0].start(run)
    fake.sessions[0].complete(run)
    seat.check()


def test_a_run_that_its_adapter_calls_over_is_over() -> None:
    fake = Fake()
    seat = Seat({"fake": fake})
    seat.open(adapter="fake")
    run = seat.run()
    fake.sessions[0].complete(run)
    assert seat.types() == ["run.failed"]
    assert "before it started" in seat.asked(names.RUN_FAILED)["payload"]["error"]["message"]
    run = seat.run()
    fake.sessions[0].start(run)
    fake.sessions[0].say((run, names.RUN_CANCELLED, {"reason": "of itself"}))
    assert seat.types(run=run) == ["run.started", "run.failed"]
    assert "nobody had asked" in seat.asked(names.RUN_FAILED)["payload"]["error"]["message"]
    assert len(seat.notes) == 2
    seat.check(complete=True)


def test_a_reservation_cannot_start_itself() -> None:
    seat, session, first = running()
    second = seat.run()
    session.start(second)
    session.text(second, "mine")
    assert seat.types(run=second) == []
    session.complete(first)
    assert [order.run_id for order in session.asked("submit")] == [first, second]
    session.start(second)
    session.complete(second)
    seat.check()


@pytest.mark.parametrize("kind", [names.RUN_COMPLETED, names.RUN_FAILED, names.RUN_CANCELLED])
def test_what_is_open_is_closed_before_the_terminal(kind: str) -> None:
    seat, session, run = running()
    session.say(*asking(run, "p"), called(run, "b"), called(run, "b", names.CALL_STARTED), called(run, "d"))
    session.say(question(run, "i"), called(run, "d", names.CALL_CANCELLED))
    if kind == names.RUN_CANCELLED:
        seat.cancel(run)
    terminal = completed(run) if kind == names.RUN_COMPLETED else (run, kind, FAILED if "failed" in kind else {})
    session.say(terminal)
    closing = ["action.permission.resolved", "user.input.resolved", "action.call.cancelled", "action.call.cancelled"]
    assert seat.types()[-5:] == [*closing, kind]
    told = seat.published["s"][-5]["payload"]
    assert told["outcome"] == "cancelled"
    assert told["reason"]["code"] == ("run_cancelled" if kind == names.RUN_CANCELLED else "run_ended")
    assert seat.notes == []
    seat.check()


def test_gates_are_bounded_and_so_are_calls_and_diagnostics() -> None:
    limits = Limits(gates_per_run=3, calls_per_run=5, notes_per_run=4)
    seat, session, run = running(limits)
    session.say(*(question(run, f"i{number}") for number in range(300)))
    assert seat.types().count("user.input.requested") == 3
    assert len(seat.notes) == 4
    assert seat.notes[-1].endswith("no more is said of this session until its next submission")
    session.say(*(called(run, f"c{number}") for number in range(9)))
    assert seat.types().count("action.call.requested") == 5
    for number in range(5):
        session.say(called(run, f"c{number}", names.CALL_CANCELLED))
    session.say(*(called(run, f"d{number}") for number in range(5)))
    assert seat.types().count("action.call.requested") == 10
    assert len(seat.session().stream.runs[run].calls) == 5
    session.complete(run)
    seat.check()
    assert len(seat.notes) == 4
    run = seat.run()
    session.text(run, "early")
    assert len(seat.notes) == 5


def test_diagnostics_are_short_whatever_they_quote() -> None:
    seat, session, run = running()
    session.say(("x" * 100_000, names.CONTENT_DELTA, {}), (run, names.RUN_STATUS, {"status": "y" * 100_000}))
    assert len(seat.notes) == 2
    assert all(len(note) < 500 for note in seat.notes)


TORN = "a\ud800b"


def test_text_with_a_lone_surrogate_is_published_with_the_replacement_character() -> None:
    seat, session, run = running()
    session.say(text(run, "before"), text(run, TORN), text(run, "\ud83d\ude00"), text(run, "after"))
    texts = [event["payload"]["part"]["text"] for event in seat.published["s"][1:]]
    assert texts == ["before", "a\ufffdb", "\U0001f600", "after"]
    assert len(seat.notes) == 2
    assert all("mended content.delta" in note for note in seat.notes)
    session.say(completed(run, TORN))
    assert seat.asked(names.RUN_COMPLETED)["payload"]["final_response"]["content"] == "a\ufffdb"
    seat.check()


def test_a_number_beyond_64_bits_becomes_its_digits_and_deep_nesting_a_remark() -> None:
    seat, session, run = running()
    deep: Any = "bottom"
    for _ in range(300):
        deep = [deep]
    arguments = {"big": 1 << 70, "small": -(1 << 63), TORN: [TORN], "deep": deep, "float": 1e308}
    session.say(called(run, "c", arguments_json=arguments))
    told = seat.asked(names.CALL_REQUESTED)["payload"]["arguments_json"]
    assert told["big"] == "1180591620717411303424"
    assert told["small"] == -(1 << 63)
    assert told["a\ufffdb"] == ["a\ufffdb"]
    assert TOO_DEEP in json.dumps(told["deep"])
    scan_envelope(json.dumps(seat.asked(names.CALL_REQUESTED)).encode())
    session.complete(run)
    seat.check()


def test_a_gate_or_call_with_mended_ids_can_be_answered_and_closed() -> None:
    given: list[Any] = []
    seat, session, run = running()
    session.adapter.on["resolve"] = lambda _, order: given.append(order)
    session.say(*asking(run, f"p{TORN}"))
    seat.permit()
    assert given[0].payload["interaction_id"] == "pa\ufffdb"
    session.say(resolved(run, f"p{TORN}"), called(run, f"call-p{TORN}", names.CALL_STARTED))
    assert seat.types()[-2:] == ["action.permission.resolved", "action.call.started"]
    session.complete(run)
    seat.check()


@pytest.mark.parametrize("spoilt", [b"bytes", {1, 2}, object(), {1: 2}, 1j])
def test_what_is_no_json_at_all_registers_nothing(spoilt: Any) -> None:
    seat, session, run = running()
    session.say(called(run, "c", arguments_json=spoilt), permission(run, "p", title=spoilt), question(run, "i"))
    state = seat.session().stream.runs[run]
    assert (list(state.calls), list(state.gates)) == ([], ["i"])
    assert seat.types() == ["run.started", "user.input.requested"]
    session.say(called(run, "c"), permission(run, "p", tool_call_id="c"))
    assert (list(state.calls), list(state.gates)) == (["c"], ["i", "p"])
    session.say(
        (run, names.PERMISSION_RESOLVED, {**resolved(run, "p")[2], "outcome": spoilt}),
        called(run, "c", names.CALL_STARTED, extra=spoilt),
    )
    assert (state.calls["c"][0], list(state.gates)) == ("requested", ["i", "p"])
    session.say(completed(run, spoilt))
    assert seat.types()[-1] == "run.failed"
    assert "no JSON form" in seat.asked(names.RUN_FAILED)["payload"]["error"]["message"]
    seat.check()


def test_extensions_are_carried_under_one_key_and_mended_like_payloads() -> None:
    seat, session, run = running()
    session.say((*text(run, "a"), {"native": {"x": 1}}), (*text(run, "b"), None), (*text(run, "c"), {"native": TORN}))
    told = [event.get("extensions") for event in seat.published["s"][1:]]
    assert told == [{"dev.trunkline": {"native": {"x": 1}}}, None, {"dev.trunkline": {"native": "a\ufffdb"}}]
    session.complete(run)
    seat.check()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()) | st.just(TORN),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(), max_size=3), inner, max_size=3)
    ),
    max_leaves=20,
)


@given(JSON, st.integers(1, 5))
def test_mending_gives_json_and_changes_only_what_must_be(value: Any, depth: int) -> None:
    again = mended(value, depth)
    assert isinstance(dumps(again), bytes)
    assert mended(again, depth) == again
    try:
        dumps(value)
    except TypeError:
        return
    assert mended(value, 100) == value or _beyond(value)


def _beyond(value: Any) -> bool:
    """Whether a number stands in a value that an unsigned 64-bit writer takes and a signed reader does not."""
    if isinstance(value, dict):
        return any(map(_beyond, value.values()))
    if isinstance(value, list):
        return any(map(_beyond, value))
    return isinstance(value, int) and value >= 1 << 63


def test_a_number_that_cannot_even_be_printed_is_remarked() -> None:
    assert mended(1 << 20_000, 3) == TOO_LONG
    assert mended((1, 2), 3) == [1, 2]


RUNS = ("run-1", "run-3", "run-9")
DRAFTS = st.sampled_from(
    [
        (names.RUN_STARTED, {"status": "running"}),
        (names.RUN_STATUS, {"status": "waiting_for_input"}),
        (names.RUN_STATUS, {"status": "running"}),
        (names.RUN_STATUS, {"status": "cancelling"}),
        (names.CONTENT_DELTA, {"part": {"type": "text", "text": "x"}}),
        (names.CONTENT_DELTA, {"part": {"type": "text", "text": TORN}}),
        *((kind, called("", call, kind, **more)[2]) for call in "ab" for kind, more in (
            (names.CALL_REQUESTED, {}),
            (names.CALL_STARTED, {}),
            (names.CALL_PROGRESS, {"progress": 1}),
            (names.CALL_COMPLETED, {"result": b"" if call == "b" else 1}),
            (names.CALL_FAILED, FAILED),
            (names.CALL_CANCELLED, {}),
        )),
        *(question("", gate)[1:] for gate in "pq"),
        *((names.INPUT_RESOLVED, {"interaction_id": gate, "requested_by": BY, "responded_by": "user",
           "status": "cancelled"}) for gate in "pq"),
        (names.RUN_COMPLETED, completed("")[2]),
        (names.RUN_FAILED, FAILED),
        (names.RUN_CANCELLED, {}),
    ]
)  # fmt: skip
ACTS = st.lists(
    st.tuples(st.just("say"), st.lists(st.tuples(st.sampled_from(RUNS), DRAFTS), max_size=8))
    | st.tuples(st.sampled_from(("submit", "cancel")), st.sampled_from(RUNS)),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(ACTS)
def test_whatever_an_adapter_publishes_the_trace_is_sound(acts: list[Any]) -> None:
    fake = Fake()
    seat = Seat({"fake": fake})
    seat.open(adapter="fake")
    cancelled: set[str] = set()
    for act, what in [("submit", ""), *acts]:
        with contextlib.suppress(Refusal):
            if act == "say":
                fake.sessions[0].say(*((run, kind, dict(payload)) for run, (kind, payload) in what))
            elif act == "submit":
                seat.submit()
            else:
                seat.cancel(what)
                cancelled.add(what)
        seat.state()
    seat.session().close(insist=True)
    found = faults(seat.published["s"], cancels=cancelled)
    assert found == []
    assert seat.session().live() == []
