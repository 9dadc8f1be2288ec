"""`Source` and `Sink` on every kind of descriptor that a host may connect, on both loops."""

from __future__ import annotations

import asyncio
import os
import pty
from pathlib import Path

import pytest
from trunkline.gateway.drive import pipes
from trunkline.gateway.drive.pipes import Sink, Source

from tests.support.ends import BIG, STREAMS, Ends
from tests.support.procs import run, until


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
