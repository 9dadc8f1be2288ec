"""Descriptors 0 and 1 in a real process: private for the protocol, harmless for everybody else (decision 10)."""

from __future__ import annotations

import os
import pty
import socket
import subprocess
import sys
import tty
from pathlib import Path

import pytest

from tests.support.procs import until_sync
from tests.support.tree import ROOT

ECHO = """
import os, subprocess, sys
from trunkline.gateway.drive.stdio_fds import take_stdio
reader, writer = take_stdio()
assert reader > 2 and writer > 2
assert not os.get_inheritable(reader) and not os.get_inheritable(writer)
print("a stray print")
os.system("echo a stray child")
subprocess.run([sys.executable, "-c", "import sys; print(len(sys.stdin.read()), 'bytes for the child')"])
assert sys.stdin.read() == ""
while chunk := os.read(reader, 100):
    os.write(writer, chunk.upper())
"""
RUN = (sys.executable, "-c", ECHO)
STRAY = ("a stray print", "a stray child", "0 bytes for the child")


def assert_stray(stderr: bytes) -> None:
    for text in STRAY:
        assert text in stderr.decode()


def test_pipes_carry_the_protocol_and_nothing_else() -> None:
    done = subprocess.run(RUN, cwd=ROOT, input=b"hello", capture_output=True, timeout=60)
    assert done.stdout == b"HELLO"
    assert done.returncode == 0, done.stderr
    assert_stray(done.stderr)


def test_regular_files_are_read_from_where_they_are(tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"skipped hello")
    target.write_bytes(b"kept ")
    with source.open("rb") as stdin, target.open("ab") as stdout:
        os.lseek(stdin.fileno(), 8, os.SEEK_SET)
        done = subprocess.run(RUN, cwd=ROOT, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 0, done.stderr
    assert target.read_bytes() == b"kept HELLO"


def test_one_socket_may_be_both() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.Popen(RUN, cwd=ROOT, stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=subprocess.PIPE)
        ours.sendall(b"hello")
        assert ours.recv(100) == b"HELLO"
        ours.shutdown(socket.SHUT_WR)
        _, stderr = process.communicate(timeout=60)
        assert process.returncode == 0, stderr
        assert theirs.getblocking()


def test_a_terminal_keeps_its_blocking_mode_even_after_a_kill() -> None:
    master, slave = pty.openpty()
    tty.setraw(slave)
    process = subprocess.Popen(RUN, cwd=ROOT, stdin=slave, stdout=slave, stderr=slave)
    os.write(master, b"hello")
    seen = b""
    while b"HELLO" not in seen:
        seen += os.read(master, 1000)
    assert os.get_blocking(slave)  # it has a description of its own
    process.kill()
    process.wait(60)
    assert os.get_blocking(slave)
    os.close(master)
    os.close(slave)


@pytest.mark.parametrize("fd", [0, 1])
def test_a_closed_descriptor_is_said_and_ends_with_1(fd: int) -> None:
    program = f"import os; os.close({fd})\n{ECHO}"
    done = subprocess.run((sys.executable, "-c", program), cwd=ROOT, capture_output=True, timeout=60)
    assert done.returncode == 1
    assert f"descriptor {fd}) is closed" in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def test_a_closed_stderr_is_no_reason_to_fail_or_to_let_text_into_the_protocol() -> None:
    program = f"import os; os.close(2)\n{ECHO}"
    done = subprocess.run((sys.executable, "-c", program), cwd=ROOT, input=b"hello", stdout=subprocess.PIPE, timeout=60)
    assert done.stdout == b"HELLO"


def test_closed_0_and_2_at_once_are_told_apart() -> None:
    program = f"import os; os.close(2); os.close(0)\n{ECHO}"
    done = subprocess.run((sys.executable, "-c", program), cwd=ROOT, stdout=subprocess.PIPE, timeout=60)
    assert done.returncode == 1
    assert done.stdout == b""


def test_the_null_device_as_input_ends_at_once() -> None:
    done = subprocess.run(RUN, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, b"")


def test_the_helper_notices_what_never_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.procs.WAIT_S", 0.01)
    with pytest.raises(AssertionError, match="the moon never came true"):
        until_sync(lambda: False, "the moon")
