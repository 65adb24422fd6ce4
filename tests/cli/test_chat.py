"""`offprompt chat`: in a pipe, in both languages, with what each turn did and weighed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from offprompt.errors import NotFoundError, UsageError
from offprompt.testing.scripted import ScriptedModel
from offprompt.testing.strict import Said, SaidCall
from offprompt.testing.strict_server import StrictServer, Trouble
from tests.cli.conftest import Run

TALK = "My name is Ada Okafor.\nHow would you bake bread?\nWhat is my name?\n"


def test_a_talk_in_a_pipe_shows_what_each_turn_did(run: Run) -> None:
    ran = run("chat --user alice", TALK)
    assert ran.code == 0
    assert ran.out.startswith("SCRIPTED: a script stands in for the language model.\n")
    assert "Your name is Ada Okafor.\n" in ran.out
    assert "  stored: user_name v1, " in ran.out
    assert "  shown: user_name (identity, 4)\n" in ran.out
    assert ran.out.count("the traditional way: ") == 3


def test_the_talk_goes_on_in_the_next_process(run: Run) -> None:
    run("chat --user alice", "My name is Ada Okafor.\n")
    assert "Your name is Ada Okafor." in run("chat --user alice", "What is my name?\n").out
    assert "Your name is Ada Okafor." in run("chat --user alice --session other", "What is my name?\n").out
    assert "Ada" not in run("chat --user bob", "What is my name?\n").out.partition("/quit")[2]


def test_it_speaks_chinese(run: Run) -> None:
    ran = run("chat --user alice --lang zh", "我叫李明。\n我叫什么？\n/help\n/mem\n")
    assert "你叫李明。" in ran.out
    assert "已展示: user_name (identity, 2)" in ran.out
    assert "隐藏一个槽位或一条记忆" in ran.out


def test_what_may_be_typed_beside_words(run: Run) -> None:
    ran = run(
        "chat --user alice", TALK + "/mem\n/why\n/trace\n/forget user_name\n/forget nothing\n/mem\n/quit\nnever read\n"
    )
    shown = ran.out.partition("> /mem")[2]
    assert "user_name  when_asked  Ada Okafor" in shown
    assert "user_name: shown: identity (4)" in shown
    assert "turn 3  What is my name?" in shown
    assert "user_name: forgotten" in shown
    assert "when_asked" not in shown.rpartition("> /mem")[2]
    assert "never read" not in ran.out
    assert ran.err.startswith("offprompt: no slot 'nothing'")
    assert ran.code == NotFoundError.exit_code


def test_secrets_are_not_listed(run: Run) -> None:
    run("write token sk-live-51Hx9Qm2Zr8Tn4 --user alice --policy never")
    ran = run("chat --user alice", "/mem\n/why\nHello there.\n/trace\n")
    assert "sk-live" not in ran.out
    assert "***" in ran.out


def test_as_json_each_turn_is_a_line(run: Run) -> None:
    ran = run("chat --user alice --json", TALK)
    turns = [json.loads(line) for line in ran.out.splitlines()]
    assert [turn["text"] for turn in turns][-1] == "Your name is Ada Okafor."
    assert [each["name"] for each in turns[-1]["shown"]] == ["user_name"]
    assert set(turns[0]["weight"]) == {"sent", "memory", "traditional"}


def test_a_model_behind_an_endpoint_with_tools_of_a_file(run: Run, tmp_path: Path) -> None:
    tools = tmp_path / "mine.py"
    tools.write_text('def tide(harbour: str) -> str:\n    """The tide."""\n    return "high"\n', encoding="utf-8")
    with StrictServer(ScriptedModel().create) as server:
        ran = run(f"chat --user alice --model m --base-url {server.url}/v1 --tools {tools} --quiet", TALK)
        assert ran.out.endswith("Your name is Ada Okafor.\n")
        assert server.faults == []
        names = [tool["function"]["name"] for tool in server.requests[0]["tools"]]
    assert names[0] == "tide"


@pytest.mark.parametrize("option", ["", "--json"])
def test_secrets_that_a_tool_gets_are_not_printed(run: Run, tmp_path: Path, option: str) -> None:
    tools = tmp_path / "mine.py"
    tools.write_text('def tide(harbour: str) -> str:\n    """The tide."""\n    return harbour\n', encoding="utf-8")

    def model(**request: Any) -> Said:
        called = any(each["role"] == "tool" for each in request["messages"])
        return Said("Done.") if called else Said(calls=(SaidCall("tide", {"harbour": "[[mem:token]]"}),))

    run("write token sk-live-51Hx9Qm2Zr8Tn4 --user alice --policy never")
    assert run("slot allow token tide harbour --user alice").code == 0
    with StrictServer(model) as server:
        line = f"chat --user alice --model m --base-url {server.url}/v1 --tools {tools} {option}"
        ran = run(line, "Use it.\n/trace\n")
    assert "tide" in ran.out
    assert "[[mem:token]]" in ran.out or option
    assert "sk-live" not in ran.out + ran.err


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("chat", "no scope: say whose memory it is"),
        ("chat --user a --base-url http://127.0.0.1:9/v1", "give --model too"),
        ("chat --user a --model m --key-env NO_SUCH_KEY", "NO_SUCH_KEY, which is not set"),
        ("chat --user a --tools nowhere.py", "is no Python file"),
    ],
)
def test_misuse_is_said(run: Run, line: str, why: str) -> None:
    ran = run(line, "Hello.\n")
    assert ran.code == 2
    assert why in ran.err


@pytest.mark.parametrize("option", ["", "--json"])
def test_trouble_of_the_model_ends_the_turn_and_not_the_chat(run: Run, option: str) -> None:
    with StrictServer(ScriptedModel().create) as server:
        server.troubles = [Trouble(status=404, says="there is no model m")]
        line = f"chat --user alice --model m --base-url {server.url}/v1 {option}"
        ran = run(line, TALK)
        again = run(line, TALK)
    assert ran.code == UsageError.exit_code
    message = ran.error["message"] if option else ran.err
    assert "does not know the model" in message
    assert "there is no model m" in message
    assert "Your name is Ada Okafor." in ran.out
    assert (again.code, again.err) == (0, "")


def test_a_closed_pipe_is_quiet(store: Path) -> None:
    line = [sys.executable, "-m", "offprompt", "chat", "--user", "alice"]
    ran = subprocess.run(line, input=b"", capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert store
