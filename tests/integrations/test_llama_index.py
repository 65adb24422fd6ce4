"""LlamaIndex: its agents and chat engines with the memory; two sessions and a restart, its own memory's answers."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.agent.workflow import AgentWorkflow, ReActAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse, LLMMetadata
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import CustomLLM
from llama_index.core.memory import ChatMemoryBuffer
from pydantic import PrivateAttr

import offprompt
from offprompt.integrations.llama_index import OffpromptMemory
from offprompt.testing.upstream import Upstream
from tests.house.tree import ROOT
from tests.service.talk import as_reply, call, flat


class Scripted(CustomLLM):
    """A model of LlamaIndex's that follows a script, and keeps what it was sent. No provider's."""

    _script: list[str] = PrivateAttr()
    _sent: list[list[str]] = PrivateAttr(default_factory=list[list[str]])

    def __init__(self, *script: str) -> None:
        super().__init__()
        self._script = list(script)

    @property
    def sent(self) -> list[list[str]]:
        return self._sent

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata()

    def complete(self, *_: Any, **__: Any) -> CompletionResponse:
        raise AssertionError("agents chat")

    def stream_complete(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("agents chat")

    def chat(self, messages: Sequence[ChatMessage], **_: Any) -> ChatResponse:
        self._sent.append([message.content or "" for message in messages])
        return ChatResponse(message=ChatMessage(role="assistant", content=self._script.pop(0)))

    def stream_chat(self, messages: Sequence[ChatMessage], **_: Any) -> Any:
        yield self.chat(messages)


def test_a_chat_engine_remembers_in_a_second_session_after_a_restart(tmp_path: Path) -> None:
    store = str(tmp_path / "agent.db")
    with offprompt.open(store) as memory:
        llm = Scripted("Poor Bello.", "好的。")
        engine = engine_of(llm, OffpromptMemory("s1", memory, user="alice"))
        assert engine.chat("My dog Bello broke his left paw at the lake.").response == "Poor Bello."
        assert engine.chat("我住在乌尔姆。").response == "好的。"
        assert "<memory" not in str(llm.sent)
    with offprompt.open(store) as memory:
        llm = Scripted("The left one.", "Bread is baked.", "You are welcome.")
        second = OffpromptMemory("s2", memory, user="alice")
        engine = engine_of(llm, second)
        engine.chat("Which paw did my dog break?")
        engine.chat("How would you bake bread?")
        asked, other = llm.sent
        assert "broke his left paw at the lake" in asked[0]
        assert asked[0].endswith("\nWhich paw did my dog break?")
        assert "broke" not in str(other), "a turn that does not ask carries no byte of it"
        assert second.get_all()[0].content == "Which paw did my dog break?"
        engine_of(llm, OffpromptMemory("s1", memory, user="alice")).chat("Thanks!")
        assert llm.sent[-1][:2] == ["My dog Bello broke his left paw at the lake.", "Poor Bello."]
        third = OffpromptMemory("s3", memory, user="alice")
        third.put(ChatMessage(role="user", content="我住在哪里？"))
        assert "我住在乌尔姆。" in (third.get()[-1].content or "")
        assert engine_of(Scripted("?"), OffpromptMemory("s4", memory, user="bob")).chat("Which paw?").response == "?"


def engine_of(llm: Scripted, memory: OffpromptMemory) -> Any:
    return SimpleChatEngine.from_defaults(llm=llm, memory=memory)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # LlamaIndex's own
def test_an_agent_with_a_tool_keeps_its_turns(tmp_path: Path) -> None:
    shipped: list[str] = []

    def ship(order: str) -> str:
        """Ship an order."""
        shipped.append(order)
        return "done"

    def run(llm: Scripted, text: str) -> str:
        with offprompt.open(str(tmp_path / "agent.db")) as memory:

            async def ask() -> str:
                agent = AgentWorkflow(
                    agents=[ReActAgent(name="helper", description="helps", tools=[ship], llm=llm, streaming=False)]
                )
                own = OffpromptMemory("s1", memory, user="alice")
                running: Any = agent
                return str(await running.run(user_msg=text, memory=own))

            return asyncio.run(ask())

    memory_asked = Scripted(
        'Thought: ship it.\nAction: ship\nAction Input: {"order": "A-17"}', "Thought: I can answer.\nAnswer: Shipped."
    )
    assert run(memory_asked, "Ship A-17.") == "Shipped."
    assert shipped == ["A-17"]
    again = Scripted("Thought: I can answer.\nAnswer: A-17.")
    assert run(again, "Which one was it?") == "A-17."
    assert "Ship A-17." in again.sent[0]


def run_agent(url: str, store: Path, session_id: str, text: str) -> str:
    """A process with LlamaIndex's own OpenAI client, in the environment that it needs."""
    script = Path(__file__).with_name("llama_agent.py")
    environ = {**os.environ, "PYTHONPATH": f"{Path(sys.prefix, 'llama')}:{ROOT}", "OPENAI_API_KEY": "sk-theirs"}
    given = [sys.executable, str(script), url, str(store), session_id, text]
    done = subprocess.run(given, env=environ, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_an_agent_with_the_providers_client_remembers_in_another_process(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"
    with Upstream([as_reply(call("ship", "c1", order="A-17"), "openai"), as_reply("Shipped.", "openai")]) as upstream:
        assert run_agent(upstream.url, store, "s1", "My dog Bello is ill. Ship A-17.") == "Shipped."
        assert "shipped A-17" in flat(upstream.requests[1])
    with Upstream([as_reply("Bello.", "openai")]) as upstream:
        assert run_agent(upstream.url, store, "s2", "What is my dog called?") == "Bello."
        (request,) = upstream.requests
        assert "</memory" in flat(request)
        assert "My dog Bello is ill." in flat(request)
        assert "shipped A-17" not in flat(request)


def test_what_is_shown_is_asked_for_short_of_secrets_and_never_stored() -> None:
    with offprompt.open(":memory:") as opened:
        alice = opened.scope(user="alice")
        alice.write("user_name", "Ada Okafor")
        alice.write("pin", "4711-0815-kestrel", policy="never")
        alice.write("locker", "The locker opens with 4711-0815-kestrel", policy="when_asked")
        memory = OffpromptMemory("s1", opened, user="alice")
        memory.put(ChatMessage(role="user", content="What is my name, and the locker?"))
        first, again = memory.get(), memory.get()
        assert first == again
        blocks: list[Any] = first[-1].blocks
        frame, words = (str(block.text) for block in blocks)
        assert ["Ada Okafor" in frame, "[[mem:pin]]" in frame, "4711" in frame] == [True, True, False]
        assert words == "What is my name, and the locker?"
        assert [message.content for message in memory.get_all()] == [words]
        assert OffpromptMemory("s1", opened, user="alice", recall=False).get() == memory.get_all()


@pytest.mark.parametrize(
    ("text", "shows"),
    [
        ("Which paw did my dog break?", True),
        ("As I said, the dog's left paw is broken.", True),
        ("My dog broke his paw and the left one is bad.", False),
        ("How can I treat a dog's broken left paw?", False),
        ("我的狗的爪子摔断了。", False),
    ],
)
def test_only_words_that_ask_for_it_bring_a_memory(text: str, shows: bool) -> None:
    with offprompt.open(":memory:") as opened:
        opened.scope(user="alice").remember({"role": "user", "content": "My dog Bello broke his left paw at the lake."})
        memory = OffpromptMemory("s1", opened, user="alice")
        memory.put(ChatMessage(role="user", content=text))
        assert ("at the lake" in (memory.get()[-1].content or "")) is shows


def test_a_bounded_history_begins_with_a_whole_turn() -> None:
    with offprompt.open(":memory:") as opened:
        memory = OffpromptMemory("s1", opened, user="alice", history_tokens=150, capture="off")
        for number in range(6):
            memory.put_messages(
                [ChatMessage(role="user", content=f"q{number}"), ChatMessage(role="assistant", content=f"a{number}")]
            )
        kept = [message.content for message in memory.get()]
        assert 0 < len(kept) < 12
        assert (kept[0] or "")[0] == "q"
        assert kept[-1] == "a5"
        assert len(memory.get_all()) == 12
        memory.put(ChatMessage(role="user", content="long " * 500))
        assert [message.role for message in memory.get()] == ["user"]


MESSAGES = st.lists(
    st.builds(
        ChatMessage,
        role=st.sampled_from(["user", "assistant", "system", "tool"]),
        content=st.text(max_size=4),
        additional_kwargs=st.sampled_from([{}, {"tool_call_id": "c1"}]),
    ),
    max_size=3,
)
STEPS = st.lists(st.tuples(st.sampled_from(["put_messages", "set", "reset", "get_all"]), MESSAGES), max_size=8)


@settings(max_examples=25, deadline=None)
@given(steps=STEPS)
def test_it_keeps_what_llama_indexs_own_memory_keeps(steps: list[tuple[str, list[ChatMessage]]]) -> None:
    def play(memory: Any) -> list[Any]:
        kept: list[Any] = []
        for name, messages in steps:
            getattr(memory, name)(*([messages] if name in ("put_messages", "set") else []))
            kept.append(list(memory.get_all()))  # theirs is the list itself
        return kept

    with offprompt.open(":memory:") as opened:
        ours = play(OffpromptMemory("s1", opened, user="alice", capture="off"))
    theirs: Any = ChatMemoryBuffer
    assert ours == play(theirs.from_defaults(token_limit=10_000))


def test_it_needs_a_store_and_whose_it_is() -> None:
    with pytest.raises(offprompt.UsageError, match="session_id and memory"):
        OffpromptMemory.from_defaults()
    with offprompt.open(":memory:") as opened:
        with pytest.raises(offprompt.ScopeError, match="no scope"):
            OffpromptMemory("s1", opened)
        made = OffpromptMemory.from_defaults(session_id="s1", memory=opened, user="alice")
        assert made.class_name() == "OffpromptMemory"
