"""What the hub knows of one run: its state, its place in the journal, its open gates and calls."""

from __future__ import annotations

from ...protocol import names
from ...protocol.envelope import Envelope
from ...protocol.lifecycle import ENDED, UNSTARTED, RunState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

_SERVED: Final = Envelope(names.SUBMIT, "served", {})


class Gate:
    """One open interaction: what was asked (`payload` of the requested event), and whether an answer was taken."""

    __slots__ = ("answered", "id", "payload", "permission", "timer")

    def __init__(self, id: str, payload: Mapping[str, Any], permission: bool) -> None:
        self.id = id
        self.payload = payload
        self.permission = permission
        self.answered = False
        self.timer: Any = None


class Run:
    """One admitted run. `state` is a word of `protocol.lifecycle`; `sequence` is that of the last event, 0 before.

    `order` is the submission until the run is over. `answered`: its submit was. `cancelling` says that a cancel was
    accepted and not taken back.
    `calls` holds `(state, payload of the requested event)` by call. `first` and `last` are the journal positions of the
    run's first and newest event (-1 before); `strangers` are the positions after `first` that belong to another run:
    only the pre-start terminal of a reservation can stand there. A run that is no more than such a terminal is `aside`.
    """

    __slots__ = (
        "answered",
        "aside",
        "calls",
        "cancelling",
        "closed_gates",
        "first",
        "gates",
        "heads",
        "id",
        "id_text",
        "last",
        "order",
        "payload_head",
        "sequence",
        "state",
        "strangers",
    )

    def __init__(self, id: str, order: Envelope, reserved: bool) -> None:
        self.id = id
        self.order = order
        self.state = RunState.QUEUED if reserved else RunState.ADMITTED
        self.cancelling = False
        self.answered = False
        self.sequence = 0
        self.first = -1
        self.last = -1
        self.aside = False
        self.strangers: list[int] = []
        self.gates: dict[str, Gate] = {}
        self.closed_gates: dict[str, None] = {}
        self.calls: dict[str, tuple[str, Mapping[str, Any]]] = {}
        self.heads: dict[str, bytes] = {}
        self.payload_head = b""
        self.id_text = b""

    @property
    def over(self) -> bool:
        """Whether the run has its terminal."""
        return self.state in ENDED

    @property
    def shown(self) -> bool:
        """Whether hosts may know of the run: its submit was answered, or it has published something."""
        return self.answered or self.sequence > 0

    @property
    def started(self) -> bool:
        """Whether the run said `run.started`, and is not over."""
        return self.state not in ENDED and self.state not in UNSTARTED

    def position_after(self, sequence: int) -> int:
        """Return the journal position that follows the event of this sequence (0: the run's start)."""
        position = self.first + sequence
        for stranger in self.strangers:
            if stranger >= position:
                break
            position += 1
        return position

    def sequence_before(self, position: int) -> int:
        """Return how many events of this run stand before a journal position."""
        if self.first < 0 or position <= self.first:
            return 0
        stop = min(position, self.last + 1)
        return stop - self.first - sum(1 for stranger in self.strangers if stranger < stop)

    def pass_by(self, position: int, base: int) -> None:
        """Note that an event of another run stands at a position.

        Strangers below `base` have left the journal: they are taken out of the arithmetic, which then holds for what is
        retained, and the list stays no longer than the journal.
        """
        gone = sum(1 for stranger in self.strangers if stranger < base)
        self.first += gone
        del self.strangers[:gone]
        self.strangers.append(position)

    def settle(self) -> None:
        """Drop what only a live run needs; called at its terminal."""
        self.order = _SERVED
        self.gates.clear()
        self.closed_gates.clear()
        self.calls.clear()
        self.heads.clear()
