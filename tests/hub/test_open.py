"""Opening, closing, listing: every refusal, and that a failure leaves nothing behind (spec: hub 3, 6, 7)."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from trunkline.adapters.memory import SOURCES, MemoryAdapter
from trunkline.gateway.config import read_config
from trunkline.gateway.hub.switch import Switch
from trunkline.gateway.serve import make_switch
from trunkline.protocol import names
from trunkline.protocol.errors import HarnessFault, Refusal
from trunkline.protocol.limits import Limits
from trunkline.protocol.validate import compiled

from tests.support.hubs import Fake, Seat, code_of, completed, refusal_of, request

ATTACH = "action.tool_sources.attach"
LOCAL = {"id": "a", "kind": "local"}


def raises(error: Exception) -> Any:
    def act(*_: Any) -> Any:
        raise error

    return act


def table(seat: Seat) -> list[str]:
    return [entry["session_id"] for entry in seat.switch.sessions()["sessions"]]


def test_an_open_is_answered_with_the_state_document() -> None:
    seat = Seat()
    answer = seat.open("mine")
    compiled(answer.type, json.dumps(answer.payload).encode())
    assert (answer.session_id, answer.capability_revision) == ("mine", None)
    assert answer.payload == {"session_id": "mine", "status": "idle", "sources": list(SOURCES)}
    assert seat.open("other", revision="whatever").capability_revision == "whatever"


def test_refusals_before_the_adapter_is_asked() -> None:
    fake, bad = Fake(), Fake(describe=raises(RuntimeError("no version")))
    seat = Seat({"fake": fake, "bad": bad})
    refusal = refusal_of(lambda: seat.open(adapter="nobody"))
    assert refusal.code == "unknown_adapter"
    assert "bad, fake" in refusal.message
    assert refusal_of(lambda: seat.open(adapter="bad")).code == "probe_failed"
    assert "no version" in refusal_of(lambda: seat.open(adapter="bad")).message
    assert code_of(lambda: seat.switch.capabilities("bad")) == "probe_failed"
    assert code_of(lambda: seat.switch.capabilities("nobody")) == "unknown_adapter"
    assert fake.sessions == bad.sessions == []
    assert table(seat) == []


UNSERVED = [
    ({"tools": [{"name": "t", "input_schema": {}, "execution_owner": "user"}]}, "action.tools.provide"),
    ({"message": {"messages": [{"role": "user", "content": "x"}], "delivery": "auto"}}, "session.open.message"),
    ({"recovery": {"recovered": True}}, "run.resume"),
    ({"subscribe": True}, "session.open.subscribe"),
    ({"metadata": {"dev.trunkline": {"resume": "native-1"}}}, "session.resume"),
]


@pytest.mark.parametrize(("member", "feature"), UNSERVED, ids=lambda value: str(value)[:30])
@pytest.mark.parametrize("adapter", ["memory", "fake"])
def test_members_that_are_not_served_are_refused_whatever_the_adapter_says(
    member: dict[str, Any], feature: str, adapter: str
) -> None:
    fake = Fake(features={"session.open.subscribe": "native", "action.tools.provide": "native"})
    seat = Seat({"memory": MemoryAdapter(), "fake": fake})
    refusal = refusal_of(lambda: seat.open(adapter=adapter, **member))
    assert refusal.code == "unsupported_feature"
    assert refusal.details == {"feature": feature, "reason": "unadvertised"}
    assert table(seat) == []


def test_empty_and_foreign_members_are_no_wish() -> None:
    seat = Seat()
    seat.open(tools=[], subscribe=False, tool_sources=[], metadata={"com.example": 1})
    assert table(seat) == ["s"]


@pytest.mark.parametrize("member", [{"tool_sources": [LOCAL]}, {"subscribe": True}], ids=str)
def test_a_stale_revision_counts_only_where_something_is_asked_for(member: dict[str, Any]) -> None:
    seat = Seat()
    refusal = refusal_of(lambda: seat.open(revision="old", **member))
    assert refusal.code == "stale_capabilities"
    assert refusal.details == {"expected_revision": "old", "current_revision": "reference-memory-v11"}
    assert seat.open(revision="old").capability_revision == "old"


def test_the_attachment_ladder() -> None:
    def seat(**features: Any) -> Seat:
        return Seat({"fake": Fake(features={ATTACH: features or None})})

    refusal = refusal_of(lambda: seat().open(adapter="fake", tool_sources=[LOCAL]))
    assert refusal.details == {"feature": ATTACH, "reason": "unadvertised"}
    without_mode = seat(level="native")
    assert refusal_of(lambda: without_mode.open(adapter="fake", tool_sources=[LOCAL])).details == refusal.details
    degraded = seat(level="degraded", modes=["session_open"])
    assert code_of(lambda: degraded.open(adapter="fake", tool_sources=[LOCAL])) == "capability_degraded"
    degraded.open(adapter="fake", tool_sources=[LOCAL], allow_degraded_features=[ATTACH])
    answer = seat(level="native", modes=["session_open"]).open(adapter="fake", tool_sources=[LOCAL])
    assert answer.capability_revision == "fake-v1"


@pytest.mark.parametrize(
    ("sources", "culprit"),
    [
        ([LOCAL, LOCAL], "a"),
        ([{"id": "reference-native", "kind": "local"}], "reference-native"),
        ([{"id": "r", "kind": "remote"}], "r"),
        ([{"id": "h", "kind": "hosted"}], "h"),
        ([{"id": "n", "kind": "native"}], "n"),
        ([LOCAL, {"id": "b", "kind": "local"}, {"id": "c", "kind": "local"}], "c"),
        ([{**LOCAL, "environment": ["A", "A=1"]}], "a"),
    ],
    ids=str,
)
def test_memory_takes_two_sources_of_two_kinds(sources: list[dict[str, Any]], culprit: str) -> None:
    seat = Seat()
    refusal = refusal_of(lambda: seat.open(tool_sources=sources))
    assert refusal.code == "unsupported_feature"
    assert refusal.details == {"feature": ATTACH, "reason": "unsatisfiable", "source": culprit}
    assert table(seat) == []


def configured(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Switch:
    monkeypatch.setenv("OF_THE_DAEMON", "secret")
    monkeypatch.setenv("BARE", "forwarded")
    files = {
        "kind": "process",
        "display_name": "Files",
        "protocol": "mcp",
        "endpoint": "stdio:files",
        "command": "/opt/files",
        "args": ["--root"],
        "environment": ["OF_THE_DAEMON", "FIXED=1"],
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"adapters": {"memory": {}}, "tool_sources": {"files": files}}))
    return make_switch(read_config(str(path)))


def attach(switch: Switch, *sources: dict[str, Any]) -> Any:
    return switch.open("memory", request(names.OPEN, {"session_id": "s", "tool_sources": list(sources)}))


@pytest.mark.parametrize(
    ("source", "fits"),
    [
        ({"id": "files", "kind": "process"}, True),
        ({"id": "files", "kind": "process", "environment": ["BARE", "ABSENT"]}, True),
        ({"id": "files", "kind": "process", "display_name": "Files", "endpoint": "stdio:files"}, True),
        ({"id": "files", "kind": "process", "display_name": "Other"}, False),
        ({"id": "files", "kind": "local"}, False),
        ({"id": "files", "kind": "process", "command": "/opt/files"}, False),
        ({"id": "files", "kind": "process", "args": []}, False),
        ({"id": "files", "kind": "process", "environment": ["BARE=mine"]}, False),
        ({"id": "unknown", "kind": "process"}, False),
        ({"id": "unknown", "kind": "local", "display_name": "Mine"}, True),
        ({"id": "unknown", "kind": "local", "command": "/bin/x"}, False),
    ],
    ids=str,
)
def test_wire_attachments_against_the_operators_map(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, source: dict[str, Any], fits: bool
) -> None:
    switch = configured(tmp_path, monkeypatch)
    if not fits:
        refusal = refusal_of(lambda: attach(switch, source))
        assert refusal.details == {"feature": ATTACH, "reason": "unsatisfiable", "source": source["id"]}
        assert switch.sessions() == {"sessions": []}
        return
    answer = attach(switch, source)
    published = answer.payload["sources"]
    assert published[: len(SOURCES)] == list(SOURCES)
    (attached,) = published[len(SOURCES) :]
    assert not attached.keys() & {"command", "args", "environment"}
    if source["id"] == "files":
        assert attached == {
            "id": "files",
            "kind": "process",
            "display_name": "Files",
            "protocol": "mcp",
            "endpoint": "stdio:files",
        }
    assert switch.state("s").payload["sources"] == published
    tools: Any = switch.tools("s")
    assert tools.payload["sources"] == published
    assert "secret" not in json.dumps([answer.payload, switch.state("s").payload, tools.payload])


def test_a_name_is_taken_once_open_or_closed() -> None:
    seat = Seat({"memory": MemoryAdapter(), "fake": Fake()})
    seat.open("x")
    assert code_of(lambda: seat.open("x")) == "session_exists"
    assert code_of(lambda: seat.open("x", adapter="fake")) == "session_exists"
    seat.switch.close("x")
    assert code_of(lambda: seat.open("x")) == "session_exists"


def test_minted_ids_never_collide_whoever_mints() -> None:
    seat = Seat({"a": MemoryAdapter(), "b": MemoryAdapter(), "c": Fake()})
    seat.open("session-2", adapter="a")
    ids = [seat.open(None, adapter=adapter).session_id for adapter in ("a", "b", "c", "a", "b", "c")]
    assert len({*ids, "session-2"}) == 7
    assert ids[0] == "session-1"
    assert all(re.fullmatch(r"session-\d+", id) for id in ids)


def test_only_so_many_sessions_are_open() -> None:
    seat = Seat(limits=Limits(max_sessions=2))
    seat.open("a")
    seat.open("b")
    refusal = refusal_of(lambda: seat.open("c"))
    assert refusal.code == "busy"
    assert refusal.message == "2 sessions are open, the most allowed; close one and send this request again"
    seat.switch.close("a")
    seat.switch.close("a")
    seat.open("c")
    assert code_of(lambda: seat.open("d")) == "busy"


def test_failed_opens_take_no_place() -> None:
    seat = Seat({"fake": Fake(open=raises(HarnessFault("harness_start", "not found")))}, limits=Limits(max_sessions=1))
    for _ in range(3):
        refusal = refusal_of(lambda: seat.open(adapter="fake"))
        assert (refusal.code, refusal.message, refusal.details) == (
            "open_failed",
            "not found",
            {"cause": "harness_start"},
        )
    assert table(seat) == []
    assert code_of(lambda: seat.switch.state("s")) == "unknown_session"


def test_what_an_adapter_raises_is_told_and_bounded() -> None:
    for error, code, text in [
        (Refusal("unsupported_feature", "no", {"feature": "x"}), "unsupported_feature", "no"),
        (RuntimeError("boom " * 1000), "open_failed", "boom"),
        (RuntimeError(), "open_failed", "RuntimeError"),
    ]:
        seat = Seat({"fake": Fake(open=raises(error))})
        refusal = refusal_of(lambda seat=seat: seat.open(adapter="fake"))  # type: ignore[misc]
        assert refusal.code == code
        assert refusal.message.startswith(text)
        assert len(refusal.message) <= Limits().message_chars + 1
        assert len(seat.notes) == (0 if isinstance(error, Refusal) else 1)


def test_a_session_whose_state_cannot_be_read_is_closed_again() -> None:
    fake = Fake(facts=raises(RuntimeError("no facts")))
    seat = Seat({"fake": fake}, limits=Limits(max_sessions=1))
    for _ in range(2):
        assert code_of(lambda: seat.open(adapter="fake")) == "state_failed"
    assert [session.asked("close") for session in fake.sessions] == [[None], [None]]
    assert table(seat) == []
    fake.on.clear()
    seat.open(adapter="fake")
    assert table(seat) == ["s"]


def test_the_listing_is_sorted_and_says_what_is_there() -> None:
    seat = Seat({"memory": MemoryAdapter(), "fake": Fake()})
    for session, adapter in (("b", "memory"), ("a", "fake"), ("B", "memory")):
        seat.open(session, adapter=adapter)
    run = seat.run("b")
    listed = seat.switch.sessions()["sessions"]
    assert [entry["session_id"] for entry in listed] == ["B", "a", "b"]
    assert [entry["adapter"] for entry in listed] == ["memory", "fake", "memory"]
    assert [entry["status"] for entry in listed] == ["idle", "idle", "waiting_for_input"]
    assert (listed[2]["active_run_id"], len(listed[2]["active_runs"])) == (run, 1)
    assert {entry["created_at"] for entry in listed} == {"2026-01-01T00:00:00Z"}
    assert json.loads(seat.switch.sessions_text()) == seat.switch.sessions()
    seat.cancel(run, "b")
    seat.switch.close("b")
    assert json.loads(seat.switch.sessions_text()) == seat.switch.sessions()
    assert seat.switch.sessions()["sessions"][2] == {
        "session_id": "b",
        "adapter": "memory",
        "status": "closed",
        "created_at": "2026-01-01T00:00:00Z",
    }


def test_the_oldest_closed_sessions_leave_first() -> None:
    seat = Seat(limits=Limits(closed_sessions_kept=2))
    for session in "abcd":
        seat.open(session)
    for session in "cab":
        seat.switch.close(session)
    assert table(seat) == ["a", "b", "d"]
    assert code_of(lambda: seat.switch.close("c")) == "unknown_session"
    seat.open("c")
    assert table(seat) == ["a", "b", "c", "d"]


def test_closing() -> None:
    fake = Fake()
    seat = Seat({"fake": fake})
    seat.open(adapter="fake")
    run = seat.run()
    reader = seat.subscribe()
    refusal = refusal_of(lambda: seat.switch.close("s"))
    assert (refusal.code, refusal.details) == ("run_active", {"run_id": run})
    fake.sessions[0].start(run)
    fake.sessions[0].complete(run)
    late = seat.subscribe()
    seat.switch.close("s")
    seat.switch.close("s")
    assert fake.sessions[0].asked("close") == [None]
    assert reader.over
    assert reader.outcome is None
    assert late.over
    assert type(late.outcome).__name__ == "SessionEnded"
    for refused in (seat.submit, seat.models, seat.tools, lambda: seat.subscribe(), lambda: seat.subscribe(after=0)):
        assert code_of(refused) == "session_closed"
    assert code_of(lambda: seat.switch.close("nobody")) == "unknown_session"
    fake.sessions[0].say(completed(run))
    seat.check()


def test_an_adapter_that_fails_to_close_leaves_a_closed_session() -> None:
    seat = Seat({"fake": Fake(close=raises(RuntimeError("stuck")))}, limits=Limits(max_sessions=1))
    seat.open(adapter="fake")
    reader = seat.subscribe()
    refusal = refusal_of(lambda: seat.switch.close("s"))
    assert (refusal.code, refusal.message) == ("internal", "stuck")
    assert seat.switch.close("s") is None
    assert reader.over
    assert seat.state()["status"] == "closed"
    seat.open("t", adapter="fake")


def test_adapters_are_listed_by_name_and_a_failing_one_fails_no_other() -> None:
    seat = Seat({"z": MemoryAdapter(), "a": Fake(describe=raises(RuntimeError("x" * 1000))), "m": Fake()})
    listed = seat.switch.listing()["adapters"]
    assert [entry["name"] for entry in listed] == ["a", "m", "z"]
    assert listed[0].keys() == {"name", "error"}
    assert len(listed[0]["error"]) <= Limits().message_chars + 1
    assert listed[1]["capability_revision"] == "fake-v1"
    compiled(names.RESPONSE_OF[names.CAPABILITIES], json.dumps(listed[2]["capabilities"]).encode())
    probed = seat.switch.capabilities("m")
    assert (probed.capability_revision, probed.in_reply_to is not None) == ("fake-v1", True)


def test_catalogs() -> None:
    fake = Fake()
    seat = Seat({"fake": fake})
    seat.open(adapter="fake")
    for ask, key in ((seat.models, "models.list"), (seat.tools, "action.tools.list")):
        assert refusal_of(ask).details == {"feature": key, "reason": "unadvertised"}
    fake.on.update(models={"models": []}, tools={"tools": None, "sources": []})
    assert seat.models().payload == {"session_id": "s", "models": []}
    assert seat.tools().payload == {"session_id": "s", "tools": [], "sources": []}
    fake.on.update(models={"session_id": "other", "models": []}, tools={"session_id": "other", "tools": []})
    assert (code_of(seat.models), code_of(seat.tools)) == ("internal", "tools_failed")
    fake.on.update(models=raises(RuntimeError("x")), tools=raises(HarnessFault("gone", "y")))
    assert (code_of(seat.models), code_of(seat.tools)) == ("internal", "tools_failed")


@pytest.mark.parametrize("key", ["models.list", "action.tools.list"])
def test_a_degraded_catalog_needs_consent(key: str) -> None:
    seat = Seat({"fake": Fake(features={key: "degraded"}, models={"models": []}, tools={"tools": []})})
    seat.open(adapter="fake")
    ask = seat.models if key == "models.list" else seat.tools
    assert refusal_of(ask).code == "capability_degraded"
    assert ask(allow=[key]).capability_revision == "fake-v1"
    absent = Seat({"fake": Fake(features={key: "unavailable"}, models={"models": []}, tools={"tools": []})})
    absent.open(adapter="fake")
    assert code_of(absent.models if key == "models.list" else absent.tools) == "unsupported_feature"
