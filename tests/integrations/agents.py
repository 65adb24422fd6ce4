"""LangChain's agents against the strict upstream, on each of the wires that its clients speak."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType]
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, BaseMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

import offprompt
from offprompt.integrations.langchain import OffpromptMiddleware
from offprompt.testing.strict_replies import Said
from offprompt.testing.strict_server import StrictServer
from tests.gateway.client import script
from tests.langchain_clients import close_model
from tests.service.talk import MODELS, Say, Wire

How = Literal["invoke", "stream", "ainvoke", "astream"]
WIRES: tuple[Wire, ...] = ("openai", "anthropic", "responses")
HOWS: tuple[How, ...] = ("invoke", "stream", "ainvoke", "astream")


def config(thread: str = "t1", user: str | None = "alice") -> dict[str, Any]:
    return {"configurable": {"thread_id": thread, **({} if user is None else {"user_id": user})}}


def chat_model(wire: Wire, url: str, **more: Any) -> Any:
    given: dict[str, Any] = {"model": MODELS[wire], "api_key": "sk-ours", "max_retries": 0}
    if wire == "anthropic":
        return ChatAnthropic(base_url=url, max_tokens_to_sample=1500, **given, **more)
    is_responses = wire == "responses"
    return ChatOpenAI(base_url=f"{url}/v1", use_responses_api=is_responses, stream_usage=True, **given, **more)


@dataclass
class Agent:
    """An agent of LangChain with its memory; `streamed` is what a reader of its stream got, message by message."""

    server: StrictServer
    memory: Any
    graph: Any
    wire: Wire
    streamed: dict[str, str] = field(default_factory=dict[str, str])

    def ask(self, text: str, how: How = "invoke", given: dict[str, Any] | None = None) -> str:
        """The answer to the user's words."""
        words, where = {"messages": [{"role": "user", "content": text}]}, given or config()
        if how == "invoke":
            self.graph.invoke(words, where)
        elif how == "stream":
            for chunk, _ in self.graph.stream(words, where, stream_mode="messages"):
                self._read(chunk)
        else:
            asyncio.run(self._asked(words, where, how))
        return self.messages(where)[-1].text

    async def _asked(self, words: Any, where: Any, how: How) -> None:
        if how == "ainvoke":
            await self.graph.ainvoke(words, where)
            return
        async for chunk, _ in self.graph.astream(words, where, stream_mode="messages"):
            self._read(chunk)

    def _read(self, chunk: BaseMessage) -> None:
        if isinstance(chunk, AIMessage):
            self.streamed[str(chunk.id)] = self.streamed.get(str(chunk.id), "") + str(chunk.text)

    def messages(self, given: dict[str, Any] | None = None) -> list[Any]:
        """The conversation as the checkpoint holds it."""
        return self.graph.get_state(given or config()).values["messages"]

    @property
    def requests(self) -> list[dict[str, Any]]:
        """What the model was sent, oldest first."""
        return self.server.upstreams[self.wire].requests


@contextmanager
def running(
    wire: Wire,
    said: Sequence[str | Say | Said] | Callable[..., Any],
    tools: Sequence[Any] = (),
    *,
    memory: Any = None,
    model: dict[str, Any] | None = None,
    agent: dict[str, Any] | None = None,
    **options: Any,
) -> Generator[Agent]:
    """An agent whose model says this, one reply after the other, or what is called says; its thoughts are checked.

    model, agent   further arguments of the chat model, and of `create_agent`. options: of the middleware.
    """
    replies = iter(() if callable(said) else said)
    numbers = iter(range(1, 1000))

    def says(**request: Any) -> Any:
        del request
        reply = next(replies)
        return reply if isinstance(reply, Said) else {**script(wire, reply)[0], "id": f"reply_{next(numbers)}"}

    opened = memory or offprompt.open(":memory:")
    with StrictServer(said if callable(said) else says, binding=wire == "anthropic") as server:
        chat = chat_model(wire, server.url, **(model or {}))
        build: Any = create_agent  # pyright: ignore[reportUnknownVariableType]
        given = {"system_prompt": "Be brief.", "checkpointer": InMemorySaver(), **(agent or {})}
        graph = build(chat, list(tools), middleware=[OffpromptMiddleware(opened, **options)], **given)
        try:
            yield Agent(server, opened, graph, wire)
        finally:
            close_model(chat)
            opened.close()
        assert server.faults == []
