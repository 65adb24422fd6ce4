"""What the strict upstreams count as cached is what the providers do."""

from __future__ import annotations

from typing import Any

import pytest

from offprompt.testing.strict import StrictUpstream
from offprompt.testing.strict_cache import PromptCache, prompt_units
from offprompt.testing.strict_chunks import StrictWire
from offprompt.wire.prices import PriceSheet, builtin_sheets, named_sheet
from offprompt.wire.profiles import SHAPES

MARK = {"type": "ephemeral"}
SHEET = PriceSheet("s", 1.0, 1.25, 0.1, 5.0, cache_min_tokens=100, cache_step=10)


def chat(*texts: str, tools: Any = None, model: str = "m") -> dict[str, Any]:
    messages = [{"role": "user" if at % 2 == 0 else "assistant", "content": text} for at, text in enumerate(texts)]
    return {"model": model, "messages": messages} | ({"tools": tools} if tools else {})


def size(body: dict[str, Any], wire: StrictWire = "openai") -> int:
    return sum(len(unit.text) for unit in prompt_units(body, wire) if unit.counts)


def counts(cache: PromptCache, body: dict[str, Any], wire: StrictWire = "openai") -> tuple[int, int]:
    """Tokens read and written; a token is a character here."""
    counted = cache.counted(body, wire)
    assert counted.total == size(body, wire)
    return counted.read, counted.written


def test_chat_reads_the_longest_prefix_in_steps() -> None:
    cache = PromptCache(SHEET, len)
    first = chat("a" * 200)
    assert counts(cache, first) == (0, size(first))
    longer = chat("a" * 200, "b" * 50, "c")
    whole = size(first) - size(first) % 10
    assert counts(cache, longer) == (whole, size(longer) - whole)
    assert counts(cache, longer)[0] == size(longer) - size(longer) % 10


def test_chat_reads_part_of_a_message_and_nothing_behind_a_change() -> None:
    cache = PromptCache(SHEET, len)
    cache.counted(chat("a" * 200 + "x" * 300, "same " * 50), "openai")
    edited = chat("a" * 200 + "y" * 300, "same " * 50)
    read = counts(cache, edited)[0]
    assert 200 <= read < 300
    assert counts(cache, chat("z" + "a" * 200))[0] == 0


def test_nothing_below_the_minimum_is_cached_nor_for_another_model_or_other_tools() -> None:
    cache = PromptCache(SHEET, len)
    cache.counted(chat("short"), "openai")
    assert counts(cache, chat("short")) == (0, 0)
    cache.counted(chat("a" * 200), "openai")
    assert counts(cache, chat("a" * 200))[0] >= 200
    assert counts(cache, chat("a" * 200, model="other"))[0] == 0
    assert counts(cache, chat("a" * 200, tools=[{"name": "t"}]))[0] == 0
    cache.clear()
    assert counts(cache, chat("a" * 200))[0] == 0


def test_an_earlier_branch_is_read_too() -> None:
    cache = PromptCache(SHEET, len)
    for ending in ("b" * 100, "c" * 100, "d" * 100):
        cache.counted(chat("a" * 200, ending), "openai")
    again = chat("a" * 200, "b" * 100, "e")
    assert counts(cache, again)[0] >= size(chat("a" * 200, "b" * 100)) - 10


def test_writing_costs_nothing_where_the_sheet_says_so() -> None:
    sheet = named_sheet("openai-gpt-4", builtin_sheets())
    assert (sheet.cache_min_tokens, sheet.cache_step) == (1024, 128)
    cache = PromptCache(sheet, len)
    assert counts(cache, chat("a" * 2000)) == (0, 0)
    read, written = counts(cache, chat("a" * 2000, "b"))
    assert (read % 128, read >= 1920, written) == (0, True, 0)


def message(*blocks: tuple[str, bool] | str, system: str = "s" * 150, **fields: Any) -> dict[str, Any]:
    """A request with a marked system text and user blocks; (text, True) is a marked one."""
    content: list[dict[str, Any]] = []
    for block in blocks:
        text, marked = block if isinstance(block, tuple) else (block, False)
        content.append({"type": "text", "text": text} | ({"cache_control": MARK} if marked else {}))
    head = [{"type": "text", "text": system, "cache_control": MARK}]
    return {"model": "m", "system": head, "messages": [{"role": "user", "content": content}], **fields}


NO_STEP = PriceSheet("s", 1.0, 1.25, 0.1, 5.0, cache_min_tokens=100)


def test_messages_are_cached_only_up_to_marks() -> None:
    cache = PromptCache(NO_STEP, len)
    unmarked = message("a" * 200)
    unmarked["system"] = "s" * 150
    assert counts(cache, unmarked, "anthropic") == (0, 0)
    assert counts(cache, unmarked, "anthropic") == (0, 0)
    first = message("a" * 200)
    head = len(prompt_units(first, "anthropic")[0].text)
    assert counts(cache, first, "anthropic") == (0, head)
    assert counts(cache, first, "anthropic") == (head, 0)
    assert counts(cache, message("b" * 300), "anthropic") == (head, 0)


