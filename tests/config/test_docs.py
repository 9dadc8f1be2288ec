"""The page on configuration names every member and every limit, with its default, and no others."""

from __future__ import annotations

import json
import re

from trunkline.gateway.config import READERS, TYPES, parse_config
from trunkline.gateway.tool_sources import KINDS
from trunkline.protocol.limits import CONFIG_BYTES, DEFAULTS, MIB

from tests.support.tree import ROOMS, ROOT, modules

PAGE = (ROOT / "docs" / "configuration.md").read_text()
UNITS = {"KiB": 1024, "MiB": MIB}


def rows(heading: str) -> dict[str, list[str]]:
    """Return the rows of the tables below a heading: first cell, without its marks, to the other cells."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    cells = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return {name.strip("`"): others for first, *others in cells for name in first.split(", ")}


def test_every_member_and_every_type_has_its_row() -> None:
    found = rows("Adapters")
    assert set(found) == {*READERS, *TYPES}
    for type, used in TYPES.items():
        named = set(re.findall(r"`(\w+)`", found[type][0]))
        if "process members" in found[type][0]:
            named |= {name for name, cells in found.items() if "(process member)" in cells[0]}
        assert named == set(used), type


def test_every_limit_has_its_row_and_its_default() -> None:
    found = rows("Limits")
    assert set(found) == set(DEFAULTS)
    for name, (default, _) in found.items():
        number, _, unit = default.partition(" ")
        value = None if number == "none" else float(number) * UNITS.get(unit, 1)
        assert value == DEFAULTS[name], name


def test_the_rest_of_the_page_is_true() -> None:
    assert CONFIG_BYTES == MIB
    for kind in KINDS:
        assert f"`{kind}`" in PAGE
    example = PAGE.split("```json\n")[1].split("```")[0]
    config = parse_config(example.encode(), "example", {"MCP_TOKEN": "x", "HOME": "/h", "PATH": "/p"})
    assert list(config.adapters) == list(json.loads(example)["adapters"])


def test_every_limit_is_used() -> None:
    text = "\n".join(path.read_text() for path in modules(*ROOMS) if path.name != "limits.py")
    unused = [name for name in DEFAULTS if not re.search(rf"(?:limits|bounds)\.{name}\b", text)]
    assert not unused, f"accepted and ignored: {', '.join(unused)}"
