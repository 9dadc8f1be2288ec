"""Slots and bytes: which op may be held, and a refusal that names the bound (spec: stdio 7). Arithmetic only."""

from __future__ import annotations

from ...protocol import names
from ...protocol.errors import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...protocol.limits import Limits

AGAIN = "send this request again"


class Admission:
    """Counts the ops that are held: they wait for an adapter, or their answer waits for the writer."""

    __slots__ = ("_bytes_most", "_most", "bytes", "held")

    def __init__(self, limits: Limits) -> None:
        self._most = limits.ops
        self._bytes_most = limits.op_bytes
        self.held = 0
        self.bytes = 0

    def refuse(self, size: int) -> Refusal | None:
        """Return the refusal of an op whose request has `size` bytes, or None where it may run.

        With no op held anything is admitted, whatever its size.
        """
        if not self.held:
            return None
        if self.held >= self._most:
            return Refusal(names.BUSY, f"{self.held} operations are running, the most allowed; {AGAIN}")
        if self.bytes + size > self._bytes_most:
            return Refusal(
                names.BUSY,
                f"the running operations hold {self.bytes} request bytes of {self._bytes_most}; {AGAIN}",
            )
        return None

    def take(self, size: int) -> None:
        """Hold one slot and `size` bytes."""
        self.held += 1
        self.bytes += size

    def give(self, size: int) -> None:
        """Return one slot and `size` bytes."""
        self.held -= 1
        self.bytes -= size


def no_subscription_slot(most: int) -> Refusal:
    """Return the refusal of a subscription beyond the bound; it says how a slot frees up."""
    return Refusal(
        names.BUSY,
        f"{most} subscriptions are open, the most allowed; one ends with its run or its session; {AGAIN}",
    )
