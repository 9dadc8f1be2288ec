"""The project's own files, as the rule tests and the packaging checks see them."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.shared import ROOT

__all__ = ["OUTSIDE", "ROOMS", "ROOT", "files", "module_level", "modules", "parsed", "relative"]

ROOMS = ("_speedups", "adapters", "framing", "gateway", "protocol")
OUTSIDE = ("bench", "demo", "examples", "tests")
"""Folders that use the package and are no part of it."""


@cache
def files() -> tuple[Path, ...]:
    """Return every file of the project: tracked, or new and not ignored; without git, all that the folders hold."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            timeout=60,
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        found = [path for folder in (*ROOMS, *OUTSIDE, "docs") for path in (ROOT / folder).rglob("*")]
        found = [path for path in found if "__pycache__" not in path.parts and path.suffix != ".so"]
    else:
        found = [ROOT / name.decode() for name in listed.split(b"\0") if name]
    return tuple(sorted(path for path in found if path.is_file() and not path.is_symlink()))


def relative(path: Path) -> str:
    """Return a path below the root with forward slashes, as the tables of the rules write it."""
    return path.relative_to(ROOT).as_posix()


def modules(*folders: str, suffixes: tuple[str, ...] = (".py",)) -> Iterator[Path]:
    """Yield the source files of top-level folders."""
    for path in files():
        if path.suffix in suffixes and path.relative_to(ROOT).parts[0] in folders:
            yield path


@cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a Python file."""
    return ast.parse(path.read_text(), relative(path))


def module_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run at import: not those of functions, nor of blocks for type checkers alone."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.dump(statement.test):
            yield from module_level(statement.orelse)
        elif not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            for name in ("body", "orelse", "finalbody"):
                yield from module_level(getattr(statement, name, []))
            for handler in getattr(statement, "handlers", []):
                yield from module_level(handler.body)
