from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offprompt.records.imported import Problem
from offprompt.service.replay.logged import Conversation, LoggedCall, LoggedMessage
from offprompt.service.replay.readers import read_conversations

CALL = {"id": "c1", "type": "function", "function": {"name": "find_user", "arguments": '{"name":"李雷"}'}}
OPENAI: list[dict[str, Any]] = [
    {"role": "system", "content": "You help. 你帮忙。"},
    {"role": "user", "content": "你好，我是李雷"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "user_id: li_lei_7"},
    {"role": "assistant", "content": "找到了"},
]
READ = (
    LoggedMessage("user", "你好，我是李雷"),
    LoggedMessage("assistant", "", (LoggedCall("find_user", '{"name":"李雷"}'),)),
    LoggedMessage("tool", "user_id: li_lei_7"),
    LoggedMessage("assistant", "找到了"),
)


def _read(path: Path) -> tuple[list[Conversation], list[Problem]]:
    problems: list[Problem] = []
    return list(read_conversations(path, problems.append)), problems


def _file(folder: Path, name: str, content: object) -> Path:
    path = folder / name
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    path.write_text(text, encoding="utf-8")
    return path


def _lines(*values: object) -> str:
    return "\n".join(json.dumps(value, ensure_ascii=False) for value in values) + "\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("list.json", OPENAI),
        ("request.json", {"model": "gpt-5", "messages": OPENAI}),
        ("pretty.json", json.dumps({"messages": OPENAI}, indent=2)),
        ("requests.jsonl", _lines({"messages": OPENAI})),
        ("messages.jsonl", _lines(*OPENAI)),
        ("array.json", [{"messages": OPENAI}]),
        ("tau.json", [{"task_id": 1, "reward": 1.0, "info": "", "traj": OPENAI}]),
        ("marked.json", "\ufeff" + json.dumps({"messages": OPENAI})),
        ("windows.jsonl", "\ufeff" + _lines({"messages": OPENAI}).replace("\n", "\r\n")),
    ],
)
def test_openai_messages_in_every_wrapping(tmp_path: Path, name: str, content: object) -> None:
    (conversation,), problems = _read(_file(tmp_path, name, content))
    assert conversation.messages == READ
    assert conversation.system == "You help. 你帮忙。"
    assert problems == []


def test_tool_definitions_stand_before_the_conversation(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "find_user"}}]
    (conversation,), _ = _read(_file(tmp_path, "a.json", {"messages": OPENAI, "tools": tools}))
    assert '"find_user"' in conversation.system
    assert conversation.system.endswith("你帮忙。")


def test_parts_and_pictures_and_later_system_messages(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "看"}, {"type": "image_url", "image_url": {"url": "data:"}}]
    messages = [{"role": "user", "content": parts}, {"role": "developer", "content": "be brief"}]
    (conversation,), _ = _read(_file(tmp_path, "a.json", messages))
    assert conversation.messages == (LoggedMessage("user", "看\n[image_url]"), LoggedMessage("note", "be brief"))


def test_anthropic_results_stand_before_the_users_text(tmp_path: Path) -> None:
    log = {
        "system": [{"type": "text", "text": "sys"}],
        "messages": [
            {"role": "user", "content": "hello"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "text", "text": "looking"},
                    {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "书架"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "三本书"}]},
                    {"type": "text", "text": "and?"},
                ],
            },
        ],
    }
    (conversation,), _ = _read(_file(tmp_path, "a.json", log))
    assert conversation.system == "sys"
    assert conversation.messages == (
        LoggedMessage("user", "hello"),
        LoggedMessage("assistant", "hm\nlooking", (LoggedCall("look", '{"at":"书架"}'),)),
        LoggedMessage("tool", "三本书"),
        LoggedMessage("user", "and?"),
    )


def test_swe_agent_observations_are_results(tmp_path: Path) -> None:
    history = [
        {"role": "system", "content": "sys", "agent": "main"},
        {"role": "user", "content": "a demonstration", "is_demo": True},
        {"role": "user", "content": "the issue"},
        {"role": "assistant", "content": "Look.\n```\nls src\n```", "thought": "Look.", "action": "ls src\n"},
        {"role": "user", "content": "a.py b.py"},
        {"role": "assistant", "content": "Done.", "action": "submit"},
    ]
    (conversation,), _ = _read(_file(tmp_path, "a.traj", json.dumps({"history": history, "info": {}}, indent=1)))
    assert [message.kind for message in conversation.messages] == [
        "user",
        "user",
        "assistant",
        "observation",
        "assistant",
    ]
    assert conversation.messages[2].calls == (LoggedCall("ls", "ls src", inline=True),)
    assert conversation.messages[4].calls == (LoggedCall("submit", "submit"),)


