"""Anthropic's memory tool: what the SDK's own file tool answers, on slots; two sessions, a restart."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from pathlib import Path
from typing import Any, cast

import anthropic
import pytest
from anthropic.lib.tools import ToolError
from anthropic.lib.tools._beta_builtin_memory_tool import BetaLocalFilesystemMemoryTool
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import offprompt
from offprompt.integrations.anthropic_memory import AsyncOffpromptMemoryTool, OffpromptMemoryTool
from offprompt.service.offprompt import Offprompt
from offprompt.testing.upstream import Upstream
from tests.service.talk import Say, as_reply, call

FREE: dict[str, Any] = {"max_slots": 500, "writes_per_minute": 0}

PATHS = st.sampled_from(
    ["/memories", *(f"/memories/{each}" for each in ("a", "A", "a.1", "d/b.md", "d/e/c", "d", "d/e", "偏好.txt", ".x"))]
)
TEXTS = st.text(st.sampled_from("ab\n你 [\r"), max_size=12) | st.just("long line " * 600)


def command(name: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"command": st.just(name), **fields})


NUMBERS = st.integers(-1, 5)
COMMANDS = (
    command("view", path=PATHS)
    | command("view", path=PATHS, view_range=st.lists(NUMBERS, min_size=2, max_size=2))
    | command("create", path=PATHS, file_text=TEXTS)
    | command("str_replace", path=PATHS, old_str=st.text(st.sampled_from("ab\n你"), max_size=2), new_str=TEXTS)
    | command("insert", path=PATHS, insert_line=NUMBERS, insert_text=TEXTS)
    | command("delete", path=PATHS)
    | command("rename", old_path=PATHS, new_path=PATHS)
)


def files_of(user: str, memory: Offprompt) -> Any:
    return OffpromptMemoryTool(memory, user=user)


def answer(tool: Any, command: dict[str, Any]) -> str:
    """What the model is told; what the file system itself refuses (a file as a folder) is one kind."""
    try:
        text = tool.call(command)
    except ToolError as exc:
        text = str(exc)
        if "which is a file" in text or "lies in" in text:
            return "refused"
    except OSError:
        return "refused"
    # A folder's own size is its file system's affair.
    return re.sub(r"^\S+(?=\t/memories$|\t.*/$)|(?<=:\n)\S+(?=\t)(?!.*line numbers)", "-", text, flags=re.MULTILINE)


def would_leave_folders(reference: Any, command: dict[str, Any]) -> bool:
    """The file tool makes the folders of a rename's destination even where there is nothing to rename."""
    if command["command"] != "rename":
        return False
    old = reference.base_path / command["old_path"].lstrip("/")
    return not old.exists() or command["new_path"].startswith(f"{command['old_path']}/")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(commands=st.lists(COMMANDS, max_size=12))
def test_the_same_commands_have_the_answers_of_the_sdks_own_file_tool(
    commands: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    reference = BetaLocalFilesystemMemoryTool(str(tmp_path_factory.mktemp("files")))
    with offprompt.open(":memory:", **FREE) as memory:
        tool = files_of("alice", memory)
        for command in commands:
            if not would_leave_folders(reference, command):
                assert answer(tool, command) == answer(reference, command), command


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/memoriesx/a",
        "memories/a",
        "/memories/../etc/passwd",
        "/memories/a/../../b",
        "/memories/%2e%2e/b",
        "/memories/%2E%2E%2Fb",
        "/memories/%252e%252e%252fb",
        "/memories/..\\b",
        "/memories/a\n17B\t/memories/b",
        "/memories/\0",
        "/memories/" + "a" * 2000,
    ],
    ids=range(12),
)
def test_a_path_outside_of_memories_is_refused_however_it_is_written(path: str) -> None:
    with offprompt.open(":memory:") as memory:
        tool = files_of("alice", memory)
        for command in (
            {"command": "view", "path": path},
            {"command": "create", "path": path, "file_text": "x"},
            {"command": "rename", "old_path": "/memories/a", "new_path": path},
        ):
            with pytest.raises(ToolError, match=r"must start with|would escape|do not show|1024 at most"):
                tool.call(command)
        assert memory.scope(user="alice").slots.list() == []


@pytest.mark.parametrize(
    "command",
    [
        {"command": "view"},
        {"command": "create", "path": "/memories/a"},
        {"command": "insert", "path": "/memories/a", "insert_text": "x", "insert_line": "two"},
        {"command": "view", "path": "/memories", "view_range": ["a"]},
        {"command": "format", "path": "/memories"},
    ],
    ids=["path", "text", "line", "range", "command"],
)
def test_a_command_without_a_field_is_told_which(command: dict[str, Any]) -> None:
    with offprompt.open(":memory:") as memory, pytest.raises(ToolError, match=r"needs `|view_range|no command"):
        files_of("alice", memory).call(command)


def test_other_slots_are_no_files_and_secrets_show_as_handles() -> None:
    with offprompt.open(":memory:") as memory:
        alice = memory.scope(user="alice")
        alice.write("city", "Ulm")
        alice.write("door_code", "4711-0815-kestrel", policy="never")
        tool = files_of("alice", memory)
        tool.call({"command": "create", "path": "/memories/city", "file_text": "The code is 4711-0815-kestrel."})
        assert "city" in tool.call({"command": "view", "path": "/memories"})
        assert "door_code" not in tool.call({"command": "view", "path": "/memories"})
        seen = tool.call({"command": "view", "path": "/memories/city"})
        assert "[[mem:door_code]]" in seen
        assert "4711" not in str(seen)
        assert (alice.read("city"), alice.read("city-2")) == ("Ulm", "The code is 4711-0815-kestrel.")
        alice.slots.lock("city-2")
        for command in (
            {"command": "delete", "path": "/memories/city"},
            {"command": "insert", "path": "/memories/city", "insert_line": 0, "insert_text": "x"},
        ):
            with pytest.raises(ToolError, match="models may not change"):
                tool.call(command)
        with pytest.raises(ToolError, match="does not exist"):
            files_of("bob", memory).call({"command": "view", "path": "/memories/city"})


