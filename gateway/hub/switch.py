"""The switch: adapters by name, sessions by id, and the twelve operations as plain functions (spec: hub 2 to 6).

Values in, values out; what must wait returns a Future; a refusal is raised. It knows no door and no harness: doors call
these methods, adapters stand behind the port. Requests arrive here already past the request gate (`protocol.gate`).
"""

from __future__ import annotations

from ...protocol import names
from ...protocol.capability import Descriptor, refuse_stale
from ...protocol.controls import refuse_attachments
from ...protocol.envelope import Envelope
from ...protocol.errors import HarnessFault, Refusal
from ...protocol.json import dumps_to_keep
from ...protocol.limits import Limits
from ...protocol.quote import quote
from . import admission, gates
from .answers import forget, then, trouble, waits
from .journal import MemoryJournal
from .services import Services
from .session import CLOSED, OPEN, OPENING, Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any, Final

    from .journal import Journal
    from .ports import Adapter, AdapterSession, Answer, Reader
    from .subscription import Subscription

_UNSERVED: Final[Mapping[str, str]] = {
    "tools": "action.tools.provide",
    "message": "session.open.message",
    "recovery": "run.resume",
    "subscribe": "session.open.subscribe",
}
"""Members of an open that the hub does not serve yet, whatever an adapter says, with the feature that is refused."""
_GATED: Final = ("tool_sources", "tools", "subscribe", "message")
"""Members of an open that are judged under a capability revision (spec: hub 6)."""


