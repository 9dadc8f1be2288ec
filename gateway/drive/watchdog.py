"""One shell a gateway that outlives it and kills what it started, should the gateway itself be killed with -9.

Nothing else can: a parent-death signal reaches the direct child only, and Node wrappers have native children.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress

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
    """Started with the first group; ended by `close`, which leaves alone what was taken off the list.

    One that could not be started, or that was killed, is tried again with the next group, and told of all.
    """

    __slots__ = ("_groups", "_pipe", "_process", "_said")

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1
        self._said = False  # that there is none

    @property
    def pid(self) -> int | None:
        """Its process, while there is one."""
        return None if self._process is None else self._process.pid

    def add(self, group: int) -> None:
        """Watch over a process group (and the session of the same number)."""
        self._groups.add(group)
        if self._process is None or not self._say(b"+ %d\n" % group):
            self._start()

    def remove(self, group: int) -> None:
        """The group is gone: leave its number alone from now on."""
        self._groups.discard(group)
        if self._process is not None and not self._say(b"- %d\n" % group) and self._groups:
            self._start()

    def close(self) -> None:
        """End and reap the watchdog; it kills what is still on its list. Idempotent; a later `add` starts another."""
        if not self._groups:  # it has nothing more to do, and need not be waited for
            self._kill()
            return
        self._groups.clear()
        self._shut()
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(2.0)
            self._kill()

    def _start(self) -> None:
        """Start it and tell it of all groups; where that cannot be it is said, once in a row."""
        reader = writer = -1
        try:
            reader, writer = os.pipe()
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
            if writer >= 0:
                os.close(writer)
            self._missing(error)
            return
        finally:
            if reader >= 0:
                os.close(reader)
        os.set_blocking(writer, False)
        self._pipe = writer
        self._said = False
        self._say(b"".join(b"+ %d\n" % group for group in self._groups))

    def _missing(self, error: OSError) -> None:
        if not self._said:
            import logging

            self._said = True
            logging.getLogger("trunkline").warning(
                "no watchdog (%s): harnesses will outlive this process if it is killed", error
            )

    def _say(self, lines: bytes) -> bool:
        """Write to it. False: it had been killed, or was stuck; now it is gone."""
        try:
            if os.write(self._pipe, lines) == len(lines):
                return True
        except OSError:
            pass
        self._kill()
        return False

    def _kill(self) -> None:
        """End it at once, before it can see the end of its input and act on it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        self._shut()

    def _shut(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
