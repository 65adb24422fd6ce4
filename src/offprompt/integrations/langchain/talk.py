"""All that a chat model is asked until the application is next: the requests of a session, and the replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import add_usage
from langchain_core.outputs import ChatGeneration, ChatResult

from offprompt.integrations.langchain.messages import blocks_of, calls_of, from_wire, text_of, to_wire, with_text
from offprompt.integrations.langchain.replies import ChunkReader, Told, as_reply, with_secrets
from offprompt.records import MEMORY_ACTIONS, Message, Reply
from offprompt.wire.openai import BETWEEN
from offprompt.wire.profiles import SHAPES

SHAPE: Final = SHAPES["openai"]


class Talk:
    """All that the model is asked until the application is next.

    given    the conversation. options: of each call of the model.
    session  None until it is open: what is asked then goes as it was given, and is not recorded.
    """

    def __init__(self, given: list[BaseMessage], told: Told, options: dict[str, Any]) -> None:
        self._given, self._told, self.options = given, told, options
        self._wire = [to_wire(each) for each in given]
        self._request: Mapping[str, Any] = {}
        self._raw: list[AIMessage] = []
        self._reply: Reply | None = None
        self.session: Any = None
        self.reader: ChunkReader | None = None

    def open(self, session: Any) -> None:
        """Prepare the first request in that session.

        Raises   BackendError where the store fails.
        """
        self._request = session.prepare(self._wire)
        self.session = session

    @property
    def ours(self) -> list[Mapping[str, Any]]:
        """The memory's tools, among those of the request."""
        return [each for each in self._request.get("tools", ()) if each["function"]["name"] in MEMORY_ACTIONS]

    def next(self) -> list[BaseMessage] | None:
        """What the model is to be sent, None once the application is next."""
        if self._reply is not None and self._reply.done:
            return None
        if self.session is None:
            return self._given
        if self._reply is not None:
            self._request = self.session.prepare([*self._wire, *self._reply.messages])
        return [from_wire(each) for each in self._request["messages"]]

    def take(self, raw: AIMessage) -> None:
        """The model's reply."""
        self._raw.append(raw)
        self._reply = self.session.absorb(as_reply(raw)) if self.session is not None else Reply(done=True, text="")

    def read(self) -> ChunkReader:
        """What the chunks of the model's next reply are fed to."""
        self.reader = ChunkReader(self.session.stream_reader(), self._told, self.reader)
        return self.reader

    def over(self, reader: ChunkReader) -> None:
        """The reader has all of the reply."""
        self._reply = reader.reply

    def result(self) -> ChatResult:
        """What the application gets: all that was said since it asked, handles resolved, without calls of memory."""
        reply, last = cast("Reply", self._reply), self._raw[-1]
        if self.session is None:
            return ChatResult(generations=[ChatGeneration(message=last)])
        own = {call.call_id for call in reply.tool_calls}
        said = [each for each in reply.messages if SHAPE.kind(each) == "assistant"][-len(self._raw) :]
        if said:
            told = SHAPE.told(said, own)
        else:
            told: Message = {"role": "assistant", "content": reply.text}
        secrets = self._told(last, reply)
        usage = None
        for each in self._raw:
            usage = add_usage(usage, each.usage_metadata) if usage or each.usage_metadata else None
        message = AIMessage(
            cast("Any", _content(self._raw, said) or text_of(told)),
            additional_kwargs={key: value for key, value in last.additional_kwargs.items() if key != "tool_calls"},
            response_metadata=with_secrets(last.response_metadata, secrets),
            usage_metadata=usage,
            **calls_of(SHAPE.with_arguments(told, secrets)),
        )
        return ChatResult(generations=[ChatGeneration(message=message)])


def _content(raw: Sequence[AIMessage], said: Sequence[Message]) -> list[dict[str, Any]]:
    """The blocks of all replies, their texts as said; none where the model gave plain texts."""
    if not any(blocks_of(each) for each in raw) or len(raw) != len(said):
        return []
    out: list[dict[str, Any]] = []
    before = False
    for each, told in zip(raw, said, strict=True):
        text = text_of(told)
        out += with_text(blocks_of(each), f"{BETWEEN}{text}" if before and text else text)
        before = before or bool(text)
    return out
