"""`Source` and `Sink` on every kind of descriptor that a host may connect, on both loops."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import socket
import termios
import tty
from collections.abc import Callable
from pathlib import Path

import pytest
from trunkline.gateway.drive import pipes
from trunkline.gateway.drive.pipes import Sink, Source

from tests.support.procs import run, until

BIG = bytes(range(256)) * 4096
Pair = tuple[int, int]


class Ends:
    """What a source and a sink said."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.errors: list[OSError] = []
        self.ended = 0
        self.drained = 0

    def data(self, chunk: bytes) -> None:
        if chunk:
            self.chunks.append(chunk)
        else:
            self.ended += 1

    def failed(self, error: OSError) -> None:
        self.errors.append(error)

    def drain(self) -> None:
        self.drained += 1

    @property
    def text(self) -> bytes:
        return b"".join(self.chunks)


def pipe_pair(_: Path) -> Pair:
    return os.pipe()


def socket_pair(_: Path) -> Pair:
    left, right = socket.socketpair()
    return left.detach(), right.detach()


def tcp_pair(_: Path) -> Pair:
    with socket.create_server(("127.0.0.1", 0)) as server:
        left = socket.create_connection(server.getsockname())
        right, _address = server.accept()
    right.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 14)
    return left.detach(), right.detach()


def fifo_pair(folder: Path) -> Pair:
    path = folder / "fifo"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(path, os.O_WRONLY)
    return reader, writer


def pty_pair(_: Path) -> Pair:
    master, slave = pty.openpty()
    tty.setraw(slave)
    return slave, master


STREAMS: dict[str, Callable[[Path], Pair]] = {
    "pipe": pipe_pair,
    "fifo": fifo_pair,
    "pty": pty_pair,
    "socketpair": socket_pair,
    "tcp": tcp_pair,
}


@pytest.mark.parametrize("kind", STREAMS)
def test_a_large_block_crosses_whole_and_in_order(loop: str, kind: str, tmp_path: Path) -> None:
    ends = Ends()

    async def main() -> None:
        reader, writer = STREAMS[kind](tmp_path)
        here = asyncio.get_running_loop()
        source = Source(here, reader, ends.data, ends.failed)
        sink = Sink(here, writer, ends.drain, ends.failed)
        assert not sink.send(BIG)
        assert (sink.blocked, sink.pending > 0) == (True, True)
        source.resume()
        await until(lambda: ends.drained == 1, "the drain")
        assert (sink.blocked, sink.pending) == (False, 0)
        assert sink.send(memoryview(b"tail"))
        await until(lambda: len(ends.text) == len(BIG) + 4, "the text")
        sink.close()
        await until(lambda: ends.ended == 1, "the end")
        source.close()

    run(loop, main())
    assert ends.text == BIG + b"tail"
    assert not ends.errors


@pytest.mark.parametrize("size", [0, 5, pipes.CHUNK, 3 * pipes.CHUNK + 1])
def test_a_regular_file_is_read_in_turns_to_its_end(loop: str, size: int, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(BIG[:size])
    ends = Ends()

    async def main() -> None:
        source = Source(asyncio.get_running_loop(), os.open(path, os.O_RDONLY), ends.data, ends.failed)
        source.resume()
        await until(lambda: ends.ended == 1, "the end")
        source.close()

    run(loop, main())
    assert ends.text == BIG[:size]
    assert max(map(len, ends.chunks), default=0) <= pipes.CHUNK


def test_a_regular_file_is_written_and_others_get_their_turn(loop: str, tmp_path: Path) -> None:
    path = tmp_path / "file"

    async def main() -> None:
        here = asyncio.get_running_loop()
        sink = Sink(here, os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), lambda: None, lambda error: None)
        assert sink.send(BIG)
        sink.close()

    run(loop, main())
    assert path.read_bytes() == BIG


def test_short_writes_to_what_cannot_be_polled_go_on_in_turns(
    loop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    ends = Ends()
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, block: write(fd, block[:7]))

    async def main() -> None:
        sink = Sink(asyncio.get_running_loop(), os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), ends.drain, ends.failed)
        assert not sink.send(b"0123456789" * 3)
        await until(lambda: ends.drained == 1, "the drain")
        sink.close()

    run(loop, main())
    assert path.read_bytes() == b"0123456789" * 3


def test_the_null_device_ends_at_once_and_swallows(loop: str) -> None:
    ends = Ends()

    async def main() -> None:
        here = asyncio.get_running_loop()
        source = Source(here, os.open(os.devnull, os.O_RDONLY), ends.data, ends.failed)
        sink = Sink(here, os.open(os.devnull, os.O_WRONLY), ends.drain, ends.failed)
        source.resume()
        await until(lambda: ends.ended == 1, "the end")
        assert sink.send(BIG)
        for _ in range(20):
            await asyncio.sleep(0)
        sink.close()
        source.close()

    run(loop, main())
    assert ends.ended == 1  # the end comes once, and is not polled again (PB-J03)
    assert ends.text == b""


