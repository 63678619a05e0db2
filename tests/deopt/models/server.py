"""Small loopback servers that speak as much of the model APIs as the real clients need."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# What a server does with one request: a status and a body, or a special end.
Action = Callable[["Handler", dict[str, Any]], None]


@dataclass
class Script:
    """The actions of successive requests (the last one repeats), and everything that was asked."""

    actions: list[Action]
    asked: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    state: dict[str, Any] = field(default_factory=dict)

    def next(self, path: str, body: dict[str, Any]) -> Action:
        with self.lock:
            self.asked.append(body)
            self.paths.append(path)
            return self.actions.pop(0) if len(self.actions) > 1 else self.actions[0]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: Script

    def do_POST(self) -> None:
        size = int(self.headers.get("content-length", 0))
        self._serve(json.loads(self.rfile.read(size) or b"{}"))

    def do_GET(self) -> None:
        self._serve({})

    def _serve(self, body: dict[str, Any]) -> None:
        action = self.script.next(self.path, body)
        if self.path == "/v1/messages" and (faults := refused(body)):
            action = status(400, "invalid_request_error", faults[0])
        try:
            action(self, body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def log_message(self, *args: object) -> None:
        pass

    def send(self, status: int, data: bytes, kind: str = "application/json", **headers: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True

    def reset(self) -> None:
        """End the connection with a TCP reset."""
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True


@contextmanager
def serving(*actions: Action) -> Iterator[tuple[str, Script]]:
    """A server on loopback: its URL, and its script."""
    script = Script(list(actions))
    handler = type("Scripted", (Handler,), {"script": script})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", script
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


# What a schema may have where the server writes JSON by it, and how much of it a request may have in all its
# schemas together: https://platform.claude.com/docs/en/build-with-claude/structured-outputs (2026).
KEYWORDS = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "minItems", "enum", "const", "anyOf"}
    | {"allOf", "$ref", "$defs", "definitions", "default", "title", "description", "format", "pattern"}
)
MOST = {"strict tools": 20, "optional parameters": 24, "parameters with a union": 16}


def refused(body: dict[str, Any]) -> list[str]:
    """What the Messages API says against a request's tools and thinking; empty: it takes them."""
    counted: Counter[str] = Counter()
    faults: list[str] = []
    for tool in body.get("tools", []):
        if tool.get("strict"):
            counted["strict tools"] += 1
            schema = tool["input_schema"]
            faults += [f"tools.{tool['name']}: {fault}" for fault in _faults(schema, schema, (), counted)]
    faults += [f"Schemas contain too many {what} ({n})" for what, n in counted.items() if n > MOST[what]]
    thinks = body.get("thinking", {}).get("type") in ("adaptive", "enabled")
    if thinks and body.get("tool_choice", {}).get("type") in ("any", "tool"):
        faults.append("Thinking may not be enabled when tool_choice forces tool use.")
    return faults


def _faults(
    schema: dict[str, Any], root: dict[str, Any], inside: tuple[str, ...], counted: Counter[str]
) -> Iterator[str]:
    """The faults of a schema, and its counts, with every reference written out."""
    kind = schema.get("type")
    for name in sorted(schema.keys() - KEYWORDS):
        yield f"For '{kind}' type, property '{name}' is not supported"
    if schema.get("minItems", 0) not in (0, 1):
        yield f"For '{kind}' type, 'minItems' values other than 0 or 1 are not supported"
    if any(not isinstance(value, str | int | float | None) for value in schema.get("enum", ())):
        yield "enum holds values that are not primitive"
    if kind == "object":
        if schema.get("additionalProperties") is not False:
            yield "For 'object' type, 'additionalProperties' must be explicitly set to false"
        counted["optional parameters"] += len(schema["properties"].keys() - set(schema.get("required", ())))
    counted["parameters with a union"] += "anyOf" in schema or isinstance(kind, list)
    parts = [*schema.get("properties", {}).values(), *schema.get("anyOf", ()), *schema.get("allOf", ())]
    parts += [schema["items"]] if "items" in schema else []
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        if name not in root.get("$defs", {}):
            yield f"$ref '{schema['$ref']}' is not defined here"
        elif name in inside:
            yield f"Recursive schemas are not supported: {name}"
        else:
            parts, inside = [root["$defs"][name]], (*inside, name)
    for part in parts:
        yield from _faults(part, root, inside, counted)


