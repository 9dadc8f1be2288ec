"""One session: its address, its lifetime, and what both ports see of it. Admission and gates stand beside it.

To the adapter it is the `Outlet`; to the switch it is the place where a session's requests arrive.
"""

from __future__ import annotations

from ...framing import response_line
from ...protocol import names
from ...protocol.capability import refuse_feature
from ...protocol.envelope import Envelope
from ...protocol.errors import HarnessFault, Refusal
from ...protocol.json import dumps_to_keep
from .admission import promote
from .answers import then, trouble
from .document import state_document
from .encode import NUMBERS, EventEncoder, response_head
from .gates import arm
from .stream import EventStream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any, Final

    from ...adapters.base import Draft
    from ...protocol.capability import Descriptor
    from ...protocol.ids import Ids
    from ...protocol.limits import Limits
    from .journal import Journal
    from .ports import AdapterSession, Answer, Reader
    from .runs import Gate, Run
    from .services import Services
    from .subscription import Subscription

_AROUND_STATE: Final = 200
"""Bytes that the line of a state answer has at most besides head and document."""

OPENING = "opening"
OPEN = "open"
CLOSING = "closing"
CLOSED = "closed"


class Session:
    """One session of one adapter. Made by the switch, which gives it its adapter session once that is open."""

    def __init__(
        self,
        id: str,
        adapter_name: str,
        descriptor: Descriptor,
        journal: Journal,
        ids: Ids,
        services: Services,
        limits: Limits,
        participant: str,
    ) -> None:
        self.session_id = id
        self.adapter_name = adapter_name
        self.descriptor = descriptor
        self.participant = participant
        self.services = services
        self.limits = limits
        self.ids = ids
        self.created_s = services.clock() // 1000
        self.phase = OPENING
        self.broken: str | None = None
        self.adapter: AdapterSession | None = None
        self.opening: Future[AdapterSession] | None = None
        self.settled: list[dict[str, Any]] = []
        self.notes_left = limits.notes_per_run
        self._last_state: dict[str, Any] | None = None
        self._facts: Mapping[str, Any] = {}
        self._state_text: bytes | None = None
        self._state_head = response_head(names.RESPONSE_OF[names.STATE], id)
        self._ending: Answer[None] = None
        self._quiet: Future[None] | None = None
        self.stream = EventStream(
            id,
            EventEncoder(id, descriptor.revision),
            journal,
            limits,
            ids,
            services.clock,
            self.note,
            self.touch,
            self._gate_opened,
            self._run_ended,
        )

    # -- the adapter's side (Outlet) ---------------------------------------------------------------------------------

    def publish(self, drafts: Sequence[Draft]) -> None:
        """Publish events, in this turn (see `EventStream.publish`)."""
        if self.phase != CLOSED:
            self.stream.publish(drafts)

    def failed(self, reason: str) -> None:
        """The adapter's stream broke: end live runs as inferred failures, then the subscriptions."""
        if self.broken is not None or self.phase == CLOSED:
            return
        self.broken = reason
        self.touch()
        self.end_runs("stream_failed", reason)
        self.stream.finish(broke=True)

    @property
    def lag(self) -> int:
        """How many events the slowest subscription is behind."""
        return self.stream.lag

    @property
    def congested(self) -> bool:
        """Whether a subscriber's sink takes nothing now."""
        return self.stream.congested

    def on_progress(self, callback: Callable[[], None]) -> None:
        """Call back once, when a subscription has moved or ended."""
        self.stream.watchers.append(callback)

    def note(self, text: str) -> None:
        """Say something on the diagnostics, with the session's name in front; bounded between two submissions."""
        self.notes_left -= 1
        if self.notes_left < 0:
            return
        more = "" if self.notes_left else "; no more is said of this session until its next submission"
        most = self.limits.message_chars
        self.services.note(f"session {self.session_id[:80]}: {text if len(text) <= most else text[:most] + '…'}{more}")

    # -- the switch's side -------------------------------------------------------------------------------------------

    def opened(self, adapter: AdapterSession) -> None:
        """The adapter is open: requests are served from now on."""
        self.adapter = adapter
        self.opening = None
        self.phase = OPEN
        self.touch()

    def live(self) -> list[Run]:
        """Return the runs that have no terminal yet, in order of admission."""
        return [run for run in self.stream.runs.values() if not run.over]

    def check_not_closed(self) -> None:
        """Raise `Refusal("session_closed")` on a closed session."""
        if self.phase == CLOSED:
            raise Refusal(names.SESSION_CLOSED, f"session {self.session_id} is closed")

    def port(self) -> AdapterSession:
        """Return the open adapter session. Raises `Refusal("session_closed")` where there is none that could serve."""
        if self.phase != OPEN or self.adapter is None:
            raise Refusal(names.SESSION_CLOSED, f"session {self.session_id} is {self.phase}")
        if self.broken is not None:
            raise Refusal(names.SESSION_CLOSED, f"session {self.session_id} has lost its harness: {self.broken}")
        return self.adapter

    def trouble(self, op: str, error: Exception, code: str = names.INTERNAL) -> Refusal:
        """Return the refusal that tells a host of an adapter's error (see `answers.trouble`); a bug is noted, too."""
        refusal = trouble(error, code, self.limits.message_chars)
        if not isinstance(error, Refusal | HarnessFault):
            self.note(f"op {op} failed: {type(error).__name__}: {refusal.message}")
        return refusal

    def withdraw(self, run: Run) -> None:
        """Take back a run that never was, and give the turn to whoever waits behind it."""
        self.stream.runs.pop(run.id, None)
        self.touch()
        self._next()

    def check_scope(self, request: Envelope) -> None:
        """Raise `Refusal("scope_mismatch")` unless every session and run that the request names is the one meant."""
        payload = request.payload
        for name, said in (("envelope", request.session_id), ("payload", payload.get("session_id"))):
            if said is not None and said != self.session_id:
                raise Refusal(
                    names.SCOPE_MISMATCH, f"the {name}'s session_id is not the addressed session {self.session_id}"
                )
        run = payload.get("run_id")
        if run is not None and request.run_id is not None and run != request.run_id:
            raise Refusal(names.SCOPE_MISMATCH, "run_id differs between the envelope and its payload")

    def answer(self, request: Envelope, payload: Mapping[str, Any], run_id: str | None = None) -> Envelope:
        """Return the response to a request of this session, under the revision that the request cited."""
        return Envelope(
            names.RESPONSE_OF[request.type],
            self.services.responses.mint("oap-response"),
            payload,
            session_id=self.session_id,
            run_id=run_id,
            in_reply_to=request.id,
            capability_revision=request.capability_revision,
        )

    def state(self) -> dict[str, Any]:
        """Return the state document; that of a closed session is the last one, with status `closed`."""
        if self._last_state is not None:
            return self._last_state
        try:
            return state_document(self)
        except Exception as error:
            raise self.trouble("state", error, names.STATE_FAILED) from None

    def state_text(self) -> bytes:
        """Return the `session.state.response` as bytes; its document is encoded again only when it has changed."""
        text = self._state_text
        try:
            facts = self.adapter.facts() if self.adapter is not None else self._facts
        except Exception as error:
            raise self.trouble("state", error, names.STATE_FAILED) from None
        if text is None or (facts is not self._facts and facts != self._facts):
            self._facts = facts
            text = self._state_text = dumps_to_keep(self.state())
        services = self.services
        responses, requests = services.responses, services.requests
        responses.last += 1
        requests.last += 1
        return b"".join((self._state_head, NUMBERS % (responses.last, requests.last), text, b"}"))

    def state_line(self, id: int, longest: int) -> bytes | None:
        """Return the whole answer of a `state` op where nothing has changed; None: ask for the text."""
        text = self._state_text
        if text is None or self.adapter is None or len(text) > longest - _AROUND_STATE - len(self._state_head):
            return None
        try:
            if self.adapter.facts() is not self._facts:
                return None
        except Exception:  # `state_text` meets it again, and says so
            return None
        services = self.services
        services.responses.last = response = services.responses.last + 1
        services.requests.last = request = services.requests.last + 1
        return response_line(id, self._state_head, response, request, text)

    def touch(self) -> None:
        """Something that the state document shows has changed."""
        self._state_text = None
        self.services.listed = None

    def models(self, allow: Collection[str]) -> Answer[Envelope]:
        """Return the models catalog. Raises `Refusal` of the ladder of `models.list`, `internal`."""
        self._admit_catalog("models.list", allow)
        return then(
            self.port().models, lambda found: self._catalog(names.MODELS, "models.list", found), self._no_models
        )

    def tools(self, allow: Collection[str]) -> Answer[Envelope]:
        """Return the tool catalog. Raises `Refusal` of the ladder of `action.tools.list`, `tools_failed`."""
        self._admit_catalog("action.tools.list", allow)
        return then(
            self.port().tools, lambda found: self._catalog(names.TOOLS, "action.tools.list", found), self._no_tools
        )

    def subscribe(self, reader: Reader, after: int | None, run_id: str | None) -> Subscription:
        """Join the event stream (see `EventStream.subscribe`). Raises `Refusal`, also `session_closed`."""
        self.check_not_closed()
        if after is None and self.broken is not None:
            self.port()
        return self.stream.subscribe(reader, after, run_id)

    def close(self, insist: bool = False) -> Answer[None]:
        """Close the session; closing twice succeeds. Raises `Refusal("run_active")` with a live run unless `insist`."""
        if self.phase == CLOSED:
            return None
        if self.phase == CLOSING:
            return self._ending
        if (live := self.live()) and not insist:
            raise Refusal(names.RUN_ACTIVE, f"run {live[0].id} is live; cancel it first", {"run_id": live[0].id})
        self.phase = CLOSING
        self._ending = then(self._close_adapter, lambda _: self._closed(), self._close_failed)
        return self._ending

    def end_runs(self, code: str, message: str) -> None:
        """Give every live run its terminal: nobody will ever say how it ended (spec: envelopes 18)."""
        error = {"code": code, "message": message[: self.limits.message_chars]}
        for run in self.live():
            self.stream.publish([(run.id, names.RUN_FAILED, {"error": error, "settled_by": "inferred"})])

    async def settled_down(self) -> None:
        """Wait until no run is live; for the sweep, which gives it a deadline."""
        if self.live():
            from asyncio import get_running_loop, shield

            if self._quiet is None or self._quiet.done():
                self._quiet = get_running_loop().create_future()
            await shield(self._quiet)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _admit_catalog(self, key: str, allow: Collection[str]) -> None:
        self.port()
        if (refusal := refuse_feature(self.descriptor, key, allow)) is not None:
            raise refusal

    def _no_models(self, error: Exception) -> Envelope:
        raise self.trouble("models", error)

    def _no_tools(self, error: Exception) -> Envelope:
        raise self.trouble("tools", error, names.TOOLS_FAILED)

    def _catalog(self, request_type: str, key: str, found: Mapping[str, Any] | None) -> Envelope:
        if found is None:
            details = {"feature": key, "reason": names.UNADVERTISED}
            raise Refusal(names.UNSUPPORTED_FEATURE, f"this adapter has no catalog for {key}", details)
        payload = {"session_id": self.session_id, **found}
        if payload["session_id"] != self.session_id:
            raise ValueError(f"the adapter's catalog for {key} is that of another session")
        if request_type == names.TOOLS and payload.get("tools") is None:
            payload["tools"] = []
        return Envelope(
            names.RESPONSE_OF[request_type],
            self.services.responses.mint("oap-response"),
            payload,
            session_id=self.session_id,
            in_reply_to=self.services.requests.mint("oap-request"),
            capability_revision=self.descriptor.revision,
        )

    def _gate_opened(self, run: Run, gate: Gate) -> None:
        arm(self, run, gate)

    def _run_ended(self, run: Run) -> None:
        self.settled.append({"run_id": run.id, "sequence": run.sequence})
        del self.settled[: -self.limits.runs_kept]
        self._next()

    def _next(self) -> None:
        """A run has gone: the next has its turn, or whoever waits for quiet is told."""
        if self.phase == OPEN and self.broken is None:
            promote(self)
        if self._quiet is not None and not self._quiet.done() and not self.live():
            self._quiet.set_result(None)

    def _close_adapter(self) -> Answer[None]:
        if self.adapter is not None:
            return self.adapter.close()
        if self.opening is not None:
            self.opening.cancel()  # whoever opens it stops what was started for it
        return None

    def _close_failed(self, error: Exception) -> None:
        """The adapter failed at closing: nothing more can be asked of it, so the session is closed all the same."""
        self._closed()
        raise self.trouble("close", error)

    def _closed(self) -> None:
        """Record the end: last state kept, subscribers told, everything else let go."""
        if self.phase == CLOSED:
            return
        self.end_runs("session_closed", "the session was closed while the run was live")
        try:
            last = state_document(self)
        except Exception as error:
            self.note(f"its last state could not be read: {self.trouble('state', error)}")
            last = {"session_id": self.session_id}
        self._last_state = {**last, "status": CLOSED}
        self.phase = CLOSED
        self.touch()
        self.stream.finish()
        self.adapter = None
        self.services.closed(self)
