"""The asyncio shell: the hub, the doors, the drivers. `Hub`, `Limits`, `Registry` and `Refusal` are for embedding.

The four names are imported when they are asked for: the command line does not need them before its first answer.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..protocol.errors import Refusal
    from ..protocol.limits import Limits
    from .hub.hub import Event, Hub
    from .registry import Registry

__all__ = ["Event", "Hub", "Limits", "Refusal", "Registry"]

_HOMES = {
    "Event": ".hub.hub",
    "Hub": ".hub.hub",
    "Limits": "..protocol.limits",
    "Refusal": "..protocol.errors",
    "Registry": ".registry",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name], __name__), name)
