"""One shell a gateway that outlives it and kills what it started, should the gateway itself be killed with -9.

Nothing else can: a parent-death signal reaches the direct child only, and Node wrappers have native children.
"""

from __future__ import annotations

import os
import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

SHELL: Final = "/bin/sh"

DOG: Final = r"""
trap '' HUP INT TERM PIPE
all=' '
while read -r op id; do
  case $op in
    +) all="$all$id " ;;
    -) case $all in *" $id "*) all="${all%%" $id "*} ${all#*" $id "}" ;; esac ;;
  esac
done
[ "$all" = ' ' ] && exit 0

# Every process that is in one of the sessions or groups, or descends from one that is, into $family.
look() {
  new=
  for folder in /proc/[0-9]*; do
    read -r line 2>/dev/null <"$folder/stat" || continue
    pid=${line%% *}
    case $family in *" $pid "*) continue ;; esac
    set -- ${line##*) }
    case $1 in Z | X) continue ;; esac
    case $all in
      *" $3 "* | *" $4 "*) ;;
      *) case $family in *" $2 "*) ;; *) continue ;; esac ;;
    esac
    [ "$pid" = "$$" ] && continue
    kill -STOP "$pid" 2>/dev/null
    family="$family$pid "
    new=1
  done
  [ -n "$new" ]
}

for group in $all; do kill -STOP "-$group" 2>/dev/null; done
round=0
while [ $round -lt 20 ]; do
  round=$((round + 1))
  family=' '
  while look; do :; done
  for group in $all; do kill -KILL "-$group" 2>/dev/null; done
  for pid in $family; do kill -KILL "$pid" 2>/dev/null; done
  [ "$family" = ' ' ] && exit 0
done
"""
"""`+ GROUP` and `- GROUP` lines until the end of input, which is the gateway's end; then stop, look, kill, again.

Builtins only: there may be no `ps` and no PATH. Where there is no /proc, the groups alone are killed.
"""


class Watchdog:
    """Started with the first group; ended by `close`, which leaves alone what was taken off the list."""

    __slots__ = ("_pipe", "_process", "_tried")

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1
        self._tried = False

    @property
    def pid(self) -> int | None:
        """Its process, while there is one."""
        return None if self._process is None else self._process.pid

    def add(self, group: int) -> None:
        """Watch over a process group (and the session of the same number)."""
        if self._process is None and not self._tried:
            self._start()
        self._say(b"+ %d\n" % group)

    def remove(self, group: int) -> None:
        """The group is gone: leave its number alone from now on."""
        self._say(b"- %d\n" % group)

    def close(self) -> None:
        """End the watchdog and reap it. Idempotent; a later `add` starts another."""
        self._tried = False
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
        if self._process is not None:
            try:
                self._process.wait(2.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def _start(self) -> None:
        self._tried = True
        reader, writer = os.pipe()
        try:
            self._process = subprocess.Popen(
                [SHELL, "-c", DOG],
                env={},
                cwd="/",
                stdin=reader,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            import logging

            os.close(writer)
            logging.getLogger("trunkline").warning(
                "no watchdog (%s): harnesses will outlive this process if it is killed", error
            )
            return
        finally:
            os.close(reader)
        os.set_blocking(writer, False)
        self._pipe = writer

    def _say(self, line: bytes) -> None:
        if self._pipe < 0:
            return
        try:
            os.write(self._pipe, line)
        except OSError:  # it was killed, or is stuck: nothing depends on it while we live
            os.close(self._pipe)
            self._pipe = -1
