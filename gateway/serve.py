"""`serve --stdio`, wired: about ten objects, by hand. Descriptors first, then the configuration, then the loop."""

from __future__ import annotations

import os
import sys

from ..protocol.errors import ConfigError
from .drive.stdio_fds import take_stdio
from .shutdown import catch_early, leave, say, speak

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, NoReturn

    from ..protocol.limits import Limits
    from .cli import ServeOptions
    from .config import Config
    from .drive.keeper import Keeper
    from .hub.switch import Switch
    from .stdio.prelude import Prelude


def serve_stdio(options: ServeOptions) -> NoReturn:
    """Serve until the host ends, then leave with the exit code of spec stdio 10."""
    early: list[int] = []
    catch_early(early, waiting=True)
    reader, writer = take_stdio()
    bytes(8 << 20)  # glibc: freeing one mapped block raises its mmap and trim thresholds, once; costs one page fault
    try:
        config = _configuration(options)
        switch = make_switch(config)
    except ConfigError as error:
        say(str(error))
        sys.exit(1)
    catch_early(early, waiting=False)
    from .stdio.prelude import prelude

    before = prelude(reader, writer, switch, config.limits)
    _run(switch, config.limits, reader, writer, early, before, _keeper(config), options.log_level)


def make_switch(config: Config) -> Switch:
    """Return the switch of a configuration, with its adapters. Raises `ConfigError`."""
    from .hub.switch import Switch
    from .registry import Registry
    from .tool_sources import resolve_attachments

    def attachments(asked: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        return [
            {
                **source.published,
                **({"command": source.command, "args": list(source.args)} if source.command is not None else {}),
                "environment": source.environment,
            }
            for source in resolve_attachments(asked, config.tool_sources, os.environ)
        ]

    return Switch(Registry.of(config), config.limits, note=note, info=info, attachments=attachments)


def note(text: str) -> None:
    """Log one bounded line of diagnostics."""
    import logging

    logging.getLogger("trunkline").warning("%s", "\\n".join(text[:2000].splitlines()))


def info(text: str) -> None:
    """Log one line of ordinary progress, shown from `--log-level info` on."""
    import logging

    logging.getLogger("trunkline").info("%s", text)


def _configuration(options: ServeOptions) -> Config:
    from .config import default_config, read_config

    config = default_config() if options.config is None else read_config(options.config)
    if options.frame_limit is not None:
        config.limits = config.limits.replace(frame_bytes=options.frame_limit)
    return config


def _run(
    switch: Switch,
    limits: Limits,
    reader: int,
    writer: int,
    early: Sequence[int],
    before: Prelude,
    keeper: Keeper | None,
    log_level: str,
) -> NoReturn:
    import asyncio

    from .stdio.server import Server, banner

    _log(log_level)
    name, factory = _loop_factory()

    async def main() -> list[str]:
        server = Server(switch, limits, reader, writer, early)
        speak(banner(list(switch.adapters), name))
        troubles = await server.run(before)
        return troubles if keeper is None else [*troubles, *await keeper.settle(limits.window_s)]

    with asyncio.Runner(loop_factory=factory) as runner:
        try:
            troubles = runner.run(main())
        except Exception as error:  # a fault of ours: told like every other end
            troubles = [f"the gateway failed: {type(error).__name__}: {error}"]
        if keeper is not None:
            troubles = [*troubles, *keeper.sweep_now()]
            keeper.close()
        leave(troubles)


def _keeper(config: Config) -> Keeper | None:
    """Return the keeper of children where the configuration has any: all children of this program are ours to adopt."""
    from .config import IN_PROCESS

    if all(entry.type in IN_PROCESS for entry in config.adapters.values()):
        return None
    from .drive.keeper import shared_keeper

    keeper = shared_keeper()
    keeper.adopt = True
    return keeper


def _log(level: str) -> None:
    import logging

    class Stderr:
        write = staticmethod(speak)
        flush = staticmethod(lambda: None)

    handler = logging.StreamHandler(Stderr())
    handler.setFormatter(logging.Formatter("trunkline: %(levelname)s: %(message)s"))
    logger = logging.getLogger("trunkline")
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    logger.propagate = False


def _loop_factory() -> tuple[str, Any]:
    """Return the event loop's name and factory: uvloop where it is there, unless `TRUNKLINE_LOOP=asyncio`."""
    wanted = os.environ.get("TRUNKLINE_LOOP", "")
    if wanted not in ("", "asyncio", "uvloop"):
        leave([f"TRUNKLINE_LOOP is {wanted!r}; it takes asyncio or uvloop"])
    if wanted != "asyncio":
        try:
            import uvloop
        except ImportError:
            if wanted:
                leave(["TRUNKLINE_LOOP asks for uvloop, which is not installed"])
        else:
            return "uvloop", uvloop.new_event_loop
    return "asyncio", None
