from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Iterator

import pytest

from tests.support.procs import loops, nothing_left, run

if os.name != "posix":
    pytest.skip("descriptors and processes of POSIX", allow_module_level=True)


for _name in loops():
    run(_name, asyncio.sleep(0))  # what a loop opens once a process is not a leak of the first test


@pytest.fixture(params=loops())
def loop(request: pytest.FixtureRequest) -> str:
    """The name of an event loop; each test that takes it runs on every one that is there."""
    name: str = request.param
    return name


@pytest.fixture
def mark() -> Iterator[str]:
    """A word for the command lines of a test's processes; none of them may be left after it."""
    with nothing_left(f"mark-{uuid.uuid4().hex}") as word:
        yield word


@pytest.fixture(autouse=True)
def _no_descriptor_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test closes what it opened."""
    if not os.path.isdir("/proc/self/fd"):
        yield
        return
    before = set(os.listdir("/proc/self/fd"))
    yield
    left = set(os.listdir("/proc/self/fd")) - before
    still = {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in left if os.path.lexists(f"/proc/self/fd/{fd}")}
    assert not still, f"descriptors are left open: {still}"
