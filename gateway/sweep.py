"""Closing everything, on every way out (spec: hub 8). Live runs are cancelled first; what does not close is named."""

from __future__ import annotations

import asyncio
import contextlib
from time import monotonic

from ..protocol import names
from ..protocol.envelope import Envelope
from ..protocol.errors import Refusal
from ..protocol.quote import clip, quote
from .hub.admission import cancel
from .hub.answers import forget

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .hub.session import Session
    from .hub.switch import Switch


async def sweep(switch: Switch, seconds: float | None = None) -> list[str]:
    """Close every session within `seconds` in all (None: `Limits.sweep_s`); return a text for each that did not."""
    deadline = monotonic() + (switch.limits.sweep_s if seconds is None else seconds)
    troubles: list[str] = []
    tasks: dict[asyncio.Task[None], Session] = {}
    for session in switch.unclosed():
        try:
            answer = session.close()
        except Refusal:
            tasks[asyncio.ensure_future(_close(session, deadline))] = session
        except Exception as error:
            troubles.append(_trouble(session, error))
        else:
            if answer is not None:
                tasks[asyncio.ensure_future(_wait(answer))] = session
    if tasks:
        done, stuck = await asyncio.wait(tasks, timeout=max(0.0, deadline - monotonic()))
        for task in done:
            fault = "its close was cancelled" if task.cancelled() else task.exception()
            if fault is not None:
                troubles.append(_trouble(tasks[task], fault))
        for task in stuck:
            task.cancel()
            troubles.append(_trouble(tasks[task], "did not close in time"))
    return troubles


def _trouble(session: Session, what: object) -> str:
    return f"{quote(session.session_id)}: {clip(str(what), 300)}"


async def _wait(answer: asyncio.Future[None]) -> None:
    await asyncio.shield(answer)


async def _close(session: Session, deadline: float) -> None:
    """Cancel the live runs, give their terminals half of the time that is left, then close in any case."""
    half = monotonic() + (deadline - monotonic()) / 2
    for run in reversed(session.live()):
        payload = {"session_id": session.session_id, "run_id": run.id, "reason": "the gateway is closing"}
        request = Envelope(
            names.CANCEL,
            session.services.requests.mint("oap-request"),
            payload,
            session_id=session.session_id,
            run_id=run.id,
        )
        try:
            forget(cancel(session, request))
        except Refusal:
            continue
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(half - monotonic()):
            await session.settled_down()
    answer = session.close(insist=True)
    if answer is not None:
        await asyncio.shield(answer)
