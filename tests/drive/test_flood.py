"""The sink gate through the real door: a harness at full speed, a host that reads, and nothing lost (decision 26)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support.procs import nothing_left
from tests.support.tree import ROOT

DELTAS = 30_000
PROGRAM = f"""
import sys
from tests.support.fake_codec import READY, FakeFactory
from trunkline.gateway import serve
from trunkline.gateway.cli import main
from trunkline.gateway.drive.adapter import ProcessAdapter

FLOOD = READY + '''
words = next(orders())
run = words[2]
tell(f"ok {{words[1]}}", f"start {{run}}")
block = b"".join(json.dumps(f"delta {{run}} {{'x' * 200}}").encode() + b"\\\\n" for _ in range(100))
for _ in range({DELTAS} // 100):
    view = memoryview(block)
    while view:
        view = view[os.write(1, view):]
tell(f"done {{run}}")
list(lines())
'''
make = serve.make_switch

def flooded(config):
    switch = make(config)
    switch.adapters["flood"] = ProcessAdapter("flood", FakeFactory({{mark!r}}, FLOOD), config.limits)
    return switch

serve.make_switch = flooded
main()
"""


def test_a_host_that_reads_gets_every_event_of_a_harness_at_full_speed(mark: str, tmp_path: Path) -> None:
    head = {"protocol": "open-agent-protocol", "version": "0.1", "profile": "open-agent-protocol.agent-control-core"}
    scope = {"session_id": "s1"}
    message = {"role": "user", "content": "go"}
    opening = {**head, "type": "session.open.request", "id": "a", "payload": scope}
    asked = {**scope, "delivery": "auto", "messages": [message]}
    submit = {**head, **scope, "type": "session.message.submit.request", "id": "b", "payload": asked}
    process = subprocess.Popen(
        (sys.executable, "-c", PROGRAM.replace("{mark!r}", repr(mark)), "serve", "--stdio"),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    seen = 0
    with process.stdin as stdin, process.stdout as stdout:

        def ask(number: int, op: str, **members: object) -> None:
            nonlocal seen
            stdin.write(json.dumps({"id": number, "op": op, **members}).encode() + b"\n")
            stdin.flush()
            while not (line := stdout.readline()).startswith(b'{"id":%d,' % number):
                assert line, process.stderr and process.stderr.read()
                seen += b'"content.delta"' in line
            assert b'"ok":true' in line, line

        ask(1, "open", adapter="flood", request=opening)
        ask(2, "events", session_id="s1")
        ask(3, "submit", session_id="s1", request=submit)
        while True:
            line = stdout.readline()
            assert b'"event":"envelope"' in line, line[:300]
            seen += b'"content.delta"' in line
            if b'"run.completed"' in line:
                break
        assert seen == DELTAS
        ask(4, "close", session_id="s1")
    assert process.stderr is not None
    process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 0
    with nothing_left(mark):
        pass
