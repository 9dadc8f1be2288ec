"""Who gets what: live, cursor, named run, and the arithmetic of gaps (spec: hub 5; bugs O)."""

from __future__ import annotations

from typing import Any

import pytest
from trunkline.adapters.memory import MemoryAdapter
from trunkline.protocol import names
from trunkline.protocol.errors import ReplayGap, StreamFailed

from tests.support.hubs import Fake, FakeSession, Seat, Taker, code_of, refusal_of


def memory(events: int = 64) -> Seat:
    seat = Seat({"memory": MemoryAdapter(events)})
    seat.open()
    return seat


def fake(events: int = 4096, queued: int = 1, **on: Any) -> tuple[Seat, FakeSession]:
    adapter = Fake(journal=(events, 8 << 20), queued=queued, **on)
    seat = Seat({"fake": adapter})
    seat.open(adapter="fake")
    return seat, adapter.sessions[0]


def start(seat: Seat, session: FakeSession, texts: int = 0) -> str:
    run = seat.run()
    session.start(run)
    session.text(run, *("x" for _ in range(texts)))
    return run


# -- live -----------------------------------------------------------------------------------------------------------


def test_a_live_reader_gets_what_comes_and_ends_at_the_terminal() -> None:
    seat = memory()
    before = seat.subscribe()
    assert not before.told
    run = seat.run()
    within = seat.subscribe()
    seat.permit()
    seat.reply()
    assert before.sequences == list(range(1, 13))
    assert within.sequences == list(range(5, 13))
    assert {event["run_id"] for event in before.events} == {run}
    assert (before.over, before.outcome) == (within.over, within.outcome) == (True, None)
    assert seat.session().stream.subscriptions in ([], [before.subscription, within.subscription])


def test_a_new_live_reader_sees_nothing_of_runs_that_are_over() -> None:
    seat = memory()
    for _ in range(3):
        seat.play()
    reader = seat.subscribe()
    assert reader.events == []
    assert not reader.over
    run = seat.play()
    assert {event["run_id"] for event in reader.events} == {run}


def test_a_live_reader_goes_on_into_a_reservation() -> None:
    seat = memory()
    reader = seat.subscribe()
    first, second = seat.run(), seat.run()
    for _ in range(2):
        seat.permit()
        seat.reply()
    assert reader.places == [(run, n) for run in (first, second) for n in range(1, 13)]
    assert (reader.over, reader.outcome) == (True, None)


def test_a_reservation_that_is_cancelled_does_not_end_the_live_reader() -> None:
    seat = memory()
    reader = seat.subscribe()
    first, second = seat.run(), seat.run()
    seat.cancel(second)
    assert reader.places[-1] == (second, 1)
    assert not reader.over
    seat.permit()
    seat.reply()
    assert reader.places[-1] == (first, 12)
    assert reader.over


def test_idle_readers_cost_no_telling_and_several_get_the_same() -> None:
    seat = memory()
    readers = [seat.subscribe() for _ in range(5)]
    lazy = seat.subscribe(reader=Taker(greedy=False))
    seat.run()
    assert lazy.told == 1
    seat.permit()
    assert lazy.told == 1
    lazy.take_all()
    seat.reply()
    assert lazy.told == 2
    lazy.take_all()
    assert {tuple(reader.places) for reader in (*readers, lazy)} == {tuple(lazy.places)}


def test_a_reader_that_leaves_hears_no_more() -> None:
    seat = memory()
    reader, other = seat.subscribe(), seat.subscribe()
    seat.run()
    assert reader.subscription is not None
    for _ in range(2):
        reader.subscription.detach()
    told = reader.told
    seat.permit()
    assert reader.told == told
    assert len(other.events) == 9


# -- cursors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", range(13))
@pytest.mark.parametrize("over", [True, False])
def test_a_cursor_gets_its_own_suffix(after: int, over: bool) -> None:
    seat = memory()
    if over:
        seat.play()
        reader = seat.subscribe(after=after)
    else:
        seat.run()
        if after > 4:
            assert code_of(lambda: seat.subscribe(after=after)) == "replay_cursor_future"
            return
        reader = seat.subscribe(after=after)
        assert reader.sequences == list(range(after + 1, 5))
        seat.permit()
        seat.reply()
    assert reader.sequences == list(range(after + 1, 13))
    assert (reader.over, reader.outcome) == (True, None)


