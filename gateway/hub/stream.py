"""The event stream of one session: publishing, the journal, and who reads it.

Publishing, journalling and offering happen in one turn without an await (decision 9): order is program order, so replay
and live leave no gap, and no lock exists.
"""

from __future__ import annotations

from ...protocol import names
from ...protocol.errors import Refusal, ReplayGap
from ...protocol.lifecycle import IllegalMove, RunState
from .encode import EventEncoder
from .journal import MemoryJournal
from .mend import mended
from .subscription import SessionEnded, Subscription
from .tracking import closing, track

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Final

    from ...adapters.base import Draft
    from ...protocol.ids import Ids
    from ...protocol.limits import Limits
    from .journal import Entry, Journal
    from .ports import Reader
    from .runs import Gate, Run


class EventStream:
    """Runs, journal and subscriptions of one session. `runs` is in order of admission, ended runs included.

    `touched` is told before events are offered, `opened` of each gate that opens, `ended` of each run that has its
    terminal, once that is published.
    """

    def __init__(
        self,
        session_id: str,
        encoder: EventEncoder,
        journal: Journal,
        limits: Limits,
        ids: Ids,
        clock: Callable[[], int],
        note: Callable[[str], None],
        touched: Callable[[], None],
        opened: Callable[[Run, Gate], None],
        ended: Callable[[Run], None],
    ) -> None:
        self.session_id = session_id
        self.journal = journal
        self.runs: dict[str, Run] = {}
        self.current: Run | None = None
        self.idle: list[Subscription] = []
        self.watchers: list[Callable[[], None]] = []
        self.subscriptions: list[Subscription] = []
        self._encoder = encoder
        self._limits = limits
        self._ids = ids
        self._clock = clock
        self._note = note
        self._touched = touched
        self._opened = opened
        self._ended = ended
        self._bound = min(limits.mailbox, journal.events)
        self._closed = False
        self._judge_at = self._bound  # no caught-up subscription can be too far behind before the head is past this

    # -- publishing --------------------------------------------------------------------------------------------------

    def publish(self, drafts: Sequence[Draft]) -> None:
        """Sequence, encode, journal and offer the drafts. What the lifecycle forbids is dropped and noted."""
        entries: list[Entry] = []
        ended: list[Run] = []
        gates: list[tuple[Run, Gate]] = []
        now = self._clock()
        run: Run | None = None
        deltas = 0  # drafts of a stretch that was encoded as a whole
        for index, draft in enumerate(drafts):
            if deltas:
                deltas -= 1
                continue
            if run is None or run.id != draft[0]:
                run = self.runs.get(draft[0])
                if run is None:
                    self._note(f"dropped {draft[1]} of an unknown run {draft[0]!r}")
                    continue
            kind = draft[1]
            if kind == names.CONTENT_DELTA and run.state == RunState.RUNNING:
                deltas = self._stretch(run, drafts, index, entries, now) - 1
            elif kind in names.TERMINALS and not run.over:
                self._end(run, draft, entries, now)
                ended.append(run)
            elif self._admit(run, draft, entries, now) and kind in _GATES:
                gates.append((run, next(reversed(run.gates.values()))))
        if entries:
            self._touched()
            self._offer(entries, ended)
        for run, gate in gates:
            self._opened(run, gate)
        for run in ended:
            self._ended(run)

    def _admit(self, run: Run, draft: Draft, entries: list[Entry], now: int) -> bool:
        """Encode one draft, check it against the lifecycle, append it; False: dropped and noted, nothing changed."""
        kind = draft[1]
        encoded = self._encoded(run, draft, now)
        if encoded is None:
            return False
        payload, event = encoded
        try:
            track(run, kind, payload, self._limits.gates_per_run, self._limits.calls_per_run)
        except IllegalMove as defect:
            self._note(f"dropped {kind} of run {run.id}: {defect}")
            return False
        except (KeyError, TypeError) as error:
            self._note(f"dropped {kind} of run {run.id}: its payload lacks or spoils a member ({error})")
            return False
        self._append(run, kind, event, entries)
        return True

    def _end(self, run: Run, draft: Draft, entries: list[Entry], now: int) -> None:
        """Close what is open in a run, then publish its terminal.

        A terminal that may not be becomes one that may: a run that its adapter calls over must not stay open.
        """
        for open_draft in closing(run, draft[1]):
            self._admit(run, open_draft, entries, now)
        why = _untrue(run, draft[1])
        if why is None and self._admit(run, draft, entries, now):
            return
        why = why or "the outcome of the run has no JSON form"
        self._note(f"{draft[1]} of run {run.id} is published as {names.RUN_FAILED}: {why}")
        failed = {"error": {"code": names.INTERNAL, "message": why}}
        self._admit(run, (run.id, names.RUN_FAILED, failed), entries, now)

    def _stretch(self, run: Run, drafts: Sequence[Draft], start: int, entries: list[Entry], now: int) -> int:
        """Append the deltas of a started run that stand next to each other; return how many drafts that were."""
        count = self._encoder.deltas(run, drafts, start, entries, self._ids.last, now)
        if not count:  # something about the first is not plain
            self._admit(run, drafts[start], entries, now)
            return 1
        self._ids.last += count
        run.sequence += count
        run.last = self.journal.head + len(entries) - 1
        return count

    def _encoded(self, run: Run, draft: Draft, now: int) -> tuple[Mapping[str, Any], bytes] | None:
        """Return the payload as published and the event's bytes; None, and noted: it has no JSON form (see `mend`)."""
        kind, payload = draft[1], draft[2]
        extensions = draft[3] if len(draft) == 4 else None
        number, sequence = self._ids.last + 1, run.sequence + 1
        try:
            return payload, self._encoder.event(run, kind, payload, extensions, number, sequence, now)
        except (TypeError, AttributeError):
            pass
        try:
            payload, extensions = mended((payload, extensions), self._limits.depth - 1)
            event = self._encoder.event(run, kind, payload, extensions, number, sequence, now)
        except (TypeError, AttributeError) as error:
            self._note(f"dropped {kind} of run {run.id}: it has no JSON form ({error})")
            return None
        self._note(f"mended {kind} of run {run.id}: text or a number of it had no JSON form")
        return payload, event

    def _append(self, run: Run, kind: str, event: bytes, entries: list[Entry]) -> None:
        self._ids.last += 1
        run.sequence += 1
        position = self.journal.head + len(entries)
        if run.first < 0:
            self._place(run, kind, position)
        run.last = position
        entries.append((run.sequence, event))

    def _place(self, run: Run, kind: str, position: int) -> None:
        """A run's first event. One promoted becomes current by it; a pre-start terminal stands aside (spec: hub 4)."""
        run.first = position
        if kind not in names.TERMINALS:
            self.current = run
        elif self.current is not run:
            run.aside = True
            for other in self.runs.values():
                if other.first >= 0 and other is not run and not other.over:
                    other.pass_by(position, self.journal.base)
        for subscription in self.subscriptions:
            if subscription.run is run:
                subscription.position = position  # it waited for this

    # -- readers -----------------------------------------------------------------------------------------------------

    def _offer(self, entries: list[Entry], ended: list[Run]) -> None:
        """Append; end who ends with these runs; wake who waits; judge; evict. In this order, in this turn."""
        journal = self.journal
        journal.append(entries)
        if ended:
            self._settle(ended)
        if self.idle:
            idle, self.idle = self.idle, []
            for subscription in idle:
                subscription.wake()
        if journal.head > self._judge_at:
            self._judge()
        due = journal.due()
        if due > journal.base:
            if due > self._judge_at - self._bound:
                for subscription in list(self.subscriptions):
                    if subscription.caught_up and subscription.position < due and subscription.lag:
                        self._detach_late(subscription)
            journal.trim(due)

    def _settle(self, ended: list[Run]) -> None:
        """Give the subscriptions of ended runs their end (spec: hub 5)."""
        waiting = any(not run.over for run in self.runs.values())
        for run in ended:
            for subscription in self.subscriptions:
                if subscription.end is None and (subscription.run is run or (subscription.run is None and not waiting)):
                    subscription.end = run.last + 1
            run.settle()

    def _judge(self) -> None:
        """Detach every reader that is too far behind; sinks are pumped before they are judged (decision 26)."""
        lowest = head = self.journal.head
        for subscription in list(self.subscriptions):
            if not subscription.caught_up:
                continue
            if (subscription.lag > self._bound and not self._detach_late(subscription)) or subscription.lag:
                lowest = min(lowest, subscription.position)
        self._judge_at = min(lowest, head) + self._bound

    def _detach_late(self, subscription: Subscription) -> bool:
        subscription.reader.drain(subscription)
        if subscription.lag > self._bound or (subscription.lag and subscription.position < self.journal.due()):
            subscription.overflow(self._bound)
            self.detach(subscription)
            return True
        return False

    def subscribe(self, reader: Reader, after: int | None, run_id: str | None) -> Subscription:
        """Join, live (`after` None) or after a sequence of the current or named run (spec: hub 5, gap arithmetic).

        A gap is not a refusal: the subscription is then over at once, with `ReplayGap`. Raises `Refusal` with
        `no_run_to_resume`, `run_not_found`, `replay_cursor_future`. Call `start` on it once its reader can be told.
        """
        if after is None:
            subscription = Subscription(self, reader, self.journal.head, None)
            self.subscriptions.append(subscription)
            return subscription
        run = self.current if run_id is None else self.runs.get(run_id)
        if run is None or not (run.shown or run is self.current):
            if run_id is not None:
                raise Refusal(names.RUN_NOT_FOUND, f"this session has no run {run_id}", {"run_id": run_id})
            raise Refusal(names.NO_RUN_TO_RESUME, "this session has had no run yet; subscribe without a cursor")
        if after > run.sequence:
            raise Refusal(
                names.REPLAY_CURSOR_FUTURE,
                f"run {run.id} has reached sequence {run.sequence}; {after} is not there yet",
                {"run_id": run.id, "latest_available": run.sequence},
            )
        head, base = self.journal.head, self.journal.base
        start = run.position_after(after) if run.first >= 0 else head
        gone = run.sequence_before(base) > after
        subscription = Subscription(self, reader, start if gone else max(start, base), run, after)
        if gone:
            subscription.outcome = self.gap(run, after)
            subscription.end = start
        elif run.over:
            subscription.end = max(run.last + 1, subscription.position)
        self.subscriptions.append(subscription)
        return subscription

    def detach(self, subscription: Subscription) -> None:
        """Forget a subscription; harmless to repeat."""
        if subscription in self.subscriptions:
            self.subscriptions.remove(subscription)
        if subscription in self.idle:
            self.idle.remove(subscription)
        if self._closed and not self.subscriptions:
            self._let_go()
        if self.watchers:
            self.progressed()

    def finish(self, broke: bool = False) -> None:
        """End every subscription at the head: the session closed, or its stream broke.

        The events of a closed session go when the last subscription that has still to take some of them goes.
        """
        self._closed = not broke
        for subscription in list(self.subscriptions):
            if broke:
                subscription.broke()
            else:
                subscription.finish(SessionEnded("the session was closed"))
        idle, self.idle = self.idle, []
        for subscription in idle:
            subscription.wake()
        if self._closed and not self.subscriptions:
            self._let_go()

    def _let_go(self) -> None:
        """Keep nothing of a closed session: its last state stands with the session."""
        self.journal = _NOTHING
        self.runs.clear()
        self.current = None

    # -- positions ---------------------------------------------------------------------------------------------------

    def run_at(self, position: int) -> Run | None:
        """Return the run whose event stands at a position, or None."""
        for run in reversed(self.runs.values()):
            if 0 <= run.first <= position <= run.last and position not in run.strangers:
                return run
        return None

    def span_at(self, position: int) -> Run | None:
        """Return the run that a live reader at a position is in: one that stands aside counts only by itself."""
        for run in reversed(self.runs.values()):
            if not run.aside and 0 <= run.first <= position and (position <= run.last or not run.over):
                return run
        return self.run_at(position)

    def gap(self, run: Run, after: int) -> ReplayGap:
        """Return the gap of a cursor that is older than what is retained of a run."""
        return ReplayGap(after, run.sequence_before(self.journal.base) + 1, run.sequence)

    # -- pace --------------------------------------------------------------------------------------------------------

    @property
    def lag(self) -> int:
        """How many events the slowest attached subscription is behind."""
        return max((subscription.lag for subscription in self.subscriptions), default=0)

    @property
    def congested(self) -> bool:
        """Whether a sink that had caught up takes nothing now."""
        return any(subscription.caught_up and subscription.reader.blocked for subscription in self.subscriptions)

    def progressed(self) -> None:
        """Tell everyone who asked that a subscription has moved or ended."""
        watchers, self.watchers = self.watchers, []
        for watcher in watchers:
            watcher()


def _untrue(run: Run, kind: str) -> str | None:
    """Say why a terminal cannot be what happened, or return None."""
    if kind == names.RUN_CANCELLED and not run.cancelling:
        return "the harness cancelled the run, and nobody had asked for that"
    if kind == names.RUN_COMPLETED and not run.started:
        return "the harness completed the run before it started it"
    return None


_NOTHING: Final[Journal] = MemoryJournal(1, 1)
_GATES: Final = frozenset((names.PERMISSION_REQUESTED, names.INPUT_REQUESTED))
