"""`offprompt trace`: what happened in a session, without the values."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

import offprompt
from offprompt.testing.scripted import ScriptedModel
from tests.cli.conftest import Run

Wire = Literal["openai", "anthropic"]


def talk(store: Path, user: str, *words: str, wire: Wire = "openai") -> None:
    with offprompt.open(store) as memory:
        session = memory.scope(user=user).session("s1", model="gpt-4o-mini", wire=wire)
        messages: list[dict[str, object]] = []
        for said in words:
            messages.append({"role": "user", "content": said})
            messages += session.complete(ScriptedModel(wire).create, messages).messages


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_a_trace_tells_each_turn(run: Run, store: Path, wire: Wire) -> None:
    talk(store, "alice", "My name is Ada Okafor.", "How would you bake bread?", "What is my name?", wire=wire)
    out = run("trace s1 --user alice").out
    assert "action: mem_write" in out
    assert "receipt: saved user_name v1" in out
    assert "shown: user_name (identity" in out
    assert "slot.write user_name v1 (model, ok)" in out
    document = run("trace s1 --json").document
    assert [turn["turn"] for turn in document["turns"]] == [1, 2, 3]
    assert [len(turn["requests"]) for turn in document["turns"]] == [2, 1, 1]
    assert document["turns"][2]["requests"][0]["shown"][0]["name"] == "user_name"
    assert document["turns"][0]["requests"][0]["sent"]["tokens"] > 0


def test_values_are_handles_unless_asked_for_and_secrets_always(run: Run, store: Path) -> None:
    run("write api_key hunter2-hunter2-hunter2 --user alice")
    talk(store, "alice", "我叫林晓梅。", "我叫什么名字？", "hunter2-hunter2-hunter2 是什么？")
    hidden, told = run("trace s1 --user alice"), run("trace s1 --user alice --values")
    assert "林晓梅" not in hidden.out
    assert "[[mem:user_name]]" in hidden.out
    assert "林晓梅" in told.out
    assert "hunter2" not in hidden.out + told.out


def test_one_turn_and_none(run: Run, store: Path) -> None:
    talk(store, "alice", "Hello", "Good bye")
    assert [turn["turn"] for turn in run("trace s1 --turn 2 --json").document["turns"]] == [2]
    assert run("trace s1 --turn 9").code == 3
    assert "请求" not in run("trace s1").out
    assert "请求" in run("trace s1 --lang zh").out


def test_a_session_that_is_not_there_or_not_clear(run: Run, store: Path) -> None:
    assert run("trace s1").code == 3
    talk(store, "alice", "Hello")
    talk(store, "bob", "Hello")
    ran = run("trace s1")
    assert ran.code == 2
    assert "--user" in ran.err
    assert run("trace s1 --user alice").code == 0
    assert run("trace s1 --user carol").code == 3


def leaky(store: Path) -> None:
    """A session in which a tool says a secret and a part of a value."""
    with offprompt.open(store, leaks="scrub") as memory:
        alice = memory.scope(user="alice")
        alice.write("api_key", "hunter2-hunter2-hunter2")
        alice.write("报告", "周二鲱鱼船队停靠盐港三号码头，第十二到四十箱运往多恩。", policy="by_handle")
        session = alice.session("s1", model="gpt-4o-mini")
        asked = {"id": "c1", "type": "function", "function": {"name": "get", "arguments": "{}"}}
        messages: list[dict[str, Any]] = [{"role": "user", "content": "Look"}]
        session.prepare(messages)
        messages += session.absorb({"role": "assistant", "content": None, "tool_calls": [asked]}).messages
        said = "key HUNTER2 hunter2 hunter2, 周二鲱鱼船队停靠盐港三号码头"
        messages.append({"role": "tool", "tool_call_id": "c1", "content": said})
        session.prepare(messages)
        session.absorb({"role": "assistant", "content": "Done."})


def test_undo_prints_each_rewritten_message_before_and_after(run: Run, store: Path) -> None:
    leaky(store)
    out = run("trace s1 --user alice --undo").out
    assert "turn 1  tool, as sent" in out
    assert "  - key HUNTER2 hunter2 hunter2, 周二鲱鱼船队停靠盐港三号码头" in out
    assert "  + key [[mem:api_key]], [[mem:报告]]" in out
    assert "轮次 1  工具, 发送时" in run("trace s1 --user alice --undo --lang zh").out
    [one] = run("trace s1 --user alice --undo --json").document["rewritten"]
    assert (one["turn"], one["kind"], one["form"]) == (1, "tool", "as sent")
    assert (one["before"][:11], one["after"][:19]) == ("key HUNTER2", "key [[mem:api_key]]")
    assert run("trace s1 --user alice --undo --turn 1").out == out


def test_without_undo_nothing_of_it_is_printed_and_the_trace_says_what_was_put_back(run: Run, store: Path) -> None:
    leaky(store)
    for words in ("", "--values", "--json", "--json --values", "--lang zh"):
        out = run(f"trace s1 --user alice {words}").out
        assert "hunter2" not in out.lower()
    assert "put back to its handle: api_key" in run("trace s1 --user alice").out
    assert "已换回句柄: 报告" in run("trace s1 --user alice --lang zh").out


def test_undo_where_nothing_was_rewritten(run: Run, store: Path) -> None:
    talk(store, "alice", "Hello")
    assert "no message was rewritten" in run("trace s1 --user alice --undo").out
    assert "没有消息被改写" in run("trace s1 --user alice --undo --lang zh").out


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_trace_tells_what_the_provider_cleared(run: Run, store: Path, lang: str) -> None:
    edit = {"type": "clear_tool_uses_20250919", "cleared_tool_uses": 4, "cleared_input_tokens": 51000}
    said = {"role": "assistant", "content": [{"type": "text", "text": "Well."}]}
    with offprompt.open(store) as memory:
        session = memory.scope(user="alice").session("s1", model="claude-opus-5", policy="context_editing")
        session.prepare([{"role": "user", "content": "Go on"}])
        session.absorb({**said, "context_management": {"applied_edits": [edit]}})
    told = {"en": "results that the provider cleared: 4 (51,000 tokens)", "zh": "供应商清除的结果: 4 (51,000 令牌)"}
    assert told[lang] in run(f"trace s1 --user alice --lang {lang}").out
    request = run("trace s1 --json").document["turns"][0]["requests"][0]
    assert (request["usage"]["cleared"], request["usage"]["cleared_results"]) == (51000, 4)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_what_is_sent_and_no_longer_shown_is_told(run: Run, store: Path, lang: str) -> None:
    with offprompt.open(store, shown_after_turn="clear_at", recall_tokens=0) as memory:
        alice = memory.scope(user="alice")
        alice.write("plan", "walk, then rest", policy="when_asked")
        session = alice.session("s1", model="claude-opus-5-5")
        messages: list[Any] = []
        for said in ("What is my plan?", "Thanks"):
            messages.append({"role": "user", "content": said})
            session.prepare(messages)
            messages += session.absorb({"role": "assistant", "content": [{"type": "text", "text": "Well."}]}).messages
    told = {"en": "sent, but no longer shown: plan", "zh": "仍在发送，但不再展示: plan"}
    out = run(f"trace s1 --user alice --lang {lang}").out
    assert out.count(told[lang]) == 1
    requests = [turn["requests"][0] for turn in run("trace s1 --json").document["turns"]]
    assert [each["lapsed"] for each in requests] == [[], ["plan"]]
    held = {"en": "1 requests still held a value of an earlier turn", "zh": "1 个请求仍带有较早轮次的值"}
    assert held[lang] in run(f"audit --lang {lang}").out
    totals = run("audit --json").document["totals"]
    assert (totals["requests_with_lapsed_value"], totals["requests_without_added_value"]) == (1, 1)
