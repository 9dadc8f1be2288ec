"""The memory adapter keeps the contract."""

from __future__ import annotations

from trunkline.adapters.memory import MemoryAdapter
from trunkline.gateway.hub.ports import Adapter
from trunkline.protocol.limits import Limits

from tests.contract.suite import AdapterContract


class TestMemory(AdapterContract):
    def adapter(self, limits: Limits) -> Adapter:
        return MemoryAdapter()
