"""What any adapter must keep, whichever harness is behind it. Import `AdapterContract`, subclass it, give the adapter.

Every test drives a real `Hub` on a real loop, plays a host that answers gates, and judges all that was published. A
subclass has `adapter(limits)` and, where the default does not fit, the words of a prompt that makes a run.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from trunkline.framing import scan_envelope
from trunkline.gateway import Event, Hub
from trunkline.gateway.hub.ports import Adapter
from trunkline.protocol import names, shapes
from trunkline.protocol.capability import Descriptor
from trunkline.protocol.errors import Refusal
from trunkline.protocol.limits import Limits
from trunkline.protocol.validate import compiled

from tests.support.hubs import answer_payload, request
from tests.support.trace import check

PATIENCE_S = 60.0
CONTROLS: dict[str, tuple[str, Any]] = {
    "run.model_selection": ("model_id", "no-such-model"),
    "run.instructions": ("instructions", "Be brief."),
    "run.tool_selection": ("tool_choice", {"allowed": ["no_such_tool"]}),
    "run.structured_output": ("output_schema", {"type": "array"}),
}


class Host:
    """A host of one hub: it opens, submits, follows runs and answers gates. `grants`: what it says to permissions."""

    def __init__(self, hub: Hub, prompt: str, grants: bool = True) -> None:
        self.hub = hub
        self.prompt = prompt
        self.grants = grants
        self.answers = True

    async def open(self, session: str = "s", **more: Any) -> Any:
        return await self.hub.open("it", request(names.OPEN, {"session_id": session, **more}))

    async def submit(self, session: str = "s", **more: Any) -> Any:
        message = {"role": "user", "content": self.prompt}
        payload = {"session_id": session, "delivery": "auto", "messages": [message], **more}
        return await self.hub.submit(session, request(names.SUBMIT, payload))

    async def cancel(self, run: str, session: str = "s") -> Any:
        return await self.hub.cancel(session, request(names.CANCEL, {"session_id": session, "run_id": run}))

    async def follow(self, events: AsyncIterator[Event], until: Callable[[Event], bool] | None = None) -> list[Event]:
        """Read to the end, or until an event; answer gates on the way."""
        got: list[Event] = []
        async for event in events:
            got.append(event)
            if until is not None and until(event):
                break
            if self.answers:
                await self.answer(event)
        return got

    async def answer(self, event: Event) -> None:
        session = event.envelope.session_id or ""
        asked = event.envelope.as_dict()
        if event.type == names.PERMISSION_REQUESTED:
            payload = answer_payload(asked, granted=self.grants)
            await self.hub.resolve(session, request(names.RESOLVE_PERMISSION, payload))
        elif event.type == names.INPUT_REQUESTED:
            answers = [self.choose(question) for question in asked["payload"]["questions"]]
            await self.hub.resolve(session, request(names.RESOLVE_INPUT, answer_payload(asked, answers=answers)))

    def choose(self, question: dict[str, Any]) -> dict[str, Any]:
        if question["kind"] == "text":
            return {"question_id": question["id"], "text": "as you like"}
        return {"question_id": question["id"], "selected_option_ids": [question["options"][0]["id"]]}

    async def play(self, session: str = "s") -> list[Event]:
        """Submit and follow one run to its terminal."""
        async with self.hub.subscribe(session) as events:
            await self.submit(session)
            return await self.follow(events)

    async def status(self, session: str = "s") -> str:
        status: str = (await self.hub.state(session)).payload["status"]
        return status


class AdapterContract:
    """The contract. Tests are sync; each brings its own loop."""

    prompt = "go"
    """What a run is asked; it must stream at least one event between its start and its terminal."""

    def adapter(self, limits: Limits) -> Adapter:
        """Return a fresh adapter of the kind under test."""
        raise NotImplementedError

    def run(self, body: Callable[[Host], Awaitable[None]], **limits: Any) -> None:
        """Run a test body with a host on a fresh loop, and let nothing be left behind: no task, no unheard fault."""
        faults: list[Any] = []

        async def main() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context))
            async with asyncio.timeout(PATIENCE_S), self.host(Limits(**limits)) as host:
                await body(host)

        asyncio.run(main())
        assert faults == []

    @asynccontextmanager
    async def host(self, limits: Limits) -> AsyncIterator[Host]:
        hub = Hub({"it": self.adapter(limits)}, limits=limits)
        try:
            yield Host(hub, self.prompt)
        finally:
            assert await hub.aclose() == []

    def descriptor(self) -> Descriptor:
        return Descriptor(*self.adapter(Limits()).describe())

    # -- what it says of itself ----------------------------------------------------------------------------------------

    def test_the_descriptor_is_sound_and_stays_the_same(self) -> None:
        adapter = self.adapter(Limits())
        first, second = adapter.describe(), adapter.describe()
        assert first == second
        revision, payload = first
        assert revision
        compiled(names.RESPONSE_OF[names.CAPABILITIES], json.dumps(payload).encode())
        descriptor = Descriptor(revision, payload)
        if descriptor.affirmative("session.message.delivery.queue"):
            queued = descriptor.limit("max_queued_runs_per_session")
            assert queued is not None
            assert queued >= 1
            assert (descriptor.limit("max_active_runs_per_session") or queued + 1) >= queued + 1
        sources, tools = descriptor.sources(), descriptor.tools()
        assert len({source["id"] for source in sources}) == len(sources)
        assert len({tool["name"] for tool in tools}) == len(tools)
        assert {tool["source"] for tool in tools if "source" in tool} <= {source["id"] for source in sources}
        if descriptor.affirmative("run.model_selection"):
            assert descriptor.feature("run.model_selection").get("scope") in ("run", "session")
        if descriptor.affirmative("action.tool_sources.attach"):
            assert "session_open" in descriptor.modes("action.tool_sources.attach")

    def test_the_journal_is_bounded(self) -> None:
        events, size = self.adapter(Limits()).journal()
        assert events >= 1
        assert size >= 1

    def test_sessions_have_their_own_ids_and_are_idle(self) -> None:
        async def body(host: Host) -> None:
            minted = {(await host.hub.open("it", request(names.OPEN, {}))).session_id for _ in range(3)}
            assert len(minted) == 3
            opened = await host.open("named")
            assert opened.session_id == opened.payload["session_id"] == "named"
            assert opened.payload["status"] == "idle"
            compiled(opened.type, json.dumps(opened.payload).encode())

        self.run(body)

    def test_catalogs_are_served_where_promised_and_refused_elsewhere(self) -> None:
        descriptor = self.descriptor()

        async def body(host: Host) -> None:
            await host.open()
            for key, ask in (("models.list", host.hub.models), ("action.tools.list", host.hub.tools)):
                if not descriptor.affirmative(key):
                    with pytest.raises(Refusal, match="unsupported_feature"):
                        await ask("s")
                    continue
                answer = await ask("s", [key])
                compiled(answer.type, json.dumps(answer.payload).encode())
                assert answer.capability_revision == descriptor.revision
                assert answer.payload["session_id"] == "s"

        self.run(body)

    def test_controls_that_are_not_offered_or_not_satisfiable_are_refused(self) -> None:
        descriptor = self.descriptor()

        async def body(host: Host) -> None:
            await host.open()
            for key, (member, value) in CONTROLS.items():
                offered = descriptor.affirmative(key)
                if offered and (member == "instructions" or not self.binds(descriptor, member)):
                    continue
                with pytest.raises(Refusal) as refused:
                    await host.submit(**{member: value}, allow_degraded_features=[key])
                assert refused.value.code in ("unsupported_feature", "model_not_found")
            assert await host.status() == "idle"
            assert "as_of" not in (await host.hub.state("s")).payload

        self.run(body)

    def binds(self, descriptor: Descriptor, member: str) -> bool:
        """Whether a catalog is known that the value of a control is judged against."""
        key = {"model_id": "models.list", "tool_choice": "action.tools.list"}.get(member)
        return key is None or descriptor.level(key) in ("native", "emulated")

    # -- runs ----------------------------------------------------------------------------------------------------------

    def test_a_run_is_a_sound_trace(self) -> None:
        descriptor = self.descriptor()

        async def body(host: Host) -> None:
            await host.open()
            got = await host.play()
            assert got[0].type == names.RUN_STARTED
            assert got[-1].type == names.RUN_COMPLETED
            assert len(got) > 2
            for event in got:
                head = scan_envelope(event.bytes)
                assert all(getattr(head, member) is not None for member in shapes.header_of(event.type))
                assert event.envelope.capability_revision == descriptor.revision
                assert event.envelope.session_id == "s"
            check((event.envelope.as_dict() for event in got), cancels=())
            assert await host.status() == "idle"
            self.judge_calls(descriptor, got)

        self.run(body)

    def judge_calls(self, descriptor: Descriptor, events: list[Event]) -> None:
        """Calls are attributed as the descriptor's catalog has it (spec: envelopes 16)."""
        listed = {tool["name"]: tool for tool in descriptor.tools()}
        for event in events:
            payload = event.envelope.payload
            tool = listed.get(payload.get("name", ""))
            if event.type == names.CALL_REQUESTED and tool is not None:
                assert payload["execution_owner"] == tool["execution_owner"]
                assert payload.get("source") == tool.get("source")

    def test_runs_of_one_session_follow_each_other(self) -> None:
        async def body(host: Host) -> None:
            await host.open()
            runs = [await host.play() for _ in range(3)]
            assert len({got[0].run_id for got in runs}) == 3
            check(event.envelope.as_dict() for got in runs for event in got)
            settled = (await host.hub.state("s")).payload["as_of"]["settled"]
            assert settled == [{"run_id": got[0].run_id, "sequence": got[-1].sequence} for got in runs]

        self.run(body)

    def test_sessions_do_not_mix(self) -> None:
        async def body(host: Host) -> None:
            for session in ("a", "b", "c"):
                await host.open(session)
            runs = await asyncio.gather(*(host.play(session) for session in ("a", "b", "c")))
            for session, got in zip(("a", "b", "c"), runs, strict=True):
                assert {event.envelope.session_id for event in got} == {session}
                assert len({event.run_id for event in got}) == 1
                check(event.envelope.as_dict() for event in got)

        self.run(body)

    def test_a_denied_run_ends_too(self) -> None:
        async def body(host: Host) -> None:
            await host.open()
            host.grants = False
            got = await host.play()
            assert got[-1].type in names.TERMINALS
            check((event.envelope.as_dict() for event in got), cancels=())
            host.grants = True
            assert (await host.play())[-1].type == names.RUN_COMPLETED

        self.run(body)

    def test_replay_gives_the_same_bytes(self) -> None:
        async def body(host: Host) -> None:
            await host.open()
            got = await host.play()
            most = self.adapter(Limits()).journal()[0]
            for after in {0, 1, len(got) // 2, len(got) - 1, len(got)}:
                if len(got) - after <= most:
                    again = [event async for event in host.hub.subscribe("s", after=after)]
                    assert [event.bytes for event in again] == [event.bytes for event in got[after:]]

        self.run(body)

    @pytest.mark.parametrize("seen", [1, 2, 3])
    def test_a_cancelled_run_ends_and_the_session_goes_on(self, seen: int) -> None:
        if not self.descriptor().affirmative("run.cancel"):
            pytest.skip("this adapter cannot cancel a run, and says so")

        async def body(host: Host) -> None:
            await host.open()
            async with host.hub.subscribe("s") as events:
                run = (await host.submit()).run_id
                got = await host.follow(events, lambda event: event.sequence >= seen or event.type in names.TERMINALS)
                if got[-1].type not in names.TERMINALS:
                    host.answers = False  # a gate that is still to be read is closed by now
                    assert (await host.cancel(run)).payload["accepted"] is True
                    got += await host.follow(events)
                    host.answers = True
            assert got[-1].type in (names.RUN_CANCELLED, names.RUN_COMPLETED)
            check((event.envelope.as_dict() for event in got), cancels=(run,))
            assert await host.status() == "idle"
            assert (await host.play())[-1].type == names.RUN_COMPLETED

        self.run(body)

    def test_a_reservation_has_its_turn(self) -> None:
        if not self.descriptor().affirmative("session.message.delivery.queue"):
            pytest.skip("this adapter has no queue, and says so")

        async def body(host: Host) -> None:
            await host.open()
            async with host.hub.subscribe("s") as events:
                first, second = await host.submit(), await host.submit()
                assert (first.payload["admission"], second.payload["admission"]) == ("started", "queued")
                got = await host.follow(events)
            assert [event.run_id for event in got if event.type == names.RUN_STARTED] == [first.run_id, second.run_id]
            assert [event.type for event in got].count(names.RUN_COMPLETED) == 2
            check((event.envelope.as_dict() for event in got), cancels=())

        self.run(body)

    def test_a_gate_that_nobody_answers_ends_at_its_deadline(self) -> None:
        async def body(host: Host) -> None:
            await host.open()
            async with host.hub.subscribe("s") as events:
                await host.submit()
                got = [event async for event in events]
            assert got[-1].type in names.TERMINALS
            check((event.envelope.as_dict() for event in got), cancels=())

        self.run(body, gate_deadline_s=0.05)

    # -- the end -------------------------------------------------------------------------------------------------------

    def test_an_idle_session_closes_and_says_no_more(self) -> None:
        async def body(host: Host) -> None:
            await host.open()
            await host.play()
            await host.hub.close("s")
            await host.hub.close("s")
            assert await host.status() == "closed"
            with pytest.raises(Refusal, match="session_closed"):
                await host.submit()

        self.run(body)

    def test_a_live_run_keeps_the_session_open_until_it_is_swept(self) -> None:
        async def body(host: Host) -> None:
            await host.open()
            async with host.hub.subscribe("s") as events:
                await host.submit()
                got = await host.follow(events, lambda event: True)
                with pytest.raises(Refusal, match="run_active"):
                    await host.hub.close("s")
                assert await host.hub.aclose() == []
                got += [event async for event in events]
            assert got[-1].type in names.TERMINALS
            check(event.envelope.as_dict() for event in got)
            assert await host.status() == "closed"

        self.run(body, sweep_s=5.0)
