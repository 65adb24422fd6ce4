"""OffpromptChatMessageHistory: the messages of one conversation, kept in the memory's store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage, messages_from_dict

from offprompt.errors import UsageError
from offprompt.integrations.given import opened, transcript_of
from offprompt.service.agent_stream import in_thread
from offprompt.service.offprompt import Offprompt
from offprompt.service.transcripts import Item, Kind
from offprompt.wire.options import Capture

KINDS: Final[dict[str, Kind]] = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "tool": "tool"}


class OffpromptChatMessageHistory(BaseChatMessageHistory):
    """The history of a session, for `RunnableWithMessageHistory` and chains of one's own.

    memory      an opened memory, not one of a server. session_id: the conversation. user, agent: whose it is.
    capture     what user and model say becomes memories of the user's scope too: `all`, `user`, `off`; None: as the
                setting `capture` says.
    Prompt      all of it goes into the prompt, as LangChain's histories do; `OffpromptMiddleware` keeps values off it.
    Redacted    card numbers and keys come back as marks; see docs/turn.md.
    Cost        each call reads the conversation once.
    """

    def __init__(
        self,
        memory: Offprompt,
        session_id: str,
        *,
        user: str | None = None,
        agent: str | None = None,
        capture: Capture | None = None,
    ) -> None:
        bound = opened(memory, "OffpromptChatMessageHistory").scope(user=user, agent=agent)
        self._transcript = transcript_of(memory, bound, session_id, capture)

    @property
    def messages(self) -> list[BaseMessage]:  # pyright: ignore[reportIncompatibleVariableOverride] - as LangChain's own do
        """The messages, oldest first."""
        return messages_from_dict(self._transcript.items())

    async def aget_messages(self) -> list[BaseMessage]:
        """See `messages`."""
        return await in_thread(lambda: self.messages)

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Store further messages, all or none.

        Raises   UsageError for one that is not JSON, such as a tool's with an object beside its words.
        """
        self._transcript.add([_item(each) for each in messages])

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """See `add_messages`."""
        await in_thread(self.add_messages, messages)

    def clear(self) -> None:
        """Erase the conversation; what was remembered of it stays."""
        self._transcript.clear()

    async def aclear(self) -> None:
        """See `clear`."""
        await in_thread(self.clear)


def _item(message: BaseMessage) -> Item:
    try:
        value = {"type": message.type, "data": message.model_dump(mode="json")}
    except ValueError as exc:
        raise UsageError(f"a message of type {message.type!r} is not JSON: {exc}; leave its artifact out") from exc
    return Item(KINDS.get(message.type, "system"), value, str(message.text))
