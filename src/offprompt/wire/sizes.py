"""How large messages are: characters and tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from offprompt.protocols import Tokenizer
from offprompt.records import Message, Size, compact
from offprompt.wire.shapes import REASONING, Shape

MESSAGE_OVERHEAD_TOKENS: Final = 4


def text_size(text: str, tokenizer: Tokenizer) -> Size:
    """A text's size."""
    return Size(len(text), tokenizer.count(text))


def message_size(message: Message, shape: Shape, tokenizer: Tokenizer) -> Size:
    """A message's size: its texts, its calls' names and arguments, and 4 tokens for role and delimiters.

    Thinking that comes as text counts; signed thinking, pictures and sound do not. The 4 tokens are what OpenAI's chat
    format adds to each message.
    """
    size = Size(0, MESSAGE_OVERHEAD_TOKENS)
    thought = str(message.get(REASONING) or "")
    for text in (
        shape.text(message),
        thought,
        *(each for call in shape.calls(message) for each in (call.name, call.arguments)),
    ):
        if text:
            size += text_size(text, tokenizer)
    return size


def messages_size(messages: Iterable[Message], shape: Shape, tokenizer: Tokenizer) -> Size:
    """The size of messages together."""
    return sum((message_size(message, shape, tokenizer) for message in messages), Size())


def tools_size(tools: Iterable[Mapping[str, Any]], tokenizer: Tokenizer) -> Size:
    """The size of tool definitions, as compact JSON."""
    return sum((text_size(compact(tool), tokenizer) for tool in tools), Size())
