"""Embed the gateway in a program: one session, one run, both gates answered. No pipe, no HTTP, no process.

    python examples/embed.py

The memory adapter plays a fixed script. A configured harness is driven by the same lines: make the registry with
`Registry.of(read_config("trunkline.json"))` (`read_config` is in `trunkline.gateway.config`) and name it in `open`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from trunkline.gateway import Event, Hub, Refusal, Registry

HEADER = {"protocol": "open-agent-protocol", "version": "0.1", "profile": "open-agent-protocol.agent-control-core"}


def envelope(type: str, id: str, payload: dict[str, Any], **header: Any) -> dict[str, Any]:
    """Return a request; the hub judges it as it would judge one from the wire."""
    return {**HEADER, "type": type, "id": id, **header, "payload": payload}


def answer(event: Event) -> dict[str, Any] | None:
    """Return the answer to a gate: allow the tool, choose the first option. None: the event asks nothing."""
    asked = event.envelope.payload
    if event.type == "action.permission.requested":
        type, said = "action.permission.resolve.request", {"granted": True, "choice_id": asked["choices"][0]["id"]}
    elif event.type == "user.input.requested":
        first = [
            {"question_id": question["id"], "selected_option_ids": [question["options"][0]["id"]]}
            for question in asked["questions"]
        ]
        type, said = "user.input.resolve.request", {"answers": first}
    else:
        return None
    names = ("interaction_id", "requested_by", "responded_by", "session_id", "run_id")
    payload = {**{name: asked[name] for name in names}, **said}
    return envelope(type, f"re-{event.sequence}", payload, session_id=asked["session_id"], run_id=event.run_id)


def show(event: Event) -> None:
    """Print one event, its text if it has one."""
    part = event.envelope.payload.get("part", {})
    print(f"{event.run_id} {event.sequence:>2} {event.type:<28} {part.get('text', '')}".rstrip())


async def main() -> None:
    """Open, subscribe, submit, answer, close."""
    hub = Hub(Registry.default())
    opened = await hub.open("memory", envelope("session.open.request", "open-1", {}))
    session = opened.payload["session_id"]
    events = hub.subscribe(session)  # joined now: nothing of the run below is missed
    message = {"role": "user", "content": "go"}
    payload = {"session_id": session, "delivery": "auto", "messages": [message]}
    request = envelope("session.message.submit.request", "submit-1", payload, session_id=session)
    submitted = await hub.submit(session, request)
    print(f"session {session}: {submitted.payload['admission']} {submitted.run_id}")
    async for event in events:
        show(event)
        if (reply := answer(event)) is not None:
            await hub.resolve(session, reply)
    try:
        await hub.submit("nowhere", request)
    except Refusal as refusal:
        print(f"refused: {refusal}")
    await hub.close(session)
    print(f"closed: {(await hub.state(session)).payload['status']}")


if __name__ == "__main__":
    asyncio.run(main())
