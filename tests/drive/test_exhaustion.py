"""Descriptors or threads run out while a harness is started: no process is left without an owner."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
from trunkline.gateway.drive.child import Child
from trunkline.gateway.drive.keeper import Keeper
from trunkline.gateway.drive.redact import Redactor
from trunkline.protocol.errors import HarnessFault

from tests.support.children import QUICK
from tests.support.harnesses import script
from tests.support.procs import run, running
from tests.support.tree import ROOT

SCARCE = """
import asyncio, os, resource, sys
from tests.support.children import QUICK, Heard
from tests.support.harnesses import script
from trunkline.gateway.drive.child import Child
from trunkline.gateway.drive.keeper import Keeper
from trunkline.gateway.drive.redact import Redactor
from trunkline.protocol.errors import HarnessFault

ALL = resource.getrlimit(resource.RLIMIT_NOFILE)
seen = set()

def start(keeper):
    heard = Heard()
    return Child(script("list(lines())", sys.argv[1]), QUICK, Redactor({}), keeper, heard.output.extend, heard.ended)

def take_all_but(free):
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, ALL[1]))
    held = []
    try:
        while True:
            held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass
    for _ in range(free):
        os.close(held.pop())
    return held

class Late(Keeper):
    # they run out between the start of the harness and that of the watchdog

    def started(self, *arguments):
        self.held = take_all_but(self.free)
        return super().started(*arguments)

async def attempt(free, late):
    keeper = Late() if late else Keeper()
    keeper.free = free
    held = [] if late else take_all_but(free)
    try:
        child = start(keeper)
    except HarnessFault as fault:
        child = None
        assert fault.code == "harness_start_failed", fault.code
    lacks_dog = child is not None and keeper._dog.pid is None
    for fd in keeper.held if late else held:
        os.close(fd)
    resource.setrlimit(resource.RLIMIT_NOFILE, ALL)
    seen.add("refused" if child is None else "without a watchdog" if lacks_dog else "started")
    if child is None:
        assert not keeper.pids, keeper.pids
        try:
            raise SystemExit(f"with {free} free a child is left: {os.waitpid(-1, os.WNOHANG)}")
        except ChildProcessError:
            return
    keeper.free = 64
    again = start(keeper)
    for fd in keeper.held if late else ():
        os.close(fd)
    resource.setrlimit(resource.RLIMIT_NOFILE, ALL)
    assert keeper._dog.pid is not None, "the watchdog is not tried again"
    assert keeper._dog._groups == {child.pid, again.pid}
    await child.stop()
    await again.stop()
    assert keeper._dog.pid is None
    keeper.close()

async def main():
    before = set(os.listdir("/proc/self/fd"))
    for free in range(12):
        for late in (False, True):
            await attempt(free, late)
            assert set(os.listdir("/proc/self/fd")) == before, (free, late)
    print(*sorted(seen), sep=", ")

asyncio.run(main())
"""


def test_no_free_descriptor_leaves_no_process_and_the_watchdog_is_tried_again(mark: str) -> None:
    done = subprocess.run((sys.executable, "-c", SCARCE, mark), cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "refused, started, without a watchdog\n"
    assert not running(mark)


@pytest.mark.parametrize("name", ["Sink", "Source", "Thread"])
def test_whatever_fails_after_the_start_the_child_is_ended_and_reaped(
    loop: str, mark: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("nothing is left")

    if name == "Thread":
        monkeypatch.setattr(threading, name, fail)
        monkeypatch.delattr(os, "pidfd_open")
    else:
        monkeypatch.setattr(f"trunkline.gateway.drive.child.{name}", fail)

    async def main() -> None:
        keeper = Keeper()
        launch = script("deaf(); subprocess.Popen(SLEEP); time.sleep(600)", mark)
        with pytest.raises(HarnessFault, match="cannot be driven: nothing is left") as caught:
            Child(launch, QUICK, Redactor({}), keeper, lambda chunk: None, lambda how, fault: None)
        assert caught.value.code == "harness_start_failed"
        assert not keeper.pids
        assert await keeper.settle(1) == []
        keeper.close()

    run(loop, main())