def test_cursors_that_are_refused() -> None:
    seat = memory()
    assert code_of(lambda: seat.subscribe(after=0)) == "no_run_to_resume"
    assert code_of(lambda: seat.subscribe(after=0, run="run-1")) == "run_not_found"
    run = seat.play()
    refusal = refusal_of(lambda: seat.subscribe(after=13))
    assert refusal.code == "replay_cursor_future"
    assert refusal.details == {"run_id": run, "latest_available": 12}
    assert code_of(lambda: seat.subscribe(after=0, run="run-2")) == "run_not_found"
    seat.open("t")
    assert code_of(lambda: seat.subscribe("t", after=0, run=run)) == "run_not_found"
    assert seat.session().stream.subscriptions == []


def test_a_cursor_never_spans_runs() -> None:
    seat = memory()
    first, second = seat.run(), seat.run()
    reader = seat.subscribe(after=0)
    for _ in range(2):
        seat.permit()
        seat.reply()
    assert reader.places == [(first, n) for n in range(1, 13)]
    assert seat.subscribe(after=10).places == [(second, 11), (second, 12)]
    assert seat.subscribe(after=10, run=first).places == [(first, 11), (first, 12)]


def test_a_cursor_on_a_reservation_waits_for_it_and_sees_nothing_else() -> None:
    seat = memory()
    first, second = seat.run(), seat.run()
    reader = seat.subscribe(after=0, run=second)
    assert code_of(lambda: seat.subscribe(after=1, run=second)) == "replay_cursor_future"
    seat.permit()
    seat.reply()
    assert first not in {event["run_id"] for event in reader.events}
    assert reader.places == [(second, n) for n in range(1, 5)]
    assert reader.subscription is not None
    assert reader.subscription.lag == 0
    seat.permit()
    seat.reply()
    assert (reader.sequences, reader.over, reader.outcome) == (list(range(1, 13)), True, None)


def test_a_cursor_on_a_reservation_that_never_starts() -> None:
    seat = memory()
    seat.run()
    second = seat.run()
    reader = seat.subscribe(after=0, run=second)
    seat.cancel(second)
    assert reader.places == [(second, 1)]
    assert (reader.over, reader.outcome) == (True, None)
    again = seat.subscribe(after=0, run=second)
    assert (again.places, again.over) == ([(second, 1)], True)


def test_the_current_run_is_the_admitted_one_before_its_first_event() -> None:
    """A host that submits and then resumes from 0 means the run of its submit, however slow the harness starts."""
    seat, session = fake()
    first = start(seat, session, 3)
    session.complete(first)
    second = seat.run()
    reader = seat.subscribe(after=0)
    assert reader.events == []
    third = seat.run()
    seat.cancel(third)
    assert reader.events == []
    session.start(second)
    session.text(second, "x")
    session.complete(second)
    assert reader.places == [(second, 1), (second, 2), (second, 3)]
    assert seat.subscribe(after=2).places == [(second, 3)]


def test_the_current_run_survives_its_terminal_and_no_pre_start_terminal_takes_over() -> None:
    seat = memory()
    first = seat.run()
    second = seat.run()
    seat.cancel(second)
    assert seat.subscribe(after=3).places == [(first, 4)]
    seat.permit()
    seat.reply()
    assert seat.subscribe(after=11).places == [(first, 12)]


def test_a_promotion_that_fails_does_not_become_current() -> None:
    seat, session = fake()
    first = start(seat, session)
    second = seat.run()
    session.adapter.on["submit"] = lambda *_: (_ for _ in ()).throw(RuntimeError("no"))
    session.complete(first)
    assert seat.types(run=second) == ["run.failed"]
    assert seat.subscribe(after=1).places == [(first, 2)]
    assert seat.subscribe(after=0, run=second).places == [(second, 1)]


