"""How the harness is started: the command line, and an environment that holds nothing of the daemon's own."""

from __future__ import annotations

from ...protocol.errors import Refusal
from ...protocol.names import EXTENSION, OPEN_FAILED
from ..base import Launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, Final

    from ...protocol.envelope import Envelope
    from ..base import Settings

EXECUTABLE: Final = "claude"
WIRE: Final = (
    "-p",
    "--input-format",
    "stream-json",
    "--output-format",
    "stream-json",
    "--verbose",  # without it the process says so and exits at the first prompt
    "--include-partial-messages",
    "--permission-prompt-tool",
    "stdio",
)
"""The flags of the stream-json wire with streamed text and permission questions."""

ADDED: Final[Mapping[str, str]] = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}
"""What the child gets unless the configured environment says otherwise: no traffic but the model's, no update of itself
in the middle of a session, and a search path without which its shell finds no command at all. `HOME` is not added:
without one the harness takes the user's own from the password database."""

OUTER: Final = frozenset(("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT"))
"""Marks that a harness leaves in the environment of what it starts. They would tell the child that it runs inside
another one, so they never pass, listed or not."""

_LONGEST_ID: Final = 200


def launch(settings: Settings, request: Envelope) -> Launch:
    """Return how to start the harness for an open request. Raises `Refusal("open_failed")`."""
    argv = [settings.executable or EXECUTABLE, *settings.args, *WIRE]
    options = settings.options
    if (model := options.get("model")) is not None:
        argv += ["--model", model]
    if (tools := options.get("allowed_tools")) is not None:
        argv += tool_flags(tools)
    if (native := resumed(request)) is not None:
        argv += ["--resume", native]
    environment = {**ADDED, **settings.environment}
    for name in OUTER:
        environment.pop(name, None)
    return Launch(argv, environment, settings.working_directory)


def tool_flags(tools: Iterable[str]) -> list[str]:
    """Return the flags for `allowed_tools`: the named tools are there and no other built-in is, and a call that an
    entry covers (`Bash`, or `Bash(git *)` for some) is not asked about.
    """
    rules = list(tools)
    names = dict.fromkeys(rule.partition("(")[0] for rule in rules if not rule.startswith("mcp__"))
    flags = ["--tools", ",".join(names)]
    return [*flags, "--allowedTools", ",".join(rules)] if rules else flags


def resumed(request: Envelope) -> str | None:
    """Return the native session that an open request names under the extension key, if it does.

    Not reachable yet: the hub refuses the extension key on open (`session.resume` is advertised by nobody). The flag is
    proved by the recordings of the harness: same id, history kept, nothing replayed.
    """
    about = request.payload.get("metadata", {}).get(EXTENSION)
    native: Any = about.get("resume") if isinstance(about, dict) else None
    if native is None:
        return None
    if not isinstance(native, str) or not native or native.startswith("-") or len(native) > _LONGEST_ID:
        raise Refusal(OPEN_FAILED, f"metadata {EXTENSION} resume must be the id of a session of the harness")
    return native
