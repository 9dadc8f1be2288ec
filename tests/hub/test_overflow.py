"""A reader that falls behind: exact places, nothing owed is lost, nobody else is held up (decision 21; bugs Q)."""

from __future__ import annotations

from typing import Any

import pytest
from trunkline.protocol.errors import Overflow
from trunkline.protocol.limits import Limits

from tests.support.hubs import Fake, FakeSession, Seat, Taker, completed, text

BOUND = 64
MIB = 1 << 20


def seated(journal: tuple[int, int] = (4096, 8 * MIB), **limits: Any) -> tuple[Seat, FakeSession]:
    fake = Fake(journal=journal, queued=4)
    seat = Seat({"fake": fake}, limits=Limits(**limits))
    seat.open(adapter="fake")
    return seat, fake.sessions[0]


def lazy(seat: Seat, **how: Any) -> Taker:
    return seat.subscribe(reader=Taker(greedy=False), **how)


def begun(seat: Seat, session: FakeSession, texts: int = 0) -> str:
    run = seat.run()
    session.start(run)
    session.text(run, *("x" for _ in range(texts)))
    return run


def place(reader: Taker) -> tuple[str, int]:
    assert isinstance(reader.outcome, Overflow), reader.outcome
    return reader.outcome.run_id, reader.outcome.last_sequence


@pytest.mark.parametrize("behind", [BOUND, BOUND + 1, BOUND + 2, 200])
@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("taken", [0, 5])
def test_the_bound_is_exact_and_what_is_owed_is_delivered(behind: int, at_once: bool, taken: int) -> None:
    seat, session = seated()
    reader, other = lazy(seat), seat.subscribe()
    run = begun(seat, session, taken - 1 if taken else 0)
    if taken:
        reader.take()
    published = behind if taken else behind - 1
    drafts = [text(run, "x") for _ in range(published)]
    if at_once:
        session.say(*drafts)
    else:
        for draft in drafts:
            session.say(draft)
    if behind == BOUND:
        assert reader.outcome is None
        reader.take_all()
        assert reader.sequences == list(range(1, taken + behind + 1))
        return
    assert place(reader) == (run, taken + BOUND)
    session.complete(run)
    ends = [reader.over]
    while reader.take(10):
        pass
    assert [*ends, reader.over] == [False, True]
    assert reader.sequences == list(range(1, taken + BOUND + 1))
    everything = [event["sequence"] for event in seat.published["s"]]
    assert other.sequences == everything == list(range(1, taken + behind + 2))
    assert seat.subscribe(after=taken + BOUND, run=run).sequences == everything[taken + BOUND :]


def test_a_detached_reader_is_no_longer_judged_or_told() -> None:
    seat, session = seated()
    reader = lazy(seat)
    run = begun(seat, session, 100)
    assert seat.session().stream.subscriptions == []
    told = reader.told
    session.text(run, "x")
    assert reader.told == told == 1
    assert session.outlet.lag == 0


def test_what_is_owed_stays_although_the_journal_evicts_it() -> None:
    seat, session = seated(journal=(100, 8 * MIB))
    reader = lazy(seat)
    run = begun(seat, session, 500)
    session.complete(run)
    assert seat.session().stream.journal.base > BOUND
    assert place(reader) == (run, BOUND)
    reader.take_all()
    assert reader.sequences == list(range(1, BOUND + 1))


@pytest.mark.parametrize("retained", [1, 2, 10, 63])
def test_a_retention_below_the_bound_is_the_bound(retained: int) -> None:
    seat, session = seated(journal=(retained, 8 * MIB))
    reader = lazy(seat)
    run = begun(seat, session, retained - 1)
    assert reader.outcome is None
    session.text(run, "x")
    assert place(reader) == (run, retained)
    reader.take_all()
    assert reader.sequences == list(range(1, retained + 1))


