"""Pairs of connected descriptors of every kind, and what a source and a sink said."""

from __future__ import annotations

import os
import pty
import socket
import tty
from collections.abc import Callable
from pathlib import Path

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
