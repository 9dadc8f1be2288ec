"""What a submission says, in the form the harness takes: one `user` frame."""

from __future__ import annotations

from ...protocol.errors import Refusal
from ...protocol.names import INVALID_SUBMISSION
from .frames import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Final


def user_frame(payload: Mapping[str, Any]) -> bytes:
    """Return the line that hands the messages of a submission over.

    Raises `Refusal("invalid_submission")` for what the harness cannot be told: a role other than `user`, a part other
    than text and image, nothing at all. A text that begins with a slash is a command of the harness, as typed there.
    """
    message = {"role": "user", "content": _content(payload["messages"])}
    return encode({"type": "user", "message": message, "parent_tool_use_id": None, "session_id": ""})


def _content(messages: list[Mapping[str, Any]]) -> str | list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for index, message in enumerate(messages):
        if message["role"] != "user":
            raise _refused(f"/messages/{index}", f"Claude Code takes user messages only, not role {message['role']}")
        content = message["content"]
        if isinstance(content, str):
            if len(messages) == 1 and content:
                return content
            content = [{"type": "text", "text": content}]
        blocks += [_block(part, f"/messages/{index}/content/{at}") for at, part in enumerate(content)]
    blocks = [block for block in blocks if block.get("text") != ""]
    if not blocks:
        raise _refused("/messages", "there is nothing in these messages to ask")
    return blocks


def _block(part: Mapping[str, Any], where: str) -> dict[str, Any]:
    make = _BLOCKS.get(part["type"])
    if make is None:
        raise _refused(where, f"Claude Code takes no {part['type']} part in a prompt; send text or image")
    return make(part)


def _text(part: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "text", "text": part["text"]}


def _image(part: Mapping[str, Any]) -> dict[str, Any]:
    image = part["image"]
    if "url" in image:
        return {"type": "image", "source": {"type": "url", "url": image["url"]}}
    return {"type": "image", "source": {"type": "base64", "media_type": image["media_type"], "data": image["data"]}}


def _refused(where: str, message: str) -> Refusal:
    return Refusal(INVALID_SUBMISSION, message, {"field": where})


_BLOCKS: Final[Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {"text": _text, "image": _image}
