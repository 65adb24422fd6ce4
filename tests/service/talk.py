"""Talking to a session with a scripted model: every request is held to the rules that hold for all of them."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from offprompt.records import Message, Reply, as_list, canonical
from offprompt.service.session import Session
from offprompt.wire.profiles import SHAPES
from offprompt.wire.shapes import Wire
from tests.service.provider import Provider

WIRES: tuple[Wire, ...] = ("openai", "anthropic", "responses")
MODELS: dict[Wire, str] = {"openai": "gpt-4o-mini", "anthropic": "claude-sonnet-5-5", "responses": "gpt-5-mini"}

_ids = itertools.count(1)


@dataclass(frozen=True)
class Say:
    """What the scripted model answers: text, and calls as (name, arguments) or (name, arguments, id)."""

    text: str = ""
    calls: tuple[tuple[Any, ...], ...] = ()
    usage: dict[str, Any] | None = None
    finish: str = ""


def call(name: str, call_id: str = "", /, **arguments: Any) -> Say:
    """One call and nothing else."""
    return Say(calls=((name, arguments, call_id or f"call_{next(_ids)}"),))


def calls(*several: Say, text: str = "") -> Say:
    """Several in one message."""
    return Say(text, tuple(each for one in several for each in one.calls))


def as_reply(said: str | Say, wire: Wire) -> dict[str, Any]:
    """The reply as the provider sends it."""
    said = Say(said) if isinstance(said, str) else said
    named = [(item[0], item[1], item[2] if len(item) > 2 else f"call_{next(_ids)}") for item in said.calls]
    if wire == "anthropic":
        blocks: list[Any] = [{"type": "text", "text": said.text}] if said.text else []
        blocks += [{"type": "tool_use", "id": i, "name": n, "input": a} for n, a, i in named]
        stop = said.finish or ("tool_use" if named else "end_turn")
        usage = {"usage": said.usage} if said.usage else {}
        return {"id": "m", "type": "message", "role": "assistant", "content": blocks, "stop_reason": stop, **usage}
    if wire == "responses":
        return _response(said, named)
    message: dict[str, Any] = {"role": "assistant", "content": said.text or None}
    if named:
        message["tool_calls"] = [
            {
                "id": i,
                "type": "function",
                "function": {"name": n, "arguments": a if isinstance(a, str) else json.dumps(a)},
            }
            for n, a, i in named
        ]
    choice = {"index": 0, "message": message, "finish_reason": said.finish or ("tool_calls" if named else "stop")}
    return {
        "id": "c",
        "object": "chat.completion",
        "choices": [choice],
        **({"usage": said.usage} if said.usage else {}),
    }


def _response(said: Say, named: list[tuple[str, Any, str]]) -> dict[str, Any]:
    items: list[dict[str, Any]] = []
    if said.text or not named:
        part: dict[str, Any] = {"type": "output_text", "text": said.text, "annotations": []}
        items.append({"type": "message", "id": "msg", "status": "completed", "role": "assistant", "content": [part]})
    for name, given, call_id in named:
        arguments = given if isinstance(given, str) else json.dumps(given)
        head = {"type": "function_call", "id": f"fc_{call_id}", "status": "completed"}
        items.append({**head, "call_id": call_id, "name": name, "arguments": arguments})
    cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}} if said.finish else {}
    usage = {"usage": said.usage} if said.usage else {}
    return {"id": "r", "object": "response", "status": "completed", "output": items, **cut, **usage}


def parts(content: Any, wire: Wire) -> Any:
    """Content in a wire's own words; text parts are given in those of the other two."""
    given = as_list(content)
    if wire != "responses" or given is None:
        return content
    return [{**part, "type": "input_text"} if part.get("type") == "text" else part for part in given]


def result(wire: Wire, *answers: tuple[str, Any]) -> list[Message]:
    """The client's tool results: (call id, content)."""
    if wire == "responses":
        return [{"type": "function_call_output", "call_id": i, "output": parts(text, wire)} for i, text in answers]
    if wire == "anthropic":
        blocks = [{"type": "tool_result", "tool_use_id": i, "content": text} for i, text in answers]
        return [{"role": "user", "content": blocks}]
    return [{"role": "tool", "tool_call_id": i, "content": text} for i, text in answers]


def tool(name: str, wire: Wire) -> dict[str, Any]:
    """A tool of the client's own."""
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    if wire == "anthropic":
        return {"name": name, "description": "A tool.", "input_schema": schema}
    if wire == "responses":
        return {"type": "function", "name": name, "description": "A tool.", "parameters": schema, "strict": False}
    return {"type": "function", "function": {"name": name, "description": "A tool.", "parameters": schema}}


