"""What the host may connect: every kind of descriptor, in every state (decisions 10 and 27, spec: stdio 1)."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.doors import Start
from tests.support.spawn import LAUNCHER, RUN_S, SERVE, Ended, environment

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX descriptors")

LINES = b"".join(b'{"id":%d,"op":"sessions"}\n' % number for number in range(1, 4))
IDS = [1, 2, 3]


def spawn(stdin: int | None, stdout: int | None, *flags: str, prefix: str = "") -> subprocess.Popen[bytes]:
    """Start the program on these descriptors; `prefix` is a redirection that the shell makes first."""
    command = [*SERVE, *flags]
    if prefix:
        command = ["sh", "-c", f'exec "$@" {prefix}', "sh", *command]
    return subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, env=environment())


def finish(process: subprocess.Popen[bytes], stdout: bytes = b"") -> Ended:
    with process:
        assert process.stderr is not None
        said = process.stderr.read()
        code = process.wait(RUN_S)
    return Ended(code, stdout, said)


def read_until(fd: int, count: int) -> bytes:
    """Read whole lines from a descriptor, at least so many."""
    data = b""
    while data.count(b"\n") < count:
        ready, _, _ = select.select([fd], [], [], RUN_S)
        assert ready, data
        chunk = os.read(fd, 1 << 16)
        assert chunk, data
        data += chunk
    return data


@contextlib.contextmanager
def terminal() -> Iterator[tuple[int, int]]:
    """A pseudo-terminal in raw mode: `(host's end, program's end)`."""
    host, program = pty.openpty()
    try:
        tty.setraw(program)
        yield host, program
    finally:
        for fd in (host, program):
            with contextlib.suppress(OSError):
                os.close(fd)


def test_one_socket_for_both_and_its_mode_is_restored() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = spawn(theirs.fileno(), theirs.fileno())
        ours.sendall(LINES)
        data = read_until(ours.fileno(), 3)
        ours.shutdown(socket.SHUT_WR)
        ended = finish(process, data)
        ended.ended_well()
        assert [line["id"] for line in ended.lines] == IDS
        assert os.get_blocking(theirs.fileno())


def test_two_sockets() -> None:
    pairs = [socket.socketpair(), socket.socketpair()]
    process = spawn(pairs[0][1].fileno(), pairs[1][1].fileno())
    pairs[0][0].sendall(LINES)
    pairs[0][0].close()
    ended = finish(process, read_until(pairs[1][0].fileno(), 3))
    for pair in pairs:
        for end in pair:
            end.close()
    ended.ended_well()
    assert [line["id"] for line in ended.lines] == IDS


def test_a_terminal_for_both_and_its_mode_is_restored() -> None:
    with terminal() as (host, program):
        process = spawn(program, program)
        os.write(host, LINES)
        data = read_until(host, 3)
        process.send_signal(signal.SIGTERM)
        ended = finish(process, data)
        ended.ended_well()
        assert [line["id"] for line in ended.lines] == IDS
        assert os.get_blocking(program)


def test_a_terminal_that_hangs_up_is_the_end_of_the_input() -> None:
    with terminal() as (host, program):
        out, into = os.pipe()
        process = spawn(program, into)
        os.close(into)
        os.write(host, LINES)
        data = read_until(out, 3)
        os.close(program)
        os.close(host)
        ended = finish(process, data)
        os.close(out)
        ended.ended_well()


def test_a_regular_file_is_read_whole_and_written_where_it_stands(tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"skipped\n" + LINES * 3000)
    target.write_bytes(b"before\n")
    with source.open("rb") as stdin, target.open("ab") as stdout:
        os.lseek(stdin.fileno(), 8, os.SEEK_SET)
        finish(spawn(stdin.fileno(), stdout.fileno())).ended_well()
    first, *lines = target.read_bytes().splitlines()
    assert first == b"before"
    assert [json.loads(line)["id"] for line in lines] == IDS * 3000


def test_the_null_device_ends_at_once() -> None:
    process = spawn(subprocess.DEVNULL, subprocess.DEVNULL)
    finish(process).ended_well()
    process = spawn(subprocess.PIPE, subprocess.DEVNULL)
    assert process.stdin is not None
    process.stdin.write(LINES)
    process.stdin.close()
    process.stdin = None
    finish(process).ended_well()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_device_is_a_failed_write() -> None:
    with open("/dev/full", "wb", buffering=0) as full:
        process = spawn(subprocess.PIPE, full.fileno())
        assert process.stdin is not None
        process.stdin.write(LINES)
        process.stdin.flush()
        finish(process).failed("the output could not be written: No space left on device")


@pytest.mark.parametrize(
    ("prefix", "says"),
    [
        ("<&-", "standard input (descriptor 0) is closed"),
        (">&-", "standard output (descriptor 1) is closed"),
        ("0>/dev/null", "the input could not be read: Bad file descriptor"),
        ("1</dev/null", "the output could not be written: Bad file descriptor"),
    ],
)
def test_a_descriptor_that_cannot_serve_is_named(prefix: str, says: str, tmp_path: Path) -> None:
    process = spawn(subprocess.PIPE, subprocess.PIPE, prefix=prefix)
    with contextlib.suppress(BrokenPipeError):
        out, said = process.communicate(LINES, timeout=RUN_S)
    Ended(process.returncode, out, said).failed(says)


def test_a_closed_stderr_changes_nothing_else() -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&-', "sh", *SERVE], input=LINES, capture_output=True, timeout=RUN_S, env=environment()
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == IDS
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&-', "sh", *SERVE], input=b"\n", capture_output=True, timeout=RUN_S, env=environment()
    )
    assert (done.returncode, done.stdout) == (1, b"")


@pytest.mark.parametrize("gone", [True, False], ids=["gone", "never read"])
def test_a_stderr_that_is_gone_or_full_holds_nothing_up(gone: bool, tmp_path: Path) -> None:
    out, into = os.pipe()
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"adapters": {"load": {"type": "synthetic"}}}))
    if gone:
        os.close(out)
    else:
        os.set_blocking(into, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(into, b"x" * 4096)
        os.set_blocking(into, True)
    process = subprocess.Popen(
        [*SERVE, "--config", str(config)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=into, env=environment()
    )
    os.close(into)
    stdout, _ = process.communicate(LINES, timeout=RUN_S)
    assert process.returncode == 0
    assert [json.loads(line)["id"] for line in stdout.splitlines()] == IDS
    if not gone:
        os.close(out)


def test_what_is_printed_inside_the_process_lands_on_stderr(start_process: Start) -> None:
    host = start_process()
    host.open("puppet", "s")
    subscription = host.subscribe("s")
    run = host.submit("s", "print STRAY")
    host.terminal(subscription, run)
    assert host.stop() == 0, host.stderr
    assert host.stderr.count("STRAY\n") == 3
    assert "STRAY" not in json.dumps([line for way, line in host.lines if way == "<"])


def test_a_host_that_closes_its_end_of_stdout_ends_the_session() -> None:
    process = spawn(subprocess.PIPE, subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(LINES)
    process.stdin.flush()
    read_until(process.stdout.fileno(), 3)
    process.stdout.close()
    process.stdout = None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(b'{"id":4,"op":"adapters"}\n' * 100)
        process.stdin.flush()
    ended = finish(process)
    ended.failed("the output could not be written: Broken pipe")


def test_an_end_of_stdout_that_nobody_needs_may_be_closed() -> None:
    out, into = os.pipe()
    os.close(out)
    process = spawn(subprocess.DEVNULL, into)
    os.close(into)
    finish(process).ended_well()


HOST = """
import json, os, subprocess, sys, time
gateway = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=open(sys.argv[1], "wb"))
def send(**line):
    gateway.stdin.write(json.dumps(line).encode() + b"\\n")
    gateway.stdin.flush()
