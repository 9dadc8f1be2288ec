"""The command line of the real program: usage, help, versions, configurations that cannot be used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.spawn import RUN_S, SERVE, Ended, environment, serve

PROGRAM = SERVE[:-2]
LINE = b'{"id":1,"op":"sessions"}\n'


def call(*arguments: str | bytes, prefix: str = "", **more: str) -> Ended:
    command: list[str | bytes] = [*PROGRAM, *arguments]
    if prefix:
        command = ["sh", "-c", f'exec "$@" {prefix}', "sh", *command]
    done = subprocess.run(command, input=b"", capture_output=True, timeout=RUN_S, env=environment(**more))
    return Ended(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["serve"], "add --stdio"),
        (["serve", "--stdio", "--addr", "127.0.0.1:0"], "--stdio and --addr exclude each other"),
        (["serve", "--stdio", "--addr="], "--stdio and --addr exclude each other"),
        (["serve", "--stdio", "extra"], "unexpected argument 'extra'"),
        (["serve", "--stdio", ""], "unexpected argument ''"),
        (["serve", "--stdio", "--nope"], "unknown option --nope"),
        (["serve", "--stdio=yes"], "unknown option --stdio=yes"),
        (["serve", "--stdio", "--config"], "--config needs a value"),
        (["serve", "--stdio", "--config", "a", "--config", "b"], "--config is given twice"),
        (["serve", "--stdio", "--frame-limit", "255"], "--frame-limit must be at least 256 bytes"),
        (["serve", "--stdio", "--frame-limit", "-1"], "--frame-limit must be a whole number of bytes"),
        (["serve", "--stdio", "--frame-limit", "1e9"], "--frame-limit must be a whole number of bytes"),
        (["serve", "--stdio", "--frame-limit", "٣٠٠"], "--frame-limit must be a whole number of bytes"),
        (["serve", "--stdio", "--frame-limit", "9" * 5000], "--frame-limit must be a whole number of bytes"),
        (["serve", "--stdio", "--frame-limit="], "--frame-limit must be a whole number of bytes"),
        (["serve", "--stdio", "--log-level", "loud"], "--log-level must be one of error, warning, info, debug"),
    ],
)
def test_wrong_usage_of_serve_is_one_line_and_exit_1(arguments: list[str], says: str) -> None:
    ended = call(*arguments)
    ended.failed(says)
    assert ended.diagnostic.endswith("; see trunkline serve --help")
    assert ended.stderr.count("\n") == 1
    assert ended.stdout == b""


def test_an_argument_that_is_no_text_is_told_like_any_other() -> None:
    ended = call("serve", "--stdio", b"\xff\xfe")
    ended.failed("unexpected argument")


def test_other_wrong_usage_is_exit_2() -> None:
    ended = call()
    assert (ended.code, ended.stdout) == (2, b"")
    assert ended.stderr.startswith("usage: trunkline COMMAND")
    ended = call("frobnicate")
    assert ended.code == 2
    assert ended.stderr == "trunkline: no command is named 'frobnicate'; see trunkline --help\n"


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["serve", "--help"], ["serve", "--stdio", "-h", "--nope"]])
def test_help_goes_to_stdout(arguments: list[str]) -> None:
    ended = call(*arguments)
    assert (ended.code, ended.stderr) == (0, "")
    assert ended.stdout.startswith(b"usage: trunkline ")
    assert max(map(len, ended.stdout.decode().splitlines())) <= 120


def test_version() -> None:
    ended = call("--version")
    assert (ended.code, ended.stderr) == (0, "")
    assert ended.stdout.startswith(b"trunkline ")


@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")
@pytest.mark.parametrize("prefix", [">&-", ">/dev/full"])
def test_help_that_cannot_be_written_is_no_traceback(prefix: str) -> None:
    if "full" in prefix and not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    call("--help", prefix=prefix).failed("the output could not be written")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: None, "No such file or directory"),
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: path.write_bytes(b""), "line 1 column 1"),
        (lambda path: path.write_bytes(b"{" * 100_000), "line 1"),
        (lambda path: path.write_bytes(b'{"adapters":{}}' + b" " * (1 << 20)), "1048576"),
        (lambda path: path.write_bytes(b'{"adapters":{"a":{"type":"nope"}}}'), "adapters.a.type: unknown type"),
        (lambda path: path.write_bytes(b'{"limits":{"depth":5000}}'), "limits.depth: "),
        (lambda path: path.write_bytes(b'{"limits":{"window_s":1e300}}'), "limits.window_s: "),
        (lambda path: path.write_bytes(b'{"limits":{"ops":1.5}}'), "limits.ops: "),
        (lambda path: path.write_bytes(b'{"limits":{"frame_bytes":255}}'), "limits.frame_bytes: "),
    ],
)
def test_a_configuration_that_cannot_be_used_is_named(tmp_path: Path, make: object, says: str) -> None:
    path = tmp_path / "agents.json"
    assert callable(make)
    make(path)
    ended = serve(LINE, config=path)
    ended.failed(says)
    assert ended.diagnostic.startswith(f"trunkline: {path}: ")
    assert (ended.stderr.count("\n"), ended.stdout) == (1, b"")


def test_limits_of_the_configuration_hold(tmp_path: Path) -> None:
    path = tmp_path / "agents.json"
    path.write_text(json.dumps({"adapters": {}, "limits": {"frame_bytes": 300, "depth": 3}}))
    serve(LINE + b" " * 301, config=path).failed("line 2 is not a valid request", "frame limit of 300 bytes")
    serve(LINE + b'{"id":2,"op":"open","request":[[[]]]}\n', config=path).failed("nesting is deeper than 3 levels")
    ended = serve(LINE + b'{"id":2,"op":"open","adapter":"a","request":[[]]}\n', "--frame-limit", "400", config=path)
    ended.ended_well()
    assert [line["ok"] for line in ended.lines] == [True, False]


def test_the_banner_names_what_runs() -> None:
    ended = serve(LINE, TRUNKLINE_SPEEDUPS="no", TRUNKLINE_LOOP="asyncio")
    ended.ended_well()
    assert ended.stderr.startswith("trunkline ")
    assert "(python, asyncio, pid " in ended.stderr
    assert "adapters: memory\n" in ended.stderr


def test_compiled_parts_that_are_asked_for_and_absent_are_named() -> None:
    program = (
        "import sys\n"
        "sys.modules['trunkline._speedups.ndjson'] = None\n"
        "from trunkline.gateway.cli import main\n"
        "main(['serve', '--stdio'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=LINE,
        capture_output=True,
        timeout=RUN_S,
        env=environment(TRUNKLINE_SPEEDUPS="yes"),
    )
    Ended(done.returncode, done.stdout, done.stderr).failed("cannot start: ", "TRUNKLINE_SPEEDUPS=yes")
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=LINE,
        capture_output=True,
        timeout=RUN_S,
        env={name: value for name, value in environment().items() if name != "TRUNKLINE_SPEEDUPS"},
    )
    ended = Ended(done.returncode, done.stdout, done.stderr)
    ended.ended_well()
    assert "(python, " in ended.stderr


def test_the_answers_before_the_loop_are_those_of_the_loop() -> None:
    asked = (
        b'{"id":1,"op":"adapters"}\n',
        b'{"id":1,"op":"sessions"}\n',
        b'{"id":1,"op":"capabilities","adapter":"memory"}\n',
        b'{"id":1,"op":"capabilities","adapter":"nobody"}\n',
        b'{"id":1,"op":"capabilities"}\n',
        b'{"id":1,"op":"adapters","after":null}\n',
    )
    for line in asked:
        early, late = serve(line), serve(b'{"id":0,"op":"events","session_id":"s"}\n' + line)
        early.ended_well()
        late.ended_well()
        assert early.lines[0] == late.lines[1]
