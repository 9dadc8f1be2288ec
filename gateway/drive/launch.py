"""Starting one child: finding the executable, the pipes, the spawn. Every failure names what is wrong."""

from __future__ import annotations

import os
import shutil
import subprocess

from ...protocol.errors import HarnessFault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...adapters.base import Launch

NOT_FOUND = "harness_not_found"
START_FAILED = "harness_start_failed"


class Spawned:
    """A started child and our ends of its three pipes."""

    __slots__ = ("process", "stderr", "stdin", "stdout")

    def __init__(self, process: subprocess.Popen[bytes], stdin: int, stdout: int, stderr: int) -> None:
        self.process = process
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr


def find_executable(name: str) -> str:
    """Return the absolute path of an executable; a bare name is looked up on this process's PATH.

    Raises `HarnessFault` (`harness_not_found`, or `harness_start_failed` where the file is there but no executable).
    """
    if not name:
        raise HarnessFault(START_FAILED, "no executable is configured")
    bare = os.path.dirname(name) == ""
    found = shutil.which(name)
    if found is not None:
        return os.path.abspath(found)
    if bare:
        raise HarnessFault(
            NOT_FOUND, f"the executable {name[:200]!r} is not on PATH; install it, or configure its path"
        )
    if not os.path.exists(name):
        raise HarnessFault(NOT_FOUND, f"the executable {name[:200]!r} does not exist")
    raise HarnessFault(START_FAILED, f"{name[:200]!r} is not an executable file")


def spawn(launch: Launch) -> Spawned:
    """Start a child in a session of its own, with just the environment that is given. Raises `HarnessFault`.

    No `preexec_fn`: with it the spawn would fork, which blocks for milliseconds where memory is in use.
    """
    executable = find_executable(launch.argv[0])
    if launch.cwd is not None and not os.path.isdir(launch.cwd):
        raise HarnessFault(START_FAILED, f"the working directory {launch.cwd[:200]!r} does not exist")
    opened: list[int] = []
    try:
        for _ in range(3):
            opened += os.pipe()
        child_in, stdin, stdout, child_out, stderr, child_err = opened
        process = subprocess.Popen(
            [executable, *launch.argv[1:]],
            env=dict(launch.environment),
            cwd=launch.cwd,
            stdin=child_in,
            stdout=child_out,
            stderr=child_err,
            start_new_session=os.name == "posix",
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        for fd in opened:
            os.close(fd)
        what = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise HarnessFault(START_FAILED, f"{executable[:200]!r} cannot be started: {what}") from error
    for fd in (child_in, child_out, child_err):
        os.close(fd)
    return Spawned(process, stdin, stdout, stderr)
