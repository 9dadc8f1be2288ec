"""Real children that misbehave: what they wrote arrives, what is written to them is bounded, nothing of them stays."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from trunkline.adapters.base import Exit, Launch
from trunkline.gateway.drive import child as child_module
from trunkline.gateway.drive.child import Child
from trunkline.gateway.drive.keeper import Keeper
from trunkline.gateway.drive.redact import Redactor
from trunkline.protocol.errors import HarnessFault
from trunkline.protocol.limits import Limits

from tests.support.harnesses import script
from tests.support.procs import alive, run, running, until

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


# -- what it says --


def test_everything_that_was_written_is_read_before_the_end(loop: str, mark: str) -> None:
    heard = play(loop, script("say('x' * 300000); sys.exit(3)", mark), to_the_end)
    assert len(heard.output) == 300_001
    assert heard.how.code == 3
    assert heard.fault is None


def test_300_kib_on_stderr_do_not_hold_up_stdout(loop: str, mark: str) -> None:
    body = "os.write(2, b'e' * 307200 + b'\\nlast words'); say('ready'); sys.exit(1)"
    heard = play(loop, script(body, mark), to_the_end)
    assert heard.lines() == ["ready"]
    assert len(heard.how.stderr.encode()) <= QUICK.harness_stderr_bytes
    assert heard.how.stderr.endswith("last words")
    assert "exited with code 1" in str(heard.how)


def test_a_child_killed_by_a_signal_says_so(loop: str, mark: str) -> None:
    heard = play(loop, script("os.kill(os.getpid(), signal.SIGKILL)", mark), to_the_end)
    assert heard.how.code == -9


def test_a_child_that_closes_its_output_and_lives_on_is_ended(loop: str, mark: str) -> None:
    heard = play(loop, script("say('bye'); os.close(1); time.sleep(600)", mark), to_the_end)
    assert heard.lines() == ["bye"]
    assert heard.how.code is None
    assert str(heard.how).startswith("the harness ended its output")


def test_a_grandchild_that_holds_the_output_does_not_hold_the_end(loop: str, mark: str) -> None:
    """PB-J10: the end is the exit of the child and a short drain; the group is killed."""
    heard = play(loop, script("subprocess.Popen(SLEEP); say('started'); sys.exit(3)", mark), to_the_end)
    assert heard.lines() == ["started"]
    assert heard.how.code == 3


def test_the_result_is_delivered_though_an_escaped_helper_holds_the_pipe(loop: str, mark: str) -> None:
    """PB-J12: bytes that are in the pipe are read before it is closed, even if reading was paused."""
    body = "subprocess.Popen(SLEEP, start_new_session=True); say('r' * 50000); say('result')"
    for read in (True, False):
        heard = play(loop, script(body, mark), to_the_end, adopt=True, read=read)
        assert heard.lines()[-1] == "result"
        assert heard.how.code == 0


# -- what it is told --


def test_input_and_output_run_together(loop: str, mark: str) -> None:
    """PB-H04: the child prints 256 KiB before it reads a prompt of 128 KiB."""

    async def use(child: Child, heard: Heard) -> None:
        child.write(b"p" * (1 << 17) + b"\n")
        child.end_input()
        await to_the_end(child, heard)

    body = "say('o' * 262144); total = sum(len(line) for line in lines()); say(f'got {total}')"
    heard = play(loop, script(body, mark), use)
    assert heard.lines()[-1] == f"got {1 << 17}"


def test_many_blocks_arrive_whole_and_in_order(loop: str, mark: str) -> None:
    async def use(child: Child, heard: Heard) -> None:
        for number in range(3000):
            child.write(b"%d %s\n" % (number, b"x" * 100))
        child.end_input()
        await to_the_end(child, heard)

    body = "time.sleep(0.05)\nfor number, line in enumerate(lines()): assert line.startswith(f'{number} x')\nsay('all')"
    assert play(loop, script(body, mark), use).lines() == ["all"]


def test_a_child_that_never_reads_stalls_within_its_deadline(loop: str, mark: str) -> None:
    async def use(child: Child, heard: Heard) -> None:
        for _ in range(8):
            child.write(b"x" * (1 << 15))
        await to_the_end(child, heard)

    heard = play(loop, script("time.sleep(600)", mark), use, QUICK.replace(harness_write_s=0.2))
    assert heard.fault is not None
    assert heard.fault.code == child_module.WRITE_STALLED


def test_a_child_that_reads_slowly_is_not_stalled(loop: str, mark: str) -> None:
    async def use(child: Child, heard: Heard) -> None:
        child.write(b"x" * (1 << 18))
        child.end_input()
        await to_the_end(child, heard)

    body = "while chunk := os.read(0, 1 << 15): time.sleep(0.1)\nsay('done')"
    heard = play(loop, script(body, mark), use, QUICK.replace(harness_write_s=0.3))
    assert heard.lines() == ["done"]
    assert heard.fault is None


def test_what_may_wait_for_a_child_is_bounded(loop: str, mark: str) -> None:
    async def use(child: Child, heard: Heard) -> None:
        def fill() -> None:
            for _ in range(100):
                child.write(b"x" * 30_000)

        with pytest.raises(HarnessFault, match="more than the 100000 bytes allowed") as caught:
            fill()
        assert caught.value.code == child_module.WRITE_OVERFLOW

    play(loop, script("time.sleep(600)", mark), use, QUICK.replace(harness_write_bytes=100_000))


def test_a_write_to_a_child_that_has_ended_never_counts_as_delivered(loop: str, mark: str) -> None:
    """PB-I04: it fails, or the child's end is told."""

    async def use(child: Child, heard: Heard) -> None:
        await until(lambda: child.code is not None, "the exit")
        with contextlib.suppress(HarnessFault):
            child.write(b"prompt\n")
        await to_the_end(child, heard)
        with pytest.raises(HarnessFault) as caught:
            child.write(b"prompt\n")
        assert caught.value.code == child_module.WRITE_FAILED

    assert play(loop, script("sys.exit(5)", mark), use).how.code == 5


