"""Install what `make dist` built, each into a clean environment, and run one session with each implementation.

    python -m tests.packaging.smoke FOLDER

FOLDER holds one sdist and one wheel. Judged: what the wheel ships, that the import comes from the environment and
not from the checkout, a whole session over the pipe, and a clean end. Exit 0: all good; 1: the first fault.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

from tests.support.host import Host
from tests.support.tree import ROOMS, ROOT

INSTALL_S = 600
TWINS = {"no": "python", "yes": "cython"}
WHERE = "import trunkline.framing as f; print(f.__file__); print(f.IMPLEMENTATION)"


def say(text: str) -> None:
    """Print a line of progress at once."""
    print(f"dist: {text}", flush=True)


def judge_wheel(wheel: Path) -> None:
    """Check what the wheel ships: every room, typed; no sources of compiled code, no tests, nothing at the root."""
    names = zipfile.ZipFile(wheel).namelist()
    for room in ROOMS:
        assert f"trunkline/{room}/py.typed" in names, f"{room} ships no py.typed"
    inside = [name for name in names if not name.split("/")[0].endswith(".dist-info")]
    for name in inside:
        assert name.startswith(tuple(f"trunkline/{room}/" for room in ROOMS)), f"{name} should not be in the wheel"
        assert not name.endswith((".pyx", ".pxi", ".c")), f"{name} should not be in the wheel"
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    for package in packages:
        folder = ROOT.joinpath(*package.split(".")[1:])
        for module in folder.glob("*.py"):
            assert f"{package.replace('.', '/')}/{module.name}" in names, f"{package}.{module.stem} is not in the wheel"


def install(artifact: Path, folder: Path) -> Path:
    """Return the Python of a new environment that holds the artifact and what it depends on, nothing else."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    command = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", str(artifact)]
    subprocess.run(command, check=True, timeout=INSTALL_S, cwd=folder, env=environment())
    return python


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment without what could lead an import back to the checkout."""
    lead = ("PYTHONPATH", "VIRTUAL_ENV", "TRUNKLINE_SPEEDUPS")
    return {name: value for name, value in os.environ.items() if name not in lead} | more


def judge_session(python: Path, folder: Path, wanted: str) -> None:
    """Run the memory adapter's whole script from an installed gateway, both gates answered."""
    where = subprocess.run(
        [str(python), "-c", WHERE],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=folder,
        env=environment(TRUNKLINE_SPEEDUPS=wanted),
    ).stdout.split()
    assert Path(where[0]).is_relative_to(folder), f"imported from {where[0]}"
    assert where[1] == TWINS[wanted], f"TRUNKLINE_SPEEDUPS={wanted} runs {where[1]}"
    command = (str(python.with_name("trunkline")), "serve", "--stdio")
    with Host(folder, command=command, environment={"TRUNKLINE_SPEEDUPS": wanted}) as host:
        session = host.open("memory", "smoke")
        events = host.subscribe(session)
        run = host.submit(session, "hello")
        host.resolve(host.event(events, "action.permission.requested"), granted=True, choice_id="approve")
        gate = host.event(events, "user.input.requested")
        question = gate["payload"]["questions"][0]
        answer = {"question_id": question["id"], "selected_option_ids": [question["options"][0]["id"]]}
        host.resolve(gate, answers=[answer])
        assert host.terminal(events, run)["type"] == "run.completed"
        assert host.stop() == 0, host.stderr


def main() -> int:
    """Judge every artifact of the folder that the command line names."""
    (wheel,), (sdist,) = (list(Path(sys.argv[1]).resolve().glob(kind)) for kind in ("*.whl", "*.tar.gz"))
    judge_wheel(wheel)
    compiler = shutil.which(os.environ.get("CC", "cc")) is not None
    for artifact in (wheel, sdist):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name).resolve()
            python = install(artifact, folder)
            for wanted in TWINS if compiler else ("no",):
                judge_session(python, folder, wanted)
                say(f"{artifact.name}: a whole session with the {TWINS[wanted]} implementation")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