head = {"protocol": "open-agent-protocol", "version": "0.1", "profile": "open-agent-protocol.agent-control-core"}
send(id=1, op="open", adapter="load",
     request={**head, "type": "session.open.request", "id": "a", "payload": {"session_id": "s"}})
gateway.stdout.readline()
send(id=2, op="events", session_id="s")
gateway.stdout.readline()
send(id=3, op="submit", session_id="s",
     request={**head, "type": "session.message.submit.request", "id": "b", "session_id": "s",
              "payload": {"session_id": "s", "delivery": "auto", "messages": [{"role": "user", "content": "go"}]}})
for _ in range(50):
    gateway.stdout.readline()
print(gateway.pid, flush=True)
time.sleep(600)
"""


def test_a_host_that_is_killed_in_the_middle_of_a_stream_takes_the_gateway_along(tmp_path: Path) -> None:
    config, said = tmp_path / "config.json", tmp_path / "stderr"
    config.write_text(json.dumps({"adapters": {"load": {"type": "synthetic", "deltas": 1_000_000, "interval_ms": 1}}}))
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, str(said), *LAUNCHER, "--config", str(config)],
        stdout=subprocess.PIPE,
        env=environment(),
    )
    with host:
        assert host.stdout is not None
        gateway = int(host.stdout.readline())
        host.kill()
    deadline = time.monotonic() + RUN_S
    while Path(f"/proc/{gateway}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not Path(f"/proc/{gateway}").exists()
    words = said.read_text()
    assert "Traceback" not in words
    assert words.endswith("trunkline: stopped\n") or "the output could not be written" in words


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no /proc here")
def test_a_child_inherits_nothing_of_the_protocol(start_process: Start) -> None:
    host = start_process()
    host.open("puppet", "s")
    subscription = host.subscribe("s")
    host.terminal(subscription, host.submit("s", "list"))
    assert host.stop() == 0, host.stderr
    listed = [line for line in host.stderr.splitlines() if line.isdigit()]
    assert sorted(listed) == ["0", "1", "2", "3"], "three of its own, and the folder that it lists"
