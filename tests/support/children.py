"""One real child at a time: start it, use it, stop it, and hear what it said."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from trunkline.adapters.base import Exit, Launch
from trunkline.gateway.drive.child import Child
from trunkline.gateway.drive.keeper import Keeper
from trunkline.gateway.drive.redact import Redactor
from trunkline.protocol.errors import HarnessFault
from trunkline.protocol.limits import Limits

from tests.support.procs import run, until

QUICK = Limits(harness_stop_s=0.3, harness_drain_s=0.2)


class Heard:
    """What a child said, and how it ended."""

    def __init__(self) -> None:
        self.output = bytearray()
        self.ends: list[tuple[Exit, HarnessFault | None]] = []

    def ended(self, how: Exit, fault: HarnessFault | None) -> None:
        self.ends.append((how, fault))

    @property
    def how(self) -> Exit:
        assert len(self.ends) == 1
        return self.ends[0][0]

    @property
    def fault(self) -> HarnessFault | None:
        assert len(self.ends) == 1
        return self.ends[0][1]

    def lines(self) -> list[str]:
        return self.output.decode().splitlines()


Play = Callable[[Child, Heard], Awaitable[Any]]


def play(
    loop: str,
    launch: Launch,
    use: Play,
    limits: Limits = QUICK,
    adopt: bool = False,
    read: bool = True,
    literals: dict[str, str] | None = None,
) -> Heard:
    """Start a child, use it, stop it, end the keeper; return what was heard."""
    heard = Heard()

    async def main() -> None:
        keeper = Keeper(adopt)
        redactor = Redactor(launch.environment, literals)
        child = Child(launch, limits, redactor, keeper, lambda chunk: heard.output.extend(chunk), heard.ended)
        if read:
            child.resume()
        try:
            await use(child, heard)
        finally:
            await child.stop()
            assert await child.stop() == child.outlived
            assert not keeper.pids
            assert keeper.sweep_now() == []
            keeper.close()
        await until(lambda: len(heard.ends) == 1, "the end")

    run(loop, main())
    return heard


async def to_the_end(child: Child, heard: Heard) -> None:
    await until(lambda: bool(heard.ends), "the end")


async def at_once(child: Child, heard: Heard) -> None:
    """Stop it as soon as it has spoken."""
    await until(lambda: bool(heard.output), "its first words")
