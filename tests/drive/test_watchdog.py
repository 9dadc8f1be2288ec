"""kill -9 of a gateway: what it started is killed by the watchdog; at a clean end nothing is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from trunkline.gateway.drive import watchdog
from trunkline.gateway.drive.watchdog import Watchdog

from tests.support.procs import alive, running, until_sync
from tests.support.tree import ROOT

GATEWAY = """
import asyncio, sys
from tests.support.children import QUICK, Heard
from tests.support.harnesses import script
from tests.support.procs import until
from trunkline.gateway.drive.child import Child
from trunkline.gateway.drive.keeper import Keeper
from trunkline.gateway.drive.redact import Redactor

WRAPPER = '''
deaf()
subprocess.Popen(SLEEP)
subprocess.Popen(SLEEP, process_group=0)
subprocess.Popen(SLEEP, start_new_session=True)
say("up")
time.sleep(600)
'''

async def main():
    keeper = Keeper(adopt=True)
    heard = [Heard(), Heard(), Heard()]
    launch = script(WRAPPER, sys.argv[1])
    children = [Child(launch, QUICK, Redactor({}), keeper, h.output.extend, h.ended) for h in heard]
    for child in children:
        child.resume()
    await until(lambda: all(h.output for h in heard))
    await children[0].stop()
    print(keeper._dog.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def shells() -> list[str]:
    return [path for path in ("/bin/sh", "/bin/dash", "/bin/bash", "/bin/busybox") if os.access(path, os.X_OK)]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_killed_gateway_leaves_no_harness(mark: str, number: signal.Signals) -> None:
    """A deaf wrapper with native children, in groups and sessions of their own (decision 11)."""
    process = subprocess.Popen((sys.executable, "-c", GATEWAY, mark), cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    dog = int(process.stdout.readline())
    assert len(running(mark)) == 9  # the gateway, and twice a wrapper with three children
    process.send_signal(number)
    process.wait(60)
    process.stdout.close()
    until_sync(lambda: not running(mark), "the end of all of them")
    until_sync(lambda: not alive(dog), "the end of the watchdog")


@pytest.mark.parametrize("shell", shells())
def test_any_shell_will_do(mark: str, shell: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if shell.endswith("busybox"):
        link = tmp_path / "sh"
        link.symlink_to(shell)
        shell = str(link)
    monkeypatch.setattr(watchdog, "SHELL", shell)
    sleep = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)", mark]
    watched, released = (subprocess.Popen(sleep, start_new_session=True) for _ in range(2))
    dog = Watchdog()
    for number in (watched.pid, released.pid, 4_000_001, 4_000_002):
        dog.add(number)
    for number in (4_000_001, released.pid, 4_000_002, 4_000_003):
        dog.remove(number)
    assert dog.pid is not None
    dog.close()
    assert watched.wait(60) == -9
    assert alive(released.pid)
    released.kill()
    released.wait(60)


def test_it_survives_the_signals_of_a_terminal(mark: str) -> None:
    dog = Watchdog()
    dog.add(4_000_001)
    dog.remove(4_000_001)
    assert dog.pid is not None
    status = Path(f"/proc/{dog.pid}/status")
    ignored = {signal.SIGINT, signal.SIGHUP, signal.SIGTERM}
    mask = sum(1 << (number - 1) for number in ignored)
    until_sync(lambda: int(status.read_text().split("SigIgn:")[1].split()[0], 16) & mask == mask, "its trap")
    for number in ignored:
        os.kill(dog.pid, number)
    assert os.getsid(dog.pid) != os.getsid(0)
    assert alive(dog.pid)
    dog.close()
    assert dog.pid is None


def test_a_watchdog_that_was_killed_is_no_trouble(mark: str) -> None:
    dog = Watchdog()
    dog.add(4_000_001)
    assert dog.pid is not None
    os.kill(dog.pid, signal.SIGKILL)
    until_sync(lambda: not alive(dog.pid or 0), "its end")
    for _ in range(3):
        dog.add(4_000_002)
        dog.remove(4_000_002)
    dog.close()


def test_one_that_was_killed_is_replaced_by_one_that_knows_all_groups(mark: str) -> None:
    sleep = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)", mark]
    watched = subprocess.Popen(sleep, start_new_session=True)
    dog = Watchdog()
    dog.add(watched.pid)
    first = dog.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    until_sync(lambda: not alive(first), "its end")
    dog.add(4_000_001)
    assert dog.pid not in (None, first)
    os.kill(dog.pid or 0, signal.SIGKILL)
    until_sync(lambda: not alive(dog.pid or 0), "the end of the second")
    dog.remove(4_000_001)
    assert dog.pid is not None
    dog.close()
    assert watched.wait(60) == -9


def test_one_that_cannot_be_told_is_ended_and_kills_nothing(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sleep = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)", mark]
    watched = subprocess.Popen(sleep, start_new_session=True)
    dog = Watchdog()
    dog.add(watched.pid)
    assert dog.pid is not None
    os.kill(dog.pid, signal.SIGSTOP)
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:3]))  # a pipe that takes a part only
    dog.remove(4_000_001)
    monkeypatch.undo()
    assert alive(watched.pid)
    dog.remove(watched.pid)
    dog.close()
    assert alive(watched.pid)
    watched.kill()
    watched.wait(60)


LIBRARY = """
import asyncio, sys
from tests.drive.test_hub import HEAD, names
from tests.support.fake_codec import FakeFactory
from tests.support.stages import ONE_RUN, QUICK
from trunkline.gateway import Hub
from trunkline.gateway.drive.adapter import ProcessAdapter
from trunkline.gateway.drive.keeper import shared_keeper

async def main():
    hub = Hub({"fake": ProcessAdapter("fake", FakeFactory(sys.argv[1], ONE_RUN), QUICK)}, QUICK)
    for turn in range(2):
        for name in ("a", "b"):
            await hub.open("fake", {**HEAD, "type": names.OPEN, "payload": {"session_id": f"{name}{turn}"}})
        assert shared_keeper()._dog.pid
        await hub.close(f"a{turn}")
        assert shared_keeper()._dog.pid, "it watches over the other one"
        await hub.close(f"b{turn}")
        assert shared_keeper()._dog.pid is None
    await hub.open("fake", {**HEAD, "type": names.OPEN, "payload": {"session_id": "c"}})
    assert await hub.aclose() == []

asyncio.run(main())
"""


def test_a_library_leaves_no_watchdog_when_its_last_harness_is_gone(mark: str) -> None:
    command = (sys.executable, "-X", "dev", "-W", "error", "-c", LIBRARY, mark)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_shell_is_said_once_and_is_no_trouble(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watchdog, "SHELL", "/no/such/shell")
    dog = Watchdog()
    dog.add(4_000_001)
    dog.add(4_000_002)
    dog.remove(4_000_001)
    dog.close()
    assert len(caplog.records) == 1
    assert "no watchdog" in caplog.text
