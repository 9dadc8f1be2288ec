"""`ProcessSession`: one codec on one process. It does what the codec's steps say, in order, and keeps its deadlines."""

from __future__ import annotations

import asyncio
from collections import deque

from ...adapters.base import NOTHING, Exit, Step
from ...protocol import names
from ...protocol.errors import HarnessFault, Refusal
from .child import Child
from .inlet import Inlet
from .pending import Pending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Final

    from ...adapters.base import Codec, Draft, Launch
    from ...protocol.envelope import Envelope
    from ...protocol.limits import Limits
    from ..hub.ports import AdapterSession, Answer, Outlet
    from .keeper import Keeper
    from .redact import Redactor

NOT_READY: Final = "harness_not_ready"
TRACE_FRAMES: Final = 8
"""Places of a traceback that the log names, the innermost first."""
_MARKED: Final = names.TERMINALS | names.GATES | {names.RUN_STARTED}
"""Drafts of which the driver keeps account, or to which it adds something."""


class ProcessSession:
    """One open session (port: `hub.ports.AdapterSession`). `label` names it in diagnostics.

    Everything that a codec is told passes `_ask`, everything that it answers passes `_apply`. A step that a request
    causes while another step is being published (the session promotes a queued run) waits for its turn in `_steps`.
    """

    def __init__(self, codec: Codec, outlet: Outlet, limits: Limits, redactor: Redactor, label: str) -> None:
        self._codec = codec
        self._outlet = outlet
        self._limits = limits
        self._redactor = redactor
        self._label = label
        self._loop = asyncio.get_running_loop()
        self._steps: deque[Step] = deque()
        self._drafts: list[Draft] = []
        self._applying = False
        self._batching = False
        self._pending = Pending(self._loop)
        self._live: dict[str, None] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._start_timer: asyncio.TimerHandle | None = None
        self._fault: HarnessFault | None = None  # why this session is being ended, where the harness did not say
        self._gone: HarnessFault | None = None  # set once the harness is gone: what later requests are told
        self._is_open = False
        self._closing: asyncio.Future[None] | None = None
        self._child: Child
        self._inlet: Inlet

    # -- opening --

    def start(self, launch: Launch, request: Envelope, keeper: Keeper) -> Answer[AdapterSession]:
        """Start the process and ask the codec to open (see `ProcessAdapter.open`)."""
        self._inlet = Inlet(self._loop, self._limits, self._outlet, self._receive, self._too_long, self._finish)
        self._child = Child(launch, self._limits, self._redactor, keeper, self._inlet.feed, self._ended)
        self._inlet.attach(self._child)
        self._start_timer = self._loop.call_later(self._limits.harness_start_s, self._not_ready)
        if (step := self._ask(self._codec.connected)) is not None:
            self._apply(step)
        if self._fault is not None:
            raise self._fault
        try:
            answer = self._request(request)
        except Refusal as refusal:
            fault = self._fault
            self._refused(refusal)
            raise fault or refusal from None
        self._inlet.resume()
        if answer is None:
            self._is_open = True
            self._start_timer.cancel()
            return self
        opened: asyncio.Future[AdapterSession] = self._loop.create_future()
        answer.add_done_callback(lambda done: self._opened(done, opened))
        opened.add_done_callback(self._unwanted)
        return opened

    def _unwanted(self, opened: asyncio.Future[AdapterSession]) -> None:
        """Whoever waited for the open has given it up: the harness goes at once, and not when it would be ready."""
        if opened.cancelled():
            self.close()

    def _opened(self, done: asyncio.Future[None], opened: asyncio.Future[AdapterSession]) -> None:
        if (error := done.exception()) is not None:
            self._refused(error)
            if not opened.done():
                opened.set_exception(error)
            return
        self._is_open = True
        if self._start_timer is not None:
            self._start_timer.cancel()
        if not opened.done():  # else it was given up, and the harness is being stopped
            opened.set_result(self)

    def _refused(self, error: BaseException) -> None:
        """The open failed: end what was started for it."""
        if isinstance(error, Refusal):
            self._fail(HarnessFault(names.OPEN_FAILED, str(error)))

    def _not_ready(self) -> None:
        if self._gone is None:
            seconds = f"{self._limits.harness_start_s:g} s"
            self._fail(HarnessFault(NOT_READY, f"the harness was not ready within {seconds} of its start"))

    # -- the hub's side (AdapterSession) --

    def prepare(self, run_id: str) -> None:
        """Mint nothing in advance: a harness names its own things."""

    def submit(self, request: Envelope) -> Answer[None]:
        """Start a run. Raises `Refusal`, also with the kept reason once the harness is gone."""
        self._inlet.new_run()
        return self._request(request)

    def resolve(self, request: Envelope) -> Answer[None]:
        """Hand over the answer to a gate. Raises `Refusal`."""
        return self._request(request)

    def cancel(self, request: Envelope) -> Answer[None]:
        """Stop a live run. Raises `Refusal`."""
        return self._request(request)

    def models(self) -> Answer[Mapping[str, Any] | None]:
        """Return the catalog as the codec has it now."""
        return self._codec.models()

    def tools(self) -> Answer[Mapping[str, Any] | None]:
        """Return the tool catalog as the codec has it now."""
        return self._codec.tools()

    def facts(self) -> Mapping[str, Any]:
        """Return what the codec adds to the state document."""
        return self._codec.facts()

    def close(self) -> Answer[None]:
        """Let the codec say goodbye, then run the stop ladder; done when the process and its family are gone."""
        if self._closing is None:
            self._closing = self._loop.create_future()
            if self._gone is None and self._fault is None and (step := self._ask(self._codec.closing)) is not None:
                self._apply(step)
            self._child.stop().add_done_callback(self._stopped)
        return self._closing

    def _stopped(self, done: asyncio.Future[list[str]]) -> None:
        if not done.cancelled() and (error := done.exception()) is not None:
            self._note(f"stopping the harness failed: {error}")
        self._settle_close()

    def _settle_close(self) -> None:
        closing = self._closing
        if closing is not None and not closing.done() and self._gone is not None and self._child.stop().done():
            closing.set_result(None)

    # -- what the codec is told --

    def _request(self, request: Envelope) -> Answer[None]:
        if (gone := self._gone or self._fault) is not None:
            raise self._refusal(gone)
        token = self._pending.new(request.run_id if request.type == names.SUBMIT else None)
        try:
            step = self._codec.request(token, request)
        except Refusal as refusal:
            step = NOTHING
            self._pending.settle(token, self._clean(refusal))
        except Exception as error:
            step = NOTHING
            self._bug(error)
        self._apply(step)
        return self._pending.answer(token)

    def _receive(self, frames: Sequence[bytes]) -> None:
        """Apply the frames of one turn; what they publish goes up in one batch, unless something must follow it."""
        self._batching = True
        receive, drafts = self._codec.receive, self._drafts
        try:
            for frame in frames:
                if self._fault is not None:
                    break
                step = receive(frame)
                if step is NOTHING:
                    continue
                if step.write or step.settle or step.arm or step.notes or step.end is not None or self._applying:
                    self._apply(step)
                    drafts = self._drafts
                else:
                    drafts += step.publish
        except Exception as error:
            self._bug(error)
        self._batching = False
        self._flush()

    def _elapsed(self, name: str) -> None:
        del self._timers[name]
        if self._gone is None and (step := self._ask(self._codec.elapsed, name)) is not None:
            self._apply(step)

    def _ask(self, method: Callable[..., Step], *arguments: Any) -> Step | None:
        try:
            return method(*arguments)
        except Exception as error:
            self._bug(error)
            return None

    # -- what the codec answers --

    def _apply(self, step: Step) -> None:
        self._steps.append(step)
        if not self._applying:
            self._carry_on()

    def _carry_on(self) -> None:
        self._applying = True
        try:
            while self._steps:
                self._carry_out(self._steps.popleft())
        finally:
            self._applying = False

    def _carry_out(self, step: Step) -> None:
        """Write, publish, settle, arm, note, end: in this order, and after everything of the steps before."""
        if step.write:
            self._publish()
            self._write(step.write)
        self._drafts += step.publish
        if not self._batching or step.settle or step.end is not None:
            self._publish()
        for token, outcome in step.settle:
            run_id = self._pending.settle(token, None if outcome is None else self._clean(outcome))
            if run_id is not None:
                self._live[run_id] = None
        for name, seconds in step.arm:
            if (timer := self._timers.pop(name, None)) is not None:
                timer.cancel()
            if seconds is not None and self._gone is None:
                self._timers[name] = self._loop.call_later(seconds, self._elapsed, name)
        for note in step.notes:
            self._note(note)
        if step.end == "eof":
            self._child.end_input()
        elif step.end is not None:
            self._child.stop()

    def _flush(self) -> None:
        if not self._applying:
            self._applying = True
            try:
                self._publish()
            finally:
                self._applying = False
            self._carry_on()

    def _publish(self) -> None:
        """Publish what has gathered, in one call. The outlet may come back with a submit before it returns."""
        if not self._drafts:
            return
        drafts = self._drafts
        self._drafts = []
        try:
            for index, draft in enumerate(drafts):
                if draft[1] in _MARKED:
                    drafts[index] = self._marked(draft)
            self._outlet.publish(drafts)
        except Exception as error:
            self._bug(error)

    def _marked(self, draft: Draft) -> Draft:
        """Keep account of a run, say who answers a gate, and take secrets out of what a run ended with."""
        run_id, kind, payload = draft[:3]
        if kind in names.GATES:
            payload = {"responded_by": self._outlet.participant, **payload}
        elif kind == names.RUN_STARTED:
            self._live[run_id] = None
        else:
            self._live.pop(run_id, None)
            self._pending.run_over(run_id)
            about = _REASONS.get(kind)
            if about is not None and about in payload:
                payload = {**payload, about: self._redactor.value(payload[about])}
        return (run_id, kind, payload, *draft[3:])

    def _clean(self, refusal: Refusal) -> Refusal:
        """Return a codec's refusal without secrets: its text may be the harness's own."""
        details = None if refusal.details is None else self._redactor.value(refusal.details)
        return Refusal(refusal.code, self._redactor.text(refusal.message), details)

    def _write(self, blocks: Sequence[bytes]) -> None:
        if self._gone is not None:
            return
        try:
            for block in blocks:
                self._child.write(block)
        except HarnessFault as fault:
            if self._closing is None:
                self._fail(fault)

    # -- the end --

    def _too_long(self, limit: int, size: int) -> None:
        self._fail(
            HarnessFault(
                "harness_frame_too_large",
                f"the harness wrote a line of at least {size} bytes; the most is {limit} (limit harness_frame_bytes)",
            )
        )

    def _bug(self, error: Exception) -> None:
        """A codec raised, or the hub did: end this session, and no other, with what is known."""
        what = self._redactor.text(f"{type(error).__name__}: {error}")[: self._limits.message_chars]
        self._log("error", f"internal error{_places(error)}: {what}")
        self._fail(HarnessFault(names.INTERNAL, f"internal error in this adapter: {what}"))

    def _fail(self, fault: HarnessFault) -> None:
        """End the session for a reason of our own. The first reason stands. The rest follows in `_finish`."""
        if self._fault is None and self._gone is None:
            self._fault = fault
            self._inlet.drop()
            self._child.give_up(now=True)
            self._child.stop()

    def _ended(self, how: Exit, fault: HarnessFault | None) -> None:
        """Nothing more will be read: finish when what was read has been applied."""
        if self._fault is None:
            self._fault = fault
        self._inlet.end(how)

    def _finish(self, how: Exit) -> None:
        """The harness is gone: every run and every request gets its end, then the process its own."""
        reason = self._fault or HarnessFault(names.HARNESS_EXITED, self._brief(how))
        for timer in (self._start_timer, *self._timers.values()):
            if timer is not None:
                timer.cancel()
        self._timers.clear()
        if self._fault is not None:
            self._end_runs(reason)
            self._pending.settle_all(self._refusal(reason), reason)
        step = self._ask(self._codec.closed, how)
        self._gone = reason
        if step is not None:
            self._apply(self._only_live(step))
        self._end_runs(reason)
        self._pending.settle_all(self._refusal(reason), reason)
        if self._is_open and self._closing is None:
            # after the callbacks of what was just settled: a refused submit takes its run back before runs are ended
            self._loop.call_soon(self._outlet.failed, str(reason))
        self._child.stop().add_done_callback(lambda _: self._settle_close())
        self._settle_close()

    def _end_runs(self, reason: HarnessFault) -> None:
        error = {"code": reason.code, "message": reason.message[: self._limits.message_chars]}
        self._drafts += [
            (run_id, names.RUN_FAILED, {"error": error, "settled_by": "inferred"}) for run_id in list(self._live)
        ]
        self._flush()

    def _only_live(self, step: Step) -> Step:
        """Leave out what the codec's last step says of runs that have already been ended for it."""
        if self._fault is None or not step.publish:
            return step
        return Step((), [draft for draft in step.publish if draft[0] in self._live], step.settle, (), step.notes)

    def _refusal(self, reason: HarnessFault) -> Refusal:
        return Refusal(names.SESSION_CLOSED, f"the session's harness is gone: {reason.message}", {"cause": reason.code})

    def _brief(self, how: Exit) -> str:
        return str(Exit(how.code, self._child.stderr.text(self._limits.message_chars)))

    def _note(self, text: str) -> None:
        self._log("warning", self._redactor.text(text)[: self._limits.message_chars])

    def _log(self, level: str, text: str) -> None:
        """Log one line: what a harness says may not begin a line of its own."""
        import logging

        getattr(logging.getLogger("trunkline"), level)("session %s: %s", self._label, "\\n".join(text.splitlines()))


def _places(error: BaseException) -> str:
    """Return where an error came from, by file and line; its own text, and that of its causes, may hold secrets."""
    places: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        file = "/".join(code.co_filename.replace("\\", "/").split("/")[-2:])
        places.append(f"{file}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return f" in {' < '.join(places[: -TRACE_FRAMES - 1 : -1])}" if places else ""


_REASONS: Final[Mapping[str, str]] = {names.RUN_FAILED: "error", names.RUN_CANCELLED: "reason"}
"""Where the words stand with which a run ended; they may be the harness's own, so that they pass the redactor."""
