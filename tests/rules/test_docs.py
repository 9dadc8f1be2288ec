"""What the pages point to is there, and the commands that they name are real."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.tree import ROOT, files, relative

PAGES = [path for path in files() if path.suffix == ".md"]
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if not target.startswith(("http://", "https://", "#")):
            assert (page.parent / target.split("#")[0]).exists(), f"{relative(page)} points to {target}"


@pytest.mark.parametrize("page", [*PAGES, ROOT / ".ci" / "run"], ids=relative)
def test_make_targets_exist(page: Path) -> None:
    for target in re.findall(r"(?:`|^|\s)make ([a-z][a-z-]+)", "\n".join(_commands(page))):
        assert target in TARGETS, f"{relative(page)} names make {target}"


def _commands(page: Path) -> list[str]:
    """Return what stands as code: the whole of a script; of a page, the spans in backquotes and the fenced blocks."""
    text = page.read_text()
    if page.suffix != ".md":
        return [line for line in text.splitlines() if not line.startswith("#")]
    fenced = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
    return [*fenced, *re.findall(r"`[^`\n]+`", text)]


def test_the_page_of_commands_and_the_run_name_the_suite() -> None:
    for page in (ROOT / "README.md", ROOT / ".ci" / "run"):
        assert "make test" in page.read_text()
