"""How a session ends: triggers, stages, windows, sweep, exit codes (spec: stdio 10)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.doors import Start
from tests.support.host import PROTOCOL, WAIT_S, Host, RefusedError
from tests.support.launcher import FAULT, MARK
from tests.support.procs import nothing_left, running, until_sync
from tests.support.raw import RawHost
from tests.support.spawn import LAUNCHER, RUN_S, SERVE, Ended, environment, serve
from tests.support.trace import check

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc here")

ENDING = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT]
QUICK = {"window_s": 0.2, "sweep_s": 0.4}


def config(**limits: float) -> dict[str, Any]:
    return {"adapters": {"memory": {}}, "limits": limits}


def said(host: Host) -> str:
    """Check that the end was told in one line, and return it."""
    assert "Traceback" not in host.stderr, host.stderr
    lines = host.stderr.splitlines()
    assert sum(line.startswith("trunkline: ") and ": WARNING: " not in line for line in lines) == 1, host.stderr
    return lines[-1]


def submit(host: Host, session: str, content: str) -> int:
    messages = [{"role": "user", "content": content}]
    request = host.envelope("session.message.submit.request", session, delivery="auto", messages=messages)
    return host.send("submit", session_id=session, request=request)


# -- clean ends --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_while_idle_is_a_clean_end(start_process: Start, number: signal.Signals) -> None:
    host = start_process()
    host.call("sessions")
    host.signal(number)
    assert host.wait() == 0, host.stderr
    assert said(host) == "trunkline: stopped"


@pytest.mark.parametrize("number", [*ENDING, None])
def test_live_runs_are_cancelled_and_their_sessions_closed(start_process: Start, number: signal.Signals | None) -> None:
    host = start_process()
    for name in ("a", "b", "c", "d"):
        host.open("memory", name)
        host.subscribe(name)
        host.submit(name, "go")
        host.submit(name, "and then")
    if number is None:
        host.close_input()
    else:
        host.signal(number)
    assert host.wait() == 0, host.stderr
    assert said(host) == "trunkline: stopped"


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_during_a_burst_breaks_no_line(start_process: Start, number: signal.Signals) -> None:
    host = start_process({"adapters": {"load": {"type": "synthetic", "deltas": 1_000_000, "pace": "reader"}}})
    host.open("load", "s")
    subscription = host.subscribe("s")
    host.submit("s", "go")
    host.event(subscription, "content.delta", start=500)
    host.signal(number)
    assert host.wait() == 0, host.stderr
    assert said(host) == "trunkline: stopped"
    assert "ended inside a line" not in host.stderr
    envelopes = host.envelopes(subscription)
    assert [envelope["sequence"] for envelope in envelopes] == list(range(1, len(envelopes) + 1))
    assert host.signals(subscription) == []


def test_input_that_ends_right_after_a_request_is_served_first(start_process: Start, tmp_path: Path) -> None:
    ended = serve(b'{"id":1,"op":"adapters"}\n')
    ended.ended_well()
    assert [line["id"] for line in ended.lines] == [1]
    host = start_process()
    host.open("puppet", "s")
    go = tmp_path / "go"
    waiting = submit(host, "s", f"wait {go}")
    host.close_input()
    go.touch()
    assert host.wait() == 0, host.stderr
    assert host.answer(waiting)["payload"]["accepted"]
    assert said(host) == "trunkline: stopped"


def test_a_burst_of_requests_before_the_end_of_input_is_answered_whole() -> None:
    lines = b"".join(b'{"id":%d,"op":"adapters"}\n' % number for number in range(5000))
    ended = serve(lines)
    ended.ended_well()
    assert sorted(line["id"] for line in ended.lines) == list(range(5000))


# -- during start-up ---------------------------------------------------------------------------------------------------


def signals(pid: int, which: str) -> int:
    """Return one of a process's signal sets, as a bit mask."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1], 16) for line in lines if line.startswith(f"{which}:"))


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler of its own for a signal."""
    return bool(signals(pid, "SigCgt") >> (number - 1) & 1)


def pending(pid: int) -> bool:
    """Whether a signal was sent to a process and has not reached it."""
    return bool(signals(pid, "SigPnd") | signals(pid, "ShdPnd"))


@needs_proc
@pytest.mark.parametrize("number", ENDING)
@pytest.mark.parametrize("delay_s", [0, 0.01, 0.03, 0.06, 0.1])
def test_a_signal_during_the_start_is_a_clean_end(number: signal.Signals, delay_s: float) -> None:
    process = subprocess.Popen(
        SERVE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    )
    deadline = time.monotonic() + RUN_S
    while not catches(process.pid, signal.SIGTERM):  # Python itself catches SIGINT from its first moment
        assert time.monotonic() < deadline
    time.sleep(delay_s)
    process.send_signal(number)
    held = process.stdin
    process.stdin = None  # the input stays open: only the signal ends it
    out, err = process.communicate(timeout=RUN_S)
    if held is not None:
        held.close()
    ended = Ended(process.returncode, out, err)
    ended.ended_well()
    assert out == b""


@needs_proc
def test_a_second_signal_ends_a_start_that_waits(tmp_path: Path) -> None:
    never = tmp_path / "never-written"
    os.mkfifo(never)
    process = subprocess.Popen(
        [*SERVE, "--config", str(never)], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment()
    )
    with process:
        until_sync(lambda: catches(process.pid, signal.SIGTERM), "its handlers")
        process.send_signal(signal.SIGINT)
        until_sync(lambda: not pending(process.pid), "the first signal")
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        said = process.stderr.read()
        Ended(process.wait(RUN_S), b"", said).failed("cut short by a second signal while starting")


# -- stages ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trigger", ["signal", "end of input", "defect"])
def test_an_op_that_outlives_its_window_is_named_and_ended(start_process: Start, trigger: str) -> None:
    host = start_process(config(**QUICK))
    for name in ("s", "t"):
        host.open("puppet", name)
        submit(host, name, "wait /nowhere/at/all")
    host.call("sessions")
    if trigger == "signal":
        host.signal(signal.SIGTERM)
    elif trigger == "defect":
        host.write(b"\n")
    else:
        host.close_input()
    assert host.wait() == 1
    words = said(host)
    assert "shutdown stalled: operations did not finish" in words
    assert "dropped" not in words  # the sweep ended them, so that each has its answer
    assert ("line 6 is not a valid request" in words) == (trigger == "defect")


def full_pipe(folder: Path, limits: dict[str, float]) -> RawHost:
    """Return a gateway whose output pipe nobody reads, with more answers due than it takes; it rests."""
    host = RawHost(folder, config(**limits))
    host.write_beside(b"".join(b'{"id":%d,"op":"adapters"}\n' % number for number in range(5000)))
    until_sync(lambda: catches(host.process.pid, signal.SIGTERM), "its handlers")
    host.quiet()
    return host


@needs_proc
@pytest.mark.parametrize("number", ENDING)
def test_a_host_that_does_not_read_is_named_and_what_it_lost_is_counted(tmp_path: Path, number: signal.Signals) -> None:
    with full_pipe(tmp_path, QUICK) as host:
        process = host.process
        process.send_signal(number)
        assert process.stdout is not None
        assert process.stderr is not None
        code = process.wait(RUN_S)
        ended = Ended(code, b"", process.stderr.read())
        ended.failed("shutdown stalled: the host does not read its output", "requests were dropped unserved")
        whole = process.stdout.read().split(b"\n")[:-1]
        answered = [json.loads(line)["id"] for line in whole]
        assert answered == sorted(set(answered))


def test_a_second_signal_ends_the_stages_at_once(start_process: Start) -> None:
    host = start_process(config(window_s=600))
    host.open("puppet", "s")
    submit(host, "s", "wait /nowhere/at/all")
    host.call("sessions")
    host.signal(signal.SIGTERM)
    time.sleep(0.1)
    assert host.process.poll() is None
    host.signal(signal.SIGINT)
    assert host.wait() == 1
    words = said(host)
    assert "shutdown cut short by a second signal: operations did not finish" in words
    assert "dropped" not in words  # the sweep still ended and answered it


@needs_proc
def test_a_second_signal_does_not_call_lost_output_a_clean_end(tmp_path: Path) -> None:
    with full_pipe(tmp_path, {"window_s": 600}) as host:
        process = host.process
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        code = process.wait(RUN_S)
        Ended(code, b"", process.stderr.read()).failed(
            "shutdown cut short by a second signal: ", "requests were dropped unserved"
        )


def test_signals_in_quick_succession_while_idle_are_a_clean_end(start_process: Start) -> None:
    host = start_process()
    host.call("sessions")
    for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
        host.signal(number)
    assert host.wait() == 0, host.stderr


# -- sweep -------------------------------------------------------------------------------------------------------------


def test_sessions_that_do_not_close_are_named(start: Start) -> None:
    host = start(config(**QUICK))
    host.open("puppet", "fine")
    host.open("puppet", "stuck-1")
    host.open("memory", "also fine")
    assert host.stop() == 1
    assert said(host).endswith("'stuck-1': did not close in time")


def test_many_sessions_that_do_not_close_are_counted_in_a_bounded_line(start_process: Start) -> None:
    host = start_process(config(**QUICK))
    for number in range(12):
        host.open("puppet", f"stuck-{number}" + "x" * 300)
    assert host.stop() == 1
    words = said(host)
    assert words.endswith("; and 4 more")
    assert len(words) < 2000


def test_a_run_that_does_not_heed_its_cancel_does_not_hold_the_end(start_process: Start) -> None:
    host = start_process(config(**QUICK))
    host.open("puppet", "s")
    subscription = host.subscribe("s")
    host.submit("s", "stubborn")
    host.event(subscription, "run.started")
    assert host.stop() == 0, host.stderr
    check(host.envelopes(subscription), complete=False)


@needs_proc
@pytest.mark.parametrize("trigger", ["defect", "end of input", "signal", "two signals"])
def test_no_child_is_left_whatever_the_end(start_process: Start, trigger: str) -> None:
    with nothing_left("process-sweep") as mark:
        limits = {"window_s": 0.5, "sweep_s": 2.0, "harness_stop_s": 0.2, "harness_drain_s": 0.1}
        host = start_process(config(**limits), **{MARK: mark})
        host.open("deaf", "s")
        host.submit("s", "go")
        request = host.envelope("session.open.request", "t")
        host.send("open", adapter="unready", request=request)
        host.call("sessions")
        until_sync(lambda: len(running(mark)) >= 4, "both harnesses and their children")
        if trigger == "defect":
            host.write(b"{}\n")
        elif trigger == "end of input":
            host.close_input()
        else:
            host.signal(signal.SIGTERM)
            if trigger == "two signals":
                host.signal(signal.SIGINT)
        code = host.process.wait(WAIT_S)
        assert code == 1
        until_sync(lambda: not running(mark), "their end")


@needs_proc
def test_no_child_is_left_when_the_output_is_gone() -> None:
    with nothing_left("process-gone") as mark:
        process = subprocess.Popen(
            LAUNCHER,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(**{MARK: mark}),
        )
        with process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            head = {**PROTOCOL, "type": "session.open.request", "id": "a", "payload": {"session_id": "s"}}
            line = {"id": 1, "op": "open", "adapter": "deaf", "request": head}
            process.stdin.write(json.dumps(line).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["ok"]
            until_sync(lambda: len(running(mark)) >= 2, "the harness and its child")
            process.stdout.close()
            process.stdin.write(b'{"id":2,"op":"sessions"}\n')
            process.stdin.flush()
            said = process.stderr.read()
            Ended(process.wait(RUN_S), b"", said).failed("the output could not be written: Broken pipe")
        until_sync(lambda: not running(mark), "their end")


@pytest.mark.parametrize("part", ["feed", "pump"])
def test_a_fault_of_ours_ends_the_session_and_says_so(start_process: Start, part: str) -> None:
    host = start_process(config(**QUICK), **{FAULT: part})
    if part == "pump":
        host.open("memory", "s")
        host.subscribe("s")
        submit(host, "s", "go")
    else:
        host.send("state", session_id="s")
    assert host.wait() == 1
    assert "the gateway failed: RuntimeError: a fault of ours" in said(host)


# -- several at once ---------------------------------------------------------------------------------------------------


def test_several_causes_are_joined_in_one_line(start_process: Start) -> None:
    host = start_process(config(**QUICK))
    host.open("puppet", "stuck-1")
    host.open("puppet", "s")
    submit(host, "s", "wait /nowhere/at/all")
    host.call("sessions")
    host.write(b'{"id":1,"op":"sessions"}\r\n')
    assert host.wait() == 1
    words = said(host)
    parts = (
        "line 5 is not a valid request: the line ends in CR LF; write LF only",
        "shutdown stalled: operations did not finish",
        "sessions did not close: 'stuck-1'",
    )
    assert all(part in words for part in parts)
    assert "dropped" not in words  # the sweep ended the submit that was stuck, and so it has its answer


@needs_proc
def test_requests_beyond_the_bounds_are_counted_when_the_output_breaks(tmp_path: Path) -> None:
    with full_pipe(tmp_path, QUICK) as host:
        process = host.process
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        code = process.wait(RUN_S)
        Ended(code, b"", process.stderr.read()).failed(
            "the output could not be written: Broken pipe", "requests were dropped unserved"
        )


def test_a_refusal_during_the_last_window_is_answered(start_pair: Start) -> None:
    host = start_pair()
    host.open("puppet", "s")
    host.pair.door.stop()  # type: ignore[attr-defined]  # the pair's own
    with pytest.raises(RefusedError) as caught:
        host.call("events", session_id="s")
    assert caught.value.code == "request_cancelled"
