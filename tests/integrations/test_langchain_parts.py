"""LangChain's hello-world over restarts; histories, retrievers; what templates make of values and handles."""

from __future__ import annotations

import asyncio
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import UsageMetadataCallbackHandler, get_usage_metadata_callback
from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder

import offprompt
from offprompt.integrations.langchain import OffpromptChatMessageHistory, OffpromptRetriever
from offprompt.testing.scripted import ScriptedModel
from offprompt.testing.strict_server import StrictServer
from offprompt.wire.handles import find_handles, format_handle
from tests.house.tree import ROOT
from tests.integrations.agents import config, running
from tests.service.talk import call, flat


@pytest.fixture
def memory() -> Iterator[offprompt.Offprompt]:
    with offprompt.open(":memory:") as opened:
        yield opened


def test_hello_worlds_go_on_in_another_process(tmp_path: Path) -> None:
    """Two processes that load LangChain: seconds, for the one thing that only they show."""

    def say(thread: str, *words: str) -> list[str]:
        script = str(ROOT / "tests" / "integrations" / "hello_langchain.py")
        given = [sys.executable, script, server.url, str(tmp_path), thread, *words]
        done = subprocess.run(given, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    with StrictServer(ScriptedModel()) as server:
        say("t1", "My name is Ada Okafor.")
        _, answer, visits = say("t1", "How do tides work?", "What is my name?")
        assert answer == "Your name is Ada Okafor."
        assert visits == "[{'n': 2}]"
        requests = server.upstreams["openai"].requests
        quiet = next(each for each in requests if "tides" in flat(each["messages"][-1:]))
        assert [message["role"] for message in quiet["messages"] if "Ada" in flat(message)] == ["user"]
        assert quiet["messages"][: len(requests[0]["messages"])] == requests[0]["messages"]
        assert server.faults == []


@pytest.mark.parametrize(
    ("told", "asks", "answer"),
    [
        ("My name is Ada Okafor.", "What is my name?", "Your name is Ada Okafor."),
        ("我叫李明。", "我叫什么名字？", "你叫李明。"),
    ],
)
def test_a_second_session_of_a_stored_memory_knows_the_first(tmp_path: Path, told: str, asks: str, answer: str) -> None:
    path = str(tmp_path / "agent.db")
    with running("openai", ScriptedModel(), memory=offprompt.open(path)) as agent:
        agent.ask(told)
    with running("openai", ScriptedModel(), memory=offprompt.open(path)) as agent:
        assert agent.ask(asks, given=config("t2")) == answer
        assert len(agent.requests) == 1


def test_a_history_gives_back_what_it_was_given(tmp_path: Path) -> None:
    given: list[BaseMessage] = [
        SystemMessage("Be brief."),
        HumanMessage([{"type": "text", "text": "Look."}, {"type": "image_url", "image_url": {"url": "data:,x"}}]),
        AIMessage(
            [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, {"type": "text", "text": "I look."}],
            tool_calls=[{"name": "look", "args": {"at": "x", "n": 1}, "id": "c1", "type": "tool_call"}],
            id="a1",
        ),
        ToolMessage("seen", tool_call_id="c1", status="error", name="look"),
    ]
    path = str(tmp_path / "a.db")
    with offprompt.open(path) as memory:
        OffpromptChatMessageHistory(memory, "s1", user="alice").add_messages(given)
        assert OffpromptChatMessageHistory(memory, "s2", user="alice").messages == []
        assert OffpromptChatMessageHistory(memory, "s1", user="bo").messages == []
    with offprompt.open(path) as memory:
        history = OffpromptChatMessageHistory(memory, "s1", user="alice")
        asyncio.run(history.aadd_messages([HumanMessage("And?")]))
        assert asyncio.run(history.aget_messages()) == [*given, HumanMessage("And?")]
        history.clear()
        assert history.messages == []


def test_a_message_that_is_no_json_is_refused_and_nothing_is_stored(memory: offprompt.Offprompt) -> None:
    history = OffpromptChatMessageHistory(memory, "s1", user="alice")
    bad = ToolMessage("seen", tool_call_id="c1", artifact=object())
    with pytest.raises(offprompt.UsageError, match="artifact"):
        history.add_messages([HumanMessage("Look."), bad])
    assert history.messages == []


def test_a_chain_with_history_goes_on_and_is_remembered(memory: offprompt.Offprompt) -> None:
    """The model is LangChain's own fake: what it says is given."""
    model = GenericFakeChatModel(messages=iter([AIMessage("Noted."), AIMessage("Ada.")]))
    prompt = ChatPromptTemplate([("system", "Be brief."), MessagesPlaceholder("history"), ("human", "{words}")])
    history = OffpromptChatMessageHistory(memory, "s1", user="alice")
    for words in ("My dog Bello broke his left paw at the lake.", "Who am I?"):
        reply = (prompt | model).invoke({"words": words, "history": history.messages})
        history.add_messages([HumanMessage(words), reply])
    assert [each.text for each in history.messages][1:] == ["Noted.", "Who am I?", "Ada."]
    hits = memory.scope(user="alice").recall("Which paw did the dog break?")
    assert "Bello" in hits.hits[0].text


def test_a_retriever_finds_memories_with_their_trust(memory: offprompt.Offprompt) -> None:
    alice = memory.scope(user="alice")
    (known,) = alice.remember("Bello broke his left paw at the lake.", tags=["dog"], metadata={"vet": 7}, derive="none")
    retriever = OffpromptRetriever(scope=alice, options={"top_k": 3})
    for found in (retriever.invoke("Which paw is broken?"), asyncio.run(retriever.ainvoke("Which paw is broken?"))):
        assert [type(each) for each in found] == [Document]
        assert found[0].id == known.name == found[0].metadata["memory_id"]
        assert found[0].page_content == "Bello broke his left paw at the lake."
        told = {name: found[0].metadata[name] for name in ("trust", "tags", "metadata", "kind")}
        assert told == {"trust": "user", "tags": ["dog"], "metadata": {"vet": 7}, "kind": "fact"}
        assert found[0].metadata["score"] > 0
    assert retriever.invoke("zzz qqq") == []


HOSTILE = "{name} {{name}} {% if x %} {# no #} {{{raw}}} [[mem:other]] %s $x"
HANDLES = [format_handle("report"), format_handle("report", "/rows/0"), format_handle("@0123456789ab")]
WORDS = {"f-string": "{words}", "mustache": "{{{words}}}", "jinja2": "{{ words }}"}


@pytest.mark.parametrize("template", WORDS)
def test_values_and_handles_go_through_templates_as_they_are(template: Any) -> None:
    prompt = ChatPromptTemplate([("system", "Be brief."), ("human", WORDS[template])], template_format=template)
    for text in (HOSTILE, *HANDLES):
        assert prompt.invoke({"words": text}).to_messages()[1].content == text


@pytest.mark.parametrize("template", WORDS)
def test_a_handle_in_a_templates_own_text_is_no_variable_of_it(template: Any) -> None:
    text = f"Send {HANDLES[0]} and {HANDLES[1]}: {WORDS[template]}"
    prompt = ChatPromptTemplate([("human", text)], template_format=template)
    assert prompt.input_variables == ["words"]
    said = str(prompt.invoke({"words": "now"}).to_messages()[0].content)
    assert [(found.name, found.pointer) for found in find_handles(said)] == [("report", ""), ("report", "/rows/0")]


@pytest.mark.parametrize("template", WORDS)
def test_a_value_that_looks_like_a_template_comes_back_whole_from_an_agent(template: Any) -> None:
    with running("openai", ["It is [[mem:pattern]]."]) as agent:
        agent.memory.scope(user="alice").write("pattern", HOSTILE, policy="by_handle")
        answer = agent.ask("Show my pattern.")
        assert answer == f"It is {HOSTILE}."
        prompt = ChatPromptTemplate([("human", WORDS[template])], template_format=template)
        assert prompt.invoke({"words": answer}).to_messages()[0].content == answer


@pytest.mark.parametrize(
    ("extra", "library"), [("langchain", "langchain_core.chat_history"), ("langgraph", "langgraph.store.base")]
)
def test_a_missing_extra_says_how_to_install_it(extra: str, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own = f"offprompt.integrations.{extra}"
    for name in [name for name in sys.modules if name == own or name.startswith(f"{own}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(offprompt.UnsupportedError, match=rf"pip install 'offprompt\[{extra}\]'"):
        importlib.import_module(own)


def test_tokens_count_once_where_callbacks_are_given_and_twice_where_langchain_puts_them_into_every_run() -> None:
    said = [call("mem_read", "m1", slot="city"), "In Ulm.", "You are welcome."]
    given = UsageMetadataCallbackHandler()
    with running("openai", said) as agent:
        agent.memory.scope(user="alice").write("city", "Ulm", policy="by_handle")
        agent.ask("Where do I live?", given={**config(), "callbacks": [given]})
        answer: Any = agent.messages()[-1]
        assert [len(agent.requests), list(given.usage_metadata.values())] == [2, [answer.usage_metadata]]
        with get_usage_metadata_callback() as ambient:
            agent.ask("Thanks!")
        (counted,) = ambient.usage_metadata.values()
        assert counted["total_tokens"] == 2 * agent.messages()[-1].usage_metadata["total_tokens"]
