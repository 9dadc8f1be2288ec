"""Claude Code over its stream-json wire: one process a session, both directions one JSON object a line.

`adapter` is the configured harness, `codec` one session with it (handshake, requests, control frames), `turn` the live
run, `gates` its questions, `outcome` its end, `ownership` whose turn runs. `frames` reads what the harness wrote,
`launch` says how it is started, `capabilities` what it can do, `prompt` what it can be told, `usage` what it cost.
Everything is sans-I/O (see `adapters.base`).
"""

from __future__ import annotations

from .adapter import ClaudeAdapter

__all__ = ["ClaudeAdapter"]