def closed_port() -> str:
    """A URL where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def status(code: int, error_type: str = "api_error", text: str = "", **headers: str) -> Action:
    """An error as both APIs write it."""
    error = {"type": error_type, "message": text or f"said the server: {error_type}"}
    data = json.dumps({"type": "error", "error": error}).encode()
    return lambda handler, body: handler.send(code, data, **headers)


def plain(text: bytes, kind: str = "application/json") -> Action:
    """Any body, with status 200."""
    return lambda handler, body: handler.send(200, text, kind)


def sleep(event: threading.Event) -> Action:
    """No answer until `event` is set."""

    def act(handler: Handler, body: dict[str, Any]) -> None:
        event.wait(20)
        handler.close_connection = True

    return act


def sse(*events: dict[str, Any]) -> bytes:
    return b"".join(
        (f"event: {event['type']}\n" if "type" in event else "").encode()
        + f"data: {json.dumps(event)}\n\n".encode()
        for event in events
    )


def said(body: dict[str, Any]) -> str:
    """What a request says last: the task of a first turn, what was found in a later one."""
    last = body["messages"][-1]["content"][-1]
    return str(last["content"] if last["type"] == "tool_result" else last["text"])


def message_events(
    *,
    tool: dict[str, Any] | None = None,
    text: str = "",
    stop: str = "tool_use",
    usage: dict[str, int] | None = None,
    name: str = "submit_kernel",
    call: str = "t1",
    thinking: str = "",
) -> list[dict[str, Any]]:
    """A message of the Messages API as stream events."""
    counted = {"input_tokens": 100, "output_tokens": 1, **(usage or {})}
    start = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": counted,
    }  # fmt: skip
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if thinking:
        start_of = {"type": "thinking", "thinking": "", "signature": ""}
        signed = {"type": "signature_delta", "signature": f"signed {thinking}"}
        blocks.append((start_of, [{"type": "thinking_delta", "thinking": thinking}, signed]))
    if text:
        blocks.append(({"type": "text", "text": ""}, [{"type": "text_delta", "text": text}]))
    if tool is not None:
        raw = json.dumps(tool)
        parts = [{"type": "input_json_delta", "partial_json": part} for part in (raw[:7], raw[7:])]
        blocks.append(({"type": "tool_use", "id": call, "name": name, "input": {}}, parts))
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": stop, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 50}})
    return [*events, {"type": "message_stop"}]


def message(**parts: Any) -> Action:
    """A whole streamed message."""
    return plain(sse(*message_events(**parts)), "text/event-stream")


def cut_message(count: int, *, reset: bool, **parts: Any) -> Action:
    """The first events of a message, then the end of the connection."""

    def act(handler: Handler, body: dict[str, Any]) -> None:
        handler.begin_stream()
        handler.wfile.write(sse(*message_events(**parts)[:count]))
        handler.wfile.flush()
        if reset:
            handler.reset()

    return act


def completion(text: str, finish: str = "stop", *, usage: bool = True, refusal: str | None = None) -> Action:
    """A whole streamed chat completion."""

    def chunk(choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        return {
            "id": "c1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": choices,
            **more,
        }

    half = len(text) // 2
    deltas = [{"role": "assistant", "content": text[:half]}, {"content": text[half:], "refusal": refusal}]
    chunks = [chunk([{"index": 0, "delta": delta, "finish_reason": None}]) for delta in deltas]
    chunks.append(chunk([{"index": 0, "delta": {}, "finish_reason": finish}]))
    if usage:
        counted = {"prompt_tokens": 120, "completion_tokens": 60, "total_tokens": 180}
        chunks.append(chunk([], usage=counted | {"prompt_tokens_details": {"cached_tokens": 20}}))
    return plain(sse(*chunks) + b"data: [DONE]\n\n", "text/event-stream")


def cut_completion(text: str, *, reset: bool) -> Action:
    """The beginning of a completion, then the end of the connection."""

    def act(handler: Handler, body: dict[str, Any]) -> None:
        handler.begin_stream()
        delta = {"index": 0, "delta": {"content": text}, "finish_reason": None}
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [delta]}
        handler.wfile.write(sse(chunk))
        handler.wfile.flush()
        if reset:
            handler.reset()

    return act
