"""What adapters are given: one check for all of them, where each is made; and which of them work over a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any, Final, cast

import pytest
from langchain_core.messages import HumanMessage
from llama_index.core.base.llms.types import ChatMessage
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel

import offprompt
from offprompt.integrations import anthropic_memory, llama_index, openai_agents, pydantic_ai
from offprompt.integrations.langchain import OffpromptChatMessageHistory, OffpromptMiddleware, OffpromptRetriever
from offprompt.integrations.langgraph import OffpromptStore
from tests.rest.running import Running, running

Make = Callable[[Any], Any]

ANYWHERE: Final[dict[str, Make]] = {
    "OffpromptMiddleware": OffpromptMiddleware,
    "memory_tools": lambda memory: openai_agents.memory_tools(memory, user="alice"),
    "memory_toolset": lambda memory: pydantic_ai.memory_toolset(memory, user="alice"),
    "OffpromptMemoryTool": lambda memory: anthropic_memory.OffpromptMemoryTool(memory, user="alice"),
    "AsyncOffpromptMemoryTool": lambda memory: anthropic_memory.AsyncOffpromptMemoryTool(memory, user="alice"),
}
"""Adapters of any memory; `OffpromptRetriever` takes a scope of one."""

HERE: Final[dict[str, Make]] = {
    "OffpromptChatMessageHistory": lambda memory: OffpromptChatMessageHistory(memory, "s1", user="alice"),
    "OffpromptStore": OffpromptStore,
    "OffpromptSession": lambda memory: openai_agents.OffpromptSession("s1", memory, user="alice"),
    "OffpromptMemory": lambda memory: pydantic_ai.OffpromptMemory(memory, user="alice"),
    "history_processor": lambda memory: pydantic_ai.history_processor(memory, user="alice"),
    "OffpromptMemory of LlamaIndex": lambda memory: llama_index.OffpromptMemory("s1", memory, user="alice"),
}
"""Adapters that need the store itself."""

ALL: Final = {**ANYWHERE, **HERE}
NOWHERE: Final = "http://127.0.0.1:9"


def closed(memory: Any) -> Any:
    memory.close()
    return memory


def wrong() -> dict[str, tuple[Any, str]]:
    """What is no opened memory, and what the error says of it."""
    with offprompt.open(":memory:") as memory, offprompt.Client(NOWHERE) as client:
        scopes = memory.scope(user="alice"), client.scope(user="alice")
    asyncly = offprompt.AsyncClient(NOWHERE)
    asyncio.run(asyncly.close())
    return {
        "a URL": ("agent.db", r"offprompt\.open\('agent\.db'\)"),
        "nothing": (None, "no opened memory"),
        "a scope": (scopes[0], "give the memory itself"),
        "a server's scope": (scopes[1], "give the memory itself"),
        "an async client": (asyncly, "is awaited"),
        "a closed memory": (memory, "is closed; open it again"),
        "a closed client": (client, "is closed; open it again"),
    }


WRONG: Final = wrong()


@pytest.mark.parametrize("given", WRONG)
@pytest.mark.parametrize("adapter", ALL)
def test_what_is_no_opened_memory_is_refused_where_the_adapter_is_made(adapter: str, given: str) -> None:
    value, words = WRONG[given]
    with pytest.raises(offprompt.UsageError, match=words) as raised:
        ALL[adapter](value)
    assert str(raised.value).startswith(f"{adapter.partition(' ')[0]}(memory=")


WORDS: Final[dict[str, Callable[[Any, str], Any]]] = {
    "OffpromptMiddleware": lambda memory, word: OffpromptMiddleware(memory, capture=word),
    "OffpromptChatMessageHistory": lambda memory, word: OffpromptChatMessageHistory(
        memory, "s1", user="alice", capture=cast("Any", word)
    ),
    "OffpromptSession": lambda memory, word: openai_agents.OffpromptSession(
        "s1", memory, user="alice", capture=cast("Any", word)
    ),
    "memory_tools": lambda memory, word: openai_agents.memory_tools(memory, user="alice", trust=cast("Any", word)),
    "OffpromptMemory": lambda memory, word: pydantic_ai.OffpromptMemory(memory, capture=cast("Any", word)),
    "OffpromptMemory's tools": lambda memory, word: pydantic_ai.OffpromptMemory(memory, trust=cast("Any", word)),
    "memory_toolset": lambda memory, word: pydantic_ai.memory_toolset(memory, trust=cast("Any", word)),
    "OffpromptMemory of LlamaIndex": lambda memory, word: llama_index.OffpromptMemory(
        "s1", memory, user="alice", capture=cast("Any", word)
    ),
    "OffpromptMemoryTool": lambda memory, word: anthropic_memory.OffpromptMemoryTool(
        memory, user="alice", trust=cast("Any", word)
    ),
}


@pytest.mark.parametrize("adapter", WORDS)
def test_an_option_has_one_of_its_values_or_the_adapter_is_not_made(adapter: str) -> None:
    """A trust of another name would be the user's own."""
    with offprompt.open(":memory:") as memory, pytest.raises(offprompt.UsageError, match="='untrusted': it is one of"):
        WORDS[adapter](memory, "untrusted")