def test_sharegpt(tmp_path: Path) -> None:
    log = [{"id": "x", "conversations": [{"from": "human", "value": "嗨"}, {"from": "gpt", "value": "你好"}]}] * 2
    conversations, _ = _read(_file(tmp_path, "a.json", log))
    assert [each.messages for each in conversations] == [
        (LoggedMessage("user", "嗨"), LoggedMessage("assistant", "你好"))
    ] * 2


def test_longmemeval_sessions_are_conversations(tmp_path: Path) -> None:
    session = [{"role": "user", "content": "a", "has_answer": True}, {"role": "assistant", "content": "b"}]
    conversations, _ = _read(_file(tmp_path, "a.json", [{"question_id": "q", "haystack_sessions": [session] * 3}]))
    assert [each.name for each in conversations] == ["a.json#1/1", "a.json#1/2", "a.json#1/3"]


def test_tau_bench_few_shot_text(tmp_path: Path) -> None:
    shown = "user: hi\nwith two lines\nassistant: None\ntool: Error\nassistant: bye"
    (conversation,), _ = _read(_file(tmp_path, "a.jsonl", _lines({"messages_display": shown})))
    assert conversation.messages[0] == LoggedMessage("user", "hi\nwith two lines")
    assert [message.kind for message in conversation.messages] == ["user", "assistant", "tool", "assistant"]


def test_claude_code_transcripts(tmp_path: Path) -> None:
    def line(kind: str, content: object, **more: object) -> dict[str, object]:
        message = {"role": kind, "content": content} | ({"id": more.pop("id")} if "id" in more else {})
        return {"type": kind, "sessionId": "s1", "message": message} | more

    log = _lines(
        {"type": "summary", "summary": "a title", "leafUuid": "u"},
        {"type": "file-history-snapshot", "messageId": "m"},
        line("user", "fix it 修一下"),
        line("user", "not said by anyone", isMeta=True),
        line("assistant", [{"type": "text", "text": "Looking."}], id="m1"),
        line("assistant", [{"type": "tool_use", "name": "Read", "input": {"file_path": "/a.py"}}], id="m1"),
        line("user", [{"type": "tool_result", "content": "x = 1"}]),
        line("user", "side", isSidechain=True, agentId="g"),
        line("assistant", [{"type": "text", "text": "side answer"}], id="m9", isSidechain=True, agentId="g"),
        line("assistant", [{"type": "text", "text": "Done."}], id="m2"),
        line("user", "another session", sessionId="s2"),
    )
    conversations, problems = _read(_file(tmp_path, "t.jsonl", log))
    assert problems == []
    by_name = {each.name: each.messages for each in conversations}
    assert by_name["t.jsonl/s1"] == (
        LoggedMessage("user", "fix it 修一下"),
        LoggedMessage("assistant", "Looking.", (LoggedCall("Read", '{"file_path":"/a.py"}'),)),
        LoggedMessage("tool", "x = 1"),
        LoggedMessage("assistant", "Done."),
    )
    assert by_name["t.jsonl/g"][1].text == "side answer"
    assert by_name["t.jsonl/s2"][0].text == "another session"


def test_a_malformed_line_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    good = _lines({"messages": OPENAI}).strip()
    path = _file(tmp_path, "a.jsonl", f'{good}\n{{"messages": [\n\n{good}\n{{"other": 1}}\n42\n')
    with path.open("ab") as file:
        file.write(b'{"messages": "\xff\xfe"}\n' + good.encode())
    conversations, problems = _read(path)
    assert len(conversations) == 3
    assert [problem.line for problem in problems] == [2, 5, 6, 7]
    assert str(problems[0]).startswith(f"{path}:2: not JSON")
    assert "other" in problems[1].why
    assert "UTF-8" in problems[3].why


def test_lines_without_the_suffix_survive_a_bad_first_one(tmp_path: Path) -> None:
    good = _lines({"messages": OPENAI})
    conversations, problems = _read(_file(tmp_path, "chat.log", "{broken\n" + good + good))
    assert (len(conversations), [problem.line for problem in problems]) == (2, [1])


