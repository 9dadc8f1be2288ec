"""Files and functions small enough to read, public names that say what they are, a tree that fits its packaging."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.tree import OUTSIDE, ROOMS, ROOT, files, modules, parsed, relative

FILE_LINES = 450
FUNCTION_LINES = 80
CODE = (".py", ".pyx", ".pxi", ".pyi")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

Function = ast.FunctionDef | ast.AsyncFunctionDef


@pytest.mark.parametrize("path", sorted(modules(*ROOMS, *OUTSIDE, suffixes=CODE)), ids=relative)
def test_files_are_short(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    assert lines <= FILE_LINES, f"{relative(path)} has {lines} lines; look for a seam"


@pytest.mark.parametrize("path", sorted(modules(*ROOMS, *OUTSIDE)), ids=relative)
def test_functions_are_short(path: Path) -> None:
    for node in ast.walk(parsed(path)):
        if isinstance(node, Function):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= FUNCTION_LINES, f"{relative(path)}:{node.lineno}: {node.name} has {lines} lines"


@pytest.mark.parametrize("path", sorted(modules(*ROOMS, suffixes=(".pyx", ".pxi"))), ids=relative)
def test_compiled_functions_are_short(path: Path) -> None:
    lines = path.read_text().splitlines()
    for start, text in enumerate(lines):
        if found := re.match(r"(\s*)(?:def|cp?def)\s[^=]*\(", text):
            deeper = found[1] + " "
            body = start + 1
            while body < len(lines) and (not lines[body].strip() or lines[body].startswith((deeper, found[1] + ")"))):
                body += 1
            while not lines[body - 1].strip():
                body -= 1
            length = body - start
            assert length <= FUNCTION_LINES, f"{relative(path)}:{start + 1}: {text.strip()} has {length} lines"


def public(body: list[ast.stmt], owner: str = "") -> Iterator[tuple[str, ast.ClassDef | Function]]:
    """Yield the public classes and functions of a module, and the public methods of those classes."""
    for node in body:
        if isinstance(node, ast.ClassDef | Function) and not node.name.startswith("_"):
            yield owner + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from public(node.body, f"{owner}{node.name}.")
        elif isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.dump(node.test):
            yield from public([*node.body, *node.orelse], owner)


def is_accessor(node: ast.ClassDef | Function) -> bool:
    """Whether it only completes another name: the setter of a property, or one form of an overload."""
    marks = [ast.unparse(mark) for mark in node.decorator_list]
    return any(mark.endswith((".setter", ".deleter")) or mark in ("overload", "typing.overload") for mark in marks)


@pytest.mark.parametrize("path", sorted(modules(*ROOMS)), ids=relative)
def test_public_names_have_docstrings(path: Path) -> None:
    tree = parsed(path)
    assert ast.get_docstring(tree) or not tree.body, f"{relative(path)}: the module says nothing"
    for name, node in public(tree.body):
        said = ast.get_docstring(node) or is_accessor(node)
        assert said, f"{relative(path)}:{node.lineno}: {name} has no docstring"


def test_packages_are_the_folders_of_the_rooms() -> None:
    folders = {path.parent for path in modules(*ROOMS, suffixes=(".py", ".pyx"))}
    found = {".".join(("trunkline", *folder.relative_to(ROOT).parts)) for folder in folders}
    listed = PYPROJECT["tool"]["setuptools"]["packages"]
    assert listed == sorted(listed)
    assert set(listed) == found
    for package in listed:
        assert ROOT.joinpath(*package.split(".")[1:], "__init__.py").is_file(), f"{package} has no __init__.py"


def test_every_room_is_typed_and_linked() -> None:
    for room in ROOMS:
        assert (ROOT / room / "py.typed").is_file(), f"{room} has no py.typed"
    links = ROOT / ".typing" / "trunkline"
    if not links.is_dir():
        pytest.skip("the links for type checkers are part of the repository, not of the sdist")
    assert {link.name for link in links.iterdir() if link.is_symlink()} == set(ROOMS)
    for room in ROOMS:
        assert (links / room).resolve() == ROOT / room
        assert not (links / room).readlink().is_absolute()


def test_the_root_is_no_package() -> None:
    names = {path.name for path in files() if path.parent == ROOT and path.suffix == ".py"}
    assert names == {"setup.py"}
    for folder in OUTSIDE:
        assert not (ROOT / folder / "__init__.py").exists()


def test_every_compiled_twin_is_described_for_type_checkers() -> None:
    for path in modules("_speedups", suffixes=(".pyx",)):
        assert path.with_suffix(".pyi").is_file(), f"{relative(path)} has no .pyi"


def test_the_type_checker_reads_every_folder_that_holds_python() -> None:
    folders = {path.relative_to(ROOT).parts[0] for path in modules(*OUTSIDE)}
    assert set(PYPROJECT["tool"]["mypy"]["files"]) == {".typing/trunkline", *folders}


MACHINE = re.compile(r"(?:^|[^A-Za-z0-9_./$-])/(?:" + "|".join(("work", "farm", "root", "Users", "home/[a-z]+")) + ")/")
HOSTS = ("pypi" + ".org", "pythonhosted" + ".org", "npmjs" + ".org", "npmjs" + ".com", "debian" + ".org")


@pytest.mark.parametrize("path", files(), ids=relative)
def test_no_file_knows_a_machine_or_a_registry(path: Path) -> None:
    try:
        text = path.read_text()
    except UnicodeDecodeError:
        pytest.skip("not a text")
    for number, line in enumerate(text.splitlines(), 1):
        assert not MACHINE.search(line), f"{relative(path)}:{number}: names a place on one machine"
        assert not any(host in line for host in HOSTS), f"{relative(path)}:{number}: names a registry's host"


def test_the_rules_for_machine_paths_find_what_they_should() -> None:
    assert MACHINE.search("see /" + "work/main")
    assert MACHINE.search('"/' + "home/someone/x")
    assert not MACHINE.search("./work/x and https://example.invalid/work/x")