def test_a_conversation_without_an_id_is_refused() -> None:
    with offprompt.open(":memory:") as memory:
        makes: list[Make] = [
            lambda one: OffpromptChatMessageHistory(memory, one, user="alice"),
            lambda one: openai_agents.OffpromptSession(one, memory, user="alice"),
            lambda one: llama_index.OffpromptMemory(one, memory, user="alice"),
        ]
        for make in makes:
            for session_id in ("", None, 7):
                with pytest.raises(offprompt.ScopeError, match="session"):
                    make(session_id)


def test_nothing_is_remembered_where_the_setting_says_so() -> None:
    with offprompt.open(":memory:", capture="off") as memory:
        OffpromptChatMessageHistory(memory, "s1", user="alice").add_messages([HumanMessage("I live in Ulm.")])
        session = openai_agents.OffpromptSession("s2", memory, user="alice")
        asyncio.run(session.add_items([{"role": "user", "content": "I live in Ulm."}]))
        llama_index.OffpromptMemory("s3", memory, user="alice").put(ChatMessage(role="user", content="I live in Ulm."))
        agent = Agent(TestModel(call_tools=[]), capabilities=[pydantic_ai.OffpromptMemory(memory, user="alice")])
        asyncio.run(agent.run("I live in Ulm."))
        assert len(memory.scope(user="alice").memories.list()) == 0
        kept = OffpromptChatMessageHistory(memory, "s4", user="alice", capture="user")
        kept.add_messages([HumanMessage("I live in Ulm.")])
        assert memory.scope(user="alice").memories.list()


@pytest.mark.parametrize("given", [name for name in WRONG if "scope" not in name])
def test_a_retriever_wants_a_scope(given: str) -> None:
    with pytest.raises(offprompt.UsageError, match="is no scope of an opened memory"):
        OffpromptRetriever(scope=WRONG[given][0])


@pytest.mark.parametrize("adapter", ALL)
def test_over_a_server_an_adapter_works_or_says_what_to_open(adapter: str) -> None:
    with offprompt.Client(NOWHERE) as client:
        if adapter in ANYWHERE:
            assert ALL[adapter](client)
            return
        with pytest.raises(offprompt.UnsupportedError, match="open the file or the database") as raised:
            ALL[adapter](client)
    assert NOWHERE in str(raised.value)


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(embedder="none") as own:
        yield own


def asked_of_agents(tools: Any, name: str, /, **arguments: Any) -> str:
    tool = next(each for each in tools if each.name == name)
    return asyncio.run(tool.on_invoke_tool(None, json.dumps(arguments)))


def asked_of_pydantic(toolset: Any, name: str, /, **arguments: Any) -> str:
    """What the model of an agent with the toolset is told."""
    script = [ToolCallPart(name, arguments), TextPart("Done.")]

    def model(_messages: Any, _info: Any) -> ModelResponse:
        return ModelResponse(parts=[script.pop(0)])

    result = asyncio.run(Agent(FunctionModel(model), toolsets=[toolset]).run("Go on."))
    part: Any = result.all_messages()[-2].parts[0]
    return str(part.content)


