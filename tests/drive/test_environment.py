"""What a child sees of the daemon's environment, and what nobody sees of the child's secrets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from trunkline.gateway.drive.redact import MASK, Redactor, Tail
from trunkline.gateway.environment import resolved, variables

from tests.support.children import play, to_the_end
from tests.support.harnesses import script
from tests.support.shared import SHARED

SHOW = "import json; say(json.dumps(dict(os.environ)))"
VECTORS: list[dict[str, Any]] = (
    json.loads((SHARED / "cases" / "env-vectors.json").read_text())["env"] if SHARED is not None else []
)
SEEN = [vector for vector in VECTORS if "child_lacks" in vector or "child_sees" in vector]


def seen_by_a_child(environment: dict[str, str], mark: str, loop: str) -> dict[str, str]:
    seen: dict[str, str] = json.loads(play(loop, script(SHOW, mark, environment), to_the_end).lines()[0])
    return {name: value for name, value in seen.items() if name != "LC_CTYPE"}  # the interpreter sets it for itself


@pytest.mark.skipif(not VECTORS, reason="the shared reference data is not beside the checkout")
@pytest.mark.parametrize("vector", SEEN, ids=lambda vector: str(vector["name"]))
def test_the_environment_vectors(vector: dict[str, Any], mark: str, loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in vector.get("daemon_env", {}).items():
        monkeypatch.setenv(name, value)
    environment = resolved(variables(vector["entry"], "environment"), vector.get("daemon_env", {}))
    seen = seen_by_a_child(environment, mark, loop)
    assert seen == environment
    assert seen == vector.get("child_sees", {})
    assert not seen.keys() & set(vector.get("child_lacks", ()))


def test_a_child_sees_exactly_what_is_listed(mark: str, loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PB-W01, PB-W05: neither the daemon's secrets nor the markers of an outer harness."""
    monkeypatch.setenv("DB_PASSWORD", "hunter2")
    monkeypatch.setenv("CLAUDECODE", "1")
    listed = {"EMPTY": "", "WITH_EQUALS": "a=b", "TEXT": "h\u00e9 \u2028 x"}
    assert seen_by_a_child(listed, mark, loop) == listed


def test_a_childs_secrets_are_not_in_what_is_told_of_it(mark: str, loop: str) -> None:
    """The vector `diagnostic-leak`, and more of it."""
    environment = {"TOKEN": "secret", "ANTHROPIC_API_KEY": "k-12345", "MODE": "literal-mode", "HOME": "/some/home"}
    body = """
for value in os.environ.values():
    os.write(2, f'I was given {value}!\\n'.encode())
os.write(2, b'Authorization: Bearer abcdefghijkl\\nx-api-key: zzz999\\nusing sk-ant-api03-AAAABBBB\\n')
sys.exit(1)
"""
    heard = play(loop, script(body, mark, environment), to_the_end, literals=environment)
    told = str(heard.how)
    for secret in ("secret", "k-12345", "literal-mode", "abcdefghijkl", "zzz999", "AAAABBBB"):
        assert secret not in told
    assert "I was given /some/home!" in told
    assert told.count(MASK) >= 6


# -- the redactor --

HIDDEN = [
    ("Bearer abc.def-123", "abc.def-123"),
    ("BEARER   abc", " abc"),
    ("Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
    ("x-api-key: abc", "abc"),
    ('{"x-api-key": "abc"}', "abc"),
    ("Cookie: a=b; c=d", "c=d"),
    ("Set-Cookie: sid=1", "sid=1"),
    ("proxy-authorization=Digest abc", "abc"),
    ("ANTHROPIC_API_KEY=abc next", "abc"),
    ("openai_api_key: 'abc'", "abc"),
    ("export GITHUB_TOKEN=abc", "abc"),
    ("password = hunter2", "hunter2"),
    ("client_secret: xyz", "xyz"),
    ("sk-proj-abcdef123456", "abcdef"),
    ("ghp_abcdefghij0123456789", "abcdefghij"),
    ("https://user:pass@host/x", "pass"),
]


@pytest.mark.parametrize(("text", "secret"), HIDDEN)
def test_the_shapes_of_secrets_are_hidden(text: str, secret: str) -> None:
    out = Redactor({}).text(f"before {text}\nafter")
    assert secret not in out
    assert out.startswith("before ")
    assert out.endswith("after")


@pytest.mark.parametrize(
    "text",
    [
        "the token count is 12",
        "author: somebody",
        "monkey business",
        "https://host:8080/x@y",
        "error: ENOENT, open '/a/b.json'",
        "risk-averse",
    ],
)
def test_plain_text_is_left_alone(text: str) -> None:
    assert Redactor({"PATH": "/usr/bin"}, {"PATH": "/usr/bin", "LANG": "error"}).text(text) == text


def test_values_are_hidden_in_every_form() -> None:
    redactor = Redactor({"MY_SECRET": 'a"b\nc\u00e9d', "OTHER_TOKEN": "xy", "PLAIN": "visible"}, {"CONFIGURED": "wxyz"})
    out = redactor.text('one a"b\nc\u00e9d two "a\\"b\\nc\u00e9d" three "a\\"b\\nc\\u00e9d" xy foxy wxyz visible')
    assert out == f'one {MASK} two "{MASK}" three "{MASK}" {MASK} foxy {MASK} visible'


def test_a_secret_that_was_cut_is_hidden_too() -> None:
    redactor = Redactor({"KEY": "abcdefgh"})
    assert redactor.text("defgh and then abcde") == f"{MASK} and then {MASK}"


@pytest.mark.parametrize("at", range(40))
def test_the_tail_never_shows_part_of_a_secret(at: int) -> None:
    tail = Tail(64, Redactor({"KEY": "0123456789abcdef"}))
    tail.add(b"x" * at + b" my key is 0123456789abcdef\nBearer tttttttttttttttttt\n" + b"y" * (60 - at))
    text = tail.text()
    assert len(text) <= 64
    for part in ("0123", "cdef", "tttt"):
        assert part not in text


def test_the_tail_is_bounded_whatever_comes() -> None:
    tail = Tail(100, Redactor({"K_TOKEN": "abcd"}))
    for _ in range(100):
        tail.add(b"abcd" * 1000 + b"\n")
    assert len(tail.text()) <= 100
    assert tail.text(10) == tail.text()[-10:]


def test_control_characters_do_not_reach_a_terminal() -> None:
    assert Redactor({}).text("a\x1b[31mred\x1b[0m\x07\r\nb\x9b") == "ared\nb"


def test_no_pattern_is_slow_on_text_that_a_child_chose() -> None:
    redactor = Redactor({"KEY": "abcdefgh"})
    for piece in ("A", "key", "-", "sk-", "://a:", "Bearer ", "x-api-key: ", "token=", " ", "\x1b["):
        redactor.text(piece * (16384 // len(piece)))  # the test's own time limit is the bound
