"""Which codec serves a type of adapter: a table for our own, an entry-point group for codecs of others.

Nothing is imported until a configuration names it. `memory` and `synthetic` are not here: they are no codecs but
adapters of the hub.
"""

from __future__ import annotations

from ..protocol.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from importlib.metadata import EntryPoint
    from typing import Final, TypeAlias

    from .base import CodecFactory, Settings

    CodecMaker: TypeAlias = Callable[[Settings], CodecFactory]
    """What an entry of the registry is: called once for each configured adapter."""

GROUP: Final = "trunkline.adapters"
"""The entry-point group. An entry's name is the type; its object is a `CodecMaker`, which may carry `MEMBERS`: the
names of the configuration members that it uses (without it: the process members)."""

CODECS: Final[Mapping[str, str]] = {
    "claude": ".claude:ClaudeAdapter",
}
"""Type to `module:attribute`, relative to this package."""


def serves(type: str) -> bool:
    """Whether a codec for the type is here, ours or installed by others. Imports no codec."""
    return type in CODECS or _foreign(type) is not None


def load(type: str) -> CodecMaker:
    """Import the codec of a type. Raises `ConfigError` where there is none, or where one of others cannot be used."""
    if type in CODECS:
        from importlib import import_module

        module, _, attribute = CODECS[type].partition(":")
        own: CodecMaker = getattr(import_module(module, __package__), attribute)
        return own
    entry = _foreign(type)
    if entry is None:
        raise ConfigError(f"type {type!a} is not served by this version")
    return _loaded(entry)


def members(type: str) -> Sequence[str] | None:
    """Return the configuration members that a codec of others says it uses; None: it does not say."""
    entry = _foreign(type)
    if entry is None:
        return None
    said = getattr(_loaded(entry), "MEMBERS", None)
    return None if said is None else tuple(said)


def _loaded(entry: EntryPoint) -> CodecMaker:
    try:
        made: CodecMaker = entry.load()
    except Exception as error:  # the code of others: whatever it raises is a fact about that package, not about us
        what = f"{error.__class__.__name__}: {error}"[:200]
        raise ConfigError(f"type {entry.name!a}: its codec {entry.value} cannot be loaded: {what}") from error
    if not callable(made):
        raise ConfigError(f"type {entry.name!a}: its codec {entry.value} is not callable")
    return made


def _foreign(type: str) -> EntryPoint | None:
    from importlib.metadata import entry_points

    found = {entry.value: entry for entry in entry_points(group=GROUP) if entry.name == type}
    if len(found) > 1:
        raise ConfigError(f"type {type!a} is offered by several packages: {', '.join(sorted(found))}")
    return next(iter(found.values()), None)