ASKED: Final[dict[str, Callable[..., str]]] = {"memory_tools": asked_of_agents, "memory_toolset": asked_of_pydantic}


@pytest.mark.parametrize("adapter", ASKED)
def test_tools_keep_what_the_model_says_on_the_server(server: Running, adapter: str) -> None:
    asks = ASKED[adapter]
    with offprompt.open(server.url) as client:
        asks(ALL[adapter](client), "mem_write", name=f"city_{adapter}", value="乌尔姆 (Ulm)")
        memory_id = asks(ALL[adapter](client), "mem_write", value=f"Bello broke his left paw ({adapter}).")
    with offprompt.open(server.url) as client:
        made = ALL[adapter](client)
        assert asks(made, "mem_read", name=f"city_{adapter}").endswith("乌尔姆 (Ulm)")
        assert "left paw" in asks(made, "mem_search", query="Which paw did Bello break?")
        assert "left paw" in asks(made, "mem_list")
        asks(made, "mem_forget", name=f"city_{adapter}")
        assert "乌尔姆" not in asks(made, "mem_list")
    alice = server.memory.scope(user="alice")
    assert memory_id
    said = alice.memories.list()[-1]
    assert (said.text, said.source) == (f"Bello broke his left paw ({adapter}).", "model")


def test_secrets_of_a_server_are_in_no_answer_of_its_tools(server: Running) -> None:
    server.memory.scope(user="alice").write("pin", "4711-0815", policy="never")
    with offprompt.open(server.url) as client:
        for adapter, asks in ASKED.items():
            made = ALL[adapter](client)
            asks(made, "mem_write", name="note", value="the pin is 4711-0815")
            answers = [asks(made, "mem_read", name="pin"), asks(made, "mem_read", name="note"), asks(made, "mem_list")]
            assert "4711" not in "".join(answers)


@pytest.mark.parametrize("adapter", ["OffpromptMemoryTool", "AsyncOffpromptMemoryTool"])
def test_files_are_kept_by_the_server(server: Running, adapter: str) -> None:
    def told(command: str, **fields: Any) -> str:
        with offprompt.open(server.url) as client:
            answer = ALL[adapter](client).call({"command": command, **fields})
            return asyncio.run(answer) if asyncio.iscoroutine(answer) else answer

    path, moved = f"/memories/{adapter}/a.md", f"/memories/{adapter}/b.md"
    assert told("create", path=path, file_text="# Alice\nLives in Ulm\n") == f"File created successfully at: {path}"
    assert told("str_replace", path=path, old_str="Ulm", new_str="Lisbon").endswith("     2\tLives in Lisbon\n     3\t")
    assert told("insert", path=path, insert_line=2, insert_text="Tea") == f"The file {path} has been edited."
    assert told("rename", old_path=path, new_path=moved) == f"Successfully renamed {path} to {moved}"
    assert told("view", path=moved).endswith("     1\t# Alice\n     2\tLives in Lisbon\n     3\tTea\n     4\t")
    long = "".join(f"line {number} of a file that takes several slots\n" for number in range(200))
    assert "created" in told("create", path=f"/memories/{adapter}/long.md", file_text=long)
    assert "   200\tline 199 of" in told("view", path=f"/memories/{adapter}/long.md")
    assert told("view", path=f"/memories/{adapter}").count("\t") == 3
    assert told("delete", path=f"/memories/{adapter}") == f"Successfully deleted /memories/{adapter}"
    assert adapter not in told("view", path="/memories")


def test_a_retriever_finds_what_a_server_keeps(server: Running) -> None:
    with offprompt.open(server.url) as client:
        carol = client.scope(user="carol")
        carol.remember("Bello broke his left paw at the lake.")
        retriever = OffpromptRetriever(scope=carol, options={"top_k": 1})
        for found in (retriever.invoke("left paw"), asyncio.run(retriever.ainvoke("left paw"))):
            assert [each.page_content for each in found] == ["Bello broke his left paw at the lake."]
