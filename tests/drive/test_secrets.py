"""What a harness says of itself: no secret of it reaches an answer, an event or the log, and it forges no line."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from trunkline.adapters.base import Settings
from trunkline.gateway.drive.redact import MASK, Redactor
from trunkline.protocol.errors import Refusal

from tests.support.fake_codec import READY, FakeFactory
from tests.support.outlets import RecordingOutlet
from tests.support.procs import until
from tests.support.stages import QUICK, Stage, closed, play

SECRET = "hush-hush-12345"
SETTINGS = Settings("fake", QUICK, environment={"MODE": SECRET})
AT_SUBMIT = READY + "words = next(orders())\ntoken, run = words[1:]\n"


def staged(mark: str, body: str) -> Stage:
    return Stage(FakeFactory(mark, body), settings=SETTINGS)


def test_a_refused_open_tells_no_secret(loop: str, mark: str) -> None:
    async def use(stage: Stage) -> None:
        with pytest.raises(Refusal, match="the harness said") as caught:
            await stage.open()
        assert caught.value.message == f"the harness said {MASK}"
        assert caught.value.details == {"said": [f"the harness said {MASK}"]}

    body = f"next(orders()); words = next(orders()); tell(f'no {{words[1]}} the harness said {SECRET}'); list(lines())"
    play(loop, staged(mark, body), use)


def test_a_refused_request_tells_no_secret(loop: str, mark: str) -> None:
    async def use(stage: Stage) -> None:
        session = await stage.open()
        with pytest.raises(Refusal, match="the harness said") as caught:
            await stage.submit(session)
        assert SECRET not in repr((caught.value.message, caught.value.details))
        await closed(session)

    play(loop, staged(mark, AT_SUBMIT + f"tell(f'no {{token}} the harness said {SECRET}'); list(lines())"), use)


@pytest.mark.parametrize(("kind", "member"), [("failed", "error"), ("cancelled", "reason")])
def test_the_end_of_a_run_tells_no_secret_and_its_content_is_as_it_was(
    loop: str, mark: str, kind: str, member: str
) -> None:
    async def use(stage: Stage) -> None:
        session = await stage.open()
        await stage.submit(session)
        await until(lambda: len(stage.outlet.drafts) == 3, "the run")
        await closed(session)

    told = f"tell(f'ok {{token}}', f'start {{run}}', f'delta {{run}} {SECRET}', f'{kind} {{run}} not {SECRET}')"
    stage = play(loop, staged(mark, AT_SUBMIT + told + "; list(lines())"), use)
    ended: Any = stage.outlet.drafts[-1][2][member]
    assert SECRET not in repr(ended)
    assert MASK in repr(ended)
    assert stage.outlet.texts("run-1") == [SECRET]


def test_what_a_bug_holds_is_told_and_logged_without_it(loop: str, mark: str, caplog: pytest.LogCaptureFixture) -> None:
    async def use(stage: Stage) -> None:
        session = await stage.open()
        await stage.submit(session)
        await until(lambda: bool(stage.outlet.failures), "the failure")
        await closed(session)

    body = AT_SUBMIT + f"tell(f'ok {{token}}', f'start {{run}}', 'raise {SECRET} ' + 'x' * 9000); list(lines())"
    with caplog.at_level(logging.DEBUG, "trunkline"):
        stage = play(loop, staged(mark, body), use)
    (record,) = [record for record in caplog.records if "internal error" in record.getMessage()]
    written = logging.Formatter().format(record)
    assert SECRET not in written
    assert "fake_codec.py:" in written
    assert "_raise" in written
    assert "\n" not in written
    assert len(written) < 1500
    assert SECRET not in stage.outlet.failures[0]


@pytest.mark.parametrize("name", ["b\ntrunkline: stopped", "s" * 5000, "\x1b[2Jx"])
def test_a_session_id_forges_no_line_of_the_log(
    loop: str, mark: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def use(stage: Stage) -> None:
        session = await stage.open(RecordingOutlet(name))
        await until(lambda: "receive note something" in stage.codec.calls, "the note")
        await closed(session)

    with caplog.at_level(logging.INFO, "trunkline"):
        play(loop, staged(mark, READY + "tell('note something'); list(lines())"), use)
    (line,) = [record.getMessage() for record in caplog.records if "something" in record.getMessage()]
    assert len(line) < 300
    assert line.isprintable()


def test_a_note_is_one_line(loop: str, mark: str, caplog: pytest.LogCaptureFixture) -> None:
    async def use(stage: Stage) -> None:
        session = await stage.open()
        await until(lambda: any(call.startswith("receive note") for call in stage.codec.calls), "the note")
        await closed(session)

    with caplog.at_level(logging.INFO, "trunkline"):
        play(loop, staged(mark, READY + "tell('note a\\ntrunkline: stopped'); list(lines())"), use)
    assert [record.getMessage() for record in caplog.records] == ["session fake/'s1': a\\ntrunkline: stopped"]


@pytest.mark.parametrize("mark_of_a_cut", ["...", "'...", '"...', "\u2026", "'... and more", "'...'..."])
def test_the_beginning_of_a_secret_before_a_cut_is_hidden(mark_of_a_cut: str) -> None:
    redactor = Redactor({"KEY": SECRET})
    for length in range(4, len(SECRET) + 1):
        assert redactor.text(f"no frame: '{SECRET[:length]}{mark_of_a_cut}") == f"no frame: '{MASK}{mark_of_a_cut}"


def test_a_secret_is_hidden_as_a_message_of_python_shows_it() -> None:
    secret = "pass\u00e9word\u4e2d"
    assert Redactor({"KEY": secret}).text(f"text: {secret!a}") == f"text: '{MASK}'"


def test_values_are_cleaned_whatever_their_shape() -> None:
    redactor = Redactor({"KEY": SECRET})
    dirty = {"a": [SECRET, 1, None, {"b": f"x {SECRET}"}], "c": True}
    assert redactor.value(dirty) == {"a": [MASK, 1, None, {"b": f"x {MASK}"}], "c": True}
