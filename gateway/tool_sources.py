"""Tool sources: the operator's map, and what a session may attach from the wire against it (spec: hub 7).

The wire never names a command: what is started, with which arguments and literals, is the operator's entry alone.
"""

from __future__ import annotations

from ..protocol.errors import ConfigError, Refusal
from ..protocol.names import UNSATISFIABLE, UNSUPPORTED_FEATURE
from .document import choice, mapping, member, members, shown, text, texts
from .environment import first_absent, name_fault, resolved, variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Final

KINDS: Final = ("native", "local", "process", "remote", "hosted")
PUBLISHED: Final = ("kind", "display_name", "protocol", "endpoint")
"""Members that hosts may see, beside the id; the others stay with the operator."""
FEATURE: Final = "action.tool_sources.attach"

_MEMBERS: Final = (*PUBLISHED, "command", "args", "environment")
_OPERATORS_OWN: Final = ("command", "args")


class ToolSource:
    """One source of tools. `environment` is what its process sees, whole; `published` is what hosts see of it.

    `command` is None where nothing is to be started. `configured` is False for one that only the wire described.
    """

    __slots__ = ("args", "command", "configured", "environment", "id", "published")

    def __init__(
        self,
        id: str,
        published: Mapping[str, str],
        *,
        command: str | None = None,
        args: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        configured: bool = True,
    ) -> None:
        self.id = id
        self.published = {"id": id, **published}
        self.command = command
        self.args = tuple(args)
        self.environment = dict(environment or {})
        self.configured = configured

    @property
    def kind(self) -> str:
        """One of `KINDS`."""
        return self.published["kind"]

    def with_environment(self, more: Mapping[str, str]) -> ToolSource:
        """Return a copy that also sees variables which this source does not name itself."""
        published = {name: value for name, value in self.published.items() if name != "id"}
        return ToolSource(
            self.id,
            published,
            command=self.command,
            args=self.args,
            environment={**more, **self.environment},
            configured=self.configured,
        )


def read_tool_sources(value: object, place: str, environ: Mapping[str, str]) -> dict[str, ToolSource]:
    """Return the `tool_sources` member of the configuration by id. Raises `ConfigError` naming source and fault."""
    return {id: _read(id, entry, member(place, id), environ) for id, entry in mapping(value, place).items()}


def _read(id: str, value: object, place: str, environ: Mapping[str, str]) -> ToolSource:
    entry = members(value, place, _MEMBERS)
    if "kind" not in entry:
        raise ConfigError(f"{member(place, 'kind')}: required; one of {', '.join(KINDS)}")
    kind = choice(entry["kind"], member(place, "kind"), *KINDS)
    if kind == "process" and "command" not in entry:
        raise ConfigError(f"{member(place, 'command')}: required for kind process")
    at = member(place, "environment")
    wanted = variables(entry.get("environment", []), at)
    if (absent := first_absent(wanted, environ)) is not None:
        hint = f"set it, or write {shown(absent + '=')}"
        raise ConfigError(f"{at}: source {shown(id)} needs variable {shown(absent)}, which is not set; {hint}")
    return ToolSource(
        id,
        {name: text(entry[name], member(place, name)) for name in PUBLISHED if name in entry},
        command=text(entry["command"], member(place, "command")) if "command" in entry else None,
        args=texts(entry.get("args", []), member(place, "args")),
        environment=resolved(wanted, environ),
    )


def resolve_attachments(
    attachments: Sequence[Mapping[str, Any]],
    tool_sources: Mapping[str, ToolSource],
    environ: Mapping[str, str],
) -> list[ToolSource]:
    """Return what an open's `tool_sources` (already judged by the schema) stand for, in their order.

    A source that the operator did not configure passes through for the adapter to judge, unless it would be a process.
    Raises `Refusal` unsupported_feature / unsatisfiable with `source`, before any adapter sees the open.
    """
    found: dict[str, ToolSource] = {}
    for attachment in attachments:
        source = _resolve(attachment, tool_sources.get(attachment["id"]), environ)
        if source.id in found:
            raise _refusal(source.id, "is attached twice")
        found[source.id] = source
    return list(found.values())


def _resolve(attachment: Mapping[str, Any], entry: ToolSource | None, environ: Mapping[str, str]) -> ToolSource:
    id = attachment["id"]
    for name in _OPERATORS_OWN:
        if name in attachment:
            raise _refusal(id, f"carries {name}, which only the operator's configuration may name")
    forwarded = resolved(((name, None) for name in _bare_names(id, attachment.get("environment", ()))), environ)
    stated = {name: attachment[name] for name in PUBLISHED if name in attachment}
    if entry is None:
        if attachment["kind"] == "process":
            raise _refusal(id, "is a process that the operator's configuration does not list")
        return ToolSource(id, stated, environment=forwarded, configured=False)
    for name, value in stated.items():
        if entry.published.get(name) != value:
            raise _refusal(id, f"states a {name} other than the configured one; leave it out or state the same")
    return entry.with_environment(forwarded)


def _bare_names(id: str, elements: Sequence[str]) -> Sequence[str]:
    for element in elements:
        if "=" in element:
            raise _refusal(id, "carries a literal in environment; name the variable only")
        if fault := name_fault(element):
            raise _refusal(id, f"carries a bad environment: {fault}")
    if len(set(elements)) < len(elements):
        raise _refusal(id, "names a variable twice in environment")
    return elements


def _refusal(id: str, what: str) -> Refusal:
    details = {"feature": FEATURE, "reason": UNSATISFIABLE, "source": id}
    return Refusal(UNSUPPORTED_FEATURE, f"tool source {shown(id)} {what}", details)
