"""`offprompt audit`: sums and faults in both languages, and exit codes."""

from __future__ import annotations

import re
import sqlite3
import tomllib
from pathlib import Path
from typing import Literal

import pytest

import offprompt
from offprompt.cli.audit_text import warning_text
from offprompt.testing.scripted import ScriptedModel
from tests.cli.conftest import Run
from tests.house.tree import PACKAGE

Wire = Literal["openai", "anthropic"]
VALUES = ("Ada Okafor", "林晓梅", "blue-falcon")


def talk(store: Path, user: str, *words: str, wire: Wire = "openai", session_id: str = "s1") -> None:
    with offprompt.open(store) as memory:
        session = memory.scope(user=user).session(session_id, model="gpt-4o-mini", wire=wire)
        messages: list[dict[str, object]] = []
        for said in words:
            messages.append({"role": "user", "content": said})
            messages += session.complete(ScriptedModel(wire).create, messages).messages


def test_nothing_to_audit(run: Run, store: Path) -> None:
    run("write city 上海 --user alice")
    assert run("audit").out == f"nothing here: {store}\n"
    assert run("audit --json").document["sessions"] == []
    assert (run("audit").code, run("audit --user typo").code) == (0, 3)
    assert "no session in scope user=typo" in run("audit --user typo").err


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_an_audit_says_what_was_kept_and_what_it_cost(run: Run, store: Path, wire: Wire) -> None:
    talk(store, "alice", "My name is Ada Okafor.", "How would you bake bread?", "What is my name?", wire=wire)
    ran = run("audit --verify --diagnose")
    assert ran.code == 0
    assert "requests: 4 in 3 turns, 0 without a reply" in ran.out
    assert "shown: user_name (identity), turn 3; 1 requests carried it" in ran.out
    assert "ledger: all 4 entries are as they were written" in ran.out
    assert "3 of 4 requests carried no stored value" in ran.out
    assert "0 calls to a language model" in ran.out
    assert "NOTHING SAVED" in ran.out
    assert "instructions cost more than they saved" in ran.out
    assert not any(value in ran.out for value in VALUES)


def test_an_audit_in_chinese(run: Run, store: Path) -> None:
    talk(store, "alice", "我叫林晓梅。", "讲个笑话", "我叫什么名字？")
    out = run("audit --verify --diagnose --lang zh").out
    assert "请求：3 轮共 4 个" in out
    assert "展示：user_name（identity）" in out
    assert "账本：全部 4 条与写入时一致" in out
    assert "这里没有节省" in out
    assert "指令的开销大于节省" in out
    assert "requests" not in out
    assert not any(value in out for value in VALUES)


def test_an_audit_as_one_document(run: Run, store: Path) -> None:
    talk(store, "alice", "My name is Ada Okafor.", "What is my name?")
    talk(store, "bob", "Hello")
    document = run("audit --verify --diagnose --json").document
    assert document["model_calls_for_memory"] == 0
    assert document["totals"]["requests"] == sum(one["requests"] for one in document["sessions"]) == 4
    alice = next(one for one in document["sessions"] if one["scope"]["user"] == "alice")
    assert alice["ledger"] == {"entries": 3, "whole": True, "broken": None}
    assert alice["tokens_in"] == sum(alice["tokens_by_part"].values())
    assert alice["shown"][0]["name"] == "user_name"
    assert {one["cause"] for one in alice["diagnoses"]} == {"head_cost"}
    assert [one["scope"]["user"] for one in run("audit --user bob --json").document["sessions"]] == ["bob"]


def test_an_inline_session_is_called_that(run: Run, store: Path) -> None:
    run("write city 'Rotterdam, south bank' --user alice")
    with offprompt.open(store) as memory:
        session = memory.scope(user="alice").session("s1", model="gpt-4o-mini", mode="inline")
        session.complete(ScriptedModel().create, [{"role": "user", "content": "Hello"}])
    assert "all values stood in the head of 1 requests" in run("audit").out
    assert "1 个请求的开头带有全部值" in run("audit --lang zh").out


def test_a_leak_comes_first_and_is_an_exit_code(run: Run, store: Path) -> None:
    run("write fleet Harbour_Master_9 --user alice --policy by_handle")
    run("write Harbour_Master_9 unused --user alice")
    talk(store, "alice", "Hello")
    ran = run("audit")
    assert ran.code == 1
    assert ran.out.startswith("FAULT: request 1 (turn 1) of user=alice session=s1")
    assert "B was BROKEN" in ran.out
    assert run("audit --lang zh").out.startswith("故障")
    document = run("audit --json")
    assert document.code == 1
    assert document.document["leaks"][0]["names"] == ["fleet"]


def test_a_broken_ledger_is_named_and_an_exit_code(run: Run, store: Path) -> None:
    talk(store, "alice", "Hello", "Good bye")
    with sqlite3.connect(store) as connection:
        connection.execute("DELETE FROM ledger WHERE seq = 1")
    connection.close()
    assert run("audit").code == 0
    ran = run("audit --verify")
    assert ran.code == 5
    assert "ledger BROKEN at entry 1: it is not there" in ran.out
    assert "user=alice session=s1" in ran.err
    assert "backup" in ran.err
    assert "账本在第 1 条损坏" in run("audit --verify --lang zh").out
    document = run("audit --verify --json")
    assert document.document["sessions"][0]["ledger"]["broken"] == {"seq": 1, "kind": "missing"}
    assert document.error["type"] == "BackendError"


def test_a_session_that_is_not_there_names_those_that_are(run: Run, store: Path) -> None:
    talk(store, "alice", "Hello", session_id="monday")
    ran = run("audit --user alice --session tuesday")
    assert ran.code == 3
    assert "monday" in ran.err
    assert "monday" in run("trace tuesday --user alice").err
    assert run("audit --user alice --session monday").code == 0


