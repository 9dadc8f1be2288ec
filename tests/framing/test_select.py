"""TRUNKLINE_SPEEDUPS chooses: `no` the references, `yes` the compiled twins or nothing, unset what is there."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.twins import NAMES, PARTS, load

if TYPE_CHECKING:
    from tests.support.twins import Twin

HIDE = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name in {hidden!r}:
            raise ImportError(name + " is hidden")
sys.meta_path.insert(0, Hidden())
"""
SAY = """
import trunkline.framing as framing
found = [getattr(framing, name).__module__ for name in ("LineDecoder", "SSEDecoder", "OpLine", "EnvelopeHead")]
print(framing.IMPLEMENTATION, len({name.rpartition(".")[0] for name in found}))
"""


def chosen(speedups: str | None, *hidden: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "TRUNKLINE_SPEEDUPS"}
    if speedups is not None:
        environment["TRUNKLINE_SPEEDUPS"] = speedups
    program = HIDE.format(hidden=set(hidden)) + SAY
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture(scope="module")
def built() -> Twin:
    return load("cython")


def test_no_takes_the_references() -> None:
    assert chosen("no").stdout.split() == ["python", "1"]


def test_yes_takes_the_compiled(built: Twin) -> None:
    assert chosen("yes").stdout.split() == ["cython", "1"]


def test_unset_takes_what_is_there(built: Twin) -> None:
    assert chosen(None).stdout.split() == ["cython", "1"]


@pytest.mark.parametrize("module", PARTS)
def test_one_missing_twin_counts_as_all(module: str, built: Twin) -> None:
    hidden = f"trunkline._speedups.{module}"
    assert chosen(None, hidden).stdout.split() == ["python", "1"]
    refused = chosen("yes", hidden)
    assert refused.returncode == 1
    assert "ImportError" in refused.stderr


def test_without_any_twin_the_references_serve_and_yes_refuses() -> None:
    hidden = [f"trunkline._speedups.{module}" for module in PARTS]
    assert chosen(None, *hidden).stdout.split() == ["python", "1"]
    assert chosen("yes", *hidden).returncode == 1


def test_everything_promised_is_exported() -> None:
    import trunkline.framing as framing

    promised = [
        "IMPLEMENTATION", "LineDecoder", "FrameTooLarge", "SSEDecoder", "ServerSentEvent", "encode_sse",
        "encode_comment", "parse_op_line", "OpLine", "LineDefect", "scan_envelope", "EnvelopeHead",
    ]  # fmt: skip
    assert set(promised) <= set(framing.__all__)
    assert all(hasattr(framing, name) for name in framing.__all__)
    assert framing.IMPLEMENTATION in {"cython", "python"}
    assert len(NAMES) == 2