def test_what_does_not_fit_leaves_nothing_and_what_was_deleted_can_be_undone() -> None:
    with offprompt.open(":memory:", max_slots=3) as memory:
        tool, slots = files_of("alice", memory), memory.scope(user="alice").slots
        tool.call({"command": "create", "path": "/memories/a", "file_text": "A"})
        empty = tool.call({"command": "view", "path": "/memories"})
        with pytest.raises(ToolError, match=r"max_slots|split"):
            tool.call({"command": "create", "path": "/memories/d/e/long", "file_text": "word " * 2000})
        assert tool.call({"command": "view", "path": "/memories"}) == empty
        tool.call({"command": "delete", "path": "/memories/a"})
        assert slots.undo("a").value == "A"
        tool.call({"command": "create", "path": "/memories/a", "file_text": "B"})
        assert "B" in str(tool.call({"command": "view", "path": "/memories/a"}))


def test_many_tools_at_once_make_each_file_once() -> None:
    with offprompt.open(":memory:", **FREE) as memory:
        tools = [files_of("alice", memory) for _ in range(4)]
        made: list[str] = []

        def work(tool: Any) -> None:
            for number in range(6):
                with contextlib.suppress(ToolError):
                    path = f"/memories/d/{number}"
                    tool.call({"command": "create", "path": path, "file_text": f"{number}"})
                    made.append(path)

        threads = [threading.Thread(target=work, args=(tool,)) for tool in tools]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(made) == [f"/memories/d/{number}" for number in range(6)]
        assert len(memory.scope(user="alice").slots.list()) == 7
        assert all(
            "1B\t" in line for line in str(tools[0].call({"command": "view", "path": "/memories"})).split("\n")[3:]
        )


def memory_call(call_id: str, **command: Any) -> dict[str, Any]:
    return as_reply(call("memory", call_id, **command), "anthropic")


def run_agent(upstream: Upstream, memory: Offprompt, question: str, *, awaited: bool) -> str:
    """The SDK's own loop: it runs the tool and answers the model until the model is done."""
    given: dict[str, Any] = {
        "model": "claude-sonnet-5-5",
        "max_tokens": 200,
        "thread": False,
        "messages": [{"role": "user", "content": question}],
    }
    if not awaited:
        with anthropic.Anthropic(base_url=upstream.url, api_key="sk-theirs", max_retries=0) as client:
            runner: Any = client.beta.messages
            return runner.tool_runner(tools=[files_of("alice", memory)], **given).until_done().content[-1].text

    async def ask() -> str:
        async with anthropic.AsyncAnthropic(base_url=upstream.url, api_key="sk-theirs", max_retries=0) as client:
            tool, runner = AsyncOffpromptMemoryTool(memory, user="alice"), cast("Any", client.beta.messages)
            message = await runner.tool_runner(tools=[tool], **given).until_done()
            return message.content[-1].text

    return asyncio.run(ask())


@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
def test_the_sdks_runner_remembers_in_a_second_session_after_a_restart(tmp_path: Path, awaited: bool) -> None:
    first = [
        memory_call("c1", command="view", path="/memories"),
        memory_call("c2", command="create", path="/memories/user.md", file_text="Lives in 乌尔姆 (Ulm).\n"),
        memory_call("c3", command="create", path="/memories/user.md", file_text="again"),
        as_reply(Say("Noted."), "anthropic"),
    ]
    second = [memory_call("c4", command="view", path="/memories/user.md"), as_reply(Say("In Ulm."), "anthropic")]
    store = str(tmp_path / "agent.db")
    with Upstream(first) as upstream, offprompt.open(store) as memory:
        assert run_agent(upstream, memory, "I live in Ulm.", awaited=awaited) == "Noted."
        told = [block for message in upstream.requests[-1]["messages"] for block in results(message)]
        assert [block.get("is_error", False) for block in told] == [False, False, True]
        assert upstream.requests[0]["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    with Upstream(second) as upstream, offprompt.open(store) as memory:
        assert run_agent(upstream, memory, "Where do I live?", awaited=awaited) == "In Ulm."
        (told,) = [block for message in upstream.requests[-1]["messages"] for block in results(message)]
        assert "     1\tLives in 乌尔姆 (Ulm)." in str(told["content"])
        assert memory.scope(user="alice").read("user.md") == "Lives in 乌尔姆 (Ulm).\n"


def results(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [] if isinstance(content, str) else [each for each in content if each["type"] == "tool_result"]


def test_an_agents_files_are_not_those_of_its_user() -> None:
    with offprompt.open(":memory:") as memory:
        own, agents = files_of("alice", memory), cast("Any", OffpromptMemoryTool(memory, user="alice", agent="helper"))
        own.call({"command": "create", "path": "/memories/a", "file_text": "the user's"})
        with pytest.raises(ToolError, match="does not exist"):
            agents.call({"command": "view", "path": "/memories/a"})
        agents.call({"command": "create", "path": "/memories/a", "file_text": "the agent's"})
        agents.call({"command": "delete", "path": "/memories/a"})
        assert "the user's" in own.call({"command": "view", "path": "/memories/a"})
