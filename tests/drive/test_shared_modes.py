"""What is shared with other processes stays as it was; and loops that cannot poll."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import termios
import threading
from pathlib import Path

import pytest
from trunkline.gateway.drive.pipes import Sink, Source

from tests.support.ends import BIG, STREAMS, Ends, socket_pair
from tests.support.procs import run, until

# -- what is shared with other processes stays as it was --


@pytest.mark.parametrize("kind", ["pty", "socketpair"])
@pytest.mark.parametrize("first", ["source", "sink"])
def test_the_blocking_mode_of_a_shared_description_comes_back(loop: str, kind: str, first: str, tmp_path: Path) -> None:
    ends = Ends()

    async def main() -> None:
        ours, theirs = STREAMS[kind](tmp_path)
        shared = os.dup(ours)
        here = asyncio.get_running_loop()
        source = Source(here, ours, ends.data, ends.failed)
        sink = Sink(here, os.dup(ours), ends.drain, ends.failed)
        source.resume()
        os.write(theirs, b"in")
        await until(lambda: ends.text == b"in", "the text")
        assert sink.send(b"out")
        assert os.read(theirs, 10) == b"out"
        one, other = (source, sink) if first == "source" else (sink, source)
        one.close()
        assert not os.get_blocking(shared)  # the other end still lives on this description
        other.close()
        assert os.get_blocking(shared)
        os.close(shared)
        os.close(theirs)

    run(loop, main())


def test_an_end_still_works_when_the_other_end_on_its_socket_is_closed(loop: str, tmp_path: Path) -> None:
    ends = Ends()

    async def main() -> None:
        ours, theirs = socket_pair(tmp_path)
        here = asyncio.get_running_loop()
        sink = Sink(here, os.dup(ours), ends.drain, ends.failed)
        source = Source(here, ours, ends.data, ends.failed)
        source.close()
        assert not sink.send(BIG)  # would block the loop for ever if the mode had been restored
        got = bytearray()
        while len(got) < len(BIG):
            with contextlib.suppress(BlockingIOError):
                got += os.read(theirs, 1 << 16)
            await asyncio.sleep(0)
        assert bytes(got) == BIG
        sink.close()
        os.close(theirs)

    run(loop, main())


def test_a_description_that_was_non_blocking_stays_so(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        ours, theirs = socket_pair(tmp_path)
        os.set_blocking(ours, False)
        shared = os.dup(ours)
        Source(asyncio.get_running_loop(), ours, lambda chunk: None, lambda error: None).close()
        assert not os.get_blocking(shared)
        os.close(shared)
        os.close(theirs)

    run(loop, main())


def test_both_ends_of_one_pipe_are_closed_each_for_itself(loop: str) -> None:
    ends = Ends()

    async def main() -> None:
        reader, writer = os.pipe()
        here = asyncio.get_running_loop()
        source = Source(here, reader, ends.data, ends.failed)
        sink = Sink(here, writer, ends.drain, ends.failed)
        source.resume()
        sink.close()
        await until(lambda: ends.ended == 1, "the end")
        source.close()

    run(loop, main())


def test_terminal_settings_are_left_alone(loop: str) -> None:
    async def main() -> list[object]:
        master, slave = pty.openpty()
        before = termios.tcgetattr(slave)
        flags = fcntl.fcntl(slave, fcntl.F_GETFL)
        shared = os.dup(slave)
        source = Source(asyncio.get_running_loop(), slave, lambda chunk: None, lambda error: None)
        source.resume()
        await asyncio.sleep(0)
        source.close()
        after = termios.tcgetattr(shared)
        assert fcntl.fcntl(shared, fcntl.F_GETFL) == flags
        os.close(shared)
        os.close(master)
        return [before, after]

    before, after = run(loop, main())
    assert before == after


# -- where the loop cannot poll (Windows) --


def test_a_loop_that_cannot_poll_is_served_by_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = Ends()

    async def main() -> None:
        here = asyncio.get_running_loop()

        def refuse(*_: object) -> None:
            raise NotImplementedError

        monkeypatch.setattr(here, "add_reader", refuse)
        reader, writer = os.pipe()
        source = Source(here, reader, ends.data, ends.failed)
        os.set_blocking(reader, True)  # as a pipe of Windows is
        source.resume()
        os.write(writer, b"one")
        await until(lambda: ends.text == b"one", "one")
        source.pause()
        os.write(writer, b"two")
        await asyncio.sleep(0.02)
        assert ends.text == b"one"
        source.resume()
        await until(lambda: ends.text == b"onetwo", "two")
        os.close(writer)
        await until(lambda: ends.ended == 1, "the end")
        source.close()
        source.close()
        await until(lambda: not is_open(reader), "the closing of the descriptor")
        await until(lambda: not readers(), "the end of the thread")

    run("asyncio", main())
    assert not ends.errors


def test_a_thread_that_sits_in_a_read_closes_when_that_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = Ends()

    async def main() -> None:
        here = asyncio.get_running_loop()

        def refuse(*_: object) -> None:
            raise NotImplementedError

        monkeypatch.setattr(here, "add_reader", refuse)
        reader, writer = os.pipe()
        source = Source(here, reader, ends.data, ends.failed)
        os.set_blocking(reader, True)
        source.resume()
        await asyncio.sleep(0.05)  # until it sits in its read
        source.close()
        await asyncio.sleep(0.05)
        assert is_open(reader)  # closing under a read is undefined
        os.close(writer)
        await until(lambda: not is_open(reader), "the closing of the descriptor")
        await until(lambda: not readers(), "the end of the thread")

    run("asyncio", main())
    assert not ends.errors
    assert ends.ended == 0


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "trunkline-read"]