def test_the_bytes_bound_holds_for_readers_too() -> None:
    seat, session = seated(journal=(4096, 8 * MIB))
    reader = lazy(seat)
    run = begun(seat, session)
    large = "x" * MIB
    for _ in range(7):
        session.text(run, large)
    assert reader.outcome is None
    for _ in range(20):
        session.text(run, large)
    run_id, last = place(reader)
    assert run_id == run
    reader.take_all()
    assert reader.sequences == list(range(1, last + 1))
    assert 6 <= last <= 9
    journal = seat.session().stream.journal
    assert sum(len(entry[1]) for entry in journal.read(journal.base, journal.head)) <= 8 * MIB


def test_one_event_larger_than_the_journal_is_kept_and_delivered() -> None:
    seat, session = seated(journal=(4096, 1000))
    reader, greedy = lazy(seat), seat.subscribe()
    run = begun(seat, session)
    reader.take_all()
    session.text(run, "x" * 5000)
    assert seat.subscribe(after=1).sequences == [2]
    assert reader.outcome is None
    session.text(run, "y" * 5000)
    assert place(reader) == (run, 2)
    reader.take_all()
    assert reader.sequences == [1, 2]
    assert greedy.sequences == [1, 2, 3]


def test_a_reader_that_can_be_drained_is_drained_before_it_is_judged() -> None:
    seat, session = seated()
    reader = seat.subscribe(reader=Taker(greedy=False, drains=True))
    run = begun(seat, session, 5000)
    for _ in range(5000):
        session.text(run, "x")
    assert reader.outcome is None
    session.complete(run)
    reader.take_all()
    assert reader.sequences == list(range(1, 10_003))


class Sink(Taker):
    """A reader whose sink accepts so many events when it is drained, and no more."""

    accepts = 0

    def drain(self, subscription: Any) -> None:
        self.take(self.accepts)


@pytest.mark.parametrize(("accepts", "detached"), [(5, False), (4, True)])
def test_a_sink_that_accepts_a_part_is_judged_by_what_is_left(accepts: int, detached: bool) -> None:
    seat, session = seated()
    sink = Sink(greedy=False)
    sink.accepts = accepts
    seat.subscribe(reader=sink)
    run = seat.run()
    session.say((run, "run.started", {"status": "running"}), *(text(run, "x") for _ in range(BOUND + 4)))
    assert isinstance(sink.outcome, Overflow) is detached
    sink.take_all()
    assert sink.sequences == list(range(1, BOUND + accepts + 1))


def test_overflow_names_the_run_that_is_not_finished_for_the_reader() -> None:
    seat, session = seated()
    reader = lazy(seat)
    first = begun(seat, session, 40)
    second = seat.run()
    session.complete(first)
    session.start(second)
    session.text(second, *("x" for _ in range(100)))
    assert place(reader) == (second, BOUND - 42)
    reader.take_all()
    assert reader.places[-1] == (second, BOUND - 42)
    assert seat.subscribe(after=BOUND - 42, run=second).events[0]["sequence"] == BOUND - 41


def test_overflow_at_the_very_start_of_a_run() -> None:
    seat, session = seated()
    reader = lazy(seat)
    first = begun(seat, session, BOUND - 2)
    second = seat.run()
    session.complete(first)
    assert reader.outcome is None
    session.start(second)
    assert place(reader) == (second, 0)
    reader.take_all()
    assert reader.places[-1] == (first, BOUND)


@pytest.mark.parametrize("before", [BOUND - 2, BOUND - 1, BOUND])
def test_a_stranger_is_not_what_a_late_reader_resumes(before: int) -> None:
    seat, session = seated()
    reader = lazy(seat)
    run = begun(seat, session, before - 1)
    seat.cancel(seat.run())
    session.text(run, *("x" for _ in range(10)))
    run_id, last = place(reader)
    assert run_id == run
    reader.take_all()
    own = [sequence for id, sequence in reader.places if id == run]
    assert own[-1] == last
    assert last == (BOUND if before == BOUND else BOUND - 1)
    assert seat.subscribe(after=last).sequences[0] == last + 1


