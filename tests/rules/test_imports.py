"""Who may import whom. The tables here are the rule; every file of the package is judged by its syntax tree."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.support.isolated import run_isolated
from tests.support.tree import OUTSIDE, ROOMS, ROOT, module_level, modules, parsed, relative

ROOM_MAY: dict[str, tuple[str, ...]] = {
    "protocol": (),
    "framing": ("protocol.errors", "protocol.limits", "protocol.names"),
    "_speedups": ("protocol.errors",),
    "adapters": ("protocol", "framing"),
    "gateway": ("protocol", "framing", "adapters"),
}
"""Room: the rooms, or modules of them, that it may import beside itself."""

EXCEPTIONS = {("framing/_select.py", "_speedups")}
"""The one module that knows of the compiled twins."""

PART_MAY_NOT = {"gateway/hub": ("gateway.stdio", "gateway.drive", "gateway.http", "gateway.config")}
"""Part of a room: what of its own room it may not import. Doors and drivers know the hub, never the other way round."""

THIRD_PARTIES: dict[str, tuple[str, ...]] = {
    "protocol": ("orjson", "pydantic_core", "jsonschema", "referencing"),
    "framing": (),
    "_speedups": (),
    "adapters": (),
    "gateway": ("uvloop", "h11"),
}
"""Room: what it may import that is neither ours nor the standard library's."""

LOOP = ("asyncio", "uvloop", "selectors", "socket", "ssl", "threading", "multiprocessing", "concurrent", "signal")
STANDARD_NOT: dict[str, tuple[str, ...]] = {
    "protocol": (*LOOP, "subprocess", "time", "datetime", "random"),
    "framing": (*LOOP, "subprocess", "json", "time", "datetime", "random"),
    "adapters": (*LOOP, "subprocess", "time", "datetime", "random", "http", "urllib", "tempfile", "shutil"),
    "gateway": (),
    "_speedups": (),
}
"""Room: what of the standard library it does without. Loops, processes, clocks and sockets are the gateway's."""

START_PATH = (
    "protocol/*.py",
    "framing/*.py",
    "gateway/hub/*.py",
    "gateway/stdio/lines.py",
    "gateway/stdio/admission.py",
    "gateway/operations.py",
    "gateway/config.py",
    "gateway/document.py",
    "gateway/environment.py",
    "gateway/tool_sources.py",
    "gateway/__main__.py",
    "gateway/cli.py",
    "gateway/shutdown.py",
    "gateway/stdio/prelude.py",
    "gateway/__init__.py",
    "adapters/__init__.py",
    "adapters/base.py",
    "adapters/memory.py",
    "adapters/registry.py",
)
HEAVY = (
    "asyncio",
    "argparse",
    "concurrent",
    "dataclasses",
    "enum",
    "h11",
    "importlib.metadata",
    "inspect",
    "json",
    "jsonschema",
    "logging",
    "orjson",
    "pydantic_core",
    "re",
    "subprocess",
    "typing",
    "uvloop",
)
"""What no module of the start path imports before the first answer: each costs more than the answer does."""


def imported(path: Path, nodes: Iterator[ast.AST] | None = None) -> Iterator[tuple[int, str]]:
    """Yield `(line, name)` of every import; our own names are written from the room on (`protocol.errors`)."""
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    for node in ast.walk(parsed(path)) if nodes is None else nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            if not node.level:
                yield node.lineno, node.module or ""
                continue
            base = package[: len(package) - node.level + 1]
            module = ".".join((*base, node.module)) if node.module else ".".join(base)
            # `from ..protocol import json` names a module; `from ..protocol.json import dumps` says so itself.
            for alias in node.names:
                file = ROOT.joinpath(*module.split("."), alias.name)
                is_module = file.with_suffix(".py").exists() or file.is_dir()
                yield node.lineno, f"{module}.{alias.name}" if is_module else module


def below(name: str, of: str) -> bool:
    return name == of or name.startswith(of + ".")


SOURCES = sorted(modules(*ROOMS))


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_rooms_import_only_what_stands_below_them(path: Path) -> None:
    room = path.relative_to(ROOT).parts[0]
    for line, name in imported(path):
        top = name.split(".")[0]
        if top in ROOMS and top != room and (relative(path), top) not in EXCEPTIONS:
            assert any(below(name, may) for may in ROOM_MAY[room]), f"{relative(path)}:{line}: {room} imports {name}"


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_packages_import_by_dots(path: Path) -> None:
    for line, name in imported(path):
        assert not below(name, "trunkline"), f"{relative(path)}:{line}: import {name} by dots"
        assert name, f"{relative(path)}:{line}: climbs out of the package"
    for node in ast.walk(parsed(path)):
        absolute = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            absolute = [node.module or ""]
        for name in absolute:
            assert name.split(".")[0] not in ROOMS, f"{relative(path)}: import {name} by dots"


