"""Real children that misbehave: what they wrote arrives, what is written to them is bounded, their start is exact."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest
from trunkline.adapters.base import Launch
from trunkline.gateway.drive import child as child_module
from trunkline.gateway.drive.child import Child
from trunkline.gateway.drive.keeper import Keeper
from trunkline.gateway.drive.redact import Redactor
from trunkline.protocol.errors import HarnessFault

from tests.support.children import QUICK, Heard, play, to_the_end
from tests.support.harnesses import script
from tests.support.procs import alive, run, until

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


def test_writes_behind_a_failed_one_leave_it_to_the_exit_to_say_why(loop: str, mark: str) -> None:
    async def use(child: Child, heard: Heard) -> None:
        while alive(child.pid):  # it ends while the loop does not look
            time.sleep(0.001)
        for _ in range(3):
            child.write(b"prompt\n")
        await to_the_end(child, heard)

    heard = play(loop, script("os.write(2, b'no license'); sys.exit(5)", mark), use)
    assert heard.fault is None
    assert (heard.how.code, heard.how.stderr) == (5, "no license")


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
