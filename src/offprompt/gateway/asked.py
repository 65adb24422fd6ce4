"""What a client asks: its request taken apart for the session, and put together again for the upstream."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from offprompt.errors import UsageError
from offprompt.gateway.events import read_json
from offprompt.records import Message, as_dict, as_list, compact
from offprompt.wire.profiles import SHAPES, profile_for
from offprompt.wire.shapes import Shape, Wire, check_tools

COUNTED: Final = ("/messages/count_tokens", "/responses/input_tokens")
"""Where the tokens of a request are counted."""

PATHS: Final[Mapping[str, Wire]] = {
    "/chat/completions": "openai",
    "/responses": "responses",
    "/messages": "anthropic",
    COUNTED[0]: "anthropic",
    COUNTED[1]: "responses",
}
"""The ends of the paths in which a model is asked; whatever stands before them is the upstream's own."""

MESSAGES: Final[Mapping[Wire, str]] = {"openai": "messages", "anthropic": "messages", "responses": "input"}
STATEFUL: Final[Mapping[Wire, tuple[str, ...]]] = {
    "openai": ("functions",),
    "anthropic": ("thread",),
    "responses": ("previous_response_id", "conversation", "prompt", "background"),
}
THINKING: Final = ("thinking", "reasoning", "reasoning_effort")
"""What asks a model to think, on any wire."""

THREADED: Final = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
"""How Anthropic says that it holds no conversation for a request; its client then sends all of it each time."""


class NotOursError(Exception):
    """A request that goes through as it is; the message says why."""


class ThreadedError(UsageError):
    """A request that asks the provider to hold its conversation, of which the memory would see no more then."""

    def __init__(self) -> None:
        super().__init__(
            "thread asks the provider to hold the conversation, and the memory needs all of it each time; leave it out "
            "(tool_runner(thread=False))"
        )


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that a session can prepare.

    body      as it came; is_count: its tokens are to be counted. messages: the conversation, in the wire's shape.
    system    of Anthropic's, as text.
    """

    wire: Wire
    body: Mapping[str, Any]
    messages: list[Message]
    system: str
    tools: list[dict[str, Any]]
    is_count: bool = False

    @property
    def model(self) -> str:
        """The model's name."""
        return str(self.body.get("model") or "")

    @property
    def streams(self) -> bool:
        """Whether the reply is to come in pieces."""
        return self.body.get("stream") is True

    @property
    def is_bound(self) -> bool:
        """Whether the model is to think, and what it thinks stays valid only behind the head that it was made with."""
        asks = [self.body.get(key) for key in THINKING]
        thinks = any(each and (as_dict(each) or {}).get("type") != "disabled" for each in asks)
        return thinks and profile_for(self.model).binds_thinking

    @property
    def wants_json(self) -> bool:
        """Whether the reply is to be JSON as a whole."""
        text, config = as_dict(self.body.get("text")) or {}, as_dict(self.body.get("output_config")) or {}
        asked = {
            "openai": self.body.get("response_format"),
            "responses": text.get("format"),
            "anthropic": self.body.get("output_format") or config.get("format"),
        }
        return str((as_dict(asked[self.wire]) or {}).get("type")).startswith("json")

    @property
    def shape(self) -> Shape:
        """The wire's shape."""
        return SHAPES[self.wire]

    def first_words(self) -> str:
        """Wire, system text and first user message: what a conversation is known by that says no id."""
        own = self.shape.gather(self.messages)
        system = [self.shape.text(each) for each in own if self.shape.kind(each) == "system"]
        said = "\n".join([self.system, *system, str(self.body.get("instructions") or "")])
        return compact(
            [self.wire, hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest(), self.first_said()]
        )

    def first_said(self) -> str:
        """The text of the first user message."""
        own = self.shape.gather(self.messages)
        return next((self.shape.text(each) for each in own if self.shape.kind(each) == "user"), "")

    def outgoing(self, request: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """The body for the upstream, and the betas that it needs: what the session prepared, the rest as it came."""
        prepared = dict(request)
        betas = [str(beta) for beta in prepared.pop("betas", ())]
        if self.is_count or "max_tokens" in self.body:
            prepared.pop("max_tokens", None)
        if self.wire == "anthropic" and "system" in prepared:
            prepared["system"] = self._system(prepared["system"])
        if self.model:
            prepared.pop("model", None)
        return {**self.body, **prepared}, betas

    def _system(self, prepared: list[dict[str, Any]]) -> Any:
        """The client's own system text as it came, ours behind it."""
        own = self.body.get("system")
        ours = prepared[1:] if self.system else prepared
        if not ours:
            return own
        blocks = [{"type": "text", "text": own}] if isinstance(own, str) and own else as_list(own) or []
        return [*blocks, *ours]


def wire_of(path: str) -> Wire | None:
    """The wire of a path in which a model is asked, None for any other."""
    return next((wire for end, wire in PATHS.items() if path.endswith(end)), None)


def taken(wire: Wire, raw: bytes, path: str = "") -> Asked:
    """The request of these bytes, and of the path that they came to.

    Raises   NotOursError for one in which no conversation stands, or that leans on what the provider keeps;
             ThreadedError for one that asks it to keep that.
    """
    try:
        body = read_json(raw)
    except ValueError as exc:
        raise NotOursError("the body is not JSON, or nested too deep") from exc
    if body is None:
        raise NotOursError("the body is no JSON object")
    given = body.get(MESSAGES[wire])
    if wire == "responses" and isinstance(given, str):
        given = [{"role": "user", "content": given}]
    messages = [as_dict(each) or {} for each in as_list(given) or []]
    if not messages or not all(messages):
        raise NotOursError(f"{MESSAGES[wire]} holds no list of messages")
    if wire == "anthropic" and (as_dict(body.get("thread")) or {}).get("type") == "create":
        raise ThreadedError
    for key in STATEFUL[wire]:
        if body.get(key):
            raise NotOursError(f"{key} is set, and what it stands for is not in the request")
    if isinstance(body.get("n"), int) and body["n"] > 1:
        raise NotOursError("n asks for several replies")
    tools = _tools(body, wire)
    system = _text(body.get("system")) if wire == "anthropic" else ""
    return Asked(wire, body, messages, system, tools, is_count=path.endswith(COUNTED))


def _tools(body: Mapping[str, Any], wire: Wire) -> list[dict[str, Any]]:
    """The client's tools.

    Raises   NotOursError for one that no session has beside its own, or whose calls none reads.
    """
    given = as_list(body.get("tools")) or []
    try:
        check_tools(given, wire)
    except UsageError as exc:
        raise NotOursError(str(exc)) from exc
    return [as_dict(each) or {} for each in given]


def tool_names(body: Mapping[str, Any]) -> list[str]:
    """The names of the tools in a request."""
    tools = [as_dict(each) or {} for each in as_list(body.get("tools")) or []]
    return [str((as_dict(each.get("function")) or each).get("name")) for each in tools]


def model_in(raw: bytes) -> str:
    """The model that a body names, empty if none."""
    try:
        body = read_json(raw)
    except ValueError:
        return ""
    return str((body or {}).get("model") or "")


def _text(system: Any) -> str:
    if isinstance(system, str):
        return system
    blocks = [as_dict(each) or {} for each in as_list(system) or []]
    return "\n\n".join(str(block.get("text") or "") for block in blocks)
