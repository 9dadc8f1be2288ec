"""The one stop ladder on real processes: whatever they do, nothing of them stays (decision 11)."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from trunkline.gateway.drive.child import Child
from trunkline.gateway.drive.keeper import Keeper
from trunkline.gateway.drive.redact import Redactor

from tests.support.children import QUICK, Heard, at_once, play, to_the_end
from tests.support.harnesses import script
from tests.support.procs import alive, run, running, until

# -- the stop ladder --


def test_the_end_of_input_comes_first_and_gives_time_to_flush(loop: str, mark: str, tmp_path: Path) -> None:
    """PB-J06."""
    note = tmp_path / "note"
    body = f"deaf(); say('up'); list(lines()); open({str(note)!r}, 'w').write('flushed')"
    heard = play(loop, script(body, mark), at_once)
    assert note.read_text() == "flushed"
    assert heard.how.code == 0


def test_a_last_word_is_written_before_the_input_is_closed(loop: str, mark: str) -> None:
    async def use(child: Child, heard: Heard) -> None:
        await at_once(child, heard)
        child.write(b"x" * 300_000 + b"\n")
        child.write(b"goodbye\n")

    body = "say('up'); time.sleep(0.1); say([line for line in lines()][-1])"
    assert play(loop, script(body, mark), use).lines()[-1] == "goodbye"


def test_a_child_that_ignores_the_end_of_its_input_gets_term(loop: str, mark: str) -> None:
    heard = play(loop, script("say('up'); time.sleep(600)", mark), at_once)
    assert heard.how.code == -signal.SIGTERM


def test_a_child_that_ignores_term_is_killed(loop: str, mark: str) -> None:
    """PB-J04, PB-J05."""
    heard = play(loop, script("deaf(); say('up'); time.sleep(600)", mark), at_once)
    assert heard.how.code == -signal.SIGKILL


def test_a_child_that_forks_in_a_loop_leaves_nothing(loop: str, mark: str) -> None:
    """PB-J13: kill again until none is left."""
    body = """
deaf()
say('up')
for _ in range(2000):
    if os.fork() == 0:
        os.setsid() if os.getpid() % 2 else None
        time.sleep(0.02)
        if os.fork():
            os._exit(0)
        time.sleep(600)
    time.sleep(0.005)
"""
    heard = play(loop, script(body, mark), at_once, adopt=True)
    assert heard.how.code == -signal.SIGKILL


@pytest.mark.parametrize("how", ["start_new_session=True", "process_group=0"])
@pytest.mark.parametrize("adopt", [False, True])
def test_grandchildren_with_a_group_or_session_of_their_own_are_found(
    loop: str, mark: str, how: str, adopt: bool
) -> None:
    body = f"deaf(); subprocess.Popen(SLEEP, {how}); say('up'); time.sleep(600)"
    play(loop, script(body, mark), at_once, adopt=adopt)


def test_a_daemon_that_left_its_session_and_its_parent_is_found_by_adoption(loop: str, mark: str) -> None:
    """PB-J17: a server started in a session of its own, whose parent has gone long before the close."""
    body = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
    os._exit(0)
os.wait()
say('up')
list(lines())
"""
    heard = play(loop, script(body, mark), at_once, adopt=True)
    assert heard.how.code == 0


def test_a_stop_of_one_leaves_the_daemons_of_another_alone(loop: str, mark: str) -> None:
    daemon = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        say(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
os.wait()
list(lines())
"""

    async def main() -> None:
        keeper = Keeper(adopt=True)
        heard = [Heard(), Heard()]
        one, two = (
            Child(script(daemon, mark), QUICK, Redactor({}), keeper, each.output.extend, each.ended) for each in heard
        )
        for child in (one, two):
            child.resume()
        await until(lambda: all(each.output for each in heard), "both daemons")
        pids = [int(each.output) for each in heard]
        await one.stop()
        assert alive(pids[1])
        await two.stop()
        await until(lambda: not any(map(alive, pids)), "the end of both daemons")
        assert keeper.sweep_now() == []
        keeper.close()

    run(loop, main())


def test_many_stops_at_once_share_their_looks(loop: str, mark: str) -> None:
    async def main() -> None:
        keeper = Keeper(adopt=True)
        heard = [Heard() for _ in range(12)]
        body = "deaf(); subprocess.Popen(SLEEP, start_new_session=True); say('up'); time.sleep(600)"
        children = [
            Child(script(body, mark), QUICK, Redactor({}), keeper, each.output.extend, each.ended) for each in heard
        ]
        for child in children:
            child.resume()
        await until(lambda: all(each.output for each in heard), "all of them")
        assert await asyncio.gather(*(child.stop() for child in children)) == [[]] * 12
        assert [each.how.code for each in heard] == [-9] * 12
        keeper.close()

    run(loop, main())


def test_a_zombie_that_was_adopted_is_reaped(loop: str, mark: str) -> None:
    body = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(0.05)
    os._exit(0)
os.wait()
say('up')
time.sleep(0.2)
list(lines())
"""
    play(loop, script(body, mark), at_once, adopt=True)  # `mark` looks for zombies of ours


def test_without_a_pidfd_a_thread_waits(loop: str, mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> int:
        raise OSError("no pidfd here")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert play(loop, script("say('up'); sys.exit(7)", mark), to_the_end).how.code == 7
    assert play(loop, script("deaf(); say('up'); time.sleep(600)", mark), at_once).how.code == -9


def test_where_processes_cannot_be_seen_the_group_is_killed(
    loop: str, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trunkline.gateway.drive.keeper.read_table", lambda: None)
    body = "deaf(); subprocess.Popen(SLEEP); say('up'); time.sleep(600)"
    heard = play(loop, script(body, mark), at_once)
    assert heard.how.code == -9


def test_the_sweep_without_a_loop_ends_all_of_it(loop: str, mark: str) -> None:
    async def main() -> None:
        keeper = Keeper(adopt=True)
        heard = Heard()
        body = "deaf(); subprocess.Popen(SLEEP, start_new_session=True); say('up'); time.sleep(600)"
        child = Child(script(body, mark), QUICK, Redactor({}), keeper, heard.output.extend, heard.ended)
        child.resume()
        await at_once(child, heard)
        assert keeper.sweep_now() == []
        assert not running(mark)
        await child.stop()
        keeper.close()

    run(loop, main())