@dataclass
class Talk:
    """One conversation of an application with a session.

    illegal   words of the one refusal that the test is about: other providers of the wire take what this one refuses.
    """

    session: Session
    wire: Wire
    messages: list[Any] = field(default_factory=list[Any])
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    replies: list[Reply] = field(default_factory=list[Reply])
    turn_seen: int = 0
    illegal: str = ""
    provider: Provider = field(init=False)

    def __post_init__(self) -> None:
        self.provider = Provider(self.wire)

    def prepare(self, messages: Sequence[Any] | None = None, *, show: Sequence[str] = ()) -> dict[str, Any]:
        """The request, checked: the provider takes it, it goes on from the one before, nothing given is changed."""
        given = list(self.messages if messages is None else messages)
        before = copy.deepcopy(given)
        request = self.session.prepare(given, show=show)
        assert given == before, "prepare changed the caller's messages"
        repeated = self.provider.take(request, illegal=self.illegal)
        record = self.session.record
        assert record is not None
        assert record.pending is not None
        if self.provider.taken == record.requests:
            assert repeated >= record.pending.prefix, "the ledger's prefix is not what the provider's cache holds"
        if self.requests and not record.pending.cut:
            same_turn, stubbed = record.turn == self.turn_seen, record.pending.stubbed > 0
            check_prefix(self.requests[-1], request, same_turn=same_turn, wire=self.wire, stubbed=stubbed)
        self.turn_seen = record.turn
        self.requests.append(copy.deepcopy(request))
        return request

    def absorb(self, said: str | Say) -> Reply:
        """The reply to what the model says."""
        reply = self.session.absorb(as_reply(said, self.wire))
        self.replies.append(reply)
        return reply

    def turn(self, user: Any, *said: str | Say, show: Sequence[str] = ()) -> Reply:
        """A user's message, and the model's replies until the application is next; the script must last."""
        self.messages.append({"role": "user", "content": parts(user, self.wire)})
        return self.go(*said, show=show)

    def go(self, *said: str | Say, show: Sequence[str] = ()) -> Reply:
        """The model's replies to the messages as they are."""
        self.prepare(show=show)
        reply = self.absorb(said[0])
        for each in said[1:]:
            assert not reply.done, "the script goes on, the turn does not"
            self.prepare([*self.messages, *reply.messages])
            reply = self.absorb(each)
        self.messages += reply.messages
        return reply

    @property
    def sent(self) -> str:
        """The newest request as text, characters as they are."""
        return flat(self.requests[-1])

    @property
    def last(self) -> list[Any]:
        """The newest request's messages."""
        return messages_of(self.requests[-1])


def messages_of(request: dict[str, Any]) -> list[Any]:
    """The messages of a request, or its items."""
    return request["input"] if "input" in request else request["messages"]


def flat(value: Any) -> str:
    """All texts in a request one behind the other, as the model reads them."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "\n".join(flat(item) for item in value.values())  # pyright: ignore[reportUnknownVariableType]
    return "\n".join(flat(item) for item in as_list(value) or [])


def called(name: str, call_id: str, arguments: str, wire: Wire) -> dict[str, Any]:
    """A call as an application of one of OpenAI's wires may write it into its messages."""
    if wire == "responses":
        return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
    function = {"name": name, "arguments": arguments}
    tool_call = {"id": call_id, "type": "function", "function": function}
    return {"role": "assistant", "content": "Edited.", "tool_calls": [tool_call]}


def picture(wire: Wire) -> dict[str, Any]:
    """A picture as a part of content."""
    if wire == "anthropic":
        return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    url = "data:image/png;base64,AAAA"
    if wire == "responses":
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    return {"type": "image_url", "image_url": {"url": url}}


def check_prefix(
    before: dict[str, Any], now: dict[str, Any], *, same_turn: bool, wire: Wire, stubbed: bool = False
) -> None:
    """Rule 1: head byte for byte; messages up to the newest user message, or all of them within a turn.

    stubbed   messages may have become stubs: they name a body, and nothing else changes.
    """
    assert canonical(before.get("tools", [])) == canonical(now.get("tools", [])), "the tools changed"
    assert canonical(before.get("system", [])) == canonical(now.get("system", [])), "the system text changed"
    old, new = messages_of(before), messages_of(now)
    end = len(old) if same_turn else newest_user(old, wire)
    for at in range(end):
        assert at < len(new), f"message {at} is gone"
        if stubbed and "[[mem:@" in flat(new[at]) and len(flat(new[at])) < len(flat(old[at])):
            continue
        assert canonical(old[at]) == canonical(new[at]), f"message {at} of {end} changed"


def newest_user(messages: Sequence[Message], wire: Wire) -> int:
    """Where the newest user message begins, its frame of shown values among it; our answers in text are not one."""
    shape = SHAPES[wire]
    at = len(messages) - 1
    while at >= 0 and (shape.kind(messages[at]) != "user" or shape.text(messages[at]).startswith("[memory]")):
        at -= 1
    while at > 0 and shape.kind(messages[at - 1]) == "user" and "<memory " in shape.text(messages[at - 1]):
        at -= 1
    return max(at, 0)