@pytest.mark.parametrize(("retained", "events"), [(4, 10), (10, 10), (64, 10), (1, 10), (9, 10)])
@pytest.mark.parametrize("over", [True, False])
def test_gap_arithmetic_at_every_boundary(retained: int, events: int, over: bool) -> None:
    seat, session = fake(events=retained)
    run = start(seat, session, events - 2 if over else events - 1)
    if over:
        session.complete(run)
    oldest = max(1, events - retained + 1)
    for after in range(events + 2):
        if after > events:
            assert code_of(lambda after=after: seat.subscribe(after=after)) == "replay_cursor_future"  # type: ignore[misc]
            continue
        reader = seat.subscribe(after=after)
        if after < oldest - 1:
            assert reader.over
            gap = reader.outcome
            assert isinstance(gap, ReplayGap)
            assert (gap.requested_after, gap.oldest_available, gap.latest_available) == (after, oldest, events)
            assert reader.events == []
        else:
            assert reader.sequences == list(range(after + 1, events + 1))
            assert reader.over is over
            assert reader.outcome is None


def test_a_run_of_which_nothing_is_retained() -> None:
    seat, session = fake(events=4)
    first = start(seat, session, 3)
    session.complete(first)
    start(seat, session, 10)
    reader = seat.subscribe(after=4, run=first)
    assert isinstance(reader.outcome, ReplayGap)
    assert (reader.outcome.oldest_available, reader.outcome.latest_available) == (6, 5)
    reader = seat.subscribe(after=5, run=first)
    assert (reader.over, reader.outcome, reader.events) == (True, None, [])


def test_a_reader_passed_by_eviction_is_told_where_it_stood() -> None:
    seat, session = fake(events=8)
    run = start(seat, session, 7)
    reader = seat.subscribe(after=0, reader=Taker(greedy=False))
    reader.take(3)
    session.text(run, *"abcdefgh")
    reader.take()
    assert reader.over
    assert isinstance(reader.outcome, ReplayGap)
    gap = (reader.outcome.requested_after, reader.outcome.oldest_available, reader.outcome.latest_available)
    assert gap == (3, 9, 16)
    assert reader.sequences == [1, 2, 3]


def test_replay_is_never_an_overflow_however_long_it_takes() -> None:
    seat, session = fake()
    run = start(seat, session, 1000)
    reader = seat.subscribe(after=0, reader=Taker(greedy=False))
    for _ in range(10):
        session.text(run, *("x" for _ in range(50)))
        reader.take(60)
        assert reader.outcome is None
    session.complete(run)
    while reader.take(100):
        pass
    assert reader.sequences == list(range(1, 1503))
    assert (reader.over, reader.outcome) == (True, None)


# -- strangers ------------------------------------------------------------------------------------------------------


def with_strangers(events: int = 4096) -> tuple[Seat, FakeSession, str, list[str]]:
    """One run of ten events with three cancelled reservations among them."""
    seat, session = fake(events=events)
    run = start(seat, session, 2)
    others = []
    for count in (3, 2, 1):
        others.append(seat.run())
        seat.cancel(others[-1])
        session.text(run, *("x" for _ in range(count)))
    session.complete(run)
    return seat, session, run, others


@pytest.mark.parametrize("after", range(11))
def test_strangers_do_not_disturb_a_cursor(after: int) -> None:
    seat, _, run, others = with_strangers()
    assert seat.subscribe(after=after, run=run).places == [(run, n) for n in range(after + 1, 11)]
    assert seat.subscribe(after=0, run=others[1]).places == [(others[1], 1)]


@pytest.mark.parametrize("most", [1, 2, 3, 256])
def test_strangers_do_not_disturb_a_cursor_that_is_there_already(most: int) -> None:
    seat, session = fake()
    run = start(seat, session, 2)
    cursor, live = (seat.subscribe(after=0, reader=Taker(greedy=False)), seat.subscribe(reader=Taker(greedy=False)))
    for _ in range(3):
        seat.cancel(seat.run())
        session.text(run, "x")
        while cursor.take(most):
            pass
        while live.take(most):
            pass
    session.complete(run)
    for reader in (cursor, live):
        for _ in range(50):
            reader.take(most)
    assert cursor.places == [(run, n) for n in range(1, 8)]
    assert len(live.events) == 7
    assert (cursor.over, live.over) == (True, True)


