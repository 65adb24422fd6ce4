"""A conversation played from given replies, on either wire; what audit and trace are tried on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import offprompt
from offprompt.records import SessionRecord, compact
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt
from offprompt.service.session import Session
from offprompt.service.stored_session import StoredSession, read_session
from offprompt.testing import MovedClock
from tests.service.provider import Provider

Wire = Literal["openai", "anthropic"]


@dataclass(frozen=True)
class Say:
    """A reply in words."""

    text: str
    usage: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Use:
    """A reply that calls a tool."""

    name: str
    arguments: Mapping[str, Any]
    text: str = ""


@dataclass
class Played:
    """One session; the clock goes on by a second at each step."""

    memory: Offprompt
    clock: MovedClock
    wire: Wire = "openai"
    user: str = "alice"
    name: str = "s1"
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    calls: int = 0
    provider: Provider = field(init=False)

    def __post_init__(self) -> None:
        self.provider = Provider(self.wire)

    @property
    def scope(self) -> BoundScope:
        return self.memory.scope(user=self.user)

    @property
    def session(self) -> Session:
        options: dict[str, Any] = {"model": "gpt-4o-mini" if self.wire == "openai" else "claude-sonnet-5-5"}
        options.update(self.options, wire=self.wire)
        return self.scope.session(self.name, **options)

    def ask(self, words: str, *replies: Say | Use, show: tuple[str, ...] = ()) -> None:
        """A turn: the user's words and the replies, each after a request of its own; client tools answer `done`."""
        self.messages.append({"role": "user", "content": words})
        self.proceed(*replies, show=show)

    def proceed(self, *replies: Say | Use, show: tuple[str, ...] = ()) -> None:
        """The replies to the messages as they are."""
        own: list[dict[str, Any]] = []
        for reply in replies:
            self.clock.move(1)
            self.provider.take(self.session.prepare([*self.messages, *own], show=show))
            self.clock.move(1)
            got = self.session.absorb(self.reply(reply))
            own = list(got.messages)
            if got.done:
                self.messages += own
                own = []
            for call in got.tool_calls:
                self.messages.append(self.result(call.call_id, "done"))

    def result(self, call_id: str, text: str) -> dict[str, Any]:
        """A tool's answer in the wire's shape."""
        if self.wire == "anthropic":
            return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": text}]}
        return {"role": "tool", "tool_call_id": call_id, "content": text}

    def stored(self) -> StoredSession:
        """What a stranger's process finds."""
        record = self.session.record
        assert isinstance(record, SessionRecord)
        return read_session(self.memory.parts.sessions, record)

    def reply(self, reply: Say | Use) -> dict[str, Any]:
        """A reply in the wire's shape."""
        self.calls += 1
        if self.wire == "anthropic":
            blocks: list[dict[str, Any]] = [{"type": "text", "text": reply.text}] if reply.text else []
            if isinstance(reply, Use):
                blocks.append(
                    {"type": "tool_use", "id": f"c{self.calls}", "name": reply.name, "input": dict(reply.arguments)}
                )
            return {"role": "assistant", "content": blocks, **_usage(reply)}
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        if isinstance(reply, Use):
            function = {"name": reply.name, "arguments": compact(dict(reply.arguments))}
            message["tool_calls"] = [{"id": f"c{self.calls}", "type": "function", "function": function}]
        return {"choices": [{"message": message, "finish_reason": "stop"}], **_usage(reply)}


def _usage(reply: Say | Use) -> dict[str, Any]:
    return {"usage": dict(reply.usage)} if isinstance(reply, Say) and reply.usage else {}


def opened(path: Path | str, clock: MovedClock | None = None) -> tuple[Offprompt, MovedClock]:
    """A memory with a clock that tests move."""
    clock = clock or MovedClock()
    return offprompt.open(path, clock=clock), clock


Start = Callable[..., Played]
