"""The real command line with test adapters: `python -m tests.support.launcher serve --stdio`.

Nothing else differs: descriptors, loop, door, stages and exit are those of the program. With `TEST_MARK` in the
environment there are two harnesses more, real processes that carry the mark in their command lines.
"""

from __future__ import annotations

import os
from typing import Any

from trunkline.gateway import serve
from trunkline.gateway.cli import main

from tests.support.puppet import add_puppets

MARK = "TEST_MARK"
FAULT = "TEST_FAULT"
DEAF = """
deaf()
subprocess.Popen(SLEEP, start_new_session=True)
for words in orders():
    if words[0] == "open":
        tell("ready")
    elif words[0] == "submit":
        tell("ok " + words[1], "start " + words[2])
time.sleep(600)
"""
"""Heeds neither TERM nor the end of its input, and has a child in a session of its own. Its runs never end."""
UNREADY = """
deaf()
subprocess.Popen(SLEEP, start_new_session=True)
time.sleep(600)
"""
"""Is never ready: its open stays unanswered."""

_make_switch = serve.make_switch


def _with_test_adapters(config: Any) -> Any:
    switch = add_puppets(_make_switch(config))
    if mark := os.environ.get(MARK):
        from trunkline.gateway.drive.adapter import ProcessAdapter

        from tests.support.fake_codec import FakeFactory

        for name, body in (("deaf", DEAF), ("unready", UNREADY)):
            switch.adapters[name] = ProcessAdapter(name, FakeFactory(mark, body), config.limits)
    return switch


def _break_a_part() -> None:
    """Put a fault of ours into a part of the door, as `TEST_FAULT` names it: `feed` or `pump`."""
    from trunkline.gateway.stdio.door import Door
    from trunkline.gateway.stdio.pump import Pump

    def broken(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    part = os.environ[FAULT]
    owner: type = Pump if part == "pump" else Door
    setattr(owner, "_run_planned" if part == "pump" else part, broken)


if __name__ == "__main__":
    serve.make_switch = _with_test_adapters
    if FAULT in os.environ:
        _break_a_part()
    main()
