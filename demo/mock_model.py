"""A scripted model server on loopback: the streaming Anthropic Messages API, as far as a coding harness needs it.

    python demo/mock_model.py [--port 0] [--log FILE]

Prints one JSON line, `{"port": N, "url": "http://127.0.0.1:N"}`, and serves until it is ended. Standard library only.
`MockModel` is the same server inside a test's process.

The last user message is the script: each of its lines that begins with `#word` is an instruction, the rest of that line
its argument. Without any, the reply repeats the message.

    #say TEXT            that text, a delta a word
    #think TEXT          a reasoning block before the text
    #deltas N [BYTES]    N deltas, each of BYTES bytes (default 8)
    #slow N MS           N deltas, MS milliseconds apart
    #bash COMMAND        a call of Bash; several lines make several calls in one reply
    #write NAME          a call of Write; its path is NAME
    #call NAME JSON      a call of any tool with that input
    #error STATUS [N]    HTTP STATUS, the first N times this message is asked (default always)
    #broken [N]          some text, then an error event in the stream; after N times it works
    #cut [N]             some text, then the connection is cut; after N times it works
    #stall               the reply begins and never goes on

Once the results of the calls are there, the reply is `the tool said: RESULT`. Token counts are fixed, so that a wrong
mapping shows: per request 100 fresh input, 20 written to the cache, 50 read from it, and one output token a delta or
call.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import re
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

INPUT_TOKENS, CACHE_WRITE_TOKENS, CACHE_READ_TOKENS = 100, 20, 50
ALWAYS = 1 << 30
MOST_BODY_BYTES = 64 << 20
STALL_S = 600.0
INSTRUCTION = re.compile(r"^#(\w+)[ \t]*(.*)$", re.MULTILINE)
REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)


class Reply:
    """What one model request gets: reasoning, text in pieces, calls, and how it ends."""

    def __init__(self) -> None:
        self.thinking = ""
        self.pieces: list[str] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.gap_s = 0.0
        self.status = 200
        self.ending = "whole"  # or: broken, cut, stall

    @property
    def output_tokens(self) -> int:
        """One token a piece of text, a call and a word of reasoning."""
        return len(self.pieces) + len(self.calls) + len(words(self.thinking))

    @property
    def stop_reason(self) -> str:
        """Why the model stopped."""
        return "tool_use" if self.calls else "end_turn"


def words(text: str) -> list[str]:
    """Split a text into pieces that, put together, are the text again."""
    return re.findall(r"\S+\s*|^\s+", text)


def numbers(argument: str, *defaults: int) -> list[int]:
    """Return the whole numbers of an argument, filled up with defaults."""
    given = [int(word) for word in re.findall(r"\d+", argument)]
    return [*given, *defaults[len(given) :]]


class Script:
    """Turns requests into replies; remembers how often each message was asked."""

    def __init__(self) -> None:
        self._asked: dict[str, int] = {}
        self._lock = threading.Lock()

    def reply(self, body: dict[str, Any]) -> Reply:
        """Return the reply to a Messages request."""
        asked, results = conversation(body.get("messages", []))
        reply = Reply()
        orders = INSTRUCTION.findall(asked)
        known = [(name, argument) for name, argument in orders if hasattr(self, f"_{name}")]
        if not known:
            reply.pieces = words(f"you said: {asked}")
        for name, argument in known:
            getattr(self, f"_{name}")(reply, argument.strip(), asked)
        if reply.calls and results:
            reply.calls = []
            reply.pieces = words(f"the tool said: {' '.join(results[-1].split())[:200]}")
        if reply.calls and not {name for name, _ in reply.calls} <= {tool["name"] for tool in body.get("tools", [])}:
            reply.calls, reply.pieces = [], words("no such tool is offered")
        return reply

    def _say(self, reply: Reply, argument: str, asked: str) -> None:
        reply.pieces = words(argument)

    def _think(self, reply: Reply, argument: str, asked: str) -> None:
        reply.thinking = argument or "thinking it over"
        reply.pieces = reply.pieces or words("that is my answer")

    def _deltas(self, reply: Reply, argument: str, asked: str) -> None:
        count, size = numbers(argument, 100, 8)[:2]
        reply.pieces = [f"{index} ".ljust(size, ".") for index in range(count)]

    def _slow(self, reply: Reply, argument: str, asked: str) -> None:
        count, gap = numbers(argument, 100, 100)[:2]
        reply.pieces = [f"slow{index} " for index in range(count)]
        reply.gap_s = gap / 1000

    def _bash(self, reply: Reply, argument: str, asked: str) -> None:
        reply.calls.append(("Bash", {"command": argument, "description": "run by the mock model"}))

    def _write(self, reply: Reply, argument: str, asked: str) -> None:
        reply.calls.append(("Write", {"file_path": argument, "content": "written by the mock model\n"}))

    def _call(self, reply: Reply, argument: str, asked: str) -> None:
        name, _, value = argument.partition(" ")
        reply.calls.append((name, json.loads(value or "{}")))

    def _error(self, reply: Reply, argument: str, asked: str) -> None:
        status, times = numbers(argument, 500, ALWAYS)[:2]
        if self._first(asked, times):
            reply.status = status
        else:
            reply.pieces = words("it works now")

    def _broken(self, reply: Reply, argument: str, asked: str) -> None:
        self._ends(reply, "broken", argument, asked)

    def _cut(self, reply: Reply, argument: str, asked: str) -> None:
        self._ends(reply, "cut", argument, asked)

    def _stall(self, reply: Reply, argument: str, asked: str) -> None:
        reply.pieces, reply.ending = words("and then "), "stall"

    def _ends(self, reply: Reply, how: str, argument: str, asked: str) -> None:
        if self._first(asked, numbers(argument, ALWAYS)[0]):
            reply.pieces, reply.ending = words("half of a "), how
        else:
            reply.pieces = words("it works now")

    def _first(self, asked: str, times: int) -> bool:
        with self._lock:
            self._asked[asked] = self._asked.get(asked, 0) + 1
            return self._asked[asked] <= times


def conversation(messages: list[dict[str, Any]]) -> tuple[str, list[str]]:
    """Return the last text that a user sent, reminders of the harness left out, and the tool results after it."""
    asked, results = "", []
    for message in messages:
        if message.get("role") != "user":
            continue
        content = message.get("content")
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        for block in blocks:
            text = REMINDER.sub("", flat(block)).strip()
            if block.get("type") == "tool_result":
                results.append(text)
            elif block.get("type") == "text" and text and not text.startswith("<"):
                asked, results = text, []
    return asked, results


def flat(value: Any) -> str:
    """Return the text of a content value, whatever its shape."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(flat(item) for item in value)
    if isinstance(value, dict):
        return flat(value.get("text") or value.get("content") or "")
    return ""


