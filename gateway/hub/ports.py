"""The two ports of the hub: `Adapter` (south, a harness) and `Reader` (north, whoever reads a subscription).

The hub knows no door and no harness. Both ports are plain functions: what must wait returns a Future.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Protocol, TypeAlias, TypeVar

    from ...adapters.base import Draft
    from ...protocol.envelope import Envelope
    from ...protocol.ids import Ids
    from .subscription import Subscription

    T = TypeVar("T")
    Answer: TypeAlias = "T | Future[T]"
    """At once, or later. A refusal is raised, now or by the Future."""
else:
    Protocol = object


class Outlet(Protocol):
    """What a session gives its adapter: the way back up. Every call is made from the loop's thread."""

    session_id: str
    participant: str

    def publish(self, drafts: Sequence[Draft]) -> None:
        """Publish events in order, in this turn. Drafts of an ended or unknown run are dropped and noted."""

    def failed(self, reason: str) -> None:
        """The stream itself broke: live runs end as failed (inferred) and subscribers get `oap-stream-failed`."""

    @property
    def lag(self) -> int:
        """How many events the slowest attached subscription is behind; 0 with none."""

    @property
    def congested(self) -> bool:
        """Whether a subscriber's sink takes nothing at this moment."""

    def on_progress(self, callback: Callable[[], None]) -> None:
        """Call back once, when a subscription has moved or ended."""


class AdapterSession(Protocol):
    """One open session of an adapter. The hub has already checked addressing, capabilities, gates and states."""

    def prepare(self, run_id: str) -> None:
        """Mint now what this run will need; called between the run's id and its messages' (spec: hub 9.2)."""

    def submit(self, request: Envelope) -> Answer[None]:
        """Start the run `request.run_id`; its message ids are filled in. Raises `Refusal`; then the run never was."""

    def resolve(self, request: Envelope) -> Answer[None]:
        """Hand over the answer to an open gate (already checked); the adapter publishes what follows from it."""

    def cancel(self, request: Envelope) -> Answer[None]:
        """Stop the live run `request.run_id`; the adapter publishes its terminal when that is true."""

    def models(self) -> Answer[Mapping[str, Any] | None]:
        """Return the catalog payload without `session_id`; None: there is none."""

    def tools(self) -> Answer[Mapping[str, Any] | None]:
        """Return the tool catalog payload without `session_id`; None: there is none."""

    def facts(self) -> Mapping[str, Any]:
        """Return members for the state document: `current_model_id`, `sources`, `metadata`."""

    def close(self) -> Answer[None]:
        """End the session and everything it started; called once, also with a live run when the sweep insists."""


class Adapter(Protocol):
    """One configured adapter. `ids` mints for all its sessions (spec: hub 9.2)."""

    ids: Ids

    def describe(self) -> tuple[str, Mapping[str, Any]]:
        """Return `(capability_revision, descriptor payload)`. May raise: the listing then shows the error."""

    def journal(self) -> tuple[int, int]:
        """Return the journal bound of one session: events, bytes."""

    def open(self, request: Envelope, outlet: Outlet) -> Answer[AdapterSession]:
        """Open a session; `outlet.session_id` is its id. Raises `Refusal` or `HarnessFault`."""


class Reader(Protocol):
    """Whoever reads a subscription: a door's pump or a Python iterator."""

    @property
    def blocked(self) -> bool:
        """Whether the reader's sink takes nothing now."""

    def ready(self, subscription: Subscription) -> None:
        """There is something to take, or the end. Called at most once until the subscription was drained."""

    def drain(self, subscription: Subscription) -> None:
        """Take now whatever the sink accepts, because the subscription is about to be judged as too far behind."""
