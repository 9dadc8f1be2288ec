"""The gateway as it is, whose synthetic adapter publishes a turn's events in calls of `BENCH_STEP`, not in one call.

    BENCH_STEP=1 python -m bench.stepped serve --stdio --config FILE

A codec whose frames make an event each, with something to write in between, publishes like this.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from trunkline.gateway.cli import main
from trunkline.gateway.drive import synthetic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trunkline.adapters.base import Draft
    from trunkline.gateway.hub.ports import Outlet
    from trunkline.protocol.envelope import Envelope

STEP = int(os.environ.get("BENCH_STEP", "1"))
_open = synthetic.SyntheticAdapter.open


class Stepped:
    """An outlet that hands on what is published in smaller calls; everything else is the session's own."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet

    def __getattr__(self, name: str) -> Any:
        return getattr(self._outlet, name)

    def publish(self, drafts: Sequence[Draft]) -> None:
        for start in range(0, len(drafts), STEP):
            self._outlet.publish(drafts[start : start + STEP])


def _stepped(adapter: synthetic.SyntheticAdapter, request: Envelope, outlet: Any) -> synthetic.SyntheticSession:
    return _open(adapter, request, Stepped(outlet))


if __name__ == "__main__":
    setattr(synthetic.SyntheticAdapter, "open", _stepped)  # noqa: B010  # a method is exchanged on purpose
    main()
