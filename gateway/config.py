"""The configuration document as values (spec: hub 7). Whatever is not understood is refused; nothing is ignored."""

from __future__ import annotations

from ..adapters import registry
from ..adapters.base import Settings
from ..protocol.errors import ConfigError
from ..protocol.limits import CONFIG_BYTES, DEFAULTS, Limits
from . import document
from .document import member, shown
from .environment import resolved, variables
from .tool_sources import read_tool_sources

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Final

    from .tool_sources import ToolSource

MEMORY: Final = "memory"
SYNTHETIC: Final = "synthetic"
IN_PROCESS: Final = (MEMORY, SYNTHETIC)
"""Types that are adapters of the hub itself; every other type is a codec of the registry."""

MEMORY_JOURNAL_EVENTS: Final = 64
"""The journal of the memory adapter, where the entry does not set another (spec: hub 9.9)."""

_MESSAGE_CHARS: Final = 400
_JOURNAL: Final = ("journal_capacity", "journal_bytes")
_PROCESS: Final = ("executable", "args", "environment", "working_directory")

TYPES: Final[Mapping[str, Sequence[str]]] = {
    MEMORY: (),
    SYNTHETIC: ("deltas", "delta_bytes", "interval_ms", "pace"),
    "claude": (*_PROCESS, "model", "allowed_tools", "unrestricted_tools"),
    "codex": (*_PROCESS, "model", "approval_policy", "sandbox"),
    "acp": _PROCESS,
    "opencode": (*_PROCESS, "endpoint", "agent"),
    "pi": (*_PROCESS, "provider", "model"),
    "deepseek": (*_PROCESS, "provider", "model", "max_tokens"),
    "hermes": (*_PROCESS, "provider", "model"),
}
"""The members that each type uses, beside `type` and the two of the journal."""

SYNTHETIC_DEFAULTS: Final[Mapping[str, Any]] = {"deltas": 1000, "delta_bytes": 350, "interval_ms": 0, "pace": "free"}


def _absolute(value: object, place: str) -> str:
    from os.path import isabs

    path = document.text(value, place)
    if not isabs(path):
        raise ConfigError(f"{place}: must be an absolute path")
    return path


def _tool_names(value: object, place: str) -> tuple[str, ...]:
    names = document.texts(value, place)
    if "" in names:
        raise ConfigError(f"{place}[{names.index('')}]: must not be empty")
    return names


def _object(value: object, place: str) -> Mapping[str, Any]:
    return document.mapping(value, place)


READERS: Final[Mapping[str, Callable[[object, str], Any]]] = {
    "type": document.text,
    "journal_capacity": document.whole,
    "journal_bytes": document.whole,
    "executable": document.text,
    "args": document.texts,
    "environment": variables,
    "working_directory": _absolute,
    "model": document.text,
    "provider": document.text,
    "max_tokens": lambda value, place: document.whole(value, place, 1),
    "allowed_tools": _tool_names,
    "unrestricted_tools": document.flag,
    "approval_policy": document.text,
    "sandbox": document.text,
    "agent": document.text,
    "agent_config": _object,
    "system_prompt": document.text,
    "endpoint": document.text,
    "deltas": document.whole,
    "delta_bytes": lambda value, place: document.whole(value, place, 1),
    "interval_ms": document.whole,
    "pace": lambda value, place: document.choice(value, place, "free", "reader"),
}
"""Every member of an adapter's entry with the function that judges its kind."""


class AdapterEntry:
    """One configured adapter. `journal_events` and `journal_bytes` bound one session's journal, defaults applied.

    `members` are what the entry states (environment lists as variables). `options` are those that are neither of the
    process nor of the journal, for `synthetic` with the defaults filled in. `environment` is what a child sees, whole.
    """

    __slots__ = ("environment", "journal_bytes", "journal_events", "members", "name", "options", "type")

    def __init__(
        self, name: str, type: str, members: Mapping[str, Any], limits: Limits, environ: Mapping[str, str]
    ) -> None:
        self.name = name
        self.type = type
        self.members = members
        usual = MEMORY_JOURNAL_EVENTS if type == MEMORY else limits.journal_events
        self.journal_events: int = members.get("journal_capacity") or usual
        self.journal_bytes: int = members.get("journal_bytes") or limits.journal_bytes
        self.environment = resolved(members.get("environment", ()), environ)
        stated = {name: value for name, value in members.items() if name not in (*_JOURNAL, *_PROCESS, "type")}
        self.options: Mapping[str, Any] = {**SYNTHETIC_DEFAULTS, **stated} if type == SYNTHETIC else stated

    def settings(self, limits: Limits) -> Settings:
        """Return what a codec is given."""
        return Settings(
            self.name,
            limits,
            executable=self.members.get("executable"),
            args=self.members.get("args", ()),
            environment=self.environment,
            working_directory=self.members.get("working_directory"),
            options=self.options,
        )


