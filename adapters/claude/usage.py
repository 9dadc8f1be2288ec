"""What a turn used and cost, from the harness's own counts.

`result.usage` counts one turn; `modelUsage` and `total_cost_usd` are running totals of the process, so a turn's share
is their difference. The totals also count what `usage` leaves out: sub-agents, and the request made again without
streaming after a broken stream.
"""

from __future__ import annotations

from .frames import MOST, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

MEMBERS: Final = {
    "input_tokens": ("input_tokens", "inputTokens"),
    "output_tokens": ("output_tokens", "outputTokens"),
    "cache_read_tokens": ("cache_read_input_tokens", "cacheReadInputTokens"),
    "cache_write_tokens": ("cache_creation_input_tokens", "cacheCreationInputTokens"),
}
"""Our name: the name in `usage`, the name in an entry of `modelUsage`. Input tokens exclude the cache in all three."""

APPROXIMATE: Final = "approximate"
"""The tokens are the model's own count, the cost is an estimate by the harness's price table."""
UNVERIFIED: Final = "unverified"
"""The model was asked, but the harness counted nothing: a turn that was cut off."""

_CENTS: Final = 10


class Meter:
    """Keeps the running totals of one process."""

    __slots__ = ("_cost", "_totals")

    def __init__(self) -> None:
        self._cost = 0.0
        self._totals = dict.fromkeys(MEMBERS, 0)

    def turn(self, result: Mapping[str, Any], streamed: bool) -> tuple[dict[str, int], dict[str, Any]]:
        """Take a `result` frame, whoever's turn it ends, and return the turn's `usage` payload and extension.

        `streamed`: text of the model was seen in this turn, so that a count of zero is no count.
        """
        said = result.get("usage")
        reported = {name: _count(said, theirs) for name, (theirs, _) in MEMBERS.items()}
        totals = _totals(result.get("modelUsage"))
        if totals is not None:
            if any(totals[name] < last for name, last in self._totals.items()):
                self._totals = dict.fromkeys(MEMBERS, 0)  # the process began to count anew
            share = {name: totals[name] - last for name, last in self._totals.items()}
            if all(share[name] >= reported[name] for name in MEMBERS):
                reported = share
            self._totals = totals
        about: dict[str, Any] = dict(reported)
        if (cost := self._share_of(result.get("total_cost_usd"))) is not None:
            about["cost_usd"] = cost
        about["source"] = "harness"
        nothing = not any(reported.values())
        about["confidence"] = UNVERIFIED if nothing and streamed else APPROXIMATE
        payload = {} if nothing else {name: reported[name] for name in ("input_tokens", "output_tokens")}
        return payload, about

    def _share_of(self, total: Any) -> float | None:
        if isinstance(total, bool) or not isinstance(total, int | float) or not 0 <= total < MOST:
            return None
        share = total - self._cost if total >= self._cost else total
        self._cost = float(total)
        return round(float(share), _CENTS)


def _count(counts: Any, name: str) -> int:
    return whole(counts.get(name)) or 0 if isinstance(counts, dict) else 0


def _totals(models: Any) -> dict[str, int] | None:
    """Return the sum over all models, or None where none is stated (an interrupted first turn states none)."""
    if not isinstance(models, dict) or not models:
        return None
    return {name: sum(_count(entry, theirs) for entry in models.values()) for name, (_, theirs) in MEMBERS.items()}
