"""LlamaIndex: a memory whose conversation is in the store, and which recalls what the user asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from offprompt.errors import UnsupportedError, UsageError
from offprompt.integrations.given import opened, transcript_of
from offprompt.records import Memory
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt
from offprompt.service.reminding import reminder
from offprompt.service.transcripts import Item, Kind, Transcript
from offprompt.wire.options import Capture

try:
    from llama_index.core.base.llms.types import ChatMessage, TextBlock
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.memory import BaseMemory
except ImportError as exc:
    raise UnsupportedError("llama-index-core is not installed; run: pip install 'offprompt[llama-index]'") from exc

KINDS: dict[str, Kind] = {"user": "user", "assistant": "assistant", "tool": "tool", "function": "tool"}


class OffpromptMemory(BaseMemory):
    """A conversation for `agent.run(text, memory=…)` and chat engines, kept in the store: any process goes on with it.

    session_id      the conversation's id. memory: an opened memory. user, agent: whose; None: the memory's default.
    capture         what user and model say becomes memories of the user: `all`, `user`, `off`; None: as the setting
                    `capture` says.
    history_tokens  of the newest whole turns that `get` gives, by the memory's tokenizer; None: all. The rest stays
                    stored.
    recall          while the newest message is the user's, what it asks for of slots and memories stands in a block of
                    its own at its head, for that turn, framed as data; `shown_tokens` at the most. False: never.
    See             Transcript for what is redacted, how long it lives, and what it raises.
    """

    session_id: str
    history_tokens: int | None = None
    recall: bool = True
    _memory: Offprompt = PrivateAttr()
    _bound: BoundScope = PrivateAttr()
    _transcript: Transcript = PrivateAttr()
    _is_shown: bool = PrivateAttr()

    def __init__(
        self,
        session_id: str,
        memory: Offprompt,
        *,
        user: str | None = None,
        agent: str | None = None,
        capture: Capture | None = None,
        history_tokens: int | None = None,
        recall: bool = True,
    ) -> None:
        bound = opened(memory, "OffpromptMemory").scope(user=user, agent=agent)
        transcript = transcript_of(memory, bound, session_id, capture)
        super().__init__(session_id=session_id, history_tokens=history_tokens, recall=recall)  # pyright: ignore[reportCallIssue] - the fields
        self._memory, self._bound, self._transcript, self._is_shown = memory, bound, transcript, False

    @classmethod
    def class_name(cls) -> str:
        """The class's name for LlamaIndex."""
        return "OffpromptMemory"

    @classmethod
    def from_defaults(cls, **kwargs: Any) -> OffpromptMemory:
        """As the constructor; it needs `session_id` and `memory`.

        Raises   UsageError without them: a conversation in nobody's store would be lost.
        """
        if not {"session_id", "memory"} <= kwargs.keys():
            raise UsageError("OffpromptMemory needs session_id and memory; pass the id and what offprompt.open gave")
        return cls(**kwargs)

    def get(self, input: str | None = None, **kwargs: Any) -> list[ChatMessage]:  # noqa: A002 - LlamaIndex's name
        """The conversation for the next request: the newest turns, with what the newest user message asks for.

        input    what to recall for; None: that message's own words.
        """
        del kwargs
        messages = self._newest(self.get_all())
        if not self.recall or not messages or messages[-1].role != "user":
            return messages
        texts = [message.content or "" for message in messages]

        def is_held(one: Memory) -> bool:
            # A fact of this conversation says what a message of it says, in the rules' words.
            return any(one.text in text for text in texts) or (one.kind == "fact" and one.session == self.session_id)

        said = reminder(self._memory, self._bound, input or texts[-1], is_held=is_held)
        self._is_shown = bool(said)
        if said:
            newest = messages[-1]
            messages[-1] = newest.model_copy(update={"blocks": [TextBlock(text=f"{said}\n"), *newest.blocks]})
        return messages

    def get_all(self) -> list[ChatMessage]:
        """All messages, as they were put."""
        return [ChatMessage.model_validate(item) for item in self._transcript.items()]

    def put(self, message: ChatMessage) -> None:
        """Store a message behind the others."""
        self.put_messages([message])

    def put_messages(self, messages: list[ChatMessage]) -> None:
        """Store messages behind the others, all or none."""
        items = [_item(message) for message in messages]
        # What answers to what memory showed is no news.
        self._transcript.add(
            [replace(each, remembered=False) if each.kind == "assistant" and self._is_shown else each for each in items]
        )

    def set(self, messages: list[ChatMessage]) -> None:
        """Make these the conversation. Messages that it begins with already stay, and are not remembered again."""
        self._transcript.set([_item(message) for message in messages])

    def reset(self) -> None:
        """Erase the conversation; what was remembered of it stays."""
        self._transcript.clear()

    def _newest(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        if self.history_tokens is None:
            return list(messages)
        count, left, start = self._memory.parts.tokenizer.count, self.history_tokens, len(messages)
        for at in range(len(messages) - 1, -1, -1):
            left -= count(_flat(messages[at]))
            if left < 0 and start < len(messages):
                break
            if messages[at].role == "user":
                start = at
        return list(messages[start:] if start < len(messages) else messages)


def _item(message: ChatMessage) -> Item:
    return Item(KINDS.get(message.role, "system"), message.model_dump(mode="json"), message.content or "")


def _flat(message: ChatMessage) -> str:
    return message.model_dump_json(include={"blocks", "additional_kwargs"})
