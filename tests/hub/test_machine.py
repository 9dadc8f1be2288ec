"""Random lives of one session against a naive model: no gap, no duplicate, and every end for the right reason.

The model keeps the whole history as one list and counts places in it the plain way. What a reader got must be a prefix
of what it was due; when it is over, the reason must be true: everything was delivered, or it was too far behind, or
what it needed next had left the journal.
"""

from __future__ import annotations

from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from trunkline.protocol import names
from trunkline.protocol.errors import Overflow, Refusal, ReplayGap
from trunkline.protocol.limits import Limits

from tests.support.hubs import Fake, Seat, Taker

Place = tuple[str, int]


class Due:
    """What the model knows of one reader. `at` is its place in the history; None: its run has not begun."""

    def __init__(self, taker: Taker, at: int | None, run: str | None, after: int) -> None:
        self.taker = taker
        self.joined = at or 0
        self.at = at
        self.run = run
        self.after = after
        self.end: int | None = None
        self.caught_up = False
        self.gone = False
        self.left = False
        self.overflowed = False
        self.passed = False

    def places(self, history: list[Place]) -> list[Place]:
        """What it is due in all, so far."""
        if self.run is not None:
            return [place for place in history if place[0] == self.run and place[1] > self.after]
        return history[self.joined : self.end]


