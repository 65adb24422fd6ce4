"""When the store fails: the agent goes on without memory, and says so."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from offprompt.records import MEMORY_ACTIONS, Head, Message, Receipt, Reply, ToolCall
from offprompt.service.session_kit import SessionOptions
from offprompt.wire.actions import parse_actions
from offprompt.wire.handles import Looked, resolve_arguments, resolve_text
from offprompt.wire.head import Language, missing_text, receipt_text
from offprompt.wire.shapes import Outgoing, Result, Shape

log = logging.getLogger("offprompt")


@dataclass(slots=True)
class WithoutMemory:
    """Requests and replies of a session whose store does not answer: the client's messages as they are.

    head     the session's head if it was known, so that calls already in the transcript stay legal and the prefix may
             still be cached. Nothing is stored, nothing is resolved; calls of memory are told that it is not there.
    """

    shape: Shape
    options: SessionOptions
    head: Head = field(default_factory=Head)
    language: Language = "en"
    cause: str = ""
    added: list[Message] = field(default_factory=list[Message])

    def request(self, messages: Sequence[Message], cause: Exception) -> dict[str, Any]:
        """The request without memory; `cause` comes back in the reply's warnings."""
        self.cause = f"memory is not available, this request went without it: {cause}"
        log.warning("%s", self.cause)
        system, rest = self.shape.split_system(messages, self.options.system)
        tools = [*self.options.tools, *self.head.tools]
        return self.shape.request(Outgoing(self.options.model, system, self.head.text, tools, rest))

    def reply(self, reply: object) -> Reply:
        """The reply as it came; handles in text become "(not found)", a call with one is not run."""
        raw, missing = self.shape.reply(reply), missing_text(self.language)
        parsed = parse_actions(raw.message)
        trouble = receipt_text("trouble", self.language)
        answers = [Result(action.call_id, trouble) for action in parsed.actions if action.call_id]
        calls: list[ToolCall] = []
        for call in self.shape.calls(raw.message):
            if call.name in MEMORY_ACTIONS:
                continue
            resolved = resolve_arguments(call.arguments, nothing)
            if resolved.bad:
                answers.append(Result(call.call_id, trouble))
            else:
                calls.append(ToolCall(call.call_id, call.name, resolved.text))
        errors = frozenset(answer.call_id for answer in answers)
        self.added += [raw.message, *self.shape.result_messages(answers, errors)]
        done = bool(calls) or not answers
        messages, warnings = tuple(self.added), (self.cause,)
        if done:
            self.added = []
        return Reply(
            done=done,
            text=resolve_text(parsed.text, nothing, missing=missing).text,
            raw_text=self.shape.text(raw.message),
            tool_calls=tuple(calls),
            messages=messages,
            receipts=tuple(Receipt(action.name, trouble, ok=False) for action in parsed.actions),
            refused=parsed.refused,
            warnings=warnings,
        )


def nothing(_name: str, _pointer: str, /) -> Looked:
    """The lookup of a session without memory."""
    return Looked("not_found")
