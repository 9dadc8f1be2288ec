"""The session with one Claude Code process: handshake, requests, control frames, and whose turn is running."""

from __future__ import annotations

from ...protocol import names
from ...protocol.errors import Refusal
from ..base import NOTHING, Step
from . import models, outcome
from .control import Control
from .diagnostics import Diagnostics
from .facts import Facts
from .frames import FrameDefect, parse, shown, word
from .gates import Gates, deny
from .launch import launch
from .models import Switching
from .ownership import Ownership
from .prompt import user_frame
from .turn import Turn
from .usage import Meter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Final, Literal

    from ...protocol.envelope import Envelope
    from ..base import Draft, Exit, Launch, Settings, Settlement

START, IDLE, CANCEL, SWITCH = "start", "idle", "cancel", "switch"
"""The named deadlines: until the handshake is answered, of a silent run, of a cancel, of a model switch."""

STARTING, READY, ENDING, ENDED = "starting", "ready", "ending", "ended"


class ClaudeCodec:
    """One session. See `adapters.base.Codec` for what each method must do."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.limits = settings.limits
        self.state = STARTING
        self.why = ""  # why the harness is not usable any more
        self.control = Control()
        self.gates = Gates(self.limits.gates_per_run)
        self.meter = Meter()
        self.turn: Turn | None = None
        self.switching: Switching | None = None
        self.whose = Ownership()
        self.frames = 0
        self.judged = 0  # frames at the last look of the idle deadline
        self.diagnostics = Diagnostics(self.limits.harness_stray_lines)
        self.known = Facts(settings.options.get("model"), self.diagnostics.note)
        self._opening: int | None = None

    # -- what the driver calls ----------------------------------------------------------------------------------------

    def launch(self, request: Envelope) -> Launch:
        """Return how to start the harness for this open request. Raises `Refusal`."""
        return launch(self.settings, request)

    def connected(self) -> Step:
        """Begin the handshake; the harness is silent until it is spoken to."""
        line = self.control.request("initialize", hooks=None)
        return Step(write=[line], arm=[(START, self.limits.harness_start_s)])

    def receive(self, frame: bytes) -> Step:
        """Take one line of the harness."""
        self.frames += 1
        if self.state == ENDED:
            return NOTHING
        try:
            value = parse(frame)
        except FrameDefect as defect:
            return self.diagnostics.onto(self._defect(defect))
        if value.get("type") == "stream_event":
            if self.turn is None or self.whose.foreign or value.get("parent_tool_use_id") is not None:
                return NOTHING
            drafts = self.turn.stream(value.get("event"))
            return Step(publish=drafts) if drafts else NOTHING
        handler = _FRAMES.get(word(value.get("type")))
        return self.diagnostics.onto(
            handler(self, value) if handler is not None else self.diagnostics.unknown("frame", value.get("type"))
        )

    def request(self, token: int, request: Envelope) -> Step:
        """Take one admitted request; its token is settled now or in a later step."""
        try:
            step = _REQUESTS[request.type](self, token, request)
        except Refusal as refusal:
            step = Step(settle=[(token, refusal)])
        return self.diagnostics.onto(step)

    def elapsed(self, name: str) -> Step:
        """A deadline has passed."""
        return self.diagnostics.onto(_DEADLINES[name](self))

    def closing(self) -> Step:
        """Say goodbye. A running turn is interrupted first: at the end of its input the harness would finish it."""
        if self.turn is None or self.state != READY:
            return NOTHING
        self.turn.closing = True
        return Step(write=[self.control.request("interrupt")])

    def closed(self, how: Exit) -> Step:
        """The harness is gone."""
        if self.state == ENDED:
            return NOTHING
        text = f"{self.why}; {how}" if self.why else str(how)
        if self.turn is not None:
            text += ", before the turn's result"
        return self.diagnostics.onto(self._abandon(ENDED, names.HARNESS_EXITED, text, None))

    def models(self) -> Mapping[str, Any] | None:
        """Return the catalog of the answered handshake; None before it."""
        return self.known.models()

    def tools(self) -> Mapping[str, Any] | None:
        """Return None: the harness names its tools but tells no input schema."""
        return None

    def facts(self) -> Mapping[str, Any]:
        """Return the native handle, and the model of turns that choose none. Both are complete after the first turn."""
        return self.known.state()

    # -- requests -----------------------------------------------------------------------------------------------------

    def _open(self, token: int, request: Envelope) -> Step:
        if self.state == READY:
            return Step(settle=[(token, None)])
        if self.state != STARTING:
            raise Refusal(names.OPEN_FAILED, self.why or "the harness has ended")
        self._opening = token
        return NOTHING

    def _submit(self, token: int, request: Envelope) -> Step:
        if self.state != READY:
            raise Refusal(names.SESSION_CLOSED, f"the harness of this session is gone: {self.why or 'not started'}")
        if self.turn is not None or self.switching is not None:
            raise Refusal(names.RUN_ACTIVE, "the harness still runs the turn before")
        line = user_frame(request.payload)
        model = request.payload.get("model_id")
        turn = Turn(request.run_id or "", model, self.limits.calls_per_run, self.diagnostics.note)
        if model is None or model == self.known.model == self.known.current:
            return self._start(turn, token, line)
        turn.switched = True
        write = self.control.request("set_model", model=model)
        self.switching = Switching(self.control.last, token, turn, line)
        return Step(write=[write], arm=[(SWITCH, self.limits.harness_cancel_s)])

    def _start(self, turn: Turn, token: int, line: bytes) -> Step:
        self.turn = turn
        payload = {"status": "running"} if turn.selected is None else {"status": "running", "model_id": turn.selected}
        self.judged = self.frames
        return Step(
            write=[line],
            publish=[(turn.run_id, names.RUN_STARTED, payload)],
            settle=[(token, None)],
            arm=[(IDLE, self.limits.harness_idle_s)],
        )

    def _resolve(self, token: int, request: Envelope) -> Step:
        if self.turn is None or self.state != READY:
            raise Refusal(names.RESOLUTION_REJECTED, "the run has ended")
        line, drafts = self.gates.answer(self.turn, request)
        self.frames += 1  # an answered gate is a sign of life: the idle deadline counts from here
        return Step(write=[line], publish=drafts, settle=[(token, None)])

    def _cancel(self, token: int, request: Envelope) -> Step:
        if self.switching is not None:
            self.switching.turn.cancelling = True
            return Step(settle=[(token, None)])
        if self.turn is None or self.turn.cancelling or self.state != READY:
            return Step(settle=[(token, None)])
        self.turn.cancelling = True
        return Step(
            write=[self.control.request("interrupt")],
            settle=[(token, None)],
            arm=[(CANCEL, self.limits.harness_cancel_s)],
        )

    # -- frames -------------------------------------------------------------------------------------------------------

    def _assistant(self, frame: Mapping[str, Any]) -> Step:
        return NOTHING if self.turn is None or self.whose.foreign else Step(publish=self.turn.assistant(frame))

    def _user(self, frame: Mapping[str, Any]) -> Step:
        if self.turn is None or self.whose.foreign or frame.get("isReplay"):
            return NOTHING
        drafts = self.turn.results(frame)
        return Step(publish=[*self.gates.settled(self.turn), *drafts])

    def _system(self, frame: Mapping[str, Any]) -> Step:
        handler = _SYSTEM.get(word(frame.get("subtype")))
        return (
            handler(self, frame)
            if handler is not None
            else self.diagnostics.unknown("system frame", frame.get("subtype"))
        )

    def _init(self, frame: Mapping[str, Any]) -> Step:
        """A turn begins: ours, or one of the harness's own after a task in the background has ended."""
        self.known.seen(frame)
        turn = self.turn
        if not self.whose.begins(turn) or turn is None:
            return NOTHING
        self.known.begins(turn, frame)
        begun, turn.begun = turn.begun, True
        if turn.cancelling and not begun:  # the interrupt may have met the turn before this one
            return Step(write=[self.control.request("interrupt")])
        return NOTHING

    def _task(self, frame: Mapping[str, Any]) -> Step:
        """A sign of life of a tool call that runs longer, or in the background, or is a sub-agent."""
        if frame.get("subtype") == "task_notification":
            self.whose.notified(self.turn)
        return NOTHING if self.turn is None or self.whose.foreign else Step(publish=self.turn.sign(frame))

    def _nothing(self, frame: Mapping[str, Any]) -> Step:
        return NOTHING

    def _result(self, frame: Mapping[str, Any]) -> Step:
        """A turn has ended."""
        turn = self.turn
        usage, about = self.meter.turn(frame, turn is not None and turn.model is not None)
        if self.state == STARTING:
            return self._give_up(names.OPEN_FAILED, outcome.error_text(frame))
        ours, note = self.whose.ends(frame, turn)
        if note is not None:
            self.diagnostics.note(note)
        if not ours or turn is None:
            return NOTHING
        drafts = outcome.settled(turn, frame, self.known.model, usage, about)
        return self._end_run(turn, drafts)

    def _control_request(self, frame: Mapping[str, Any]) -> Step:
        request_id, request = word(frame.get("request_id")), frame.get("request")
        if not request_id or not isinstance(request, dict):
            return self.diagnostics.unknown("control request", "without an id or a body")
        subtype = word(request.get("subtype"))
        if subtype != "can_use_tool":
            self.diagnostics.unknown("control request", subtype)
            return Step(write=[self.control.refuse(request_id, f"this host serves no {subtype or 'such'} request")])
        if self.turn is None or self.whose.foreign:
            self.diagnostics.note(
                f"a tool of a turn of the harness's own ({shown(request.get('tool_name'))}) was denied: no run is open"
            )
            return Step(write=[deny(request_id, "Nobody can be asked: no run of the host is open.")])
        line, drafts = self.gates.ask(self.turn, request_id, request)
        return Step(write=[] if line is None else [line], publish=drafts)

    def _control_cancel(self, frame: Mapping[str, Any]) -> Step:
        if self.turn is None:
            return NOTHING
        return Step(publish=self.gates.withdraw(self.turn, word(frame.get("request_id"))))

    def _control_response(self, frame: Mapping[str, Any]) -> Step:
        id, subtype, response, error = self.control.answered(frame)
        if subtype == "initialize":
            return self._initialized(response, error)
        if self.switching is not None and id == self.switching.request_id:
            return self._switched(self.switching, error)
        if error is not None and subtype is not None:
            self.diagnostics.note(f"the harness refused {subtype}: {shown(error)}")
        return NOTHING

    def _initialized(self, response: Mapping[str, Any], error: str | None) -> Step:
        if self.state != STARTING:
            return NOTHING
        if error is not None:
            return self._give_up(names.OPEN_FAILED, f"the harness refused the handshake: {shown(error)}")
        self.state = READY
        self.known.initialized(response)
        token, self._opening = self._opening, None
        return Step(settle=[] if token is None else [(token, None)], arm=[(START, None)])

    def _switched(self, wanted: Switching, error: str | None) -> Step:
        """The model of the next run is set, or not."""
        self.switching = None
        turn, token = wanted.turn, wanted.token
        arm: list[tuple[str, float | None]] = [(SWITCH, None)]
        if error is not None:
            return Step(settle=[(token, models.refused(error))], arm=arm)
        if turn.cancelling:
            payload = {"reason": "cancelled before the harness was given the prompt"}
            return Step(
                write=[models.back(self.control, self.settings)],
                publish=[(turn.run_id, names.RUN_CANCELLED, payload)],
                settle=[(token, None)],
                arm=arm,
            )
        step = self._start(turn, token, wanted.line)
        return Step(write=step.write, publish=step.publish, settle=step.settle, arm=[*arm, *step.arm])

    # -- faults and ends ----------------------------------------------------------------------------------------------

    def _defect(self, defect: FrameDefect) -> Step:
        """A line that is no frame. Foreign text is skipped, up to a bound; a broken frame is the end: what it said of
        the run is lost."""
        if defect.stray or (self.turn is None and self.state == READY):
            if self.diagnostics.skip(defect):
                return NOTHING
            defect = FrameDefect(f"more than {self.limits.harness_stray_lines} lines that are no frames", False)
        return self._give_up("harness_protocol", str(defect))

    def _give_up(self, code: str, text: str) -> Step:
        """The harness cannot be used any more: end what waits for it and have the process stopped."""
        if self.state == ENDING:
            return NOTHING
        self.diagnostics.note(text)
        return self._abandon(ENDING, code, text, "stop")

    def _abandon(self, state: str, code: str, text: str, end: Literal["stop"] | None) -> Step:
        """Settle every token and end the live run: nothing of it will be told any more."""
        settle: list[Settlement] = []
        if self._opening is not None:
            settle.append((self._opening, Refusal(names.OPEN_FAILED, text)))
        if self.switching is not None:
            settle.append((self.switching.token, Refusal(names.SESSION_CLOSED, text)))
        publish = [] if self.turn is None else [outcome.lost(self.turn, code, text)]
        self.state = state
        self.why = self.why or text
        self.turn = self.switching = self._opening = None
        self.gates.open.clear()
        return Step(publish=publish, settle=settle, arm=[(name, None) for name in _DEADLINES], end=end)

    def _end_run(self, turn: Turn, drafts: list[Draft]) -> Step:
        self.turn = None
        self.gates.open.clear()
        switch_back = turn.switched and self.state == READY
        write = [models.back(self.control, self.settings)] if switch_back else []
        return Step(write=write, publish=drafts, arm=[(IDLE, None), (CANCEL, None)])

    def _start_elapsed(self) -> Step:
        if self.state != STARTING:
            return NOTHING
        return self._give_up(
            names.OPEN_FAILED, f"the harness did not answer the handshake within {self.limits.harness_start_s:g} s"
        )

    def _idle_elapsed(self) -> Step:
        """Look whether the harness was silent since the last look; so a run fails after one to two times the limit."""
        seconds = self.limits.harness_idle_s
        if self.turn is None or seconds is None:
            return NOTHING
        if self.frames != self.judged or self.gates.open:
            self.judged = self.frames
            return Step(arm=[(IDLE, seconds)])
        return self._give_up("harness_silent", f"the harness said nothing of the live run for {seconds:g} s")

    def _cancel_elapsed(self) -> Step:
        """The interrupt had no effect: stop the process; the run's terminal follows from its end."""
        if self.turn is None:
            return NOTHING
        self.why = f"the harness did not stop the turn within {self.limits.harness_cancel_s:g} s and was ended"
        self.state = ENDING
        self.diagnostics.note(self.why)
        return Step(end="stop")

    def _switch_elapsed(self) -> Step:
        if self.switching is None:
            return NOTHING
        return self._give_up("harness_silent", "the harness did not answer the change of its model")


