"""A chat model with a session around it: what is sent is prepared, what it answers is absorbed."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, cast

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import add_usage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableBinding
from langchain_core.runnables.config import RunnableConfig
from pydantic import ConfigDict, Field

from offprompt.errors import BackendError
from offprompt.integrations.langchain.messages import blocks_of, calls_of, from_wire, text_of, to_wire, with_text
from offprompt.integrations.langchain.replies import ChunkReader, Told, as_chunk, as_reply, with_secrets
from offprompt.integrations.langchain.tools import as_tool, strict_tool
from offprompt.records import MEMORY_ACTIONS, Message, Reply
from offprompt.service.agent_stream import in_thread
from offprompt.wire.openai import BETWEEN
from offprompt.wire.profiles import SHAPES

LOG: Final = logging.getLogger("offprompt")
SHAPE: Final = SHAPES["openai"]
QUIET: Final = RunnableConfig(callbacks=[], tags=["nostream"])
"""The calls inside are no runs of their own: callbacks and streams see what the application gets."""

Opened = Callable[[list[dict[str, Any]]], Any]
"""The session of the conversation, for a model with these tools."""


class RememberingModel(BaseChatModel):
    """What `OffpromptMiddleware` puts in place of a request's model; used for one request.

    inner    the application's model. open: see `Opened`. told: see `Told`. lock: one request of a conversation at once.
    passes   where the store fails the request goes as it came, without memory; else its BackendError is raised.
    Usage    of all calls of the model that the answer took, added up; the other metadata are the last one's.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    inner: BaseChatModel
    open: Opened
    told: Told
    lock: Any
    passes: bool = True
    tools: tuple[Any, ...] = ()
    bound: dict[str, Any] = Field(default_factory=dict[str, Any])
    cache: Any = False
    model_name: str = ""

    @property
    def _llm_type(self) -> str:
        return self.inner._llm_type  # noqa: SLF001 - a method of the class that both extend

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        return self.inner._identifying_params  # noqa: SLF001 - as above

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        return self.inner._get_ls_params(stop=stop, **kwargs)  # noqa: SLF001 - as above

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[Any, AIMessage]:
        """The model with these tools; those of the memory join them when it is asked."""
        given = {**kwargs} if tool_choice is None else {**kwargs, "tool_choice": tool_choice}
        return self.model_copy(update={"tools": tuple(tools), "bound": given})

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        del run_manager
        with self.lock:
            talk = self._talk(messages, stop, kwargs)
            while (asked := talk.next()) is not None:
                model, options = self._bound(talk)
                talk.take(model.invoke(asked, QUIET, **options))
            return talk.result()

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        del run_manager
        await in_thread(self.lock.acquire)
        try:
            talk = await in_thread(self._talk, messages, stop, kwargs)
            while (asked := await in_thread(talk.next)) is not None:
                model, options = self._bound(talk)
                await in_thread(talk.take, await model.ainvoke(asked, QUIET, **options))
            return talk.result()
        finally:
            self.lock.release()

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        del run_manager
        with self.lock:
            talk = self._talk(messages, stop, kwargs)
            while (asked := talk.next()) is not None:
                model, options = self._bound(talk)
                for chunk in _streamed(model.stream(asked, QUIET, **options), talk):
                    yield ChatGenerationChunk(message=chunk)
            if (reader := talk.reader) is not None:
                yield ChatGenerationChunk(message=reader.last())

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        del run_manager
        await in_thread(self.lock.acquire)
        try:
            talk = await in_thread(self._talk, messages, stop, kwargs)
            while (asked := await in_thread(talk.next)) is not None:
                model, options = self._bound(talk)
                async with aclosing(_astreamed(model.astream(asked, QUIET, **options), talk)) as chunks:
                    async for chunk in chunks:
                        yield ChatGenerationChunk(message=chunk)
            if (reader := talk.reader) is not None:
                yield ChatGenerationChunk(message=reader.last())
        finally:
            self.lock.release()

    def _talk(self, messages: list[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any]) -> Talk:
        tools = [as_tool(each) for each in self.tools]
        options = {key: value for key, value in kwargs.items() if key != "stream"}
        talk = Talk(messages, self.told, {**options, "stop": stop})
        try:
            talk.open(self.open(tools))
        except BackendError as exc:
            if not self.passes:
                raise
            LOG.warning("a request of an agent goes without memory: %s", exc)
        return talk

    def _bound(self, talk: Talk) -> tuple[Runnable[Any, AIMessage], dict[str, Any]]:
        """The model with the application's tools and those of the memory, and the options of a call of it."""
        is_strict = bool(self.bound.get("strict") or self.bound.get("response_format"))
        tools: list[Any] = [*self.tools, *(strict_tool(each) if is_strict else each for each in talk.ours)]
        bound: Any = self.inner.bind_tools(tools, **self.bound) if tools else self.inner.bind(**self.bound)
        if isinstance(bound, RunnableBinding) and not bound.config:  # which would bring the callbacks in again
            given = cast("RunnableBinding[Any, AIMessage]", bound)
            return given.bound, {**given.kwargs, **talk.options}
        return cast("Runnable[Any, AIMessage]", bound), talk.options


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


def _streamed(chunks: Iterator[AIMessage], talk: Talk) -> Iterator[AIMessageChunk]:
    """One reply's chunks, as they go on; a stream that fails is absorbed as far as it came."""
    if talk.session is None:
        for chunk in chunks:
            yield as_chunk(chunk)
        talk.take(AIMessage(""))
        return
    reader = talk.read()
    try:
        for chunk in chunks:
            yield from reader.feed(chunk)
    except Exception:
        yield from reader.broken()
        raise
    except GeneratorExit:
        reader.broken()
        raise
    yield from reader.finish()
    talk.over(reader)


async def _astreamed(chunks: AsyncIterator[AIMessage], talk: Talk) -> AsyncGenerator[AIMessageChunk]:
    """See `_streamed`."""
    if talk.session is None:
        async for chunk in chunks:
            yield as_chunk(chunk)
        talk.take(AIMessage(""))
        return
    reader = await in_thread(talk.read)
    try:
        async for chunk in chunks:
            for each in await in_thread(reader.feed, chunk):
                yield each
    except Exception:
        for each in await in_thread(reader.broken):
            yield each
        raise
    except GeneratorExit:
        await in_thread(reader.broken)
        raise
    for each in await in_thread(reader.finish):
        yield each
    talk.over(reader)
