"""One whole run of the program: bytes in, then the end of the input, then the exit code and everything that it said."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.support.doors import LAUNCHER
from tests.support.host import SERVE
from tests.support.shared import ROOT

RUN_S = 60
__all__ = ["LAUNCHER", "SERVE", "Ended", "environment", "serve"]


class Ended:
    """How a run ended: exit `code`, stdout as `lines`, `stderr` as text."""

    def __init__(self, code: int, stdout: bytes, stderr: bytes) -> None:
        self.code = code
        self.stdout = stdout
        self.stderr = stderr.decode()

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Every line of stdout; fails where one is no whole line of JSON."""
        assert not self.stdout or self.stdout.endswith(b"\n")
        return [json.loads(line) for line in self.stdout.split(b"\n")[:-1]]

    @property
    def diagnostic(self) -> str:
        """The last line of stderr, which says how it ended."""
        return self.stderr.splitlines()[-1] if self.stderr else ""

    def failed(self, *texts: str) -> None:
        """Check for exit 1 with one diagnostic that holds these texts, bounded, and no traceback."""
        assert self.code == 1, self.stderr
        assert "Traceback" not in self.stderr, self.stderr
        assert self.diagnostic.startswith("trunkline: "), self.stderr
        assert len(self.diagnostic) < 2000
        for text in texts:
            assert text in self.diagnostic, self.stderr
            assert self.stderr.count(text) == 1, self.stderr

    def ended_well(self) -> None:
        """Check for exit 0 and the word that says so."""
        assert (self.code, self.diagnostic) == (0, "trunkline: stopped"), self.stderr


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment with the tree on the path of Python, and more."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, **more}


def serve(data: bytes, *flags: str, command: tuple[str, ...] = SERVE, config: Path | None = None, **more: str) -> Ended:
    """Run `serve --stdio` on these bytes; `more` goes into its environment."""
    arguments = [*command, *flags, *(["--config", str(config)] if config is not None else [])]
    done = subprocess.run(arguments, input=data, capture_output=True, timeout=RUN_S, env=environment(**more))
    return Ended(done.returncode, done.stdout, done.stderr)
