"""The synthetic adapter keeps the contract, free running and paced by its readers."""

from __future__ import annotations

from trunkline.gateway.config import SYNTHETIC_DEFAULTS
from trunkline.gateway.drive.synthetic import SyntheticAdapter
from trunkline.gateway.hub.ports import Adapter
from trunkline.protocol.limits import Limits

from tests.contract.suite import AdapterContract


class TestFree(AdapterContract):
    pace = "free"

    def adapter(self, limits: Limits) -> Adapter:
        options = {**SYNTHETIC_DEFAULTS, "deltas": 300, "pace": self.pace}
        return SyntheticAdapter("load", options, limits, limits.journal_events, limits.journal_bytes)


class TestPaced(TestFree):
    pace = "reader"