def test_a_cursor_overflows_only_once_it_has_caught_up() -> None:
    seat, session = seated()
    run = begun(seat, session, 500)
    reader = lazy(seat, after=0)
    session.text(run, *("x" for _ in range(500)))
    while reader.take(100):
        assert reader.outcome is None
    assert reader.sequences[-1] == 1001
    session.text(run, *("x" for _ in range(BOUND + 1)))
    assert place(reader) == (run, 1001 + BOUND)
    reader.take_all()
    assert reader.sequences == list(range(1, 1001 + BOUND + 1))


def test_a_cursor_that_joins_at_the_head_has_caught_up() -> None:
    seat, session = seated()
    run = begun(seat, session, 10)
    reader = lazy(seat, after=11)
    session.text(run, *("x" for _ in range(BOUND + 1)))
    assert place(reader) == (run, 11 + BOUND)


def test_a_cursor_with_strangers_overflows_at_its_own_sequence() -> None:
    seat, session = seated()
    run = begun(seat, session, 10)
    reader = lazy(seat, after=11)
    for _ in range(10):
        seat.cancel(seat.run())
    session.text(run, *("x" for _ in range(BOUND)))
    assert place(reader) == (run, 11 + BOUND - 10)
    reader.take_all()
    assert reader.sequences == list(range(12, 11 + BOUND - 10 + 1))


@pytest.mark.parametrize("live", [True, False])
def test_a_reader_whose_run_is_over_keeps_its_healthy_end_whatever_comes_after(live: bool) -> None:
    seat, session = seated(journal=(80, 8 * MIB))
    if not live:
        run = begun(seat, session)
        reader = lazy(seat, after=1)
        session.text(run, *("x" for _ in range(10)))
    else:
        reader = lazy(seat)
        run = begun(seat, session, 10)
    session.complete(run)
    for _ in range(3):
        session.complete(begun(seat, session, 100))
    assert reader.outcome is None
    reader.take_all()
    assert reader.sequences == list(range(1 if live else 2, 13))
    assert (reader.over, reader.outcome) == (True, None)


def test_a_terminal_within_a_batch_beyond_the_bound() -> None:
    seat, session = seated()
    reader = lazy(seat)
    run = begun(seat, session)
    session.say(*(text(run, "x") for _ in range(100)), completed(run))
    assert place(reader) == (run, BOUND)
    exact = lazy(seat)
    run = begun(seat, session)
    session.say(*(text(run, "x") for _ in range(BOUND - 2)), completed(run))
    assert exact.outcome is None
    exact.take_all()
    assert (exact.over, exact.outcome, len(exact.events)) == (True, None, BOUND)


def test_a_stalled_reader_holds_no_more_than_the_journal() -> None:
    """Many events to a reader that never reads: what is retained stays bounded, by count and by bytes."""
    seat, session = seated(journal=(4096, MIB))
    reader = lazy(seat)
    run = begun(seat, session)
    seat.published.clear()
    for _ in range(2000):
        session.say(*[text(run, "x" * 2000)] * 10)
        seat.published.clear()
    journal = seat.session().stream.journal
    entries: Any = getattr(journal, "_entries")  # noqa: B009 - private to the journal, and what memory is held by
    held = sum(len(entry[1]) for entry in entries)
    assert held <= MIB * 8 // 7 + 4096
    assert reader.subscription is not None
    assert reader.subscription.lag == BOUND
    assert seat.session().stream.runs[run].sequence == 20_001


def test_stalls_and_drops_leave_nothing_behind() -> None:
    seat, session = seated()
    run = begun(seat, session)
    for _ in range(100):
        reader = lazy(seat)
        session.text(run, *("x" for _ in range(BOUND + 1)))
        assert reader.subscription is not None
        reader.subscription.detach()
    stream = seat.session().stream
    assert (stream.subscriptions, stream.idle) == ([], [])
