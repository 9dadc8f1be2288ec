"""The codec port: what a harness codec is given and what it may return. Everything here is data; nothing awaits.

A codec turns frames of one harness into `Step` values. Sequence numbers, envelope ids, run ids, the journal, gates'
bookkeeping and the state document belong to the hub; clocks, processes and sockets belong to the driver
(`gateway/drive/`). A codec asks for neither.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Final, Literal, Protocol, TypeAlias

    from ..protocol.envelope import Envelope
    from ..protocol.errors import Refusal

    Draft: TypeAlias = tuple[str, str, dict[str, Any]] | tuple[str, str, dict[str, Any], dict[str, Any] | None]
    """An event to be: `(run_id, type, payload[, extensions])`.

    The payload lacks `session_id` and `run_id`: the session puts them in. That of a gate lacks `responded_by`: it is
    whoever opened the session (spec: hub 3), whom the driver knows and the codec does not. `tool_call_id` stands in the
    payload and is repeated on the envelope by the session. `extensions` is the value under the one key `dev.trunkline`,
    for instance `{"usage": {...}}` or `{"native": {...}}`.
    """
    Settlement: TypeAlias = tuple[int, "Refusal | None"]
    """`(token, outcome)`: answers the request of that token; None says done."""
else:
    Protocol = object


class Step:
    """The only thing that a codec returns; the driver carries it out in the order of the fields.

    `write`: bytes for the harness. `publish`: drafts, in order. `settle`: answers to tokens. `arm`: named deadlines
    `(name, seconds)`; None disarms; `Codec.elapsed(name)` comes back. `notes`: bounded diagnostics for stderr.
    `end`: "stop" ends the harness with the stop ladder; "eof" closes its input only.
    """

    __slots__ = ("arm", "end", "notes", "publish", "settle", "write")

    def __init__(
        self,
        write: Sequence[bytes] = (),
        publish: Sequence[Draft] = (),
        settle: Sequence[Settlement] = (),
        arm: Sequence[tuple[str, float | None]] = (),
        notes: Sequence[str] = (),
        end: Literal["stop", "eof"] | None = None,
    ) -> None:
        self.write = write
        self.publish = publish
        self.settle = settle
        self.arm = arm
        self.notes = notes
        self.end = end


NOTHING: Final = Step()
"""The step of a frame that changes nothing."""


class Launch:
    """How to start a harness: data, not an act. `environment` is complete: the child sees nothing else."""

    __slots__ = ("argv", "cwd", "environment")

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str], cwd: str | None) -> None:
        self.argv = argv
        self.environment = environment
        self.cwd = cwd


class Exit:
    """How a harness ended: `code` (negative: killed by that signal; None: its output ended first, or never started),
    and `stderr`, the bounded and redacted tail of what it said there."""

    __slots__ = ("code", "stderr")

    def __init__(self, code: int | None, stderr: str = "") -> None:
        self.code = code
        self.stderr = stderr

    def __str__(self) -> str:
        if self.code is None:
            how = "ended its output"
        elif self.code < 0:
            how = f"was killed by signal {-self.code}"
        else:
            how = f"exited with code {self.code}"
        return f"the harness {how}" + (f"; its last words: {self.stderr}" if self.stderr else "")


class Settings:
    """What the configuration gives a codec: the members of its entry, with the environment already resolved.

    `environment` holds just what the entry's list admits. `executable` may be absent: the codec names its default and
    the driver finds it on the daemon's PATH. `working_directory` may be absent where the harness can do without.
    `limits` are the gateway's. Members that a type does not use never arrive here: the configuration refuses them.
    """

    __slots__ = ("args", "environment", "executable", "limits", "name", "options", "working_directory")

    def __init__(
        self,
        name: str,
        limits: Any,
        *,
        executable: str | None = None,
        args: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        working_directory: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.limits = limits
        self.executable = executable
        self.args = args
        self.environment = environment or {}
        self.working_directory = working_directory
        self.options = options or {}


class CodecFactory(Protocol):
    """One harness as the registry knows it: its truthful descriptor, and a new codec a session."""

    def describe(self) -> tuple[str, Mapping[str, Any]]:
        """Return `(capability_revision, capabilities payload)`; static, no process is started."""

    def new(self) -> Codec:
        """Return the codec of one new session."""


class Codec(Protocol):
    """One session on one harness, sans-I/O. Every method returns at once; none may raise for anything a harness sent.

    Requests carry a `token`; the codec settles each exactly once, at once or in a later step. Types of request:
    `session.open.request` (after `connected`; settled when the harness is ready), `session.message.submit.request` (its
    `run_id` is the admitted run's), the two resolve requests (already checked against what was offered),
    `user.input.cancel.request` (nobody answered a question in time), `run.cancel.request` (the run is live).
    """

    def launch(self, request: Envelope) -> Launch:
        """Return how to start the harness for this open request. Raises `Refusal` if it cannot be started so."""

    def connected(self) -> Step:
        """The process runs; nothing was read yet."""

    def receive(self, frame: bytes) -> Step:
        """Take one native frame, without its newline."""

    def request(self, token: int, request: Envelope) -> Step:
        """Take one admitted request."""

    def elapsed(self, name: str) -> Step:
        """A deadline that was armed has passed."""

    def closing(self) -> Step:
        """The session is to close (no run is live, or the sweep insists): say goodbye; the stop ladder follows."""

    def closed(self, how: Exit) -> Step:
        """The harness is gone: settle every token, end every run with provenance."""

    def models(self) -> Mapping[str, Any] | None:
        """Return the `models.response` payload without `session_id`, or None where the harness has no catalog."""

    def tools(self) -> Mapping[str, Any] | None:
        """Return the `action.tools.list.response` payload without `session_id`, or None."""

    def facts(self) -> Mapping[str, Any]:
        """Return what the codec adds to the state document: `current_model_id`, `metadata`; may be empty."""
