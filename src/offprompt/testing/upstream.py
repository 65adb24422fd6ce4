"""Upstream: a small stand-in for a provider on loopback, for the providers' real clients. A script, not a model."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Literal

from offprompt.records import as_dict, as_list
from offprompt.wire.transcript import check_transcript

Wire = Literal["openai", "anthropic"]
PATHS: Final[dict[str, Wire]] = {"/v1/chat/completions": "openai", "/v1/messages": "anthropic"}
KNOWN: Final[dict[Wire, frozenset[str]]] = {
    "openai": frozenset(
        {"model", "messages", "tools", "tool_choice", "temperature", "max_completion_tokens", "seed", "top_p", "stop"}
    ),
    "anthropic": frozenset(
        {"model", "messages", "max_tokens", "system", "tools", "tool_choice", "temperature", "top_p", "thinking"}
    ),
}
NEEDED: Final[dict[Wire, tuple[str, ...]]] = {
    "openai": ("model", "messages"),
    "anthropic": ("model", "messages", "max_tokens"),
}


class Upstream:
    """Serves scripted replies, one after the other, and refuses what a provider would refuse.

    replies   JSON bodies in the wire's shape, e.g. those that `ScriptedModel.create` makes; when they are used up
              the answer is 500. requests: the bodies that came, in order. faults: why requests were refused (400).
    url       `http://127.0.0.1:PORT`; the OpenAI client wants `/v1` behind it. Use it in a `with` block.
    """

    def __init__(self, replies: Iterable[Mapping[str, Any]] = ()) -> None:
        self.replies = [dict(reply) for reply in replies]
        self.requests: list[dict[str, Any]] = []
        self.faults: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Upstream:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, path: str, body: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        """Status and JSON for one request."""
        wire = PATHS.get(path)
        if wire is None:
            return 404, {"error": {"message": f"no such path: {path}", "type": "not_found_error"}}
        self.requests.append(dict(body))
        faults = request_faults(body, wire)
        if faults:
            self.faults += faults
            return 400, {"type": "error", "error": {"message": "; ".join(faults), "type": "invalid_request_error"}}
        if not self.replies:
            return 500, {"type": "error", "error": {"message": "the script is at its end", "type": "api_error"}}
        reply = self.replies.pop(0)
        defaults: dict[str, Any] = {"id": f"reply_{len(self.requests)}", "model": body["model"]}
        if wire == "openai":
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            defaults |= {"object": "chat.completion", "created": 0, "usage": usage}
        else:
            defaults |= {"type": "message", "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
        return 200, defaults | reply

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                status, reply = upstream.answer(self.path.partition("?")[0], json.loads(self.rfile.read(length)))
                data = json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
                """Nothing is printed."""

        return Handler


def request_faults(body: Mapping[str, Any], wire: Wire) -> list[str]:
    """What a strict provider would refuse: unknown or missing parameters, tools without form, an unsound transcript."""
    faults = [f"unknown parameter {name!r}" for name in sorted(body.keys() - KNOWN[wire])]
    faults += [f"missing parameter {name!r}" for name in NEEDED[wire] if name not in body]
    names: list[str] = []
    for item in as_list(body.get("tools")) or []:
        tool = as_dict(item) or {}
        own = tool if wire == "anthropic" else as_dict(tool.get("function")) or {}
        schema = as_dict(own.get("input_schema" if wire == "anthropic" else "parameters")) or {}
        if not own.get("name") or schema.get("type") != "object":
            faults.append(f"a tool without name or schema: {own.get('name')!r}")
        names.append(str(own.get("name")))
    faults += [f"two tools are named {name!r}" for name in sorted(set(names)) if names.count(name) > 1]
    return faults + check_transcript([as_dict(each) or {} for each in as_list(body.get("messages")) or []], wire=wire)
