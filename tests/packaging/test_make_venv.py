"""Which Python `make` chooses on a machine that nobody prepared, with fakes in the place of interpreters."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.shared import ROOT

SCRIPT = ROOT / ".ci" / "make-venv"
pytestmark = pytest.mark.skipif(os.name == "nt" or not SCRIPT.exists(), reason="a script for POSIX shells")

FAKE = """#!/bin/sh
echo "{name} $*" >> "{log}"
case "$*" in
*version_info*) exit {old} ;;
*ensurepip*) exit {no_ensurepip} ;;
"-m pip --version") exit {no_pip} ;;
--version) echo "Python 3.99" ;;
esac
"""


class Machine:
    """A PATH that holds a shell, its tools, and the interpreters that a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.log = folder / "log"
        self.log.touch()
        shell = shutil.which("sh")
        assert shell
        (self.bin / "sh").symlink_to(shell)

    def put(self, name: str, *, old: int = 0, no_ensurepip: int = 0, no_pip: int = 0) -> None:
        path = self.bin / name
        path.write_text(FAKE.format(name=name, log=self.log, old=old, no_ensurepip=no_ensurepip, no_pip=no_pip))
        path.chmod(0o755)

    def run(self, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.bin / "sh"), str(SCRIPT), "the folder"]
        return subprocess.run(
            command, env={"PATH": str(self.bin), **environment}, capture_output=True, text=True, timeout=60
        )

    def calls(self) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if " -m " in line]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_default_python_is_taken_when_it_is_new_enough(machine: Machine) -> None:
    machine.put("python3")
    machine.put("python3.14")
    assert machine.run().returncode == 0
    assert machine.calls() == ["python3 -m venv the folder"]


def test_an_old_default_is_passed_over(machine: Machine) -> None:
    machine.put("python3", old=1)
    machine.put("python3.11")
    assert machine.run().returncode == 0
    assert machine.calls() == ["python3.11 -m venv the folder"]


def test_a_shim_that_does_not_run_is_passed_over(machine: Machine) -> None:
    machine.put("python3.14", old=127)
    machine.put("python3.12")
    assert machine.run().returncode == 0
    assert machine.calls() == ["python3.12 -m venv the folder"]


def test_one_may_be_named(machine: Machine) -> None:
    machine.put("python3")
    machine.put("mine")
    assert machine.run(PYTHON="mine").returncode == 0
    assert machine.calls() == ["mine -m venv the folder"]


def test_without_ensurepip_a_pip_that_is_there_serves(machine: Machine) -> None:
    machine.put("python3", no_ensurepip=1)
    assert machine.run().returncode == 0
    assert machine.calls() == [
        "python3 -m pip --version",
        "python3 -m venv --without-pip the folder",
        "python3 -m pip --python the folder/bin/python install -q --disable-pip-version-check pip",
    ]


def test_what_is_missing_is_said(machine: Machine) -> None:
    done = machine.run()
    assert done.returncode == 1
    assert "no Python 3.11 or newer" in done.stderr
    machine.put("python3", no_ensurepip=1, no_pip=1)
    done = machine.run()
    assert done.returncode == 1
    assert "neither ensurepip nor pip" in done.stderr
