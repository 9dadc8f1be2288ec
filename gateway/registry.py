"""Adapters by name, for the switch: the default one, those of a configuration, or one's own (spec: hub 2)."""

from __future__ import annotations

from ..adapters.memory import MemoryAdapter
from ..protocol.errors import ConfigError
from .config import MEMORY, SYNTHETIC, Config, default_config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..protocol.limits import Limits
    from .config import AdapterEntry
    from .hub.ports import Adapter


class Registry(dict[str, "Adapter"]):
    """A dict of adapters by name that refuses a name twice and an empty name, with `ConfigError`."""

    @classmethod
    def default(cls) -> Registry:
        """Return the registry of a gateway without configuration: the memory adapter."""
        return cls.of(default_config())

    @classmethod
    def of(cls, config: Config) -> Registry:
        """Return the adapters of a configuration. Raises `ConfigError` where one cannot be made."""
        registry = cls()
        for name, entry in config.adapters.items():
            registry.register(name, _make(entry, config.limits))
        return registry

    def register(self, name: str, adapter: Adapter) -> None:
        """Add one adapter under a name."""
        if not name:
            raise ConfigError("an adapter needs a name")
        if name in self:
            raise ConfigError(f"adapter {name!r} is registered twice")
        self[name] = adapter


def _make(entry: AdapterEntry, limits: Limits) -> Adapter:
    if entry.type == MEMORY:
        return MemoryAdapter(entry.journal_events, entry.journal_bytes)
    if entry.type == SYNTHETIC:
        from .drive.synthetic import SyntheticAdapter

        return SyntheticAdapter(entry.name, entry.options, limits, entry.journal_events, entry.journal_bytes)
    from ..adapters.registry import load
    from .drive.adapter import ProcessAdapter

    settings = entry.settings(limits)
    try:
        factory = load(entry.type)(settings)
    except ConfigError:
        raise
    except Exception as error:  # a codec of others; its text may quote a value
        raise ConfigError(f"adapter {entry.name!a}: its codec cannot be made ({type(error).__name__})") from error
    return ProcessAdapter(entry.name, factory, limits, entry.journal_events, entry.journal_bytes, settings=settings)
