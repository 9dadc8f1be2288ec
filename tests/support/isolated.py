"""Programs that import the package in a bare interpreter: no `site`, nothing preloaded, no installed packages."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.support.shared import ROOT

_NAMESPACE = (
    "import sys, types\n"
    "trunkline = sys.modules['trunkline'] = types.ModuleType('trunkline')\n"
    f"trunkline.__path__ = [{str(ROOT)!r}]\n"
)
RUN_S = 100


def run_isolated(program: str, *, site: bool = False, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program that can import `trunkline.*` from this tree; with `site`, also what is installed."""
    flags = ["-I"] if site else ["-I", "-S"]
    return subprocess.run(
        [sys.executable, *flags, "-c", _NAMESPACE + program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=RUN_S,
    )
