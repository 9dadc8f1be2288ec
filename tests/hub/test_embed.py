"""The example of embedding runs as it stands, and tells what it should."""

from __future__ import annotations

import subprocess
import sys

from tests.support.shared import ROOT

TOLD = """\
session session-1: started run-2
run-2  1 run.started
run-2  2 content.delta                I will use the scripted tool.
run-2  3 action.call.requested
run-2  4 action.permission.requested
run-2  5 action.permission.resolved
run-2  6 action.call.started
run-2  7 action.call.completed
run-2  8 user.input.requested
run-2  9 run.status.updated
run-2 10 user.input.resolved
run-2 11 content.delta                The golden script completed.
run-2 12 run.completed
refused: unknown_session: no session nowhere is known
closed: closed
"""


def test_the_example_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / "embed.py")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == TOLD
