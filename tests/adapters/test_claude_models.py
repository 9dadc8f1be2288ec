"""The model catalog, and a model chosen for one run."""

from __future__ import annotations

from typing import Any

import pytest
from trunkline.adapters.base import Settings
from trunkline.adapters.claude import ClaudeAdapter
from trunkline.protocol import names
from trunkline.protocol.errors import Refusal
from trunkline.protocol.limits import Limits

from tests.support import trace
from tests.support.claude_wire import MODELS, control_ok, desk, init, refused, result
from tests.support.desk import Desk


def switches(host: Desk) -> list[Any]:
    requests = [line["request"] for line in host.written if "request" in line]
    return [request.get("model") for request in requests if request["subtype"] == "set_model"]


def test_the_catalog() -> None:
    host = Desk(ClaudeAdapter(Settings("coder", Limits())))
    assert host.codec.models() is None
    assert desk().codec.models() == {
        "models": [
            {"id": "big-1", "display_name": "Big", "default": True},
            {"id": "small-1", "display_name": "Small"},
        ],
        "current_model_id": "big-1",
    }


def test_the_configured_model_is_the_default() -> None:
    catalog = desk(model="small").codec.models()
    assert catalog is not None
    assert [model["id"] for model in catalog["models"] if model.get("default")] == ["small-1"]
    assert catalog["current_model_id"] == "small-1"


def test_a_configured_model_outside_the_list() -> None:
    host = desk(model="other")
    assert host.codec.models() == {
        "models": [{"id": "big-1", "display_name": "Big"}, {"id": "small-1", "display_name": "Small"}]
    }
    assert host.codec.facts()["current_model_id"] == "other"


def test_a_model_without_a_resolved_name_keeps_its_own() -> None:
    from trunkline.adapters.claude.models import Catalog

    catalog = Catalog([*MODELS, {"value": "odd"}], None)
    assert list(catalog.entries) == ["big-1", "small-1", "odd"]


@pytest.mark.parametrize(("configured", "back"), [(None, None), ("big", "big")])
def test_a_model_for_one_run(configured: str | None, back: str | None) -> None:
    options: dict[str, Any] = {} if configured is None else {"model": configured}
    host = desk(**options)
    assert host.submit("hello", model_id="small-1") is ...
    assert host.written[-1]["request"] == {"subtype": "set_model", "model": "small-1"}
    assert host.events == []
    host.feed(control_ok("req_2"))
    assert host.settled[2] is None
    assert host.written[-1]["type"] == "user"
    assert host.last(names.RUN_STARTED)["payload"]["model_id"] == "small-1"
    host.feed(
        init("small-1"), {"type": "assistant", "message": {"id": "m", "model": "small-1-api", "content": []}}, result()
    )
    assert host.last(names.RUN_COMPLETED)["payload"]["model_id"] == "small-1"
    assert switches(host) == ["small-1", back]
    assert host.codec.facts()["current_model_id"] == "big-1"
    host.submit("again")
    assert host.written[-1]["type"] == "user"
    host.feed(init("big-1"), result(total=2))
    assert switches(host) == ["small-1", back]
    trace.check(host.events)


def test_the_model_that_answers_anyway_needs_no_switch() -> None:
    host = desk()
    host.submit("hello")
    host.feed(init("big-1"), result())
    assert host.submit("again", model_id="big-1") is None
    assert switches(host) == []
    assert host.last(names.RUN_STARTED)["payload"]["model_id"] == "big-1"


def test_the_harness_refuses_the_model() -> None:
    host = desk()
    host.submit("hello", model_id="small-1")
    host.feed({"type": "control_response", "response": {"subtype": "error", "request_id": "req_2", "error": "no"}})
    refusal = host.settled[2]
    assert isinstance(refusal, Refusal)
    assert refusal.code == names.UNSUPPORTED_FEATURE
    assert refusal.details == {"feature": "run.model_selection", "reason": "unsatisfiable", "field": "model_id"}
    assert host.events == []
    host.runs.clear()
    assert host.submit("hello") is None


def test_another_model_answers_than_was_asked_for() -> None:
    host = desk()
    host.submit("hello", model_id="small-1")
    host.feed(control_ok("req_2"), init("big-1"))
    host.feed({"type": "assistant", "message": {"id": "m", "model": "big-1-api", "content": []}}, result())
    assert "model_id" not in host.last(names.RUN_COMPLETED)["payload"]
    assert any("asked for model" in note for note in host.notes)
    trace.check(host.events)


def test_cancelled_while_the_model_is_set() -> None:
    host = desk()
    host.submit("hello", model_id="small-1")
    assert host.cancel() is None
    host.feed(control_ok("req_2"))
    assert host.settled[2] is None
    assert host.kinds() == [names.RUN_CANCELLED]
    assert switches(host) == ["small-1", None]
    assert "user" not in [line["type"] for line in host.written]
    trace.check(host.events, cancels=host.cancelled)


def test_the_harness_does_not_answer_the_switch() -> None:
    host = desk(Limits(harness_cancel_s=5))
    host.submit("hello", model_id="small-1")
    host.elapsed("switch")
    assert isinstance(host.settled[2], Refusal)
    assert host.end == "stop"
    host.gone(-15)


def test_the_harness_dies_while_the_model_is_set() -> None:
    host = desk()
    host.submit("hello", model_id="small-1")
    host.gone(1)
    assert isinstance(host.settled[2], Refusal)
    assert host.events == []


def test_a_second_run_waits_for_neither() -> None:
    host = desk()
    host.submit("hello", model_id="small-1")
    refusal = host.ask(names.SUBMIT, "run-9", messages=[{"role": "user", "content": "x"}], delivery="auto")
    assert isinstance(refusal, Refusal)
    assert refusal.code == names.RUN_ACTIVE


def test_the_answer_to_the_way_back_is_not_that_to_the_next_choice() -> None:
    """A promoted run asks for its model before the harness has answered the switch back of the run before it."""
    host = desk()
    host.submit("hello", model_id="small-1")
    host.feed(control_ok("req_2"), init("small-1"), result())
    assert host.submit("next", model_id="other-1") is ...
    assert switches(host) == ["small-1", None, "other-1"]
    host.feed(control_ok("req_3"))
    assert 3 not in host.settled
    host.feed({"type": "control_response", "response": {"subtype": "error", "request_id": "req_4", "error": "no"}})
    refused(host.settled[3], names.UNSUPPORTED_FEATURE, "refused the model")
    assert host.kinds("run-2") == []
    assert [line["type"] for line in host.written].count("user") == 1


def test_a_way_back_that_is_refused_is_noted_and_no_refusal_of_the_next_choice() -> None:
    host = desk()
    host.submit("hello", model_id="small-1")
    host.feed(control_ok("req_2"), init("small-1"), result())
    host.submit("next", model_id="other-1")
    host.feed({"type": "control_response", "response": {"subtype": "error", "request_id": "req_3", "error": "no"}})
    assert any("refused set_model" in note for note in host.notes)
    host.feed(control_ok("req_4"))
    assert host.settled[3] is None
    assert host.last(names.RUN_STARTED)["payload"]["model_id"] == "other-1"