def test_a_bad_message_is_named(tmp_path: Path) -> None:
    log = [{"messages": [*OPENAI, {"role": "wizard", "content": "x"}]}, {"messages": [7]}, {"messages": OPENAI}]
    conversations, problems = _read(_file(tmp_path, "a.json", json.dumps(log, indent=0)))
    assert len(conversations) == 1
    assert "message 6 has the unknown role 'wizard'" in problems[0].why
    assert "message 1 has no role" in problems[1].why
    assert problems[1].line > problems[0].line > 0


def test_an_array_that_breaks_off_keeps_what_came_before(tmp_path: Path) -> None:
    text = json.dumps([{"messages": OPENAI}] * 3, indent=1)
    conversations, problems = _read(_file(tmp_path, "a.json", text[: int(len(text) * 0.9)]))
    assert len(conversations) == 2
    assert len(problems) == 1
    assert problems[0].line > 1


@pytest.mark.parametrize("content", ["", "   \n\n", "[]", "{}", "nonsense", "[1, 2]", '"text"'])
def test_nothing_to_read_is_no_conversation(tmp_path: Path, content: str) -> None:
    assert _read(_file(tmp_path, "a.json", content))[0] == []


def test_a_file_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    _, problems = _read(tmp_path / "no.json")
    assert "cannot be read" in problems[0].why


def test_half_a_character_in_a_log_is_read(tmp_path: Path) -> None:
    path = _file(tmp_path, "a.jsonl", '{"messages": [{"role": "user", "content": "a\\ud83d"}]}\n')
    (conversation,), problems = _read(path)
    assert (conversation.messages[0].text, problems) == ("a\ud83d", [])


def test_every_byte_is_reported_for_the_progress_bar(tmp_path: Path) -> None:
    for name, content in (("a.json", [{"messages": OPENAI}] * 9), ("b.jsonl", _lines(*OPENAI)), ("c.json", "{\n}\n")):
        path = _file(tmp_path, name, content)
        read: list[int] = []
        list(read_conversations(path, lambda _: None, read.append))
        assert sum(read) == path.stat().st_size


def test_a_bad_session_of_a_transcript_leaves_the_others(tmp_path: Path) -> None:
    lines = [
        {"type": "user", "sessionId": session, "message": {"role": role, "content": "x"}}
        for session, role in (("s1", "user"), ("s2", "wizard"), ("s3", "user"))
    ]
    conversations, problems = _read(_file(tmp_path, "t.jsonl", _lines(*lines)))
    assert [each.name for each in conversations] == ["t.jsonl/s1", "t.jsonl/s3"]
    assert "wizard" in problems[0].why


@pytest.mark.parametrize("name", ["deep.jsonl", "deep.json", "deep.log"])
@pytest.mark.parametrize("deep", ["[" * 100_000, '{"messages":' * 50_000, '[{"a":' * 50_000])
def test_a_nest_of_brackets_is_a_problem_not_a_crash(tmp_path: Path, name: str, deep: str) -> None:
    conversations, problems = _read(_file(tmp_path, name, deep))
    assert conversations == []
    assert len(problems) == 1


def test_what_json_does_not_have_is_a_problem(tmp_path: Path) -> None:
    use = '{"type": "tool_use", "name": "f", "input": {"x": NaN}}'
    _, problems = _read(_file(tmp_path, "a.jsonl", f'{{"messages": [{{"role": "assistant", "content": [{use}]}}]}}\n'))
    assert len(problems) == 1


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["role", "content", "type", "text", "messages", "tool_calls", "function", "message", "history", "input"]
            ),
            inner | st.sampled_from(["user", "assistant", "tool", "system", "tool_result", "tool_use"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(JSON_VALUES, max_size=4), st.sampled_from(["a.json", "a.jsonl", "a.traj"]), st.binary(max_size=8))
def test_whatever_is_in_a_file_nothing_is_raised(
    tmp_path_factory: pytest.TempPathFactory, values: list[object], name: str, noise: bytes
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / name
    whole = json.dumps(values).encode() if name == "a.json" else _lines(*values).encode()
    path.write_bytes(whole)
    for conversation in _read(path)[0]:
        assert all(isinstance(message.text, str) for message in conversation.messages)
    path.write_bytes(whole[: len(whole) // 2] + noise + whole[len(whole) // 2 :])
    _read(path)