def test_a_mark_that_moves_on_reads_what_stood_before_and_writes_the_rest() -> None:
    cache = PromptCache(NO_STEP, len)
    first = message(("a" * 200, True))
    assert counts(cache, first, "anthropic") == (0, size(first, "anthropic"))
    second = message("a" * 200, ("b" * 100, True))
    read, written = counts(cache, second, "anthropic")
    assert (read, written) == (size(first, "anthropic"), size(second, "anthropic") - size(first, "anthropic"))
    tail = message("a" * 200, ("b" * 100, True), "c" * 70)
    assert counts(cache, tail, "anthropic") == (size(second, "anthropic"), 0)
    automatic = message("a" * 200, "b" * 100, "c" * 70, cache_control=MARK)
    assert counts(cache, automatic, "anthropic") == (
        size(second, "anthropic"),
        size(tail, "anthropic") - size(second, "anthropic"),
    )


def test_a_mark_looks_back_twenty_blocks_and_no_further() -> None:
    blocks = [f"block {at} " + "x" * 40 for at in range(30)]
    for more, found in ((20, True), (21, False)):
        cache = PromptCache(NO_STEP, len)
        cache.counted(message((blocks[0], True), system="tiny"), "anthropic")
        plain = message(*blocks[:more], (blocks[more], True), system="tiny")
        del plain["system"][0]["cache_control"]
        first = message(blocks[0], system="tiny")
        expected = size(first, "anthropic") if found else 0
        assert size(first, "anthropic") >= 100
        assert counts(cache, plain, "anthropic")[0] == expected


def test_a_prefix_below_the_minimum_is_not_written() -> None:
    cache = PromptCache(NO_STEP, len)
    small = message(("a", True), system="tiny")
    assert size(small, "anthropic") < 200
    sheet = PriceSheet("s", 1.0, 1.25, 0.1, 5.0, cache_min_tokens=1000)
    cache = PromptCache(sheet, len)
    assert counts(cache, small, "anthropic") == (0, 0)
    assert counts(cache, small, "anthropic") == (0, 0)


def test_another_tool_choice_keeps_the_system_text_and_loses_the_messages() -> None:
    cache = PromptCache(NO_STEP, len)
    first = message(("a" * 200, True))
    cache.counted(first, "anthropic")
    head = len(prompt_units(first, "anthropic")[0].text)
    assert counts(cache, {**first, "tool_choice": {"type": "none"}}, "anthropic")[0] == head


def test_text_is_the_same_as_a_text_block_and_marks_do_not_count() -> None:
    block = {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]}
    marked = {
        "model": "m",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": MARK}]}],
    }
    plain = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    texts = [[unit.text for unit in prompt_units(body, "anthropic")] for body in (block, marked, plain)]
    assert texts[0] == texts[1] == texts[2]
    assert [unit.counts for unit in prompt_units(plain, "anthropic")] == [False, True]


@pytest.mark.parametrize("wire", ["openai", "responses", "anthropic"])
def test_the_replies_usage_says_it_in_the_providers_words(wire: StrictWire) -> None:
    def model(**_: Any) -> str:
        return "Seen."

    upstream = StrictUpstream(wire, model, sheet=NO_STEP, count=len)
    body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "a" * 300}]}
    if wire == "anthropic":
        body |= {"max_tokens": 10, "cache_control": MARK}
    elif wire == "responses":
        body = {"model": "m", "input": "a" * 300}
    first, second = upstream(**body)["usage"], upstream(**body)["usage"]
    total = size(body, wire)
    if wire == "anthropic":
        assert (first["input_tokens"], first["cache_creation_input_tokens"], first["cache_read_input_tokens"]) == (
            0,
            total,
            0,
        )
        assert (second["cache_creation_input_tokens"], second["cache_read_input_tokens"]) == (0, total)
    elif wire == "openai":
        assert first["prompt_tokens"] == second["prompt_tokens"] == total
        assert first["prompt_tokens_details"] == {"cached_tokens": 0, "cache_write_tokens": total}
        assert second["prompt_tokens_details"] == {"cached_tokens": total, "cache_write_tokens": 0}
        assert second["total_tokens"] == total + second["completion_tokens"]
    else:
        assert second["input_tokens_details"]["cached_tokens"] == total
        return
    usage = SHAPES[wire].reply(upstream(**body)).usage
    assert (usage.input, usage.cached, usage.written) == (total, total, 0)


def test_without_the_profile_nothing_is_cached() -> None:
    def model(**_: Any) -> str:
        return "Seen."

    upstream = StrictUpstream("openai", model, count=len)
    upstream(**chat("a" * 5000))
    usage = upstream(**chat("a" * 5000))["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == 0
    assert usage["prompt_tokens"] == size(chat("a" * 5000))
