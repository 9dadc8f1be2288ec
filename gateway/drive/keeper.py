"""Who was started, and that none of it stays: one `Keeper` a process (decision 11).

It knows every child that is not yet reaped, finds what descends from it by session, group and parentage, kills until
none is left, reaps orphans that were adopted, and holds the watchdog. What cannot be killed is named as outlived.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from .processes import (
    adopt_orphans,
    descendants,
    has_groups,
    kill,
    kill_family,
    kill_group,
    read_process,
    read_table,
    reap,
)
from .watchdog import Watchdog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future
    from collections.abc import Callable, Iterable, Mapping
    from subprocess import Popen
    from typing import Final

    from .processes import Process, Table

PAUSE_S: Final = 0.002
LONGEST_PAUSE_S: Final = 0.050
"""Between two looks at what is left; doubles from the first to the second."""
_BLIND_ROUNDS: Final = 5
ORPHANS_S: Final = 60.0
"""How often adopted orphans that have ended are collected, while there are harnesses."""


class Family:
    """One child and everything that it started. `seen` are descendants met so far: pid and start time.

    `stop` runs the child's stop ladder, or returns that which is under way.
    """

    __slots__ = ("closing", "pid", "process", "seen", "start", "stop")

    def __init__(self, process: Popen[bytes], stop: Callable[[], Future[list[str]]]) -> None:
        self.process = process
        self.stop = stop
        self.pid = process.pid
        self.closing = False
        self.seen: dict[int, int] = {}
        found = read_process(self.pid)
        self.start = -1 if found is None else found.start


class Keeper:
    """Started children by pid. `adopt` makes the process a child subreaper with the first child (Linux).

    Only a program whose children are all ours may adopt: `serve` does, a library in somebody's program does not.
    """

    def __init__(self, adopt: bool = False) -> None:
        self.adopt = adopt
        self._adopting = False
        self._families: dict[int, Family] = {}
        self._dog = Watchdog()
        self._table: Table | None = None
        self._read_at = -1.0
        self._orphans_due: object | None = None

    @property
    def pids(self) -> set[int]:
        """The children that are not reaped yet."""
        return set(self._families)

    # -- the life of a child --

    def prepare(self) -> None:
        """Get ready for the next child; called before it is started."""
        if self.adopt and not self._adopting:
            self._adopting = adopt_orphans(True)

    def started(self, process: Popen[bytes], stop: Callable[[], Future[list[str]]], loop: AbstractEventLoop) -> Family:
        """Take a child, which leads a session of its own."""
        family = Family(process, stop)
        self._families[family.pid] = family
        if has_groups():
            self._dog.add(family.pid)
        if self._adopting and self._orphans_due is None:
            self._orphans_due = loop.call_later(ORPHANS_S, self._collect, loop)
        return family

    def forget(self, pid: int) -> None:
        """The child's status was collected: its number may be used again, so let go of it.

        With the last one the watchdog goes, unless this is a program of ours: a library leaves no process behind.
        """
        if self._families.pop(pid, None) is not None:
            self._dog.remove(pid)
            if not self._families and not self.adopt:
                self._dog.close()

    def look(self, family: Family) -> None:
        """Remember what descends from the child now, because what leaves its session is harder to find later."""
        table = self._fresh(time.monotonic() - PAUSE_S)
        if table is not None:
            self._remember(family, table)

    async def clear(self, family: Family, seconds: float) -> list[str]:
        """Kill all of a family until none is left; at most `seconds`. Returns a text for each that outlived it."""
        import asyncio

        family.closing = True
        kill_family(family.process)
        mark = time.monotonic()
        deadline = mark + seconds
        pause, quiet, killed = PAUSE_S, False, False
        await asyncio.sleep(0)  # let others of this turn come here too: one table serves all
        while True:
            table = self._fresh(mark)
            if table is None:
                return await self._clear_group(family, deadline)
            left = self._members(family, table)
            self._reap_orphans(table)
            if not left and (quiet or not killed):  # a process that forks can slip through one look, so look twice
                return []
            quiet, killed = not left, killed or bool(left)
            if left and time.monotonic() >= deadline:
                return _outlived(left)
            for process in left:
                kill(process)
            mark = time.monotonic()
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)

    # -- the end of the program --

    async def settle(self, seconds: float) -> list[str]:
        """Run every child's stop ladder to its end, at most `seconds`; whose session is closed has run it already.

        Returns a text for each process that outlived its ladder. What is not done in time is left to `sweep_now`.
        """
        import asyncio

        ladders = {family.stop() for family in self._families.values()}
        if not ladders:
            return []
        done, _ = await asyncio.wait(ladders, timeout=seconds)
        return [text for ladder in done if ladder.exception() is None for text in ladder.result()]

    def sweep_now(self, seconds: float = 2.0) -> list[str]:
        """Kill and reap everything at once, without a loop; blocks at most `seconds`. Harmless when nothing is left.

        The last line of every way out. Returns a text for each process that outlived it.
        """
        deadline = time.monotonic() + seconds
        pause, quiet = PAUSE_S, 0
        left: dict[int, Process] = {}
        while True:
            for family in list(self._families.values()):
                family.closing = True
                kill_family(family.process)
            table = read_table()
            if table is not None:
                left = {p.pid: p for family in self._families.values() for p in self._members(family, table)}
                left |= {p.pid: p for p in self._strays(table)}
                for process in left.values():
                    kill(process)
                self._reap_orphans(table)
            for family in list(self._families.values()):
                if family.pid not in left and family.process.poll() is not None:
                    self.forget(family.pid)
            quiet = 0 if left or self._families else quiet + 1
            if quiet == 2 or (quiet and table is None):
                return []
            if time.monotonic() >= deadline:
                return _outlived(left.values()) or [f"process {pid} outlived the gateway" for pid in self._families]
            time.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)

    def close(self) -> None:
        """End the watchdog and stop adopting. Call it last; children that are still on its list are killed by it."""
        self._dog.close()
        if self._orphans_due is not None:
            with suppress(RuntimeError):
                self._orphans_due.cancel()  # type: ignore[attr-defined]  # a TimerHandle; asyncio is not imported here
            self._orphans_due = None
        if self._adopting:
            self._adopting = False
            adopt_orphans(False)

    # -- inside --

    def _fresh(self, after: float) -> Table | None:
        """Return a table that was read after a moment; many families that end together share one."""
        if self._read_at <= after:
            self._read_at = time.monotonic()
            self._table = read_table()
        return self._table

    def _members(self, family: Family, table: Mapping[int, Process]) -> list[Process]:
        """Return what lives of a family, the child included, and remember it."""
        self._remember(family, table)
        roots = {pid for pid, start in family.seen.items() if pid in table and table[pid].start == start}
        if self._adopting:
            roots |= {process.pid for process in self._strays(table) if self._may_be_of(process, family)}
        roots |= descendants(table, roots)
        lead = table.get(family.pid)
        if lead is not None and lead.start == family.start:
            roots.add(family.pid)
        found = [table[pid] for pid in roots - self._not_theirs(family) if not table[pid].dead]
        family.seen.update((process.pid, process.start) for process in found if process.pid != family.pid)
        return found

    def _remember(self, family: Family, table: Mapping[int, Process]) -> None:
        lead = table.get(family.pid)
        if lead is None or lead.start != family.start:  # it was reaped by others: its number says nothing any more
            return
        family.seen = {pid: start for pid, start in family.seen.items() if pid in table and table[pid].start == start}
        found = {process.pid for process in table.values() if family.pid in (process.session, process.group)}
        found |= descendants(table, found | {family.pid})
        for pid in found - self._not_theirs(family) - {family.pid}:
            family.seen[pid] = table[pid].start

    def _not_theirs(self, family: Family) -> set[int]:
        return {os.getpid(), self._dog.pid or 0, *(pid for pid in self._families if pid != family.pid)}

    def _strays(self, table: Mapping[int, Process]) -> list[Process]:
        """Return the orphans that this process adopted: its children that it did not start."""
        if not self._adopting:
            return []
        me = os.getpid()
        ours = {*self._families, self._dog.pid}
        return [p for p in table.values() if p.parent == me and p.pid not in ours and not p.dead]

    def _may_be_of(self, stray: Process, family: Family) -> bool:
        """Whether an orphan is this family's: it is younger, and no family that goes on can have started it."""
        if stray.start < family.start:
            return False
        for other in self._families.values():
            if other is family or other.closing:
                continue
            known = other.pid in (stray.session, stray.group) or other.seen.get(stray.pid) == stray.start
            if known or other.start <= stray.start:
                return family.seen.get(stray.pid) == stray.start
        return True

    def _reap_orphans(self, table: Mapping[int, Process]) -> None:
        if not self._adopting:
            return
        me = os.getpid()
        for process in table.values():
            if process.dead and process.parent == me and process.pid not in self._families:
                reap(process.pid)

    def _collect(self, loop: AbstractEventLoop) -> None:
        self._orphans_due = None
        table = self._fresh(time.monotonic() - PAUSE_S)
        if table is not None and self._families and self._adopting:
            for family in self._families.values():
                self._remember(family, table)
            self._reap_orphans(table)
            self._orphans_due = loop.call_later(ORPHANS_S, self._collect, loop)

    async def _clear_group(self, family: Family, deadline: float) -> list[str]:
        """Where processes cannot be seen, kill the group until nothing takes the signal."""
        import asyncio

        pause, rounds = PAUSE_S, 0
        while kill_group(family.pid):
            rounds += 1
            if family.process.returncode is None and rounds == _BLIND_ROUNDS:  # its own zombie keeps the group
                return []
            if time.monotonic() >= deadline:
                return [f"something of process group {family.pid} outlived its session"]
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)
        return []


def _outlived(processes: Iterable[Process]) -> list[str]:
    return [f"process {process.pid} ({process.name}) outlived its session" for process in processes]


_shared: Keeper | None = None


def shared_keeper() -> Keeper:
    """Return the one keeper of this process, made at the first call."""
    global _shared
    if _shared is None:
        _shared = Keeper()
    return _shared