def test_a_hung_up_terminal_is_the_end(loop: str) -> None:
    ends = Ends()

    async def main() -> None:
        master, slave = pty.openpty()
        source = Source(asyncio.get_running_loop(), slave, ends.data, ends.failed)
        source.resume()
        os.close(master)
        await until(lambda: ends.ended == 1, "the end")
        source.close()

    run(loop, main())
    assert not ends.errors


def test_a_closed_terminal_slave_is_the_end_for_its_master(loop: str) -> None:
    ends = Ends()

    async def main() -> None:
        master, slave = pty.openpty()
        os.write(slave, b"last")
        os.close(slave)
        source = Source(asyncio.get_running_loop(), master, ends.data, ends.failed)
        source.resume()
        await until(lambda: ends.ended == 1, "the end")
        source.close()

    run(loop, main())
    assert ends.text == b"last"


def test_a_peer_that_is_gone_is_a_broken_pipe_once(loop: str) -> None:
    ends = Ends()

    async def main() -> None:
        reader, writer = os.pipe()
        os.close(reader)
        sink = Sink(asyncio.get_running_loop(), writer, ends.drain, ends.failed)
        assert not sink.send(b"x")
        assert sink.blocked
        with pytest.raises(RuntimeError):
            sink.send(b"y")
        sink.close()
        sink.close()

    run(loop, main())
    assert [type(error) for error in ends.errors] == [BrokenPipeError]
    assert not ends.drained


def test_a_peer_that_goes_while_a_block_waits_is_a_broken_pipe(loop: str) -> None:
    ends = Ends()

    async def main() -> None:
        reader, writer = os.pipe()
        sink = Sink(asyncio.get_running_loop(), writer, ends.drain, ends.failed)
        assert not sink.send(BIG)
        os.close(reader)
        await until(lambda: bool(ends.errors), "the failure")
        assert sink.pending == 0
        sink.close()

    run(loop, main())
    assert [type(error) for error in ends.errors] == [BrokenPipeError]


def test_a_read_that_fails_is_told_and_pauses(loop: str, tmp_path: Path) -> None:
    ends = Ends()

    async def main() -> None:
        source = Source(asyncio.get_running_loop(), os.open(tmp_path, os.O_RDONLY), ends.data, ends.failed)
        source.resume()
        await until(lambda: bool(ends.errors), "the failure")
        source.close()

    run(loop, main())
    assert [type(error) for error in ends.errors] == [IsADirectoryError]
    assert not ends.ended


def test_a_paused_source_reads_nothing_and_loses_nothing(loop: str) -> None:
    ends = Ends()

    async def main() -> None:
        reader, writer = os.pipe()
        source = Source(asyncio.get_running_loop(), reader, ends.data, ends.failed)
        os.write(writer, b"a")
        for _ in range(10):
            await asyncio.sleep(0)
        assert not ends.chunks
        for _ in range(3):
            source.resume()
            source.resume()
            await until(lambda: bool(ends.chunks), "a chunk")
            source.pause()
            source.pause()
            ends.chunks.clear()
            os.write(writer, b"b")
            await asyncio.sleep(0.01)
            assert not ends.chunks
        source.close()
        source.resume()
        os.close(writer)

    run(loop, main())


def test_a_source_may_be_paused_resumed_and_closed_in_its_own_callback(loop: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(BIG)
    seen: list[int] = []

    async def main() -> None:
        def data(chunk: bytes) -> None:
            seen.append(len(chunk))
            source.pause()
            source.resume()
            if len(seen) == 3:
                source.close()

        source = Source(asyncio.get_running_loop(), os.open(path, os.O_RDONLY), data, lambda error: None)
        source.resume()
        await until(lambda: len(seen) == 3, "three chunks")
        for _ in range(10):
            await asyncio.sleep(0)

    run(loop, main())
    assert seen == [pipes.CHUNK] * 3


def test_drain_delivers_what_is_there_without_waiting(loop: str) -> None:
    ends = Ends()

    async def main() -> None:
        reader, writer = os.pipe()
        source = Source(asyncio.get_running_loop(), reader, ends.data, ends.failed)
        os.write(writer, b"0123456789" * 100)
        source.drain(1 << 20)
        assert (ends.text, ends.ended) == (b"0123456789" * 100, 0)
        os.close(writer)
        source.drain(1 << 20)
        assert (len(ends.text), ends.ended) == (1000, 1)
        source.close()
        source.drain(1 << 20)

    run(loop, main())


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
        os.close(reader)  # left open by design: a thread might sit in a read of it

    run("asyncio", main())
    assert not ends.errors
