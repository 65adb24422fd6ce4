"""`offprompt trace`: what happened in a session, without the values."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

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
