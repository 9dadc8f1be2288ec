"""Which variables of the daemon reach a child: only the named ones (spec: hub 7, environment lists).

An element of a list is `NAME` (forward the daemon's own value) or `NAME=value` (a literal, which may be empty).
Messages name variables and never show a value.
"""

from __future__ import annotations

from ..protocol.errors import ConfigError
from .document import shown, texts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Variable = tuple[str, str | None]
    """`(name, literal)`; None stands for the daemon's own value."""


def variables(value: object, place: str) -> tuple[Variable, ...]:
    """Return a list of the configuration as variables. Raises `ConfigError` for a bad or repeated name."""
    found: dict[str, str | None] = {}
    for index, element in enumerate(texts(value, place)):
        name, equals, literal = element.partition("=")
        if fault := name_fault(name):
            raise ConfigError(f"{place}[{index}]: {fault}")
        if name in found:
            raise ConfigError(f"{place}[{index}]: variable {shown(name)} is named twice")
        found[name] = literal if equals else None
    return tuple(found.items())


def name_fault(name: str) -> str | None:
    """Return what is wrong with the name of a variable, or None."""
    if not name:
        return "a variable's name must not be empty"
    if any(character < " " or character == "\x7f" for character in name):
        return "a variable's name must not hold a newline, NUL or another control character"
    return None


def resolved(wanted: Iterable[Variable], environ: Mapping[str, str]) -> dict[str, str]:
    """Return what the child sees; a forwarded variable that the daemon lacks is left out."""
    seen = {}
    for name, literal in wanted:
        value = environ.get(name) if literal is None else literal
        if value is not None:
            seen[name] = value
    return seen


def first_absent(wanted: Iterable[Variable], environ: Mapping[str, str]) -> str | None:
    """Return the first variable to be forwarded that the daemon lacks, or None."""
    return next((name for name, literal in wanted if literal is None and name not in environ), None)
