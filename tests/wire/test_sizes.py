"""Every shape of content counts: none is in a request for nothing."""

from __future__ import annotations

from typing import Any

import pytest

from offprompt.models.tokenizers import tokenizer_for
from offprompt.testing.strict_cache import PromptCache
from offprompt.wire.prices import PriceSheet
from offprompt.wire.profiles import SHAPES
from offprompt.wire.shapes import Wire
from offprompt.wire.sizes import LOW_PICTURE_TOKENS, PICTURE_TOKENS, message_size

COUNT = tokenizer_for("")
DATA = "QUJD" * 20_000
"""80,000 characters of base64, 60,000 bytes."""

WEBP = {"type": "base64", "media_type": "image/webp", "data": DATA}
PDF = {"type": "base64", "media_type": "application/pdf", "data": DATA}
PARTS: list[tuple[Wire, str, Any, int]] = [
    ("openai", "picture", {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}}, PICTURE_TOKENS),
    (
        "openai",
        "small picture",
        {"type": "image_url", "image_url": {"url": "https://a.example/b.png", "detail": "low"}},
        LOW_PICTURE_TOKENS,
    ),
    ("openai", "sound", {"type": "input_audio", "input_audio": {"data": DATA, "format": "mp3"}}, 37),
    ("openai", "file", {"type": "file", "file": {"filename": "a.pdf", "file_data": DATA}}, 1875),
    ("openai", "file by id", {"type": "file", "file": {"file_id": "file-abc"}}, 5),
    ("openai", "refusal", {"type": "refusal", "refusal": "I will not say that."}, 5),
    ("openai", "unknown", {"type": "hologram", "hologram": {"words": "round and blue"}}, 5),
    ("anthropic", "picture", {"type": "image", "source": WEBP}, PICTURE_TOKENS),
    ("anthropic", "file", {"type": "document", "source": PDF}, 1875),
    ("anthropic", "file by id", {"type": "document", "source": {"type": "file", "file_id": "file_a"}}, 5),
    ("anthropic", "hits", {"type": "search_result", "source": "s", "title": "A title", "content": []}, 5),
    ("anthropic", "unknown", {"type": "hologram", "words": "round and blue"}, 5),
    ("responses", "picture", {"type": "input_image", "image_url": f"data:image/png;base64,{DATA}"}, PICTURE_TOKENS),
    ("responses", "file", {"type": "input_file", "filename": "a.pdf", "file_data": DATA}, 1875),
    ("responses", "file by id", {"type": "input_file", "file_id": "file-abc"}, 5),
    ("responses", "sound", {"type": "input_audio", "input_audio": {"data": DATA, "format": "mp3"}}, 37),
    ("responses", "unknown", {"type": "hologram", "words": "round and blue"}, 5),
]
IDS = [f"{wire}-{name}" for wire, name, *_ in PARTS]


def tokens(message: dict[str, Any], wire: Wire) -> int:
    return message_size(message, SHAPES[wire], COUNT).tokens


def said(wire: Wire, parts: list[Any]) -> dict[str, Any]:
    del wire
    return {"role": "user", "content": parts}


def result(wire: Wire, parts: list[Any]) -> dict[str, Any]:
    if wire == "openai":
        return {"role": "tool", "tool_call_id": "c", "content": parts}
    if wire == "responses":
        return {"type": "function_call_output", "call_id": "c", "output": parts}
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": parts}]}


@pytest.mark.parametrize(("wire", "part", "least"), [(wire, part, least) for wire, _, part, least in PARTS], ids=IDS)
def test_a_part_counts_in_a_message_and_in_a_result(wire: Wire, part: Any, least: int) -> None:
    text = {"type": "input_text" if wire == "responses" else "text", "text": "Look at this."}
    marked = {**part, "cache_control": {"type": "ephemeral"}}
    for put in (said, result):
        bare, whole = tokens(put(wire, [text]), wire), tokens(put(wire, [text, part]), wire)
        assert least <= whole - bare <= least + 40
        assert tokens(put(wire, [text, marked]), wire) == whole, "a mark that a client moves on is no content"


ITEMS: list[tuple[Wire, dict[str, Any]]] = [
    ("responses", {"type": "web_search_call", "id": "w", "status": "completed", "action": {"query": "tides today"}}),
    ("responses", {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot"}}),
    ("responses", {"type": "mcp_approval_response", "approval_request_id": "a", "approve": True}),
    ("openai", {"role": "assistant", "content": None, "refusal": "I will not say that."}),
    ("openai", {"role": "assistant", "content": None, "audio": {"id": "audio_abc123"}}),
    ("anthropic", {"role": "assistant", "content": [{"type": "server_tool_use", "name": "web_search", "input": {}}]}),
]


@pytest.mark.parametrize(("wire", "item"), ITEMS, ids=[f"{wire}-{at}" for at, (wire, _) in enumerate(ITEMS)])
def test_what_is_no_part_of_a_message_counts_too(wire: Wire, item: dict[str, Any]) -> None:
    assert tokens(item, wire) > 6


@pytest.mark.parametrize(
    ("wire", "message"),
    [
        ("openai", {"role": "user", "content": [{"type": "text", "text": "Hello"}]}),
        ("responses", {"role": "user", "content": [{"type": "input_text", "text": "Hello"}]}),
        ("anthropic", {"role": "user", "content": [{"type": "text", "text": "Hello"}]}),
        ("anthropic", {"role": "user", "content": [{"type": "document", "source": {"type": "text", "data": "Hello"}}]}),
    ],
)
def test_text_counts_once(wire: Wire, message: dict[str, Any]) -> None:
    assert tokens(message, wire) == 4 + COUNT.count("Hello")


def test_the_strict_providers_cache_counts_pictures_too() -> None:
    cache = PromptCache(PriceSheet("s", input=1, cache_write=1, cache_read=0.1, output=1), COUNT.count)
    body = {"model": "m", "messages": [{"role": "user", "content": [PARTS[1][2]]}]}
    assert cache.counted(body, "openai").total >= PICTURE_TOKENS