@pytest.mark.parametrize("path", sorted(modules(*OUTSIDE)), ids=relative)
def test_users_of_the_package_import_it_by_its_name(path: Path) -> None:
    for node in ast.walk(parsed(path)):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        where = f"{relative(path)}:{node.lineno}"
        names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{where}: relative import outside of the package"
            names = [node.module or ""]
        for name in names:
            assert name.split(".")[0] not in ROOMS, f"{where}: write trunkline.{name}"


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_rooms_keep_to_their_libraries(path: Path) -> None:
    room = path.relative_to(ROOT).parts[0]
    allowed = {*sys.stdlib_module_names, *ROOMS, *THIRD_PARTIES[room]}
    for line, name in imported(path):
        top = name.split(".")[0]
        assert top in allowed, f"{relative(path)}:{line}: {room} imports {name}"
        assert top not in STANDARD_NOT[room], f"{relative(path)}:{line}: {room} does without {name}"


@pytest.mark.parametrize("path", sorted(modules("adapters")), ids=relative)
def test_codecs_read_no_environment_and_no_clock(path: Path) -> None:
    for node in ast.walk(parsed(path)):
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        assert name not in ("environ", "getenv", "putenv"), f"{relative(path)}: reads the environment"


@pytest.mark.parametrize("path", sorted(modules("gateway")), ids=relative)
def test_the_hub_knows_no_door_and_no_driver(path: Path) -> None:
    for part, forbidden in PART_MAY_NOT.items():
        if relative(path).startswith(part + "/"):
            for line, name in imported(path):
                bad = any(below(name, other) for other in forbidden)
                assert not bad, f"{relative(path)}:{line}: {part} imports {name}"


def test_the_twins_import_only_the_errors() -> None:
    for path in modules("_speedups", suffixes=(".pyx", ".pxi")):
        for number, text in enumerate(path.read_text().splitlines(), 1):
            if found := re.match(r"\s*(?:from\s+(\S+)\s+c?import|c?import\s+(\S+))", text):
                name = found[1] or found[2]
                ours = name.startswith(("..protocol.errors", "libc.", "cpython", "cython")) or name == "libc"
                assert ours, f"{relative(path)}:{number}: imports {name}"


def start_path() -> list[Path]:
    return [path for path in SOURCES if any(fnmatch(relative(path), pattern) for pattern in START_PATH)]


@pytest.mark.parametrize("path", start_path(), ids=relative)
def test_the_start_path_imports_nothing_heavy_at_module_level(path: Path) -> None:
    level = iter(list(module_level(parsed(path).body)))
    for line, name in imported(path, level):
        assert not any(below(name, heavy) for heavy in HEAVY), f"{relative(path)}:{line}: imports {name}"


@pytest.mark.parametrize("speedups", ["no", ""])
def test_importing_the_whole_start_path_pulls_in_nothing_heavy(speedups: str) -> None:
    names = [".".join(("trunkline", *path.relative_to(ROOT).with_suffix("").parts)) for path in start_path()]
    names = [name.removesuffix(".__init__") for name in names]
    program = (
        "import signal\n"  # needed before everything else, to end cleanly; it brings enum with it
        "from importlib import import_module\n"
        f"for name in {names!r}:\n"
        "    before = set(sys.modules)\n"
        "    import_module(name)\n"
        f"    heavy = (set(sys.modules) - before) & {set(HEAVY)!r}\n"
        "    if heavy: sys.exit(f'{name} pulls in {sorted(heavy)}')\n"
    )
    done = run_isolated(program, TRUNKLINE_SPEEDUPS=speedups)
    assert done.returncode == 0, done.stderr


def test_the_tables_name_what_is_there() -> None:
    found = {relative(path) for path in SOURCES}
    for pattern in ("protocol/*.py", "framing/*.py", "gateway/hub/*.py", "adapters/base.py"):
        assert any(fnmatch(name, pattern) for name in found)
    assert all(name in found for name, _ in EXCEPTIONS)
