"""`ProcessAdapter`: makes a codec look like an adapter of the hub, one process a session."""

from __future__ import annotations

from ...protocol.ids import Ids
from ...protocol.quote import quote
from .keeper import shared_keeper
from .redact import Redactor
from .session import ProcessSession

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ...adapters.base import CodecFactory, Settings
    from ...protocol.envelope import Envelope
    from ...protocol.limits import Limits
    from ..hub.ports import AdapterSession, Answer, Outlet
    from .keeper import Keeper


class ProcessAdapter:
    """One configured harness (port: `hub.ports.Adapter`).

    `settings` names the configured environment, whose values never appear in what is told of the harness's stderr.
    `journal_events` and `journal_bytes` bound the journal of a session (None: as the limits say).
    """

    def __init__(
        self,
        name: str,
        factory: CodecFactory,
        limits: Limits,
        journal_events: int | None = None,
        journal_bytes: int | None = None,
        *,
        settings: Settings | None = None,
        keeper: Keeper | None = None,
    ) -> None:
        self.name = name
        self.ids = Ids()
        self._factory = factory
        self._limits = limits
        self._journal = (journal_events or limits.journal_events, journal_bytes or limits.journal_bytes)
        self._literals: Mapping[str, str] = {} if settings is None else settings.environment
        self._keeper = keeper

    def describe(self) -> tuple[str, Mapping[str, Any]]:
        """Return `(capability_revision, descriptor payload)` as the codec has it; no process is started."""
        return self._factory.describe()

    def journal(self) -> tuple[int, int]:
        """Return the journal bound of one session: events, bytes."""
        return self._journal

    def open(self, request: Envelope, outlet: Outlet) -> Answer[AdapterSession]:
        """Start the harness and open a session on it.

        Raises `Refusal` where the codec refuses, `HarnessFault` where the harness cannot be started; the Future raises
        them too, for a harness that dies, or is not ready within `Limits.harness_start_s`.

        The Future owns the harness until it is done. Cancelled, it has the stop ladder run in the next turn of the
        loop; `Keeper.settle` waits until the process and its family are gone.
        """
        codec = self._factory.new()
        launch = codec.launch(request)
        redactor = Redactor(launch.environment, self._literals)
        session = ProcessSession(codec, outlet, self._limits, redactor, f"{self.name}/{quote(outlet.session_id)}")
        return session.start(launch, request, self._keeper or shared_keeper())
