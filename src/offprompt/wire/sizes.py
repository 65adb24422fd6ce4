"""How large messages are: characters and tokens."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from offprompt.protocols import Tokenizer
from offprompt.records import Message, Size, as_dict, as_list, compact
from offprompt.wire.payload import loose
from offprompt.wire.shapes import REASONING, Shape

MESSAGE_OVERHEAD_TOKENS: Final = 4
PICTURE_TOKENS: Final = 1000
"""Of a picture whose size nobody measures. OpenAI counts 765 for 1,024 × 1,024 pixels, Anthropic 1,398."""

LOW_PICTURE_TOKENS: Final = 85
"""Of one that OpenAI is asked to look at with `detail: low`."""

PICTURES: Final = frozenset(("image", "image_url", "input_image", "output_image", "computer_screenshot"))
BYTES_PER_TOKEN: Final = {"input_audio": 1600, "audio": 1600}
"""Of encoded data: ten tokens a second of sound at 128 kbit/s, as OpenAI counts."""

FILE_BYTES_PER_TOKEN: Final = 32
"""Of files: a page of some 75 KB that Anthropic counts as 1,500 to 3,000 tokens."""

DATA_CHARS: Final = 512
"""So many characters without a space are encoded data, not words."""

COUNTED: Final = frozenset(
    [
        *("text", "input_text", "output_text", "tool_use", "function_call", "function"),
        *("thinking", "redacted_thinking", "reasoning"),
    ]
)
"""What is counted as text or as calls, and signed thinking, which providers drop by rules of their own."""


def text_size(text: str, tokenizer: Tokenizer) -> Size:
    """A text's size."""
    return Size(len(text), tokenizer.count(text))


def message_size(message: Message, shape: Shape, tokenizer: Tokenizer) -> Size:
    """A message's size: its texts, its calls' names and arguments, and 4 tokens for role and delimiters.

    Thinking that comes as text counts, signed thinking does not. Pictures count a fixed number, sound and files by the
    bytes of their data, anything else as its JSON. The 4 tokens are what OpenAI's chat format adds to each message.
    """
    size = Size(0, MESSAGE_OVERHEAD_TOKENS)
    thought, refused = str(message.get(REASONING) or ""), str(message.get("refusal") or "")
    for text in (
        shape.text(message),
        thought,
        refused,
        *(each for call in shape.calls(message) for each in (call.name, call.arguments)),
    ):
        if text:
            size += text_size(text, tokenizer)
    if (sound := as_dict(message.get("audio"))) is not None:
        size += _other_size(sound, tokenizer)
    if as_list(message.get("content")) is not None or message.get("output") is not None or "role" not in message:
        for part in _others(shape.map_text(message, lambda _: "")):
            size += _other_size(part, tokenizer)
    return size


def _others(value: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The parts of a message, at any depth, that are neither text nor calls."""
    kind = str(value.get("type") or "message")
    if kind in COUNTED:
        return
    source = as_dict(value.get("source")) or {}
    is_text = kind == "document" and source.get("type") in ("text", "content")
    if kind in ("message", "tool_result") or kind.endswith("_output") or is_text:
        given = (source if is_text else value).get("content"), value.get("output")
        for part in [item for each in given for item in as_list(each) or [as_dict(each)]]:
            if (inner := as_dict(part)) is not None:
                yield from _others(inner)
    else:
        yield value


def _other_size(part: Mapping[str, Any], tokenizer: Tokenizer) -> Size:
    if str(part.get("type")) in PICTURES:
        detail = part.get("detail") or (as_dict(part.get("image_url")) or {}).get("detail")
        return Size(0, LOW_PICTURE_TOKENS if detail == "low" else PICTURE_TOKENS)
    data: list[str] = []

    def bare(value: Any) -> Any:
        if isinstance(value, str) and len(value) > DATA_CHARS and not any(map(str.isspace, value[:DATA_CHARS])):
            data.append(value)
            return ""
        if (members := as_dict(value)) is not None:
            return {key: bare(each) for key, each in members.items()}
        return value if (items := as_list(value)) is None else [bare(each) for each in items]

    # A part that is no JSON is refused where it is sent; here it only has a length.
    size = text_size(json.dumps(bare(loose(dict(part))), ensure_ascii=False, default=repr), tokenizer)
    encoded = sum(map(len, data)) * 3 // 4
    return size + Size(0, encoded // BYTES_PER_TOKEN.get(str(part.get("type")), FILE_BYTES_PER_TOKEN))


def messages_size(messages: Iterable[Message], shape: Shape, tokenizer: Tokenizer) -> Size:
    """The size of messages together."""
    return sum((message_size(message, shape, tokenizer) for message in messages), Size())


def tools_size(tools: Iterable[Mapping[str, Any]], tokenizer: Tokenizer) -> Size:
    """The size of tool definitions, as compact JSON."""
    return sum((text_size(compact(tool), tokenizer) for tool in tools), Size())
