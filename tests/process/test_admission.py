"""Slots, bytes, `busy` and the pausing of reading: nothing is lost, nothing grows (spec: stdio 7 and 9)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.doors import PairHost, Start
from tests.support.host import WAIT_S, Host, RefusedError
from tests.support.raw import RawHost
from tests.support.spawn import LAUNCHER, serve

AGAIN = "send this request again"
MIB = 1 << 20
needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc here")


def waiting(host: Host, session: str, path: Path, padding: int = 0) -> int:
    """Send a submit that is not answered before the file exists."""
    content = [{"role": "user", "content": f"wait {path}"}]
    if padding:
        content.append({"role": "user", "content": "x" * padding})
    return host.send(
        "submit",
        session_id=session,
        request=host.envelope("session.message.submit.request", session, delivery="auto", messages=content),
    )


def busy(host: Host, number: int) -> str:
    with pytest.raises(RefusedError) as caught:
        host.answer(number)
    assert caught.value.code == "busy"
    assert caught.value.message.endswith(AGAIN)
    return caught.value.message


def test_the_17th_op_is_busy_while_16_block_and_may_be_sent_again(start: Start, tmp_path: Path) -> None:
    host = start()
    for number in range(17):
        host.open("puppet", f"s{number}")
    subscription = host.subscribe("s0")
    go = tmp_path / "go"
    held = [waiting(host, f"s{number}", go) for number in range(16)]
    for op in ("sessions", "frobnicate", "adapters"):
        assert "16 operations are running" in busy(host, host.send(op))
    assert busy(host, host.send("events", session_id="s16"))
    assert busy(host, waiting(host, "s16", go))
    go.touch()
    for number in held:
        assert host.answer(number)["payload"]["accepted"]
    assert host.call("sessions")["sessions"]
    assert host.answer(waiting(host, "s16", go))["payload"]["accepted"]
    assert host.event(subscription, "run.completed")
    assert host.stop() == 0, host.stderr


def test_the_sum_of_the_requests_is_bounded_and_a_lone_one_never(start: Start, tmp_path: Path) -> None:
    host = start({"adapters": {}, "limits": {"op_bytes": 20_000}})
    for number in range(3):
        host.open("puppet", f"s{number}")
    go = tmp_path / "go"
    alone = waiting(host, "s0", go, 50_000)
    message = busy(host, waiting(host, "s1", go))
    assert "request bytes" in message
    assert "20000" in message
    assert busy(host, waiting(host, "s2", go, 50_000))
    assert busy(host, host.send("sessions")), "the sum is over the bound already"
    go.touch()
    assert host.answer(alone)["payload"]["accepted"]
    go.unlink()
    small = [waiting(host, f"s{number}", go, 8_000) for number in range(2)]
    assert busy(host, waiting(host, "s2", go, 8_000))
    assert host.call("sessions")["sessions"], "no request, no bytes"
    go.touch()
    for number in small:
        assert host.answer(number)["payload"]["accepted"]
    assert host.stop() == 0, host.stderr


def count(lines: list[dict[str, Any]]) -> Counter[str]:
    """Count answers by outcome."""
    return Counter("ok" if line["ok"] else line["error"]["code"] for line in lines)


def test_a_thousand_lines_in_one_write_are_each_answered_once(start: Start, tmp_path: Path) -> None:
    host = start()
    for number in range(16):
        host.open("puppet", f"s{number}")
    lines = b"".join(b'{"id":%d,"op":"%b"}\n' % (10_000 + n, (b"sessions", b"adapters")[n % 2]) for n in range(1000))
    host.write(lines)
    outcomes = Counter[str]()
    for number in range(1000):
        line = host._until(lambda number=10_000 + number: host._answers.get(number), WAIT_S, "an answer")
        outcomes["ok" if line["ok"] else line["error"]["code"]] += 1
    assert outcomes["ok"] >= 64
    assert set(outcomes) <= {"ok", "busy"}, "an answer that waits for the host holds a slot"
    go = tmp_path / "go"
    held = [waiting(host, f"s{number}", go) for number in range(16)]
    host.write(lines.replace(b'"id":1', b'"id":2'))
    for number in range(1000):
        busy(host, 20_000 + number)
    go.touch()
    for number in held:
        host.answer(number)
    assert host.stop() == 0, host.stderr
    answers = [line for way, line in host.lines if way == "<" and line["id"] >= 10_000]
    assert Counter(line["id"] for line in answers).most_common(1)[0][1] == 1
    assert count(answers) == outcomes + Counter(busy=1000)


@needs_proc
def test_a_host_that_reads_late_loses_nothing_and_costs_no_memory(tmp_path: Path) -> None:
    total = 16_000
    lines = b"".join(b'{"id":%d,"op":"adapters"}%b\n' % (number, b" " * 160) for number in range(total))
    with RawHost(tmp_path) as host:
        host.send(-1, "adapters")
        host.result(-1)
        before = host.memory()
        for _ in range(2):
            writer = host.write_beside(lines)
            host.quiet()
            assert writer.is_alive(), "reading pauses while too much is due"
            outcomes: Counter[str] = Counter()
            seen: Counter[int] = Counter()
            for line in host.lines():
                answer = json.loads(line)
                seen[answer["id"]] += 1
                outcomes["ok" if answer["ok"] else answer["error"]["code"]] += 1
                if len(seen) == total:
                    break
            writer.join()
            assert set(seen) == set(range(total))
            assert set(seen.values()) == {1}
            assert set(outcomes) == {"ok", "busy"}
        assert host.memory("VmHWM") - before < 24 * MIB
        code, said = host.finish()
        assert code == 0, said


def test_lines_and_the_end_of_input_wait_their_turn_behind_a_host_that_does_not_read(tmp_path: Path) -> None:
    total = 3000
    lines = b"".join(b'{"id":%d,"op":"adapters"}\n' % number for number in range(total))
    with RawHost(tmp_path) as host:
        writer = host.write_beside(lines)
        host.quiet(0.2)
        answered = 0
        seen: set[int] = set()
        for line in host.lines():
            answered += 1
            seen.add(json.loads(line)["id"])
            if not writer.is_alive():
                host.end()
        assert (answered, seen) == (total, set(range(total)))
        assert host.process.wait(60) == 0


def test_a_defect_behind_paused_lines_is_found_at_its_own_line(tmp_path: Path) -> None:
    for broken, says in ((b"nonsense\n", "one JSON object"), (b" " * 400, "longer than the frame limit of 300 bytes")):
        with PairHost(
            {"adapters": {}, "limits": {"writer_lines": 2, "refusals": 3, "ops": 1}}, frame_limit=300, capacity=64
        ) as host:
            host.write(b"".join(b'{"id":%d,"op":"sessions"}\n' % number for number in range(400)) + broken)
            host.close_input()
            assert host.wait() == 1
            assert "line 401 is not a valid request" in host.stderr
            assert says in host.stderr
            answers = [line for _, line in host.lines]
            assert sorted(line["id"] for line in answers) == list(range(400))
            assert set(count(answers)) == {"ok", "busy"}


@pytest.mark.parametrize("capacity", [1, 64, 1000, 1 << 20])
@pytest.mark.parametrize("bounds", [(1, 1, 1), (2, 1, 3), (256, 256, 16)])
@pytest.mark.parametrize("writer_bytes", [1, 500, 1 << 20])
def test_no_bounds_make_the_door_stand_still(capacity: int, bounds: tuple[int, int, int], writer_bytes: int) -> None:
    writer_lines, refusals, ops = bounds
    limits = {"writer_lines": writer_lines, "refusals": refusals, "ops": ops, "writer_bytes": writer_bytes}
    with PairHost({"adapters": {"memory": {}}, "limits": limits}, capacity=capacity) as host:
        for start in (0, 100, 200):
            ops_of = [(b"sessions", b"adapters", b"nothing")[number % 3] for number in range(start, start + 100)]
            lines = [b'{"id":%d,"op":"%b"}\n' % pair for pair in enumerate(ops_of, start)]
            host.write(b"".join(lines))
        host.close_input()
        assert host.wait() == 0, host.stderr
        answers = [line for _, line in host.lines]
        assert sorted(line["id"] for line in answers) == list(range(300))


def test_the_last_answers_of_a_full_table_come_before_the_end(tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.touch()
    ended = serve(b'{"id":%d,"op":"adapters"}\n' % 1 * 600, command=LAUNCHER)
    ended.ended_well()
    assert len(ended.lines) == 600
