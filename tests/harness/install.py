"""Install the pinned harnesses below `.harness/` in the checkout, for the real-process suite.

    python tests/harness/install.py [--check]

Installs what `package.json` beside this file names, through npm, and skips what already answers with the right
version. `--check` installs nothing and only says what is there. Exit 0: everything pinned answers; 1: something does
not, with the mend on stderr.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FOLDER = ROOT / ".harness"
MANIFEST = HERE / "package.json"
INSTALL_S = 1200
"""How long npm may take: the native harness binaries are about 250 MB each."""
VERSION_S = 120
"""How long `--version` may take: the first start of such a binary reads all of it from a cold disk."""

BINARIES = {"claude": ("@anthropic-ai/claude-code", "TRUNKLINE_CLAUDE_BIN")}
"""Command name: npm package, and the environment variable that names another executable instead."""


def say(text: str) -> None:
    """Print a progress line at once, so that a long install never looks like a hang."""
    print(f"harness: {text}", flush=True)


def pinned() -> dict[str, str]:
    """Return package name and exact version of everything that `package.json` names."""
    versions: dict[str, str] = json.loads(MANIFEST.read_text())["dependencies"]
    return versions


def installed(command: str) -> Path:
    """Return where npm puts a command, whether it is there or not."""
    return FOLDER / "node_modules" / ".bin" / (f"{command}.cmd" if os.name == "nt" else command)


def version(executable: Path) -> str | None:
    """Return the first word that `--version` prints, or None where the file does not run."""
    try:
        done = subprocess.run(
            [str(executable), "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=VERSION_S,
            env={**os.environ, "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    words = done.stdout.split()
    return words[0] if done.returncode == 0 and words else None


def missing() -> list[str]:
    """Return the commands that do not answer with their pinned version, saying what was found of each."""
    wanted, absent = pinned(), []
    for command, (package, variable) in BINARIES.items():
        executable = installed(command)
        found = version(executable) if executable.exists() else None
        if found == wanted[package]:
            say(f"{command} {found} is there ({executable.relative_to(ROOT)})")
            continue
        absent.append(command)
        say(f"{command} {wanted[package]} is {'not there' if found is None else f'not there, but {found}'}")
        if variable in os.environ:
            say(f"{variable} is set: the suite will use {os.environ[variable]} whatever is installed here")
    return absent


def tool(name: str) -> str:
    """Return the path of a tool the machine must have. Raises `SystemExit` saying how to get it."""
    path = shutil.which(name)
    if path is None:
        raise SystemExit(
            f"harness: {name} is not on PATH. Install Node.js 18 or newer (it brings npm), or name finished "
            f"executables in {', '.join(variable for _, variable in BINARIES.values())} and skip this step."
        )
    return path


def install() -> None:
    """Run npm once for everything pinned. Raises `SystemExit` where it fails or takes too long."""
    tool("node")
    FOLDER.mkdir(exist_ok=True)
    shutil.copyfile(MANIFEST, FOLDER / "package.json")
    command = [tool("npm"), "install", "--prefix", str(FOLDER), "--no-audit", "--no-fund", "--loglevel=error"]
    say(f"installing {', '.join(f'{name}@{at}' for name, at in pinned().items())} below {FOLDER.name}/ (large)")
    began = time.monotonic()
    try:
        done = subprocess.run(command, cwd=FOLDER, stdin=subprocess.DEVNULL, timeout=INSTALL_S)
    except subprocess.TimeoutExpired:
        raise SystemExit(f"harness: npm was not done after {INSTALL_S} s; run this again, it goes on") from None
    if done.returncode:
        raise SystemExit(f"harness: npm ended with {done.returncode}; its own lines above say why")
    say(f"npm was done after {time.monotonic() - began:.0f} s")


def main(arguments: list[str] | None = None) -> int:
    """Install what is missing; see the module's text."""
    parser = argparse.ArgumentParser(description="install the pinned harnesses below .harness/")
    parser.add_argument("--check", action="store_true", help="install nothing, only say what is there")
    options = parser.parse_args(arguments)
    absent = missing()
    if not absent or options.check:
        return 1 if absent else 0
    install()
    left = missing()
    if left:
        print(
            f"harness: {', '.join(left)} still does not run. npm may have left out the optional native package of this "
            "platform: remove .harness/ and run this again with a working registry.",
            file=sys.stderr,
        )
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
