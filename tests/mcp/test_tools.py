"""The five tools through MCP's own client, in this process, over both generations of the protocol."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp import Client, types
from mcp.types import CallToolResult

import offprompt
from offprompt import Offprompt
from offprompt.models.tokenizers import tokenizer_for
from offprompt.records import Scope
from tests.mcp.conftest import ask, call, refusal, said, server_of

MODES = ("auto", "legacy")
CHINESE = "她住在里斯本，喜欢喝茶，不喜欢咖啡。"
count = tokenizer_for().count


def tokens(result: CallToolResult) -> int:
    """Of what a client gets, without what the protocol adds."""
    return count(json.dumps([said(result), result.structured_content], ensure_ascii=False, separators=(",", ":")))


@pytest.mark.parametrize("mode", MODES)
def test_a_value_is_written_read_and_forgotten(memory: Offprompt, mode: str) -> None:
    async def talk(client: Client) -> list[CallToolResult]:
        return [
            await client.call_tool("mem_write", {"name": "city", "value": "Lisbon"}),
            await client.call_tool("mem_read", {"name": "city"}),
            await client.call_tool("mem_forget", {"name": "city"}),
            await client.call_tool("mem_read", {"name": "city"}),
        ]

    written, read, forgotten, gone = ask(server_of(memory).server, talk, mode=mode)
    assert (said(written), written.structured_content) == ("saved city v1", {"name": "city", "version": 1})
    assert read.structured_content == {"name": "city", "version": 1, "value": "Lisbon"}
    assert said(read).endswith("Lisbon")
    assert forgotten.structured_content == {"name": "city"}
    assert (gone.is_error, said(gone)) == (True, "not found: city; find it with mem_search or mem_list")
    assert memory.scope(user="alice").slots.undo("city").value == "Lisbon"


def test_without_a_name_a_sentence_is_remembered_and_found(memory: Offprompt) -> None:
    server = server_of(memory).server
    kept = call(server, "mem_write", value="我五月搬到了上海")
    memory_id = kept.structured_content["name"]
    assert memory_id.startswith("m_")
    assert memory_id in said(kept)
    assert call(server, "mem_read", name=memory_id).structured_content["value"] == "我五月搬到了上海"
    names = [item["name"] for item in call(server, "mem_search", query="上海").structured_content["items"]]
    assert memory_id in names
    stored = memory.scope(user="alice").memories.get(memory_id)
    assert stored is not None
    assert (stored.source, stored.actor) == ("model", "mcp")
    assert not call(server, "mem_forget", name=memory_id).is_error
    assert memory.scope(user="alice").memories.get(memory_id) is None
    assert call(server, "mem_forget", name=memory_id).is_error


@pytest.mark.parametrize("language", [None, "en", "zh"])
def test_all_that_describes_the_tools_is_at_most_700_tokens(memory: Offprompt, language: Any) -> None:
    server = server_of(memory, language=language)
    tools = ask(server.server, lambda client: client.list_tools()).tools
    assert [tool.name for tool in tools] == ["mem_write", "mem_read", "mem_forget", "mem_search", "mem_list"]
    listed = [tool.model_dump(by_alias=True, exclude_none=True) for tool in tools]
    # As JSON with a space behind each comma, and with what the server says of itself.
    assert count(json.dumps(listed, ensure_ascii=False)) + count(server.server.instructions or "") <= 700
    # And with every member that the protocol knows and we leave out.
    full = [tool.model_dump(by_alias=True) for tool in tools]
    assert count(json.dumps(full, ensure_ascii=False, separators=(",", ":"))) <= 700
    assert all(tool.description and tool.output_schema for tool in tools)


def test_the_annotations_say_what_reads_and_what_takes_away(memory: Offprompt) -> None:
    tools = ask(server_of(memory).server, lambda client: client.list_tools()).tools
    hints = {tool.name: tool.annotations for tool in tools}
    assert all(hints.values())
    reads = {name for name, hint in hints.items() if hint and hint.read_only_hint}
    assert reads == {"mem_read", "mem_search", "mem_list"}
    assert {name for name, hint in hints.items() if hint and hint.destructive_hint} == {"mem_forget"}
    assert {name for name, hint in hints.items() if hint and hint.idempotent_hint} == {"mem_forget"}
    assert not any(hint.open_world_hint for hint in hints.values() if hint)


def test_no_argument_says_whose_memory_it_is(memory: Offprompt) -> None:
    memory.scope(user="bob").write("city", "Porto")
    server = server_of(memory).server
    tools = ask(server, lambda client: client.list_tools()).tools
    properties = {name for tool in tools for name in tool.input_schema["properties"]}
    assert properties == {"value", "name", "if_version", "pinned", "cursor", "query"}
    for argument in ("user", "scope", "app", "agent", "session", "path", "file"):
        refused = call(server, "mem_read", name="city", **{argument: "bob"})
        assert refused.is_error
        assert f"it has no argument `{argument}`; mem_read takes name" in said(refused)
    assert call(server, "mem_read", name="city").is_error
    assert call(server, "mem_search", query="Porto").structured_content == {"items": []}


def test_other_names_of_the_arguments_are_understood(memory: Offprompt) -> None:
    server = server_of(memory).server
    assert call(server, "mem_write", slot="city", content="Lisbon").structured_content["name"] == "city"
    assert call(server, "mem_read", key="[[mem:city]]").structured_content["value"] == "Lisbon"
    twice = call(server, "mem_write", slot="city", name="town", value="x")
    assert said(twice) == (
        "not done: the argument `name` is given twice; mem_write takes value (optional), "
        "name (optional), if_version (optional), pinned (optional)"
    )


def test_json_stays_json(memory: Offprompt) -> None:
    server = server_of(memory).server
    value = {"近": [1, 2.5, None], "b": "x"}
    call(server, "mem_write", name="plan", value=value)
    assert call(server, "mem_read", name="plan").structured_content["value"] == value
    call(server, "mem_write", name="digits", value="42")
    assert memory.scope(user="alice").read("digits") == "42"


@pytest.mark.parametrize("text", [CHINESE * 300, "tea, no coffee. " * 800, '"\\\n\t' * 1500, "𝛼" * 3000, "x" * 12000])
def test_a_long_value_comes_in_pages_of_which_none_is_over_2000_tokens(memory: Offprompt, text: str) -> None:
    async def talk(client: Client) -> list[CallToolResult]:
        assert not (await client.call_tool("mem_write", {"name": "long", "value": text})).is_error
        pages = [await client.call_tool("mem_read", {"name": "long"})]
        while cursor := pages[-1].structured_content.get("cursor"):
            assert f"cursor {cursor}" in said(pages[-1])
            pages.append(await client.call_tool("mem_read", {"name": "long", "cursor": cursor}))
        return pages

    pages = ask(server_of(memory, language="en").server, talk)
    assert len(pages) > 1
    assert "".join(page.structured_content["value"] for page in pages) == text
    assert max(map(tokens, pages)) <= 2000


def test_a_cursor_of_another_version_or_of_none_is_refused(memory: Offprompt) -> None:
    server = server_of(memory).server
    call(server, "mem_write", name="long", value=CHINESE * 300)
    cursor = call(server, "mem_read", name="long").structured_content["cursor"]
    call(server, "mem_write", name="long", value=CHINESE * 299)
    changed = call(server, "mem_read", name="long", cursor=cursor)
    assert said(changed) == "not done: 'long' was written since that page; read it from the start, without cursor"
    for wrong in ("x", "1", "2-999999", "2-0", "2--1", "٢-٣"):
        assert "is none that an answer on 'long' gave" in said(call(server, "mem_read", name="long", cursor=wrong))
    assert "is none that mem_search gave" in said(call(server, "mem_search", query="tea", cursor="-1"))


def test_a_list_shows_everything_once_page_by_page(memory: Offprompt) -> None:
    alice = memory.scope(user="alice")
    names = [f"计划_{number:02}" for number in range(60)]
    for name in names:
        alice.write(name, CHINESE)
    alice.remember([f"{number}：{CHINESE}" for number in range(80)], derive="none")
    server = server_of(memory, language="zh").server

    async def talk(client: Client) -> list[CallToolResult]:
        pages = [await client.call_tool("mem_list")]
        while cursor := pages[-1].structured_content.get("cursor"):
            pages.append(await client.call_tool("mem_list", {"cursor": cursor}))
        return pages

    pages = ask(server, talk)
    items = [item for page in pages for item in page.structured_content["items"]]
    assert len(pages) > 3
    assert max(map(tokens, pages)) <= 2000
    assert [item["name"] for item in items[:60]] == names
    assert len({item["name"] for item in items}) == len(items) == 140
    assert not any("text" in item for item in items[:60])
    assert all(item["text"] for item in items[60:])
    assert said(call(server_of(memory, Scope(user="bob"), language="zh").server, "mem_list")) == "没有任何记录"


def test_a_search_finds_slots_and_memories_page_by_page(memory: Offprompt) -> None:
    alice = memory.scope(user="alice")
    alice.write("user_name", "Lin")
    alice.write("report", "The tea house opens at nine. " * 60)
    alice.remember([f"Tea number {number} came from Fujian, and was drunk in the morning" for number in range(60)])
    server = server_of(memory).server
    assert call(server, "mem_search", query="what is my name?").structured_content["items"][0]["text"] == "Lin"

    async def talk(client: Client) -> list[CallToolResult]:
        pages = [await client.call_tool("mem_search", {"query": "tea from Fujian"})]
        while cursor := pages[-1].structured_content.get("cursor"):
            pages.append(await client.call_tool("mem_search", {"query": "tea from Fujian", "cursor": cursor}))
        return pages

    pages = ask(server, talk)
    names = [item["name"] for page in pages for item in page.structured_content["items"]]
    assert len(pages) > 1
    assert max(map(tokens, pages)) <= 2000
    assert len(set(names)) == len(names) == 61
    assert "report" in names[:2]
    assert "give some words" in said(call(server, "mem_search", query=" "))


def test_counting_up_from_the_version_that_was_read(memory: Offprompt) -> None:
    server = server_of(memory).server
    assert call(server, "mem_write", name="n", value="0", if_version=0).structured_content["version"] == 1
    late = call(server, "mem_write", name="n", value="9", if_version=0)
    assert said(late) == (
        "not done: slot 'n' has version 1, and if_version=0 was expected; read it again and pass if_version=1, "
        "or leave it out"
    )
    assert call(server, "mem_forget", name="n", if_version=7).is_error
    assert said(call(server, "mem_write", value="a sentence", if_version=1)).startswith("not done: if_version needs a")
    for tool, more in (("mem_write", {"value": "9"}), ("mem_forget", {})):
        wrong = call(server, tool, name="n", if_version=-1, **more)
        assert said(wrong) == "not done: if_version=-1 for slot 'n': give 0 (not there) or the version"
    sentence = said(call(server, "mem_write", value="我住在上海")).split()[-1]
    assert "a memory is forgotten in any version" in said(call(server, "mem_forget", name=sentence, if_version=1))
    assert not call(server, "mem_forget", name="n", if_version=1).is_error


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("mem_write", {"name": "no spaces", "value": "x"}, "has ' ' at position 3; use letters"),
        ("mem_write", {"name": "m_x", "value": "x"}, "not found: m_x; find it with mem_search"),
        ("mem_write", {"name": "x", "value": "x" * 300_000}, "the limit is 4,096; shorten it"),
        ("mem_write", {"value": "x" * 30_000}, "shorten it"),
        ("mem_write", {"name": "x"}, "it needs `value`"),
        ("mem_write", {"name": "x", "pinned": True}, "only a memory is pinned, by its id"),
        ("mem_write", {"value": ""}, "it needs `value`"),
        ("mem_write", {"value": [1]}, "it needs `name`"),
        ("mem_write", {"name": " ", "value": "x"}, "it needs `name`"),
        ("mem_write", {"name": "x", "value": "x", "if_version": "two"}, "mem_write takes value"),
        ("mem_read", {"name": 3}, "not done: Expected `str`, got `int`"),
        ("mem_read", {"name": "ctiy"}, "not found: ctiy; spelled alike: city"),
        ("mem_read", {"name": "m_01m8q0tjxxtq6aptaspsnqxad4"}, "not found: m_01m8q0tjxxtq6aptaspsnqxad4; find it"),
        ("mem_read", {"name": ["city"]}, "mem_read takes name"),
        ("mem_list", {"limit": 3}, "mem_list takes cursor (optional)"),
        ("mem_list", {"很长的参数名" * 5000: 3}, "mem_list takes cursor (optional)"),
        ("mem_read", {"name": "城"}, "没有记录：城；可用 mem_search 或 mem_list 查找"),
        ("mem_write", {"name": "城", "value": "上海", "if_version": 3}, "未执行：城 的版本不是 if_version 所给的"),
        ("mem_write", {"value": "上" * 30_000}, "请缩短"),
        ("mem_write", {"name": "城市 名", "value": "上海"}, "未执行：名称 城市 名 不可用；用 1–64 个字符"),
        ("mem_search", {"query": "城市", "cursor": "二"}, "未执行：cursor 不是上一页给出的；不给 cursor 则从头开始"),
    ],
)
def test_what_cannot_be_done_says_why_and_changes_nothing(
    memory: Offprompt, tool: str, arguments: dict[str, Any], says: str
) -> None:
    memory.scope(user="alice").write("city", "Lisbon")
    result = call(server_of(memory).server, tool, **arguments)
    assert result.is_error
    assert says in said(result)
    assert tokens(result) < 100
    assert result.structured_content is None
    assert memory.scope(user="alice").slots.snapshot() == {"city": "Lisbon"}
    assert not memory.scope(user="alice").memories.list().memories


def test_another_tool_is_an_error_of_the_protocol(memory: Offprompt) -> None:
    refused = refusal(server_of(memory).server, lambda client: client.call_tool("mem_drop"))
    assert refused.code == types.INVALID_PARAMS
    assert "no tool 'mem_drop'; the tools are: mem_write, mem_read" in refused.message


def test_the_user_inherits_what_is_shared_and_changes_none_of_it(memory: Offprompt) -> None:
    memory.scope(shared=True).write("office", "Lisbon")
    server = server_of(memory).server
    assert call(server, "mem_read", name="office").structured_content["value"] == "Lisbon"
    assert call(server, "mem_forget", name="office").is_error
    assert call(server, "mem_write", name="office", value="Porto").structured_content["version"] == 1
    assert memory.scope(shared=True).read("office") == "Lisbon"
    memory.scope(shared=True).remember("The office closes at six", derive="none")
    (ours,) = memory.scope(shared=True).memories.list()
    assert said(call(server, "mem_read", name=ours.memory_id)).endswith("The office closes at six")
    assert call(server, "mem_forget", name=ours.memory_id).is_error
    assert memory.scope(shared=True).memories.get(ours.memory_id) is not None
    assert memory.scope(user="alice").read("office") == "Porto"


def broken(ops: object) -> Any:
    assert ops
    raise RuntimeError("the value was hunter2")


def away(ops: object) -> Any:
    assert ops
    raise offprompt.BackendError("the disk is gone")


def test_a_failing_store_is_an_answer_and_the_server_goes_on(memory: Offprompt) -> None:
    async def talk(client: Client) -> tuple[CallToolResult, CallToolResult]:
        whole = memory.parts.slots.batch
        memory.parts.slots.batch = away
        failed = await client.call_tool("mem_write", {"name": "city", "value": "Lisbon"})
        memory.parts.slots.batch = whole
        return failed, await client.call_tool("mem_write", {"name": "city", "value": "Lisbon"})

    failed, done = ask(server_of(memory).server, talk)
    assert (failed.is_error, said(failed)) == (True, "memory is not available now")
    assert done.structured_content == {"name": "city", "version": 1}


def test_what_nobody_expected_is_answered_without_its_words(memory: Offprompt, caplog: Any) -> None:
    memory.parts.slots.batch = broken
    arguments = {"name": "city", "value": "Lisbon"}
    failed = refusal(server_of(memory).server, lambda client: client.call_tool("mem_write", arguments))
    assert failed.message == "something went wrong here; nothing more was done"
    assert "the tool mem_write raised RuntimeError" in caplog.text
    assert "hunter2" not in caplog.text