class Config:
    """The whole configuration: adapters by name, tool sources by id, limits."""

    __slots__ = ("adapters", "limits", "tool_sources")

    def __init__(
        self,
        adapters: Mapping[str, AdapterEntry],
        tool_sources: Mapping[str, ToolSource] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.adapters = adapters
        self.tool_sources = tool_sources or {}
        self.limits = limits or Limits()


def default_config() -> Config:
    """Return what holds without a file: the memory adapter, and every limit at its default."""
    return Config({MEMORY: AdapterEntry(MEMORY, MEMORY, {}, Limits(), {})})


def read_config(path: str, environ: Mapping[str, str] | None = None) -> Config:
    """Read a file; `environ` is the daemon's environment (None: the process's own). Raises `ConfigError`."""
    import os

    try:
        with open(path, "rb") as file:
            text = file.read(CONFIG_BYTES + 1)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    return parse_config(text, path, os.environ if environ is None else environ)


def parse_config(text: bytes, where: str, environ: Mapping[str, str]) -> Config:
    """Take the text of a file; `where` names it in messages. Raises `ConfigError` with member and place, no values."""
    try:
        top = document.members(document.load(text), "", ("adapters", "tool_sources", "limits"))
        limits = _limits(top.get("limits", {}))
        adapters = {
            name: _adapter(name, entry, member("adapters", name), limits, environ)
            for name, entry in document.mapping(top.get("adapters", {}), "adapters").items()
        }
        sources = read_tool_sources(top.get("tool_sources", {}), "tool_sources", environ)
        for name, adapter in adapters.items():
            if adapter.type not in IN_PROCESS and not registry.serves(adapter.type):
                place = member("adapters", name)
                raise ConfigError(f"{place}: type {adapter.type} is not served by this version")
    except ConfigError as error:
        raise ConfigError(f"{where}: {str(error)[:_MESSAGE_CHARS]}") from error.__cause__
    return Config(adapters, sources, limits)


def _limits(value: object) -> Limits:
    stated = document.members(value, "limits", DEFAULTS)
    limits = Limits()
    for name, number in stated.items():
        if isinstance(number, str | list | dict):
            raise ConfigError(f"{member('limits', name)}: must be a number, not {document.kind(number)}")
        try:
            limits = limits.replace(**{name: number})
        except ValueError as error:
            raise ConfigError(f"{member('limits', name)}: {error}") from None
    return limits


def _adapter(name: str, value: object, place: str, limits: Limits, environ: Mapping[str, str]) -> AdapterEntry:
    entry = document.members(value, place, READERS)
    type = document.text(entry.get("type", name), member(place, "type"))
    used = frozenset((*_used(type, place), *_JOURNAL, "type"))
    for unused in sorted(entry.keys() - used):
        raise ConfigError(f"{member(place, unused)}: type {type} does not use this member")
    read = {key: READERS[key](stated, member(place, key)) for key, stated in entry.items()}
    if type == "claude":
        _check_tool_choice(read, place)
    if read.get("delta_bytes", 0) > limits.envelope_bytes:
        raise ConfigError(f"{member(place, 'delta_bytes')}: must be at most limits.envelope_bytes")
    return AdapterEntry(name, type, read, limits, environ)


def _used(type: str, place: str) -> Sequence[str]:
    if type in TYPES:
        return TYPES[type]
    if not registry.serves(type):
        served = ", ".join(sorted(TYPES))
        raise ConfigError(f"{member(place, 'type')}: unknown type {shown(type)}; known are {served}")
    return registry.members(type) or _PROCESS


def _check_tool_choice(read: dict[str, Any], place: str) -> None:
    """A host must say which tools may run unasked; `unrestricted_tools: false` says nothing and is dropped."""
    if not read.get("unrestricted_tools"):
        read.pop("unrestricted_tools", None)
    if ("allowed_tools" in read) == ("unrestricted_tools" in read):
        raise ConfigError(f"{place}: state exactly one of allowed_tools (names) and unrestricted_tools (true)")
