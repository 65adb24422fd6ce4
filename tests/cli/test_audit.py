"""`offprompt audit`: sums and faults in both languages, and exit codes."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Literal

import pytest

import offprompt
from offprompt.testing.scripted import ScriptedModel
from tests.cli.conftest import Run

Wire = Literal["openai", "anthropic"]
VALUES = ("Ada Okafor", "林晓梅", "blue-falcon")


def talk(store: Path, user: str, *words: str, wire: Wire = "openai", session_id: str = "s1") -> None:
    with offprompt.open(store) as memory:
        session = memory.scope(user=user).session(session_id, model="gpt-4o-mini", wire=wire)
        messages: list[dict[str, object]] = []
        for said in words:
            messages.append({"role": "user", "content": said})
            messages += session.complete(ScriptedModel(wire).create, messages).messages


def test_nothing_to_audit(run: Run) -> None:
    run("write city 上海 --user alice")
    assert run("audit").out == "nothing here\n"
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