def test_a_trace_says_what_is_wrong_with_an_answer(run: Run, store: Path) -> None:
    run("write user_name 'Ada Okafor' --user alice")
    with offprompt.open(store) as memory:
        session = memory.scope(user="alice").session("s1", model="gpt-4o-mini")
        session.prepare([{"role": "user", "content": "What is my name?"}])
        session.absorb({"choices": [{"message": {"role": "assistant", "content": "Your name is Robert."}}]})
    assert 'CONTRADICTS user_name: the answer states another value: "your name is robert"' in run("trace s1").out
    assert "与 user_name 矛盾：回答给出另一个值" in run("trace s1 --lang zh").out
    assert run("trace s1 --json").document["turns"][0]["flags"][0]["fault"] == "states_other"


def test_warnings_that_differ_in_numbers_only_are_one_line(run: Run, store: Path) -> None:
    with offprompt.open(store) as memory:
        session = memory.scope(user="alice").session("s1", model="gpt-4o-mini")
        messages: list[dict[str, object]] = []
        for number in range(4):
            messages.append({"role": "user", "content": f"say {number} " * 2000})
            session.prepare(messages, show=["没有"])
            answer: dict[str, object] = {"role": "assistant", "content": "ok"}
            usage = {"prompt_tokens": 1000 + number, "completion_tokens": 1}
            messages += session.absorb({"choices": [{"message": answer}], "usage": usage}).messages
    lines = [each.strip() for each in run("audit").out.splitlines() if "warning" in each]
    assert len(lines) == 2
    assert lines[0] == "warning (4×): show='没有': there is no such slot; it was not shown"
    assert lines[1].startswith("warning (4×, with other numbers too): the provider counted 1,000 tokens of the ")
    assert len(run("audit --json").document["sessions"][0]["warnings"]) == 5
    chinese = run("audit --lang zh").out
    assert "警告（4 次）：show='没有'：没有这个槽位，未展示" in chinese
    assert "警告（4 次，数字各不相同）：供应商只计了 1,000 个令牌，实际发送 " in chinese
    assert "供应商只计了 1,000 个令牌" in run("trace s1 --lang zh").out


@pytest.mark.parametrize(
    ("text", "chinese"),
    [
        (
            "the handle [[mem:x]] in the answer was not resolved: nothing is stored there",
            "句柄 [[mem:x]]（在 the answer 中）没有解析：那里没有存储内容",
        ),
        (
            "memory is not available, this request went without it: disk full",
            "记忆不可用，本次请求没有使用它：disk full",
        ),
        (
            "leak: the value of 'city', or a part of it, stands in the result of call 'c1'",
            "泄漏：'city' 的值或其一部分出现在调用 'c1' 的结果里",
        ),
        ("something new", "something new"),
    ],
)
def test_stored_warnings_are_said_in_chinese_where_they_are_ours(text: str, chinese: str) -> None:
    assert warning_text("zh", text) == chinese
    assert warning_text("en", text) == text


def test_the_patterns_of_warnings_fit_what_the_code_says() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (PACKAGE / "service").glob("*.py"))
    flat = re.sub(r'"\s*f?"', "", sources)
    kinds = tomllib.loads((PACKAGE / "cli" / "audit.toml").read_text(encoding="utf-8"))["warnings"]
    for kind in kinds:
        fixed = max(re.split(r"\(\?P<.*?>.*?\)|\.\*|\\d", kind["en"]), key=len)
        assert fixed in flat, kind["en"]
    assert len(kinds) > 10


def test_a_relative_price_says_of_what(run: Run, store: Path) -> None:
    with offprompt.open(store) as memory:
        session = memory.scope(user="alice").session("s1", model="some-unknown-model", wire="openai")
        session.complete(ScriptedModel().create, [{"role": "user", "content": "Hello"}])
        session = memory.scope(user="alice").session("s2", model="gpt-4o-mini")
        session.complete(ScriptedModel().create, [{"role": "user", "content": "Hello"}])
    assert " × the price of a million input tokens" in run("audit").out
    assert "每百万输入令牌价格的 " in run("audit --lang zh").out
    assert "× input price" not in run("audit").out


def test_one_leak_over_many_requests_is_one_line_and_what_was_scrubbed_is_summed(run: Run, store: Path) -> None:
    run("write fleet Harbour_Master_9 --user alice --policy by_handle")
    run("write Harbour_Master_9 unused --user alice")
    run("write api_key hunter2-hunter2 --user alice")
    with offprompt.open(store) as memory:
        session = memory.scope(user="alice").session("s1", model="gpt-4o-mini")
        asked = {"id": "c1", "type": "function", "function": {"name": "get", "arguments": "{}"}}
        messages: list[dict[str, object]] = [{"role": "user", "content": "Look"}]
        session.prepare(messages)
        messages += session.absorb({"role": "assistant", "content": None, "tool_calls": [asked]}).messages
        messages.append({"role": "tool", "tool_call_id": "c1", "content": "key hunter2-hunter2"})
        session.prepare(messages)
        messages += session.absorb({"role": "assistant", "content": "Done."}).messages
        session.prepare([*messages, {"role": "user", "content": "And?"}])
    out = run("audit").out
    assert out.count("FAULT") == 1
    assert "request 1–3 (turn 1–2)" in out
    assert "values put back to their handles, by messages: 1 (api_key 1)" in out
    assert "换回句柄的值（按消息计）：1（api_key 1）" in run("audit --lang zh").out
    assert run("audit --json").document["totals"]["scrubbed"] == {"api_key": 1}
    assert run("audit --json").document["totals"]["messages_stubbed"] == 0
