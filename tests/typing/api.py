"""What users see, as a type checker sees it. Checked by pyright, never run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_type

import offprompt
from offprompt import (
    DEFAULT,
    Agent,
    AgentLimits,
    AgentReply,
    AsyncClient,
    AsyncSession,
    BoundScope,
    Cancel,
    ChatModel,
    Client,
    Completion,
    Hit,
    Memory,
    MemoryPage,
    MemoryVersion,
    Offprompt,
    Parsed,
    Recalled,
    Remembered,
    Reply,
    Scope,
    Session,
    Slot,
    SlotVersion,
    ToolRun,
    WithoutTools,
)
from offprompt.records import Action, Event, LedgerEntry, Receipt, Refusal, ToolCall


def opened() -> None:
    memory = offprompt.open("agent.db", max_slots=100)
    assert_type(memory, Offprompt)
    with offprompt.open() as again:
        assert_type(again, Offprompt)
    assert_type(memory.scope(user="alice"), BoundScope)
    assert_type(memory.close(), None)


def models(memory: Offprompt, alice: BoundScope) -> None:
    model = offprompt.chat_model("ollama:qwen3:8b", base_url="http://127.0.0.1:11434", context_tokens=8192, retries=2)
    assert_type(model, ChatModel)
    assert_type(model.create({"messages": []}, timeout_s=5, cancel=Cancel()), dict[str, Any])
    answer = model.complete([{"role": "user", "content": "Hi"}], schema={"type": "object"}, max_tokens=5)
    assert_type(answer, Completion)
    assert_type(answer.text, str)
    for chunk in model.stream({"messages": []}):
        assert_type(chunk, dict[str, Any])
    offprompt.open("agent.db", models={"extract": model, "rerank": "gpt-4o-mini"})
    assert_type(alice.memories.recall("where?", rerank=True), Recalled)
    assert memory


def slots(alice: BoundScope) -> None:
    assert_type(alice.scope, Scope)
    slot = alice.write("city", "上海", ttl_s=None, tags=["home"], importance=0.9, policy="card", if_version=0)
    assert_type(slot, Slot)
    alice.write("profile", {"city": "上海", "since": [2019]}, ttl_s=DEFAULT, schema={"type": "object"})
    assert_type(alice.read("city"), Any)
    assert_type(alice.forget("city"), str)
    assert_type(alice.slots.undo("city"), Slot)
    assert_type(alice.slots.get("city"), Slot | None)
    assert_type(alice.slots.get_many(["city"]), dict[str, Slot])
    assert_type(alice.slots.list("c*", tags=["home"], within="subtree"), list[Slot])
    assert_type(alice.slots.rank(limit=3), list[tuple[Slot, float]])
    assert_type(alice.slots.history("city"), list[SlotVersion])
    assert_type(alice.slots.erase("city"), int)
    assert_type(alice.events(op="slot."), list[Event])
    assert_type(alice.narrow(session="s1"), BoundScope)


def memories(alice: BoundScope) -> None:
    assert_type(alice.remember("I moved to Shanghai", tags=["home"], event_at="2026-05-01"), list[Remembered])
    assert_type(alice.remember([{"role": "user", "content": "hi"}], derive="none"), list[Remembered])
    found = alice.recall("where does she live?", top_k=3, filters={"topic": "home"}, kinds=["fact"])
    assert_type(found, Recalled)
    assert_type(found[0], Hit)
    assert_type(next(iter(found)).memory, Memory)
    assert_type((found.why, found.degraded, found.searched, found.below), tuple[str, str, int, int])
    assert_type(alice.forget("m_1"), str)
    assert_type(alice.memories.get("m_1"), Memory | None)
    assert_type(alice.memories.get_many(["m_1"]), list[Memory])
    assert_type(alice.memories.list(states=["live", "archived"], limit=10), MemoryPage)
    assert_type(alice.memories.update("m_1", text="x", if_version=1), Memory)
    assert_type(alice.memories.forget("m_1", "m_2"), int)
    assert_type(alice.memories.undo("m_1"), int)
    assert_type(alice.memories.erase("m_1"), int)
    assert_type(alice.memories.history("m_1"), list[MemoryVersion])
    assert_type(alice.memories.export("memories.jsonl"), int)
    assert_type(alice.memories.import_file("memories.jsonl").added, int)
    assert_type(alice.memories.sessions(), dict[str, int])


def wrong(alice: BoundScope) -> None:
    alice.write("city", "x", policy="sometimes")  # pyright: ignore[reportArgumentType]
    alice.write("city", object())  # pyright: ignore[reportArgumentType]
    alice.write("city", "x", None)  # pyright: ignore[reportCallIssue]


def conversation(alice: BoundScope) -> None:
    session = alice.session("s1", model="gpt-4o-mini", wire="openai", system="", tools=[], policy="auto", mode="auto")
    assert_type(session, Session)
    assert_type(session.prepare([{"role": "user", "content": "hi"}], show=["city"]), dict[str, Any])
    reply = session.absorb({"role": "assistant", "content": "hello"})
    assert_type(reply, Reply)
    assert_type(reply.done, bool)
    assert_type(reply.text, str)
    assert_type(reply.tool_calls, tuple[ToolCall, ...])
    assert_type(reply.messages, tuple[dict[str, Any], ...])
    assert_type(reply.reads, Mapping[str, Any])
    assert_type(reply.receipts, tuple[Receipt, ...])
    assert_type(reply.warnings, tuple[str, ...])
    assert_type(session.ledger(), list[LedgerEntry])
    assert_type(alice.async_session("s1"), AsyncSession)


async def conversation_async(session: AsyncSession) -> None:
    assert_type(await session.prepare([]), dict[str, Any])
    assert_type(await session.absorb({}), Reply)


def actions(text: str) -> None:
    parsed = offprompt.parse_actions(text, names=("mem_write",))
    assert_type(parsed, Parsed)
    assert_type(parsed.actions, tuple[Action, ...])
    assert_type(parsed.refused, tuple[Refusal, ...])
    assert_type(parsed.text, str)


def agents(memory: Offprompt, model: ChatModel) -> None:
    agent = Agent(memory, model, tools=[len], instructions="Be short.", temperature=0.2, limits=AgentLimits(rounds=4))
    reply = agent.run("Hello", user="alice", session="s1", cancel=Cancel())
    assert_type(reply, AgentReply)
    assert_type(reply.tools, tuple[ToolRun, ...])
    assert_type(reply.price, float | None)
    assert_type(list(agent.stream("Hello", user="alice")), list[str | ToolRun])
    assert_type(agent.session(user="alice").messages(), list[dict[str, Any]])
    assert_type(WithoutTools(model, calls="schema").name, str)


async def async_agents(agent: Agent) -> None:
    assert_type(await agent.arun("Hello", user="alice"), AgentReply)
    stream = agent.astream("Hello", user="alice")
    assert_type([piece async for piece in stream], list[str | ToolRun])
    assert_type(stream.reply, AgentReply)


def remote(client: Client) -> None:
    assert_type(offprompt.open("http://127.0.0.1:7333", key="op_1_2", busy_timeout_s=5), Offprompt)
    alice = client.scope(user="alice")
    assert_type(alice.scope, Scope)
    assert_type(alice.write("city", "上海", ttl_s=None, tags=["home"], policy="card", if_version=0), Slot)
    assert_type(alice.read("city"), Any)
    assert_type(alice.forget("city"), str)
    assert_type(alice.slots.get("city", touch=False), Slot | None)
    assert_type(alice.slots.list("c*", within="subtree"), list[Slot])
    assert_type(alice.slots.rank(limit=3), list[tuple[Slot, float]])
    assert_type(alice.slots.history("city"), list[SlotVersion])
    assert_type(alice.recall("where?", top_k=3)[0], Hit)
    assert_type(alice.memories.list(limit=10), MemoryPage)
    assert_type(alice.memories.update("m_1", text="x"), Memory)
    assert_type(alice.memories.history("m_1"), list[MemoryVersion])
    assert_type(alice.memories.import_file("memories.jsonl").added, int)
    assert_type(alice.events(op="slot."), list[Event])
    assert_type(client.close(), None)
    alice.write("city", object())  # pyright: ignore[reportArgumentType]
    alice.write("city", "x", None)  # pyright: ignore[reportCallIssue]


async def remote_async(client: AsyncClient) -> None:
    alice = client.scope(user="alice")
    assert_type(await alice.write("city", "上海", ttl_s=None, if_version=0), Slot)
    assert_type(await alice.slots.get_many(["city"]), dict[str, Slot])
    assert_type(await alice.remember("I moved to Shanghai", tags=["home"]), list[Remembered])
    assert_type(await alice.recall("where?"), Recalled)
    assert_type(await alice.memories.get("m_1"), Memory | None)
    assert_type(await alice.memories.sessions(), dict[str, int])
    assert_type(await alice.clear(), dict[str, int])
    assert_type(await client.close(), None)
    await alice.write("city", "x", policy="sometimes")  # pyright: ignore[reportArgumentType]
