"""`Hub`: the switch for Python programs. The same rules, asynchronous methods, no pipe and no HTTP."""

from __future__ import annotations

from collections import deque
from functools import partial

from ...framing import scan_envelope
from ...protocol import names
from ...protocol.envelope import Envelope
from ...protocol.gate import admit_value
from ...protocol.json import loads
from ...protocol.limits import Limits
from .answers import forget, then
from .subscription import SessionEnded, Subscription
from .switch import Switch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Collection, Mapping
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
            from asyncio import shield

            await shield(answer)

    def sessions(self) -> dict[str, Any]:
        """Return the listing of sessions."""
        return self.switch.sessions()

    def subscribe(self, session_id: str, after: int | None = None, run_id: str | None = None) -> Events:
        """Join the events of a session now, live or after a sequence, and iterate over them until the run's terminal.

        What is published from this call on is not missed, however late the iteration starts, within the mailbox bound.
        Raises `Refusal` at once. The iteration raises `Overflow`, `ReplayGap` or `StreamFailed`, each with the place to
        resume; it ends quietly at the terminal and when the session is closed.
        """
        return Events(self.switch, session_id, after, run_id)

    def _unwanted(self, opened: Future[Envelope]) -> None:
        """Close a session whose opener has gone."""
        if not opened.cancelled() and opened.exception() is None:
            session = self.switch.session(opened.result().session_id or "")
            forget(then(lambda: session.close(insist=True), lambda _: None, lambda _: None))

    async def aclose(self) -> list[str]:
        """Close every session, cancelling live runs first; return what did not close (spec: hub 8).

        A harness whose session was still opening is being stopped when this returns.
        """
        from ..sweep import sweep

        return await sweep(self.switch)


class Events:
    """The events of one subscription, as an asynchronous iterator.

    One that is left before its end is let go by `aclose`, by `async with`, or when it is collected.
    """

    def __init__(self, switch: Switch, session_id: str, after: int | None, run_id: str | None) -> None:
        self._taken: deque[Event] = deque()
        self._left = False
        self._feed = _Feed()
        self._subscription = switch.subscribe(session_id, self._feed, after, run_id)

    def __aiter__(self) -> Events:
        return self

    async def __anext__(self) -> Event:
        subscription = self._subscription
        while not self._taken:
            if self._left:
                raise StopAsyncIteration
            self._taken.extend(Event(*entry) for entry in subscription.take())
            if self._taken:
                break
            if subscription.over:
                subscription.detach()
                if subscription.outcome is None or isinstance(subscription.outcome, SessionEnded):
                    raise StopAsyncIteration
                raise subscription.outcome
            await self._feed.wait()
        return self._taken.popleft()

    async def aclose(self) -> None:
        """Let the subscription go; what it had still to deliver is lost, and whoever waits in it is told the end."""
        self._left = True
        self._taken.clear()
        self._subscription.detach()
        self._feed.ready(self._subscription)

    async def __aenter__(self) -> Events:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if (subscription := getattr(self, "_subscription", None)) is not None:
            subscription.detach()


class _Feed:
    """The reader behind an iteration: one Future at most, made when it has to wait."""

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