def test_a_child_that_closes_its_input_and_lives_on_fails(loop: str, mark: str) -> None:
    async def use(child: Child, heard: Heard) -> None:
        await until(lambda: bool(heard.output), "its first words")
        child.write(b"prompt\n")
        await to_the_end(child, heard)

    heard = play(loop, script("os.close(0); say('deaf'); time.sleep(600)", mark), use)
    assert heard.fault is not None
    assert heard.fault.code == child_module.WRITE_FAILED


def test_a_one_shot_child_sees_the_end_of_its_input(loop: str, mark: str) -> None:
    """PB-H05."""

    async def use(child: Child, heard: Heard) -> None:
        child.end_input()
        await to_the_end(child, heard)

    assert play(loop, script("say(str(len(list(lines()))))", mark), use).lines() == ["0"]


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


# -- the start --


def test_a_missing_executable_is_named(loop: str, tmp_path: Path) -> None:
    cases = {
        "no-such-harness-anywhere": ("harness_not_found", "no-such-harness-anywhere"),
        str(tmp_path / "absent"): ("harness_not_found", "does not exist"),
        str(tmp_path): ("harness_start_failed", "not an executable"),
    }
    (tmp_path / "text").write_text("no program")
    cases[str(tmp_path / "text")] = ("harness_start_failed", "not an executable")
    (tmp_path / "odd").write_bytes(b"\x00\x01")
    (tmp_path / "odd").chmod(0o700)
    cases[str(tmp_path / "odd")] = ("harness_start_failed", "cannot be started")

    async def main() -> None:
        for name, (code, text) in cases.items():
            with pytest.raises(HarnessFault, match=text) as caught:
                Child(
                    Launch([name], {}, None), QUICK, Redactor({}), Keeper(), lambda chunk: None, lambda how, fault: None
                )
            assert caught.value.code == code

    run(loop, main())


@pytest.mark.parametrize(
    ("launch", "text"),
    [
        (Launch(["sh"], {}, "/no/such/place"), "working directory '/no/such/place' does not exist"),
        (Launch(["sh", "a\0b"], {}, None), "cannot be started"),
        (Launch(["sh", "\ud800"], {}, None), "cannot be started"),
        (Launch(["sh"], {"A\0": "b"}, None), "cannot be started"),
        (Launch(["sh", "x" * (1 << 22)], {}, None), "cannot be started"),
        (Launch([""], {}, None), "no executable"),
    ],
    ids=["cwd", "nul", "surrogate", "name", "size", "empty"],
)
def test_what_cannot_be_started_is_a_clear_fault_and_leaves_nothing_open(launch: Launch, text: str, loop: str) -> None:
    async def main() -> None:
        with pytest.raises(HarnessFault, match=text) as caught:
            Child(launch, QUICK, Redactor({}), Keeper(), lambda chunk: None, lambda how, fault: None)
        assert caught.value.code == "harness_start_failed"

    run(loop, main())


def test_a_bare_name_is_found_on_the_gateways_path(loop: str, mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere:/bin:/usr/bin")
    heard = play(loop, Launch(["sh", "-c", "echo found; exit 0", mark], {}, None), to_the_end)
    assert heard.lines() == ["found"]


def test_a_child_leads_a_session_of_its_own_and_holds_nothing_of_ours(loop: str, mark: str) -> None:
    inherited = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(inherited, True)
    body = "say(str(os.getsid(0) == os.getpgrp() == os.getpid())); say(' '.join(sorted(os.listdir('/proc/self/fd'))))"
    heard = play(loop, script(body, mark), to_the_end)
    os.close(inherited)
    own, descriptors = heard.lines()
    assert own == "True"
    assert descriptors in ("0 1 2 3", "0 1 2")  # 3 is the listing itself


def test_sigpipe_is_what_a_child_expects(loop: str, mark: str) -> None:
    program = Launch(["sh", "-c", "grep SigIgn /proc/self/status; true", mark], {"PATH": os.environ["PATH"]}, None)
    ignored = int(play(loop, program, to_the_end).lines()[0].split()[1], 16)
    assert not ignored & (1 << (signal.SIGPIPE - 1))