class Writer:
    """Makes the wire forms of a reply: a whole JSON message, or its stream events one by one."""

    def __init__(self) -> None:
        self._count = itertools.count(1)
        self._mark = os.urandom(3).hex()  # a harness that resumes a session drops ids it has seen before

    def _id(self, kind: str) -> str:
        return f"{kind}_{self._mark}{next(self._count):04d}"

    def message(self, reply: Reply, model: str, content: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the message object with the given content."""
        return {
            "id": self._id("msg"),
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": content,
            "stop_reason": reply.stop_reason if content else None,
            "stop_sequence": None,
            "usage": usage(reply.output_tokens if content else 1),
        }

    def blocks(self, reply: Reply) -> list[dict[str, Any]]:
        """Return the finished content blocks of a reply."""
        found: list[dict[str, Any]] = []
        if reply.thinking:
            found.append({"type": "thinking", "thinking": reply.thinking, "signature": "c2lnbmVk"})
        if reply.pieces:
            found.append({"type": "text", "text": "".join(reply.pieces)})
        for name, value in reply.calls:
            found.append({"type": "tool_use", "id": self._id("toolu"), "name": name, "input": value})
        return found

    def events(self, reply: Reply, model: str) -> Any:
        """Yield the stream events of a reply, pausing where it says so, up to where it breaks off."""
        yield {"type": "message_start", "message": self.message(reply, model, [])}
        for index, block in enumerate(self.blocks(reply)):
            yield from self._block(reply, index, block)
        yield {
            "type": "message_delta",
            "delta": {"stop_reason": reply.stop_reason, "stop_sequence": None},
            "usage": usage(reply.output_tokens),
        }
        yield {"type": "message_stop"}

    def _block(self, reply: Reply, index: int, block: dict[str, Any]) -> Any:
        kind = block["type"]
        if kind == "tool_use":
            text = json.dumps(block["input"])
            parts = [text[: len(text) // 2], text[len(text) // 2 :]]
            start, deltas = (
                {**block, "input": {}},
                [{"type": "input_json_delta", "partial_json": part} for part in parts],
            )
        elif kind == "thinking":
            start = {"type": kind, "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": part} for part in words(block["thinking"])]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        else:
            start = {"type": kind, "text": ""}
            deltas = [{"type": "text_delta", "text": part} for part in reply.pieces]
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
            if kind == "text" and reply.gap_s:
                time.sleep(reply.gap_s)
        if kind == "text" and reply.ending != "whole":
            raise EndingError(reply.ending)
        yield {"type": "content_block_stop", "index": index}


class EndingError(Exception):
    """The stream ends here on purpose, in the way the text names."""


def usage(output: int) -> dict[str, int]:
    """Return the usage object of a message."""
    return {
        "input_tokens": INPUT_TOKENS,
        "cache_creation_input_tokens": CACHE_WRITE_TOKENS,
        "cache_read_input_tokens": CACHE_READ_TOKENS,
        "output_tokens": output,
    }


def failure(status: int) -> dict[str, Any]:
    """Return the error body of a status."""
    kinds = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": f"the mock model was told to fail with {status}"}}


class Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_HEAD(self) -> None:
        """Answer the harness's look whether anybody is there."""
        self._json(200, None)

    def do_GET(self) -> None:
        """Nothing is to be read here."""
        self._json(404, failure(404))

    def do_POST(self) -> None:
        """Answer a Messages request as its script says."""
        length = int(self.headers.get("content-length") or 0)
        if length > MOST_BODY_BYTES:
            self.close_connection = True
            return self._json(413, failure(413))
        body = json.loads(self.rfile.read(length) or b"{}")
        path = self.path.partition("?")[0]
        if path.endswith("/messages/count_tokens"):
            return self._json(200, {"input_tokens": INPUT_TOKENS})
        if not path.endswith("/messages"):
            return self._json(404, failure(404))
        self.server.note(body)
        reply = self.server.script.reply(body)
        if reply.status != 200:
            return self._json(reply.status, failure(reply.status))
        if body.get("stream"):
            return self._stream(reply, body.get("model", "mock"))
        if reply.ending == "cut":
            return self._cut()
        if reply.ending != "whole":
            return self._json(500, failure(500))
        writer = self.server.writer
        return self._json(200, writer.message(reply, body.get("model", "mock"), writer.blocks(reply)))

    def _stream(self, reply: Reply, model: str) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        try:
            for event in self.server.writer.events(reply, model):
                self._chunk(event)
        except EndingError as ending:
            return self._end_early(str(ending))
        except OSError:
            self.close_connection = True  # the client went away, as it does when a turn is interrupted
            return None
        self.wfile.write(b"0\r\n\r\n")
        return None

    def _end_early(self, how: str) -> None:
        if how == "broken":
            self._chunk(failure(500))
            self.wfile.write(b"0\r\n\r\n")
        elif how == "cut":
            self._cut()
        else:
            self.connection.settimeout(STALL_S)
            with contextlib.suppress(OSError):
                self.connection.recv(1)
            self.close_connection = True

    def _cut(self) -> None:
        """End the connection with a reset, as a lost network does."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.connection.close()

    def _chunk(self, event: dict[str, Any]) -> None:
        data = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _json(self, status: int, value: Any) -> None:
        data = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        if status == 429:
            self.send_header("retry-after", "0")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *values: Any) -> None:
        """Say nothing: stdout is the port's, stderr the operator's."""


class Server(ThreadingHTTPServer):
    """The listening socket and what its connections share."""

    daemon_threads = True

    def __init__(self, port: int = 0, log: str | None = None) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.script = Script()
        self.writer = Writer()
        self.requests: list[dict[str, Any]] = []
        self._log = log

    def note(self, body: dict[str, Any]) -> None:
        """Keep what a test may ask about a request; never a header, so never a key."""
        asked, results = conversation(body.get("messages", []))
        about = {
            "model": body.get("model"),
            "stream": bool(body.get("stream")),
            "asked": asked,
            "results": results,
            "tools": [tool["name"] for tool in body.get("tools", []) if "name" in tool],
            "messages": len(body.get("messages", [])),
        }
        self.requests.append(about)
        if self._log is not None:
            with open(self._log, "a", encoding="utf-8") as file:
                file.write(json.dumps(about) + "\n")

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no error; anything else is shown."""
        if not isinstance(sys.exception() if sys.version_info >= (3, 12) else sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class MockModel:
    """The server in a thread of this process; a context manager. `url` and `requests` are there once it is entered."""

    def __enter__(self) -> MockModel:
        self._server = Server()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.requests = self._server.requests
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def main() -> int:
    """Serve until ended; see the module's text."""
    parser = argparse.ArgumentParser(description="a scripted model server on loopback")
    parser.add_argument("--port", type=int, default=0, help="0 (the default) takes a free one")
    parser.add_argument("--log", metavar="FILE", help="append what was asked, one JSON line a request")
    options = parser.parse_args()
    with Server(options.port, options.log) as server:
        port = server.server_address[1]
        print(json.dumps({"port": port, "url": f"http://127.0.0.1:{port}"}), flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
