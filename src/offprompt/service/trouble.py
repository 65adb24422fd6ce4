"""When the store fails: the agent goes on without memory, and says so."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from offprompt.records import MEMORY_ACTIONS, Head, Message, Receipt, Reply, SessionRecord, ToolCall
from offprompt.service.bounding import Bounding
from offprompt.service.conversation import Conversation, Forms, Placed
from offprompt.service.grouping import rendered
from offprompt.service.scrubber import Scrubber
from offprompt.wire.actions import parse_actions
from offprompt.wire.handles import Looked, resolve_arguments, resolve_text
from offprompt.wire.head import Language, language_of, missing_text, receipt_text
from offprompt.wire.options import SessionOptions, Underway
from offprompt.wire.shapes import Outgoing, Result, Shape
from offprompt.wire.sizes import messages_size, tools_size

log = logging.getLogger("offprompt")


@dataclass(frozen=True, slots=True)
class Known:
    """The session as it was when the store last answered."""

    conversation: Conversation
    record: SessionRecord
    scrubber: Scrubber


@dataclass(slots=True)
class WithoutMemory:
    """Requests and replies of a session whose store does not answer.

    Nothing is stored, nothing is resolved; calls of memory are told that it is not there.
    given        the messages of the newest request. is_recorded: that request itself was stored.
    """

    bounding: Bounding
    options: SessionOptions
    language: Language = "en"
    cause: str = ""
    added: list[Message] = field(default_factory=list[Message])
    given: Sequence[Message] = ()
    is_recorded: bool = False

    @property
    def shape(self) -> Shape:
        """The shape of the session's wire."""
        return self.bounding.model.shape

    def underway(self, asked: int) -> Underway:
        """What of this another process needs to read the reply to the request of that number."""
        if not self.cause and not self.added:
            return Underway(asked)
        given = tuple(self.given) if self.cause else ()
        return Underway(asked, self.cause, self.language, tuple(self.added), given, self.is_recorded)

    def go_on(self, known: Underway) -> None:
        """Be as the one in the other process was."""
        self.cause, self.language, self.is_recorded = known.cause, known.language, known.is_recorded
        self.added, self.given = list(known.added), known.given

    def request(self, messages: Sequence[Message], known: Known | None, cause: Exception) -> dict[str, Any]:
        """The request without memory; `cause` comes back in the reply's warnings.

        known    what this process knew of the session when the store last answered: messages that were sent go as
                 they were, tool results that are new are scrubbed of the secrets known then, the head stays. Without
                 it the client's messages go as they are.
        """
        self.is_recorded = False
        self.cause = f"memory is not available, this request went without it: {cause}"
        log.warning("%s", self.cause)
        return self._request(messages, known)

    def bounded(self, messages: Sequence[Message]) -> dict[str, Any] | None:
        """The request without memory where nothing is known of the session; None: all the messages may go as they are.

        Nothing  is noted: its reply is not to be read.
        """
        system, rest = self.shape.split_system(messages, self.options.system)
        return None if self._own(rest, self._base(system, Head())) is rest else self._request(messages, None)

    def _request(self, messages: Sequence[Message], known: Known | None) -> dict[str, Any]:
        system, rest = self.shape.split_system(messages, self.options.system)
        head = known.record.head if known is not None and known.record.head is not None else Head()
        base = self._base(system, head)
        sent = self._own(rest, base) if known is None else self._sent(rest, known, base)
        return self.shape.request(
            Outgoing(self.options.model, system, head.text, [*self.options.tools, *head.tools], sent)
        )

    def _base(self, system: Sequence[Message], head: Head) -> int:
        """Tokens in front of the messages."""
        count = self.bounding.tokenizer
        tools = tools_size([*self.options.tools, *head.tools], count).tokens
        return messages_size(system, self.shape, count).tokens + tools + count.count(head.text)

    def _own(self, rest: Sequence[Message], base: int) -> Sequence[Message]:
        """The client's messages, as much of them as may go out; the same ones where all of them may."""
        given = Conversation(self.shape, _unkeyed).place(rest, 0.0)
        language = self.bounding.settings.language or language_of("\n".join(map(self.shape.text, rest[-1:])))
        forms = Forms(max((each.entry.turn for each in given), default=0))
        placed = self.bounding.bounded(given, forms, start="", base=base, language=language)
        return rest if placed is given else self._rendered(placed, forms)

    def _sent(self, rest: Sequence[Message], known: Known, base: int) -> Sequence[Message]:
        """The messages as they go out: frozen forms of those that were sent, new ones without known secrets."""
        placed = [self._scrubbed(each, known.scrubber) for each in known.conversation.place(rest, known.record.used_at)]
        newest = max((each.entry.turn for each in placed if each.entry.kind == "user"), default=0)
        forms, language = Forms.of_turn(known.record, newest), "zh" if known.record.language == "zh" else "en"
        start = known.record.start
        return self._rendered(self.bounding.bounded(placed, forms, start=start, base=base, language=language), forms)

    def _rendered(self, placed: Sequence[Placed], forms: Forms) -> list[Message]:
        return [message for group in rendered(placed, range(len(placed)), self.shape, forms) for message in group]

    def _scrubbed(self, placed: Placed, scrubber: Scrubber) -> Placed:
        if not placed.new or placed.entry.kind not in ("tool", "assistant"):
            return placed
        shape = self.shape
        message = shape.map_text(placed.message, lambda text: scrubber.scrub(text)[0])
        calls = {call.call_id: scrubber.arguments(call.arguments)[0] for call in shape.calls(message) if call.call_id}
        message = shape.with_arguments(message, calls)
        return Placed(message, placed.entry, new=True)

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
        messages = tuple(each for message in self.added for each in self.shape.spread(message))
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
            warnings=(self.cause,),
        )


def _unkeyed(text: str) -> str:
    """A digest for what is stored nowhere."""
    return hashlib.sha256(text.encode()).hexdigest()


def nothing(_name: str, _pointer: str, /) -> Looked:
    """The lookup of a session without memory."""
    return Looked("not_found")
