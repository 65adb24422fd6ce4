"""What is known of a user is seen, corrected, pinned and forgotten by the user through a model and MCP's own client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from offprompt import Offprompt
from offprompt.models.tokenizers import tokenizer_for
from tests.mcp.conftest import ask, call, program, said, server_of
from tests.mcp.test_resources import text

SECRET = "s3cret-value-xyz"  # noqa: S105 - what tests look for
TEA = "我喜欢喝绿茶。"
ASKED = ("What do you know about me?", "你记得我什么？", "你知道我什么")
count = tokenizer_for().count


def fill(memory: Offprompt) -> None:
    own = memory.scope(user="alice")
    own.remember([{"role": "user", "content": "I live in Porto."}])
    own.remember(TEA)
    own.write("token", SECRET, policy="never")
    own.write("key_note", f"the key is {SECRET}")
    memory.scope(user="bob").remember("Bob plays the cello.")


def told(target: Any, question: str = ASKED[0]) -> list[dict[str, Any]]:
    return call(target, "mem_search", query=question).structured_content["items"]


@pytest.mark.parametrize("question", ASKED)
def test_who_asks_what_is_known_is_told_all_of_it_once(memory: Offprompt, question: str) -> None:
    fill(memory)
    answer = call(server_of(memory).server, "mem_search", query=question)
    items = answer.structured_content["items"]
    assert sorted(item["text"] for item in items) == sorted(["Porto", TEA, "the key is [[mem:token]]"])
    assert {item["name"] for item in items if item["kind"] == "text"} == {"home", "key_note"}
    assert SECRET not in said(answer)
    assert "cello" not in said(answer)


def test_a_memory_is_corrected_and_pinned_by_its_id_and_forgotten(memory: Offprompt) -> None:
    fill(memory)
    server = server_of(memory).server
    tea = next(item["name"] for item in told(server) if item["text"] == TEA)
    assert call(server, "mem_write", name=tea, value="我喜欢喝红茶。").structured_content == {"name": tea}
    assert said(call(server, "mem_write", id=tea, pinned=True)) == f"saved {tea}"
    first = told(server, ASKED[1])[0]
    assert (first["name"], first["text"], first["pinned"]) == (tea, "我喜欢喝红茶。", True)
    assert "[已固定]" in said(call(server, "mem_search", query=ASKED[1]))
    versions = memory.scope(user="alice").memories.history(tea)
    assert (versions[0].text, versions[-1].text, versions[-1].actor) == (TEA, "我喜欢喝红茶。", "mcp")
    assert not call(server, "mem_write", name=tea, pinned=False).is_error
    assert not any(item.get("pinned") for item in told(server))
    call(server, "mem_forget", name=tea)
    assert tea not in {item["name"] for item in told(server)}
    for wrong in ({"name": "home", "pinned": True}, {"name": tea}, {"name": tea, "value": 5}, {"pinned": True}):
        assert call(server, "mem_write", **wrong).is_error


def test_a_part_of_the_profile_is_corrected_with_its_fact(memory: Offprompt) -> None:
    fill(memory)
    server = server_of(memory).server
    assert said(call(server, "mem_write", name="home", value="Lisbon")) == "saved home v2"
    assert "Porto" not in str(told(server))
    facts = [hit.text for hit in memory.scope(user="alice").recall("Where does the user live?", kinds=["fact"])]
    assert not any("Porto" in fact for fact in facts)


def test_untrusted_text_corrects_and_pins_nothing_that_the_user_said(memory: Offprompt) -> None:
    fill(memory)
    tea = next(item["name"] for item in told(server_of(memory).server) if item["text"] == TEA)
    foreign = server_of(memory, trust="tool").server
    assert call(foreign, "mem_write", name=tea, value="I drink poison.").is_error
    assert call(foreign, "mem_write", name=tea, pinned=True).is_error
    everyone = memory.scope(shared=True).remember("The office is in Berlin.")[0].name
    assert call(server_of(memory).server, "mem_write", name=everyone, value="in Rome").is_error
    assert {item["text"] for item in told(foreign)} == {
        "Porto",
        TEA,
        "the key is [[mem:token]]",
        "The office is in Berlin.",
    }


def test_the_profile_and_the_prompts_tell_the_same_list(memory: Offprompt) -> None:
    fill(memory)
    tea = next(item["name"] for item in told(server_of(memory).server) if item["text"] == TEA)
    memory.scope(user="alice").pin(tea)

    async def talk(client: Client) -> None:
        lines = text(await client.read_resource("mem://profile")).splitlines()
        assert lines[0].startswith(tea)
        assert [line for line in lines if "Porto" in line]
        for name, way in (("about_me", "mem_forget"), ("about_me_zh", "固定")):
            prompt = (await client.get_prompt(name)).messages[0].content
            assert prompt.type == "text"
            assert way in prompt.text
            assert TEA in prompt.text
            assert SECRET not in prompt.text

    ask(server_of(memory).server, talk)


def test_a_long_list_comes_in_pages(memory: Offprompt) -> None:
    memory.scope(user="alice").remember([f"第{number}件事：{'很长的话' * 20}" for number in range(120)], derive="none")
    server, seen, cursor = server_of(memory).server, list[str](), ""
    while True:
        answer = call(server, "mem_search", query=ASKED[1], **({"cursor": cursor} if cursor else {}))
        assert count(said(answer)) <= 2000
        seen += [item["name"] for item in answer.structured_content["items"]]
        cursor = answer.structured_content.get("cursor", "")
        if not cursor:
            break
    assert len(seen) == len(set(seen)) == 120


def test_a_program_that_a_host_starts_does_all_of_it(tmp_path: Path) -> None:
    async def talk(client: Client) -> list[dict[str, Any]]:
        kept = await client.call_tool("mem_write", {"value": TEA})
        assert kept.structured_content is not None
        name = kept.structured_content["name"]
        await client.call_tool("mem_write", {"name": name, "value": "我喜欢喝红茶。", "pinned": True})
        found = (await client.call_tool("mem_search", {"query": "你记得我什么"})).structured_content
        assert found is not None
        return found["items"]

    (item,) = ask(program(tmp_path / "m.db", "--user", "alice"), talk)
    assert (item["text"], item["pinned"]) == ("我喜欢喝红茶。", True)