_REQUESTS: Final[Mapping[str, Callable[[ClaudeCodec, int, Envelope], Step]]] = {
    names.OPEN: ClaudeCodec._open,
    names.SUBMIT: ClaudeCodec._submit,
    names.RESOLVE_PERMISSION: ClaudeCodec._resolve,
    names.RESOLVE_INPUT: ClaudeCodec._resolve,
    names.CANCEL_INPUT: ClaudeCodec._resolve,
    names.CANCEL: ClaudeCodec._cancel,
}
_FRAMES: Final[Mapping[str, Callable[[ClaudeCodec, Mapping[str, Any]], Step]]] = {
    "assistant": ClaudeCodec._assistant,
    "user": ClaudeCodec._user,
    "system": ClaudeCodec._system,
    "result": ClaudeCodec._result,
    "tool_progress": ClaudeCodec._task,
    "control_request": ClaudeCodec._control_request,
    "control_cancel_request": ClaudeCodec._control_cancel,
    "control_response": ClaudeCodec._control_response,
    "keep_alive": ClaudeCodec._nothing,
}
_SYSTEM: Final[Mapping[str, Callable[[ClaudeCodec, Mapping[str, Any]], Step]]] = {
    "init": ClaudeCodec._init,
    "task_started": ClaudeCodec._task,
    "task_progress": ClaudeCodec._task,
    "task_notification": ClaudeCodec._task,
    "task_updated": ClaudeCodec._nothing,
    "status": ClaudeCodec._nothing,
    "api_retry": ClaudeCodec._nothing,
    "thinking_tokens": ClaudeCodec._nothing,
    "compact_boundary": ClaudeCodec._nothing,
}
_DEADLINES: Final[Mapping[str, Callable[[ClaudeCodec], Step]]] = {
    START: ClaudeCodec._start_elapsed,
    IDLE: ClaudeCodec._idle_elapsed,
    CANCEL: ClaudeCodec._cancel_elapsed,
    SWITCH: ClaudeCodec._switch_elapsed,
}
