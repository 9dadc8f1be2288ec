"""The demonstration, as a person runs it: it ends in a terminal, and it ends when nobody watches any more."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.support.shared import ROOT

WAIT_S = 60
DEMO = (sys.executable, str(ROOT / "demo" / "session.py"))


def test_the_demonstration_ends_in_a_terminal() -> None:
    done = subprocess.run(DEMO, capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the run ended with run.completed; the gateway exited 0" in done.stdout


def test_nothing_stays_when_nobody_watches_any_more() -> None:
    with subprocess.Popen(DEMO, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as demo:
        assert demo.stdout is not None
        demo.stdout.readline()
        demo.stdout.close()
        assert demo.wait(timeout=WAIT_S) in (0, 1)


def test_unknown_choices_are_refused() -> None:
    for choice in ({"HARNESS": "nobody"}, {"HARNESS": "claude", "MODEL": "foo"}, {"MODEL": "own"}):
        done = subprocess.run(DEMO, capture_output=True, text=True, timeout=WAIT_S, env={**os.environ, **choice})
        assert done.returncode == 1
        assert "is not served" in done.stderr