@pytest.mark.parametrize("retained", range(1, 14))
def test_gaps_count_the_runs_own_events_and_not_the_strangers(retained: int) -> None:
    seat, _, run, _ = with_strangers(retained)
    journal = seat.session().stream.journal
    kept = [event for event in seat.published["s"][-retained:] if event["run_id"] == run]
    assert journal.head - journal.base == min(retained, 13)
    oldest = kept[0]["sequence"] if kept else 11
    for after in range(11):
        reader = seat.subscribe(after=after, run=run)
        if after < oldest - 1:
            assert isinstance(reader.outcome, ReplayGap)
            assert reader.outcome.oldest_available == oldest
        else:
            assert reader.places == [(run, n) for n in range(after + 1, 11)]
            assert reader.outcome is None


def test_very_many_strangers_are_not_kept() -> None:
    seat, session = fake(events=16)
    run = start(seat, session, 2)
    reader = seat.subscribe(after=2)
    for _ in range(200):
        seat.cancel(seat.run())
    session.text(run, "x")
    assert len(seat.session().stream.runs[run].strangers) <= 17
    session.complete(run)
    assert reader.places == [(run, 3), (run, 4), (run, 5)]
    assert seat.subscribe(after=3, run=run).places == [(run, 4), (run, 5)]
    gap = seat.subscribe(after=2, run=run).outcome
    assert isinstance(gap, ReplayGap)
    assert (gap.requested_after, gap.oldest_available, gap.latest_available) == (2, 4, 5)


# -- ends -----------------------------------------------------------------------------------------------------------


def test_the_end_of_a_session_ends_its_readers_after_what_is_in_flight() -> None:
    seat = memory()
    parked, lazy = seat.subscribe(), seat.subscribe(reader=Taker(greedy=False))
    seat.play()
    idle = seat.subscribe()
    seat.switch.close("s")
    assert (parked.over, parked.outcome) == (True, None)
    assert type(idle.outcome).__name__ == "SessionEnded"
    assert (lazy.over, lazy.events) == (False, [])
    lazy.take_all()
    assert lazy.sequences == list(range(1, 13))
    assert lazy.over


def test_the_events_of_a_closed_session_go_with_their_last_reader() -> None:
    seat = memory()
    seat.play()
    reader = seat.subscribe(after=0, reader=Taker(greedy=False))
    seat.switch.close("s")
    stream = seat.session().stream
    assert stream.journal.head == 12
    reader.take_all()
    assert reader.sequences == list(range(1, 13))
    assert reader.subscription is not None
    reader.subscription.detach()
    assert stream.journal.head == 0
    seat.open("t")
    seat.play("t")
    seat.switch.close("t")
    assert seat.session("t").stream.journal.head == 0
    assert code_of(lambda: seat.cancel(seat.published["t"][0]["run_id"], "t")) == "session_closed"


def test_a_broken_stream() -> None:
    seat, session = fake()
    done = start(seat, session, 3)
    session.complete(done)
    idle = seat.subscribe()
    session.outlet.failed("the pipe broke")
    session.outlet.failed("again")
    assert isinstance(idle.outcome, StreamFailed)
    assert (idle.outcome.run_id, idle.outcome.sequence) == ("", 0)
    assert seat.subscribe(after=0).sequences == [1, 2, 3, 4, 5]
    assert code_of(seat.subscribe) == "session_closed"


def test_a_broken_stream_ends_runs_first() -> None:
    seat, session = fake()
    run = start(seat, session, 3)
    live, cursor = seat.subscribe(), seat.subscribe(after=2)
    waiting = seat.run()
    ahead = seat.subscribe(after=0, run=waiting)
    session.outlet.failed("the pipe broke")
    assert live.places == [(run, 5), (waiting, 1)]
    assert cursor.places == [(run, 3), (run, 4), (run, 5)]
    assert ahead.places == [(waiting, 1)]
    assert {reader.outcome for reader in (live, cursor, ahead)} == {None}
    assert all(reader.over for reader in (live, cursor, ahead))
    assert seat.asked(names.RUN_FAILED)["payload"]["settled_by"] == "inferred"
    seat.check()
