"""Every module can be imported where uvloop and the POSIX modules do not exist (Windows: degraded, never broken)."""

from __future__ import annotations

import pytest

from tests.support.isolated import run_isolated
from tests.support.tree import ROOMS, ROOT, modules

ABSENT = ("uvloop", "fcntl", "pwd", "grp", "termios", "tty", "pty", "resource")
FIRST = ("asyncio", "subprocess", "tempfile", "shutil", "logging", "argparse", "getpass", "importlib.metadata")
"""Modules of the standard library that use the absent ones here but not there: they are loaded before."""


@pytest.mark.parametrize("speedups", ["no", ""])
def test_every_module_imports_without_uvloop_and_posix(speedups: str) -> None:
    names = [".".join(("trunkline", *path.relative_to(ROOT).with_suffix("").parts)) for path in modules(*ROOMS)]
    program = (
        "from importlib import import_module\n"
        f"for name in {FIRST!r}: import_module(name)\n"
        f"for name in {ABSENT!r}: sys.modules[name] = None\n"
        f"for name in {names!r}: import_module(name.removesuffix('.__init__'))\n"
        "import trunkline.gateway.config\n"
        "print(len(trunkline.gateway.config.default_config().adapters))\n"
    )
    done = run_isolated(program, site=True, TRUNKLINE_SPEEDUPS=speedups)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1\n"


def test_the_blocker_blocks() -> None:
    done = run_isolated("sys.modules['fcntl'] = None\nimport fcntl\n", site=True)
    assert "ModuleNotFoundError" in done.stderr
