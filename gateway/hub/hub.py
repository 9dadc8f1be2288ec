"""`Hub`: the switch for Python programs. The same rules, asynchronous methods, no pipe and no HTTP."""

from __future__ import annotations

from functools import partial

from ...framing import scan_envelope
from ...protocol import names
from ...protocol.envelope import Envelope
from ...protocol.gate import admit_value
from ...protocol.json import loads
from ...protocol.limits import Limits
from .subscription import SessionEnded, Subscription
from .switch import Switch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import AsyncIterator, Collection, Mapping
    from typing import Any, Final, TypeAlias

    from .ports import Adapter, Answer

    Request: TypeAlias = Envelope | Mapping[str, Any] | bytes

RESOLVES: Final = frozenset((names.RESOLVE_PERMISSION, names.RESOLVE_INPUT))


class Event:
    """One event of a session. `bytes` is its envelope as it was encoded, once; `envelope` decodes it when asked."""

    __slots__ = ("_envelope", "bytes", "sequence")

    def __init__(self, sequence: int, bytes: bytes) -> None:
        self.sequence = sequence
        self.bytes = bytes
        self._envelope: Envelope | None = None

    @property
    def envelope(self) -> Envelope:
        """The event as an `Envelope`."""
        if self._envelope is None:
            self._envelope = Envelope.from_dict(loads(self.bytes))
        return self._envelope

    @property
    def type(self) -> str:
        """The event's type, for instance `content.delta`."""
        return self.envelope.type

    @property
    def run_id(self) -> str:
        """The run that it belongs to."""
        return self.envelope.run_id or ""


class Hub:
    """Adapters and sessions for one event loop. `registry` maps names to adapters (see `trunkline.gateway.registry`).

    Every request may be an `Envelope`, a dict or the bytes of one; it passes the same request gate as on the wire.
    Every method raises `Refusal(.code .message .details)`.
    """

    def __init__(
        self,
        registry: Mapping[str, Adapter] | Switch,
        limits: Limits | None = None,
        participant: str = "user",
    ) -> None:
        if isinstance(registry, Switch):
            self.switch = registry
        else:
            self.switch = Switch(registry, limits or Limits(), participant)
        self._gate = partial(admit_value, scan=scan_envelope, limit=self.switch.limits.envelope_bytes)

    async def adapters(self) -> dict[str, Any]:
        """Return the listing of adapters, each probed."""
        return self.switch.listing()

    async def capabilities(self, adapter: str) -> Envelope:
        """Return the `capabilities.response` of one adapter."""
        return self.switch.capabilities(adapter)

    async def open(self, adapter: str, request: Request) -> Envelope:
        """Open a session. A wait that is cancelled closes the session again once it is open."""
        answer = self.switch.open(adapter, self._gate(request, (names.OPEN,)))
        if isinstance(answer, Envelope):
            return answer
        from asyncio import CancelledError, shield

        try:
            return await shield(answer)
        except CancelledError:
            answer.add_done_callback(self._unwanted)
            raise

    async def submit(self, session_id: str, request: Request) -> Envelope:
        """Submit a message and return its acknowledgement."""
        return await _value(self.switch.submit(session_id, self._gate(request, (names.SUBMIT,))))

    async def resolve(self, session_id: str, request: Request) -> Envelope:
        """Answer a permission or user-input gate."""
        return await _value(self.switch.resolve(session_id, self._gate(request, RESOLVES)))

    async def cancel(self, session_id: str, request: Request) -> Envelope:
        """Ask a run to stop; its terminal says what became of it."""
        return await _value(self.switch.cancel(session_id, self._gate(request, (names.CANCEL,))))

    async def state(self, session_id: str) -> Envelope:
        """Return the session's state document."""
        return self.switch.state(session_id)

    async def models(self, session_id: str, allow_degraded_features: Collection[str] = ()) -> Envelope:
        """Return the models catalog of a session."""
        return await _value(self.switch.models(session_id, allow_degraded_features))

    async def tools(self, session_id: str, allow_degraded_features: Collection[str] = ()) -> Envelope:
        """Return the tool catalog of a session."""
        return await _value(self.switch.tools(session_id, allow_degraded_features))

    async def close(self, session_id: str) -> None:
        """Close a session; closing a closed one succeeds."""
        answer = self.switch.close(session_id)
        if answer is not None:
            await answer

    def sessions(self) -> dict[str, Any]:
        """Return the listing of sessions."""
        return self.switch.sessions()

    async def subscribe(
        self, session_id: str, after: int | None = None, run_id: str | None = None
    ) -> AsyncIterator[Event]:
        """Yield events, live or after a sequence, until the run's terminal; joined when iteration starts.

        Raises `Overflow`, `ReplayGap` or `StreamFailed`, each with the place to resume. Ends quietly at the terminal
        and when the session is closed.
        """
        reader = _Iteration()
        subscription = self.switch.subscribe(session_id, reader, after, run_id)
        try:
            while True:
                entries = subscription.take()
                for entry in entries:
                    yield Event(*entry)
                if subscription.over:
                    break
                if not entries:
                    await reader.wait()
        finally:
            subscription.detach()
        if subscription.outcome is not None and not isinstance(subscription.outcome, SessionEnded):
            raise subscription.outcome

    def _unwanted(self, opened: Future[Envelope]) -> None:
        """Close a session whose opener has gone."""
        if not opened.cancelled() and opened.exception() is None:
            self.switch.close(opened.result().session_id or "")

    async def aclose(self) -> list[str]:
        """Close every session, cancelling live runs first; return what did not close (spec: hub 8)."""
        from ..sweep import sweep

        return await sweep(self.switch)


class _Iteration:
    """The reader behind an async iterator: one Future at most, made when it has to wait."""

    __slots__ = ("_wake",)

    blocked = False

    def __init__(self) -> None:
        self._wake: Future[None] | None = None

    def ready(self, subscription: Subscription) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def drain(self, subscription: Subscription) -> None:
        """An iterator takes only when its task runs: nothing can be pushed."""

    async def wait(self) -> None:
        from asyncio import get_running_loop

        self._wake = get_running_loop().create_future()
        await self._wake
        self._wake = None


async def _value(answer: Answer[Envelope]) -> Envelope:
    return answer if isinstance(answer, Envelope) else await answer
