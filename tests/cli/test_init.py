"""Settings of coding agents: put in, as they are, taken out; what their hooks say and keep."""

from __future__ import annotations

import json
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt.cli.host_files import HOOK_FILES, HOOKS, MCP_FILES, Agent
from tests.cli.conftest import Run
from tests.rest.running import running

AGENTS: tuple[Agent, ...] = ("claude-code", "codex", "cursor")

# Lines as Claude Code and Codex write them.
CLAUDE = [
    {"type": "summary", "summary": "Berths", "leafUuid": "u0"},
    {"type": "user", "isMeta": True, "message": {"role": "user", "content": "Caveat: local commands"}},
    {"type": "user", "message": {"role": "user", "content": "<command-name>/clear</command-name>"}},
    {"type": "user", "sessionId": "s", "message": {"role": "user", "content": "I moved to Ulm in May."}},
    {"type": "assistant", "message": {"id": "m", "role": "assistant", "content": [{"type": "text", "text": "Nice."}]}},
    {
        "type": "user",
        "message": {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "The user hates Ulm."}],
        },
    },
    {"type": "user", "isSidechain": True, "message": {"role": "user", "content": "Search the web."}},
    {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": "我的猫叫小虎。"}]}},
]
CODEX = [
    {"type": "session_meta", "payload": {"id": "s"}},
    {
        "type": "response_item",
        "payload": {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "<environment_context>x</environment_context>"}],
        },
    },
    {"type": "event_msg", "payload": {"type": "user_message", "message": "I moved to Ulm in May."}},
    {"type": "event_msg", "payload": {"type": "agent_message", "message": "Nice."}},
    {"type": "event_msg", "payload": {"type": "user_message", "message": "我的猫叫小虎。"}},
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def files(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("agent", AGENTS)
def test_settings_are_made_again_the_same_and_taken_out_whole(run: Run, project: Path, agent: Agent) -> None:
    shown = run(f"init {agent} --folder {project} --user alice --dry-run")
    assert (shown.code, files(project)) == (0, {})
    assert "+" in shown.out
    done = run(f"init {agent} --folder {project} --user alice")
    made = files(project)
    assert done.code == 0, done.err
    assert set(made) == {MCP_FILES[agent], *([HOOK_FILES[agent]] if agent in HOOK_FILES else [])}
    assert run(f"init {agent} --folder {project} --user alice").out == "nothing to change\n"
    assert files(project) == made
    run(f"init {agent} --folder {project} --user bob")
    assert ("alice" in str(files(project)), str(made).count("alice") == str(files(project)).count("bob")) == (
        False,
        True,
    )
    assert run(f"init {agent} --folder {project} --remove").code == 0
    assert files(project) == {}


def test_without_the_extra_nothing_is_put_in_and_all_is_taken_out(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that cannot start would be seen in the host's log alone."""
    assert run(f"init cursor --folder {project} --user alice").code == 0
    monkeypatch.setitem(sys.modules, "mcp", None)
    ran = run(f"init claude-code --folder {project} --user alice")
    assert (ran.code, set(files(project))) == (4, {MCP_FILES["cursor"]})
    assert "pip install 'offprompt[mcp]'" in ran.err
    assert run(f"init cursor --folder {project} --remove").code == 0
    assert files(project) == {}


OTHERS: dict[str, str] = {
    ".mcp.json": '{\n    "mcpServers": {\n        "other": {"command": "x"}\n    },\n    "more": 1\n}\n',
    ".claude/settings.local.json": json.dumps(
        {
            "model": "opus",
            "hooks": {
                "SessionStart": [{"matcher": "startup", "hooks": [{"type": "command", "command": "echo 'hi"}]}],
                "PreToolUse": [{"hooks": []}],
            },
        }
    ),
    ".codex/config.toml": 'model = "gpt-5-codex"  # mine\n\n[mcp_servers.other]\ncommand = "x"\n',
    ".codex/hooks.json": '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "offprompt-like hook"}]}]}}',
    ".cursor/mcp.json": '{"mcpServers": {}}',
}


@pytest.mark.parametrize("agent", AGENTS)
def test_entries_of_others_stay_as_they_are(run: Run, project: Path, agent: Agent) -> None:
    for name, text in OTHERS.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text)
    assert run(f"init {agent} --folder {project} --user alice").code == 0
    made = files(project)
    for name in (MCP_FILES[agent], HOOK_FILES.get(agent, MCP_FILES[agent])):
        assert made[name] != OTHERS[name]
    if agent == "codex":
        assert made[".codex/config.toml"].startswith(OTHERS[".codex/config.toml"])
        assert set(tomllib.loads(made[".codex/config.toml"])["mcp_servers"]) == {"other", "offprompt"}
    if agent == "claude-code":
        hooks = json.loads(made[".claude/settings.local.json"])["hooks"]
        assert [len(hooks[event]) for event in ("SessionStart", "PreToolUse", "SessionEnd")] == [2, 1, 1]
        assert made[".mcp.json"].startswith('{\n    "mcpServers": {\n        "other"')
    assert run(f"init {agent} --folder {project} --remove").code == 0
    left = files(project)
    for name, text in OTHERS.items():
        if name.endswith(".toml"):
            assert left[name].strip() == text.strip()
        elif json.loads(text) != {"mcpServers": {}}:
            assert json.loads(left[name]) == json.loads(text)


@pytest.mark.parametrize(
    ("agent", "name", "text", "says"),
    [
        ("claude-code", ".mcp.json", "{ // mine\n}", "is no JSON"),
        ("claude-code", ".mcp.json", "[]", "holds no object"),
        ("claude-code", ".mcp.json", '{"mcpServers": {"offprompt": {"command": "other"}}}', "another server"),
        ("claude-code", ".claude/settings.local.json", '{"hooks": {"Stop": 1}}', "is no list"),
        ("codex", ".codex/config.toml", "[mcp_servers.offprompt]\ncommand = 'x'\n", "already"),
        ("codex", ".codex/config.toml", "x =", "is no TOML"),
    ],
    ids=range(6),
)
def test_what_cannot_be_read_or_is_anothers_is_left(
    run: Run, project: Path, agent: Agent, name: str, text: str, says: str
) -> None:
    (project / name).parent.mkdir(exist_ok=True)
    (project / name).write_text(text)
    done = run(f"init {agent} --folder {project} --user alice")
    assert done.code == 2
    assert says in done.err
    assert files(project) == {name: text}


def test_it_must_be_said_whose_memory_and_which_project(run: Run, project: Path) -> None:
    assert "init claude-code" in run(f"init claude-code --folder {project}").err
    assert run(f"init claude-code --folder {project}/none --user alice").code == 2
    assert files(project) == {}


def hook_line(project: Path, agent: Agent, event: str) -> str:
    """The command line that the host would run, without the program."""
    hooks: Any = json.loads((project / HOOK_FILES[agent]).read_text())["hooks"]
    command = hooks[event][0]["hooks"][0]["command"]
    return shlex.join(shlex.split(command)[1:])


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_a_session_ends_and_the_next_one_knows(
    run: Run, project: Path, tmp_path: Path, store: Path, agent: Agent
) -> None:
    run(f"init {agent} --folder {project} --user alice")
    begins, ends = (hook_line(project, agent, event) for event in HOOKS[agent])
    transcript = tmp_path / "t.jsonl"
    lines = [json.dumps(line, ensure_ascii=False) for line in (CLAUDE if agent == "claude-code" else CODEX)]
    common = {"session_id": "abc-1", "transcript_path": str(transcript), "cwd": str(project)}
    start = json.dumps({**common, "hook_event_name": "SessionStart", "source": "startup"})
    assert (run(begins, start).code, run(begins, start).out) == (0, "")
    end = json.dumps({**common, "hook_event_name": list(HOOKS[agent])[1], "reason": "exit"})
    transcript.write_text("\n".join(lines[:5]) + "\n" + lines[-1][:20], encoding="utf-8")
    for _ in range(2):
        assert (run(ends, end).code, run(ends, end).out) == (0, ""), "standard output is the host's"
    transcript.write_text("\n".join(lines), encoding="utf-8")
    run(ends, end)
    with offprompt.open(str(store)) as memory:
        alice = memory.scope(user="alice")
        episodes = [each.text for each in alice.memories.list(kinds=("episode",))]
        assert episodes == ["I moved to Ulm in May.", "我的猫叫小虎。"]
        alice.write("reply_style", "concise, Chinese")
        alice.write("report", "Tides and berths. " * 40)
        alice.write("door_code", "4711-0815", policy="never")
    answer = run(begins, start).document["hookSpecificOutput"]
    assert answer["hookEventName"] == "SessionStart"
    told = answer["additionalContext"]
    assert ["concise, Chinese" in told, "\nreport " in told] == [True, True]
    assert "earlier sessions" in told
    assert ["berths" in told, "4711" in told, "door_code" in told] == [False, False, False]


def test_hooks_work_on_a_server(run: Run, project: Path, tmp_path: Path) -> None:
    transcript = tmp_path / "t.jsonl"
    given = json.dumps({"session_id": "abc-1", "transcript_path": str(transcript)})
    with running(embedder="none") as server:
        run(f"init claude-code --folder {project} --user alice --url {server.url}")
        begins, ends = (hook_line(project, "claude-code", event) for event in HOOKS["claude-code"])
        for lines in (CLAUDE[:5], CLAUDE, CLAUDE):
            transcript.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
            assert (run(ends, given).code, run(ends, given).out) == (0, "")
        alice = server.memory.scope(user="alice")
        assert [each.text for each in alice.memories.list(kinds=("episode",))] == [
            "I moved to Ulm in May.",
            "我的猫叫小虎。",
        ]
        alice.write("reply_style", "concise, Chinese")
        alice.write("door_code", "4711-0815", policy="never")
        told = run(begins, given).document["hookSpecificOutput"]["additionalContext"]
    assert ["concise, Chinese" in told, "earlier sessions" in told] == [True, True]
    assert ["4711" in told, "door_code" in told] == [False, False]


def test_what_a_session_is_told_is_bounded(run: Run, store: Path) -> None:
    with offprompt.open(str(store)) as memory:
        for number in range(60):
            memory.scope(user="alice").write(f"a_rather_long_name_of_a_slot_{number}", "Tides and berths. " * 9)
    told = run("hook session-start --user alice", "{}").document["hookSpecificOutput"]["additionalContext"]
    with offprompt.open(":memory:") as memory:
        assert memory.parts.tokenizer.count(told) <= 400
    assert "more: mem_search" in told


@pytest.mark.parametrize("given", ["", "[]", '{"session_id": "a", "transcript_path": "/none/t.jsonl"}'])
def test_a_hook_that_fails_never_holds_the_host_up(run: Run, given: str) -> None:
    done = run("hook session-end --user alice", given)
    assert (done.code, done.out) == (1, "")
    assert done.err.count("\n") == 1
    assert run("hook session-start", "{}").code == 1
