"""The stdio door: chunks of the host's lines in, lines out. No descriptor and no loop stands here.

The same door serves real pipes (`server.py`) and an in-process pair (`pair.py`): both give it a sink, a way to run a
call later this turn, and a way to stop and start reading.
"""

from __future__ import annotations

from collections import deque
from functools import partial

from ...framing import LineDecoder, parse_op_line
from ...protocol import names
from ...protocol.envelope import Envelope
from ...protocol.errors import FrameTooLarge, LineDefect, Refusal
from ...protocol.json import loads
from ..operations import cursor, find, known_answer
from ..undo import undo_open, undo_submit
from .admission import Admission, no_subscription_slot
from .lines import OK, answer_line, refusal_line
from .pump import Pump, Reading
from .writer import BLOCK, Writer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable, Iterable
    from typing import Final

    from ...framing import OpLine
    from ...protocol.limits import Limits
    from ..hub.switch import Switch
    from ..operations import Result
    from .writer import BlockSink

BATCH: Final = 64
"""Answers that are collected before they are handed to the writer as one block."""


class Door:
    """One host's session on the hub. `changed()` is called when input ended, a defect was found or an op finished.

    `defect` is the text of a framing defect, once one was found; nothing after it is read. `ended`: the host's input
    is over. `closing`: no op is admitted any more.
    """

    def __init__(
        self,
        switch: Switch,
        limits: Limits,
        sink: BlockSink,
        soon: Callable[[Callable[[], None]], object],
        pause: Callable[[], None],
        resume: Callable[[], None],
        changed: Callable[[], None],
    ) -> None:
        self.switch = switch
        self.limits = limits
        self.admission = Admission(limits)
        self.writer = Writer(sink, limits, soon)
        self.pump = Pump(self.writer, limits.frame_bytes, soon)
        self.defect: str | None = None
        self.ended = False
        self.closing = False
        self._decoder = LineDecoder(limits.frame_bytes)
        self._depth = limits.depth
        self._longest = limits.frame_bytes + 1
        self.count = 0  # lines seen, for the diagnostic of a defect
        self._backlog: deque[bytes] = deque()  # lines of one read that came while both queues were full
        self._backlog_fault: FrameTooLarge | None = None
        self._refusals: deque[bytes] = deque()
        self._stalled: deque[tuple[bytes, int, Callable[[], None] | None]] = deque()  # answers that hold their slot
        self._paused = False
        self._pause = pause
        self._resume = resume
        self._changed = changed

    # -- in ----------------------------------------------------------------------------------------------------------

    def feed(self, chunk: bytes) -> None:
        """Take one read of the host's input; empty is its end."""
        if self.defect is not None or self.ended:
            return
        if not chunk:
            self._end_of_input()
            return
        try:
            self._take_all(self._decoder.feed(chunk))
        except FrameTooLarge as fault:
            self._take_all(fault.frames)
            self._too_large(fault)

    @property
    def unserved(self) -> int:
        """How many requests were read and not answered: waiting, held, or refused without room to say so."""
        return len(self._backlog) + len(self._refusals) + self.admission.held

    @property
    def idle(self) -> bool:
        """Whether every line that was read has its answer in the writer."""
        return not self._backlog and not self._refusals and not self.admission.held

    def _end_of_input(self) -> None:
        self.ended = True
        if not self._backlog:
            self._check_tail()
        self._changed()

    def _check_tail(self) -> None:
        if self.defect is None and (tail := self._decoder.eof()):
            self._fail(self.count + 1, f"the last line ({len(tail)} bytes) has no newline; end every line with LF")

    def _too_large(self, fault: FrameTooLarge) -> None:
        if self._backlog:
            self._backlog_fault = fault
        elif self.defect is None:
            self._fail(self.count + 1, f"it is longer than the frame limit of {fault.limit} bytes")

    def _fail(self, number: int, detail: str) -> None:
        self.defect = f"line {number} is not a valid request: {detail}"
        self._backlog.clear()
        self._pause()
        self._changed()

    def _take_all(self, frames: Iterable[bytes]) -> None:
        """Serve lines in the reader's turn. Answers that are there at once leave together, up to `BATCH` or `BLOCK`."""
        backlog, writer = self._backlog, self.writer
        if backlog:
            backlog.extend(frames)
            return
        frames = iter(frames)
        answers: list[bytes] = []
        size = 0
        clear = writer.clear and not self._stalled
        switch, admission, longest = self.switch, self.admission, self._longest
        for frame in frames:
            self.count += 1
            try:
                line = parse_op_line(frame, self._depth)
            except LineDefect as defect:
                writer.put_all(answers)
                self._fail(self.count, f"{defect.reason} (byte {defect.offset})")
                return
            answer = None
            if not admission.held and not self.closing:
                answer = known_answer(switch, line, longest)
            if answer is None:
                answer = self._serve(line)
            if answer is not None:
                if clear:
                    answers.append(answer)
                    size += len(answer)
                    if len(answers) < BATCH and size < BLOCK:
                        continue
                    writer.put_all(answers)
                    answers = []
                    size = 0
                    clear = writer.clear and not self._stalled
                else:
                    self._settle(answer, _size(line))
            if len(self._refusals) >= self.limits.refusals and not writer.room:
                backlog.extend(frames)
                self._paused = True
                self._pause()
                break
        writer.put_all(answers)

    def _serve(self, line: OpLine) -> bytes | None:
        """Return the answer of one line; None: it comes later, or a `busy` refusal is queued. Never waits."""
        if self.admission.held and (busy := self.admission.refuse(_size(line))) is not None:
            self._refuse(line.id, busy)
            return None
        try:
            if self.closing:
                raise Refusal(names.REQUEST_CANCELLED, "the gateway is shutting down")
            operation = find(line)
            if operation.perform is None:
                self._events(line)
                return None
            outcome = operation.perform(self.switch, line)
            if type(outcome) is bytes and len(answer := OK % (line.id, outcome)) <= self._longest:
                return answer
            if outcome is None or isinstance(outcome, bytes | Envelope | dict):
                return self._answer(line, outcome)
            outcome.add_done_callback(partial(self._finished, line, size := _size(line)))
            self.admission.take(size)
            return None
        except Refusal as refusal:
            return self._refusal(line.id, refusal)
        except Exception as error:
            return self._internal(line, error)

    def _events(self, line: OpLine) -> None:
        """Open a subscription: its acknowledgement enters the writer before its pump starts (spec: stdio 6.1)."""
        session = self.switch.session(line.session_id or "")
        session.check_not_closed()
        after = cursor(line.after, line.run_id)
        if len(self.pump.readings) >= self.limits.subscriptions:
            raise no_subscription_slot(self.limits.subscriptions)
        reading = Reading(self.pump, line.id, session.session_id)
        subscription = session.subscribe(reading, after, line.run_id)
        self.pump.readings.add(reading)
        self._settle(answer_line(line.id, None), 0, partial(self.pump.add, reading, subscription))

    # -- out ---------------------------------------------------------------------------------------------------------

    def move_on(self) -> None:
        """Hand the writer what waits for room, as far as it has some, and write."""
        writer = self.writer
        writer.flush()
        while self._stalled and writer.room:
            answer, size, then = self._stalled.popleft()
            writer.put(answer)
            self.admission.give(size)
            if then is not None:
                then()
        while self._refusals and writer.room:
            writer.put(self._refusals.popleft())
        writer.flush()

    def drained(self) -> None:
        """The sink has written everything: move on what waited for it, in order, then read on."""
        writer = self.writer
        self.move_on()
        self.pump.run()
        if self._paused and (writer.room or len(self._refusals) < self.limits.refusals):
            self._read_on()
        self._changed()

    def _read_on(self) -> None:
        self._paused = False
        frames = list(self._backlog)
        self._backlog.clear()
        self._take_all(frames)
        if self._paused or self.defect is not None:
            return
        if (fault := self._backlog_fault) is not None:
            self._backlog_fault = None
            self._too_large(fault)
        elif self.ended:
            self._check_tail()
        else:
            self._resume()

    def _settle(self, answer: bytes, size: int, then: Callable[[], None] | None = None) -> None:
        """Hand an answer to the writer, or let it hold its slot until the writer can take it."""
        if self.writer.room and not self._stalled:
            self.writer.put(answer)
            if then is not None:
                then()
        else:
            self.admission.take(size)
            self._stalled.append((answer, size, then))

    def _refuse(self, id: int, busy: Refusal) -> None:
        answer = self._refusal(id, busy)
        if self.writer.room and not self._refusals:
            self.writer.put(answer)
        else:
            self._refusals.append(answer)

    def _finished(self, line: OpLine, size: int, done: Future[Envelope] | Future[None]) -> None:
        self.admission.give(size)
        try:
            answer = self._answer(line, done.result())
        except Refusal as refusal:
            answer = self._refusal(line.id, refusal)
        except BaseException as error:
            answer = self._internal(line, error)
        self._settle(answer, size)
        self._changed()

    def _answer(self, line: OpLine, result: Result) -> bytes:
        """Return the answer's line; one that fits in no frame is undone and refused (spec: stdio 5.1)."""
        try:
            answer = answer_line(line.id, result)
            if len(answer) <= self._longest:
                return answer
            why = f"the answer has {len(answer) - 1} bytes, more than the frame limit of {self.limits.frame_bytes}"
        except TypeError as error:
            why = f"the answer has no JSON form ({error})"
        if line.op == "open":
            why = undo_open(self.switch, result, _named_session(line), why)
        elif line.op == "submit":
            why = undo_submit(self.switch, result, why)
        return self._refusal(line.id, Refusal(names.RESPONSE_TOO_LARGE, why))

    def _refusal(self, id: int, refusal: Refusal) -> bytes:
        return refusal_line(id, refusal, self.limits.frame_bytes, self.limits.message_chars)

    def _internal(self, line: OpLine, error: BaseException) -> bytes:
        """A fault of ours: answered all the same, and told on the diagnostics."""
        self.switch.services.note(f"op {line.op} failed: {type(error).__name__}: {error}")
        return self._refusal(line.id, Refusal(names.INTERNAL, f"op {line.op} failed inside the gateway"))

    def stop(self) -> None:
        """Admit no op and serve no subscription any more."""
        self.closing = True
        self.pump.stop()


def _size(line: OpLine) -> int:
    return 0 if line.request is None else len(line.request)


def _named_session(line: OpLine) -> str | None:
    named: str | None = loads(line.request or b"{}").get("payload", {}).get("session_id")
    return named