class Life(RuleBasedStateMachine):
    """One session of a fake adapter whose harness and hosts do whatever they like."""

    @initialize(mailbox=st.integers(1, 6), retained=st.integers(1, 12))
    def begin(self, mailbox: int, retained: int) -> None:
        self.fake = Fake(journal=(retained, 1 << 30), queued=2)
        self.seat = Seat({"fake": self.fake}, limits=Limits(mailbox=mailbox))
        self.seat.open(adapter="fake")
        self.bound = min(mailbox, retained)
        self.retained = retained
        self.readers: list[Due] = []
        self.runs: list[str] = []
        self.over: set[str] = set()
        self.history: list[Place] = []

    # -- what happened ------------------------------------------------------------------------------------------------

    @property
    def live(self) -> list[str]:
        return [run for run in self.runs if run not in self.over]

    def happened(self) -> None:
        """Account for one publish call: who ends with it, and who must have been detached by it."""
        events = self.seat.published["s"][len(self.history) :]
        ended = [event["run_id"] for event in events if event["type"] in names.TERMINALS]
        self.over.update(ended)
        self.history += ((event["run_id"], event["sequence"]) for event in events)
        head = len(self.history)
        for due in self.readers:
            if due.run is not None and due.at is None:
                due.at = next((at for at, place in enumerate(self.history) if place[0] == due.run), None)
            if due.end is None and (due.run in ended or (due.run is None and ended and not self.live)):
                due.end = head
            if due.at is not None and due.caught_up and not due.gone and (due.end or head) - due.at > self.bound:
                due.overflowed = due.gone = True

    # -- the harness and the hosts ------------------------------------------------------------------------------------

    @rule()
    def submit(self) -> None:
        try:
            self.runs.append(self.seat.run())
        except Refusal as refusal:
            assert refusal.code == "run_active"  # noqa: PT017 - a rule has no other way to allow a refusal
            assert len(self.live) == 3

    @precondition(lambda self: self.live)
    @rule(count=st.integers(1, 9))
    def stream(self, count: int) -> None:
        run = self.live[0]
        if run not in dict(self.history):
            self.fake.sessions[0].start(run)
            self.happened()
        self.fake.sessions[0].text(run, *("x" for _ in range(count)))
        self.happened()

    @precondition(lambda self: self.live and self.live[0] in dict(self.history))
    @rule()
    def complete(self) -> None:
        self.fake.sessions[0].complete(self.live[0])
        self.happened()

    @precondition(lambda self: len(self.live) > 1)
    @rule(data=st.data())
    def cancel_a_reservation(self, data: st.DataObject) -> None:
        self.seat.cancel(data.draw(st.sampled_from(self.live[1:])))
        self.happened()

    @precondition(lambda self: len(self.readers) < 12)
    @rule()
    def follow(self) -> None:
        taker = self.seat.subscribe(reader=Taker(greedy=False))
        self.readers.append(Due(taker, len(self.history), None, 0))
        self.readers[-1].caught_up = True

    @precondition(lambda self: self.runs and len(self.readers) < 12)
    @rule(data=st.data())
    def resume(self, data: st.DataObject) -> None:
        run = data.draw(st.sampled_from(self.runs))
        history = self.history
        latest = dict(history).get(run, 0)
        after = data.draw(st.integers(0, latest + 1))
        reader = Taker(greedy=False)
        try:
            taker = self.seat.subscribe(after=after, run=run, reader=reader)
        except Refusal as refusal:
            assert refusal.code == "replay_cursor_future"  # noqa: PT017 - as above
            assert after == latest + 1
            return
        kept = history[-self.retained :]
        lost = [place for place in history[: -self.retained or None] if place[0] == run and place[1] > after]
        if len(history) > len(kept) and lost:
            assert taker.over
            assert isinstance(taker.outcome, ReplayGap)
            oldest = min((place[1] for place in kept if place[0] == run), default=latest + 1)
            gap = (taker.outcome.requested_after, taker.outcome.oldest_available, taker.outcome.latest_available)
            assert gap == (after, oldest, latest)
            return
        assert taker.outcome is None
        own = [at for at, place in enumerate(history) if place[0] == run]
        at = None if not own else own[0] if not after else own[after - 1] + 1
        base = len(history) - len(kept)
        due = Due(taker, at if at is None else max(at, base), run, after)
        due.caught_up = at is None or at >= len(history)
        if run in self.over:
            due.end = max(own[-1] + 1, due.at or 0)
        self.readers.append(due)

    @precondition(lambda self: self.readers)
    @rule(data=st.data(), most=st.integers(1, 20))
    def take(self, data: st.DataObject, most: int) -> None:
        due = data.draw(st.sampled_from(self.readers))
        if due.left:
            return
        history = self.history
        stop = len(history) if due.end is None else due.end
        if due.at is not None and not due.gone and due.at < stop:
            base = 0 if due.caught_up else len(history) - min(self.retained, len(history))
            if any(due.run in (None, place[0]) for place in history[due.at : base]):
                due.passed = due.gone = True
            due.at = min(max(due.at, base) + most, stop)
            due.caught_up = due.caught_up or due.at == len(history)
        due.taker.take(most)

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        due = data.draw(st.sampled_from(self.readers))
        due.left = due.gone = True
        assert due.taker.subscription is not None
        due.taker.subscription.detach()

    # -- what must hold -----------------------------------------------------------------------------------------------

    @invariant()
    def readers_got_what_they_were_due(self) -> None:
        if not hasattr(self, "seat"):
            return
        history = self.history
        for due in self.readers:
            ideal, got = due.places(history), due.taker.places
            assert got == ideal[: len(got)], "a gap or a duplicate"
            if due.left:
                continue
            outcome: Any = due.taker.outcome
            assert isinstance(outcome, Overflow) == due.overflowed
            assert isinstance(outcome, ReplayGap) == due.passed
            if due.overflowed and due.taker.over:
                self.resumes(outcome, got, ideal)
            elif due.passed:
                assert outcome.requested_after == due.after + len(got)
                assert due.taker.over
            elif due.taker.over:
                assert got == ideal
                assert due.end is not None

    def resumes(self, outcome: Overflow, got: list[Place], ideal: list[Place]) -> None:
        """The place that an overflow names continues what was delivered of that run."""
        delivered = [place[1] for place in got if place[0] == outcome.run_id]
        assert not delivered or outcome.last_sequence == delivered[-1]
        missed = [place for place in ideal[len(got) :] if place[0] == outcome.run_id]
        assert not missed or missed[0][1] == outcome.last_sequence + 1

    @invariant()
    def the_session_agrees_with_itself(self) -> None:
        if hasattr(self, "seat"):
            state = self.seat.state()
            assert [run["run_id"] for run in state.get("active_runs", [])] == self.live
            journal = self.seat.session().stream.journal
            assert journal.head == len(self.history)
            assert journal.head - journal.base == min(self.retained, len(self.history))


Life.TestCase.settings = settings(
    max_examples=100,
    stateful_step_count=40,
    deadline=None,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
)
TestLife = Life.TestCase
