"""An outlet that keeps what an adapter publishes, one list a call, and can play a congested host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trunkline.adapters.base import Draft


class RecordingOutlet:
    """Stands in for a session of the hub. `hook` is called with each batch, inside the publish."""

    def __init__(self, session_id: str = "s1", hook: Callable[[Sequence[Draft]], None] | None = None) -> None:
        self.session_id = session_id
        self.participant = "user"
        self.batches: list[list[Draft]] = []
        self.failures: list[str] = []
        self.congested = False
        self.lag = 0
        self.watchers: list[Callable[[], None]] = []
        self.hook = hook

    def publish(self, drafts: Sequence[Draft]) -> None:
        self.batches.append(list(drafts))
        if self.hook is not None:
            self.hook(drafts)

    def failed(self, reason: str) -> None:
        self.failures.append(reason)

    def on_progress(self, callback: Callable[[], None]) -> None:
        self.watchers.append(callback)

    def progress(self) -> None:
        """A subscription has moved."""
        watchers, self.watchers = self.watchers, []
        for watcher in watchers:
            watcher()

    @property
    def drafts(self) -> list[Draft]:
        return [draft for batch in self.batches for draft in batch]

    def types(self, run_id: str) -> list[str]:
        """Return the types of a run's events without its deltas."""
        return [draft[1] for draft in self.drafts if draft[0] == run_id and draft[1] != "content.delta"]

    def texts(self, run_id: str) -> list[str]:
        """Return the texts of a run's deltas."""
        return [draft[2]["text"] for draft in self.drafts if draft[0] == run_id and draft[1] == "content.delta"]

    def error(self, run_id: str) -> dict[str, Any]:
        """Return the error of a run that failed, which must have one terminal only."""
        (found,) = [draft[2]["error"] for draft in self.drafts if draft[:2] == (run_id, "run.failed")]
        error: dict[str, Any] = found
        return error
