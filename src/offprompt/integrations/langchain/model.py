"""A chat model with a session around it: what is sent is prepared, what it answers is absorbed."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, cast

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableBinding
from langchain_core.runnables.config import RunnableConfig
from pydantic import ConfigDict, Field

from offprompt.errors import BackendError
from offprompt.integrations.langchain.replies import Told, as_chunk
from offprompt.integrations.langchain.talk import Talk
from offprompt.integrations.langchain.tools import as_tool, strict_tool
from offprompt.service.agent_stream import in_thread

LOG: Final = logging.getLogger("offprompt")
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
