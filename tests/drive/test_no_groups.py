"""A system without process groups, sessions, pidfds and a view of other processes: the child alone is ended there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from trunkline.gateway.drive.child import Child
from trunkline.gateway.drive.keeper import Keeper
from trunkline.gateway.drive.processes import has_groups, kill_group
from trunkline.gateway.drive.redact import Redactor

from tests.support.children import QUICK, Heard, at_once, play, to_the_end
from tests.support.harnesses import script
from tests.support.procs import run, running


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("killpg", "setsid", "getsid", "getpgid", "pidfd_open", "waitid", "WNOWAIT", "WEXITED", "WNOHANG"):
        monkeypatch.delattr(os, name)
    monkeypatch.setattr("trunkline.gateway.drive.keeper.read_table", lambda: None)
    monkeypatch.setattr("trunkline.gateway.drive.keeper.adopt_orphans", lambda on: False)


def test_there_is_no_group_to_kill() -> None:
    assert not has_groups()
    assert kill_group(os.getpid()) is False


def test_a_child_that_ends_with_its_input_is_left_its_time(loop: str, mark: str, tmp_path: Path) -> None:
    note = tmp_path / "note"
    body = f"say('up'); list(lines()); open({str(note)!r}, 'w').write('flushed'); sys.exit(3)"
    assert play(loop, script(body, mark), at_once).how.code == 3
    assert note.read_text() == "flushed"


def test_a_child_that_ignores_the_end_of_its_input_is_terminated(loop: str, mark: str) -> None:
    assert play(loop, script("say('up'); time.sleep(600)", mark), at_once).how.code == -15


@pytest.mark.parametrize("adopt", [False, True])
def test_a_child_that_ignores_that_too_is_killed(loop: str, mark: str, adopt: bool) -> None:
    assert play(loop, script("deaf(); say('up'); time.sleep(600)", mark), at_once, adopt=adopt).how.code == -9


def test_an_exit_is_noticed(loop: str, mark: str) -> None:
    assert play(loop, script("say('up'); sys.exit(7)", mark), to_the_end).how.code == 7


def test_the_sweep_without_a_loop_ends_the_child(loop: str, mark: str) -> None:
    async def main() -> None:
        keeper = Keeper()
        heard = Heard()
        launch = script("deaf(); say('up'); time.sleep(600)", mark)
        child = Child(launch, QUICK, Redactor({}), keeper, heard.output.extend, heard.ended)
        child.resume()
        await at_once(child, heard)
        assert keeper.sweep_now() == []
        assert not running(mark)
        await child.stop()
        keeper.close()

    run(loop, main())