def no_attachments(attachments: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Resolve wire attachments where nothing is configured: each is passed on as it came."""
    return list(attachments)


class Switch:
    """All adapters and sessions of one gateway. `participant` is who opens sessions (spec: hub 3)."""

    def __init__(
        self,
        adapters: Mapping[str, Adapter],
        limits: Limits,
        participant: str = "user",
        note: Callable[[str], None] = lambda text: None,
        attachments: Callable[[Sequence[Mapping[str, Any]]], list[Mapping[str, Any]]] = no_attachments,
        journal: Callable[[int, int], Journal] = MemoryJournal,
        services: Services | None = None,
        info: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.adapters = dict(sorted(adapters.items()))
        self.limits = limits
        self.participant = participant
        self.services = services or Services(note, self._session_closed, info=info)
        self.services.closed = self._session_closed
        self.table: dict[str, Session] = {}
        self._closed: dict[str, None] = {}  # closed sessions, oldest first
        self._open_count = 0
        self._resolve_attachments = attachments
        self._journal = journal

    # -- adapters ----------------------------------------------------------------------------------------------------

    def listing(self) -> dict[str, Any]:
        """Return the adapters, each probed; one that fails is listed with its error (spec: stdio 4.1)."""
        entries: list[dict[str, Any]] = []
        for name, adapter in self.adapters.items():
            try:
                revision, capabilities = adapter.describe()
            except Exception as error:
                entries.append({"name": name, "error": self._bounded(error)})
            else:
                entries.append({"name": name, "capability_revision": revision, "capabilities": capabilities})
        return {"adapters": entries}

    def capabilities(self, adapter_name: str) -> Envelope:
        """Return the `capabilities.response` of one adapter. Raises `unknown_adapter`, `probe_failed`."""
        descriptor = self._probe(adapter_name)
        return Envelope(
            names.RESPONSE_OF[names.CAPABILITIES],
            self.services.responses.mint("oap-response"),
            descriptor.payload,
            in_reply_to=self.services.requests.mint("oap-request"),
            capability_revision=descriptor.revision,
        )

    # -- sessions ----------------------------------------------------------------------------------------------------

    def open(self, adapter_name: str, request: Envelope) -> Answer[Envelope]:
        """Open a session and answer with its state document (spec: hub 3 and 6)."""
        descriptor = self._probe(adapter_name)
        payload = request.payload
        self._check_name(request)
        gated = any(payload.get(member) for member in _GATED)
        self._check_open(payload, descriptor, request.capability_revision, gated)
        if payload.get("tool_sources"):
            payload = {**payload, "tool_sources": self._resolve_attachments(payload["tool_sources"])}
        adapter = self.adapters[adapter_name]
        session = self._reserve(adapter_name, adapter, descriptor, payload.get("session_id"))
        order = Envelope(
            names.OPEN,
            request.id,
            {**payload, "session_id": session.session_id},
            session_id=session.session_id,
            capability_revision=request.capability_revision,
        )

        def begin() -> Answer[AdapterSession]:
            answer = adapter.open(order, session)
            session.opening = answer if waits(answer) else None
            return answer

        def opened(port: AdapterSession) -> Envelope:
            if session.phase != OPENING:
                forget(then(port.close, lambda _: None, lambda _: None))
                raise Refusal(names.REQUEST_CANCELLED, f"session {session.session_id} was closed before it was open")
            session.opened(port)
            self.services.info(f"session {quote(session.session_id)}: opened on {adapter_name}")
            response = session.answer(request, session.state())
            if gated:
                response.capability_revision = descriptor.revision
            return response

        def failed(error: Exception) -> Envelope:
            early = session.phase not in (OPENING, OPEN)
            self._drop(session)
            if early and not isinstance(error, Refusal):
                raise Refusal(names.REQUEST_CANCELLED, f"session {session.session_id} was closed before it was open")
            if not isinstance(error, Refusal | HarnessFault):
                self.services.note(f"op open failed: {type(error).__name__}: {self._bounded(error)}")
            raise trouble(error, names.OPEN_FAILED, self.limits.message_chars)

        return then(begin, opened, failed)

    def sessions(self) -> dict[str, Any]:
        """Return the listing, sorted by id; closed sessions stay with their last state (spec: stdio 4.2)."""
        entries: list[dict[str, Any]] = []
        for id in sorted(self.table):
            session = self.table[id]
            if session.phase == OPENING:
                continue
            entry: dict[str, Any] = {"session_id": id, "adapter": session.adapter_name}
            try:
                state = session.state()
            except Exception as error:
                self.services.note(f"session {id}: its state could not be read: {self._bounded(error)}")
                state = {"status": "error"}
            entry.update((name, state[name]) for name in ("status", "active_run_id", "active_runs") if name in state)
            entry["created_at"] = _rfc3339(session.created_s)
            entries.append(entry)
        return {"sessions": entries}

    def sessions_text(self) -> bytes:
        """Return the listing as bytes; it is encoded again only when it may have changed."""
        text = self.services.listed
        if text is None:
            listing = self.sessions()
            text = dumps_to_keep(listing)
            if all(entry["status"] != "error" for entry in listing["sessions"]):  # an error may pass unseen
                self.services.listed = text
        return text

    def session(self, session_id: str) -> Session:
        """Return an open or closed session. Raises `Refusal("unknown_session")`."""
        session = self.table.get(session_id)
        if session is None or session.phase == OPENING:
            raise Refusal(names.UNKNOWN_SESSION, f"no session {session_id} is known")
        return session

    def state(self, session_id: str) -> Envelope:
        """Return the `session.state.response`; it succeeds on a closed session too."""
        session = self.session(session_id)
        return Envelope(
            names.RESPONSE_OF[names.STATE],
            self.services.responses.mint("oap-response"),
            session.state(),
            session_id=session_id,
            in_reply_to=self.services.requests.mint("oap-request"),
        )

    def models(self, session_id: str, allow: Collection[str] = ()) -> Answer[Envelope]:
        """Return the `models.response` of a session."""
        return self.session(session_id).models(allow)

    def tools(self, session_id: str, allow: Collection[str] = ()) -> Answer[Envelope]:
        """Return the `action.tools.list.response` of a session."""
        return self.session(session_id).tools(allow)

    def submit(self, session_id: str, request: Envelope) -> Answer[Envelope]:
        """Submit a message (see `admission.submit`)."""
        return admission.submit(self.session(session_id), request)

    def resolve(self, session_id: str, request: Envelope) -> Answer[Envelope]:
        """Answer an open gate (see `gates.resolve`)."""
        return gates.resolve(self.session(session_id), request)

    def cancel(self, session_id: str, request: Envelope) -> Answer[Envelope]:
        """Cancel a run (see `admission.cancel`)."""
        return admission.cancel(self.session(session_id), request)

    def close(self, session_id: str) -> Answer[None]:
        """Close a session; closing a closed one succeeds. Raises `Refusal("run_active")`."""
        return self.session(session_id).close()

    def subscribe(self, session_id: str, reader: Reader, after: int | None, run_id: str | None) -> Subscription:
        """Join a session's events (see `EventStream.subscribe`)."""
        return self.session(session_id).subscribe(reader, after, run_id)

    def unclosed(self) -> list[Session]:
        """Return every session that is not closed, for the sweep."""
        return [session for session in self.table.values() if session.phase != CLOSED]

    # -- inside ------------------------------------------------------------------------------------------------------

    def _probe(self, adapter_name: str) -> Descriptor:
        adapter = self.adapters.get(adapter_name)
        if adapter is None:
            known = ", ".join(self.adapters) or "none"
            raise Refusal(names.UNKNOWN_ADAPTER, f"no adapter is named {adapter_name[:80]!r}; there are: {known}")
        try:
            return Descriptor(*adapter.describe())
        except Exception as error:
            raise Refusal(names.PROBE_FAILED, self._bounded(error)) from error

    def _check_name(self, request: Envelope) -> None:
        """Refuse an id that stands on the envelope and not in the payload alike, or that is too long to keep."""
        named = request.payload.get("session_id")
        if request.session_id is not None and request.session_id != named:
            raise Refusal(names.SCOPE_MISMATCH, "an open names its session in the payload; the envelope's id differs")
        if named is not None and len(named) > self.limits.id_chars:
            raise Refusal(
                names.INVALID_PAYLOAD,
                f"session_id has {len(named)} characters, more than {self.limits.id_chars} (limit id_chars)",
                {"pointer": "/payload/session_id"},
            )

    def _check_open(self, payload: Mapping[str, Any], descriptor: Descriptor, cited: str | None, gated: bool) -> None:
        """Refuse what this open asks for and the adapter does not offer (spec: hub 6, steps 2 to 4)."""
        if gated and (stale := refuse_stale(descriptor, cited)) is not None:
            raise stale
        if (refusal := refuse_attachments(payload, descriptor)) is not None:
            raise refusal
        for member, feature in _UNSERVED.items():
            if payload.get(member):
                details = {"feature": feature, "reason": names.UNADVERTISED}
                raise Refusal(names.UNSUPPORTED_FEATURE, f"{member} on open is not served", details)
        if names.EXTENSION in payload.get("metadata", ()):
            details = {"feature": "session.resume", "reason": names.UNADVERTISED}
            raise Refusal(names.UNSUPPORTED_FEATURE, f"metadata {names.EXTENSION} is not served", details)

    def _reserve(self, name: str, adapter: Adapter, descriptor: Descriptor, named: str | None) -> Session:
        """Take an id and a place in the table before the adapter is asked, so that two opens cannot share one."""
        if self._open_count >= self.limits.max_sessions:
            raise Refusal(
                names.BUSY,
                f"{self._open_count} sessions are open, the most allowed; close one and send this request again",
            )
        if named is not None and named in self.table:
            raise Refusal(names.SESSION_EXISTS, f"session {named[:80]} exists already")
        id = named
        while id is None or (named is None and id in self.table):
            id = adapter.ids.mint("session")
        session = Session(
            id,
            name,
            descriptor,
            self._journal(*adapter.journal()),
            adapter.ids,
            self.services,
            self.limits,
            self.participant,
        )
        self.table[id] = session
        self._open_count += 1
        self.services.listed = None
        return session

    def _drop(self, session: Session) -> None:
        """An open that failed leaves nothing behind, whatever of it was there already."""
        if self.table.get(session.session_id) is session:
            del self.table[session.session_id]
            self._closed.pop(session.session_id, None)
            if session.phase != CLOSED:
                self._open_count -= 1
        if session.adapter is not None:
            forget(then(lambda: session.close(insist=True), lambda _: None, lambda _: None))
        session.touch()

    def _session_closed(self, session: Session) -> None:
        if self.table.get(session.session_id) is not session:
            return
        self._open_count -= 1
        self.services.info(f"session {quote(session.session_id)}: closed")
        self._closed[session.session_id] = None
        while len(self._closed) > self.limits.closed_sessions_kept:
            oldest = next(iter(self._closed))
            del self._closed[oldest]
            del self.table[oldest]

    def _bounded(self, error: BaseException) -> str:
        text = str(error) or type(error).__name__
        most = self.limits.message_chars
        return text if len(text) <= most else text[:most] + "…"


def _rfc3339(seconds: int) -> str:
    from time import gmtime, strftime

    return strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(seconds))
