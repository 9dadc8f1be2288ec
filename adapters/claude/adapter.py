"""One configured Claude Code, as the registry knows it."""

from __future__ import annotations

from .capabilities import DESCRIPTOR, REVISION
from .codec import ClaudeCodec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..base import Codec, Settings


class ClaudeAdapter:
    """Makes the codecs of one configured adapter.

    Environment of the child: what the configuration lists, and `launch.ADDED`
    (`CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1`, `DISABLE_AUTOUPDATER=1`, a `PATH` where the list names none); never
    `CLAUDECODE` or `CLAUDE_CODE_ENTRYPOINT`.

    Options: `model` (a name that the harness's `--model` takes), and one of `allowed_tools` (the tools that exist, see
    `launch.tool_flags`) and `unrestricted_tools` (the harness's own set; what its rules ask about becomes a gate).
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def describe(self) -> tuple[str, Mapping[str, Any]]:
        """Return the revision and the descriptor; no process is started."""
        return REVISION, DESCRIPTOR

    def new(self) -> Codec:
        """Return the codec of one new session."""
        return ClaudeCodec(self.settings)
