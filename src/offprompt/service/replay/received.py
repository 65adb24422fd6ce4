"""Requests as an upstream received them: sizes, what repeats, and prices, as in a replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from offprompt.protocols import Tokenizer
from offprompt.records import Message, Size, as_dict, as_list, compact
from offprompt.service.replay.simulate import Series
from offprompt.wire.openai import OpenAIChat
from offprompt.wire.prices import PriceSheet
from offprompt.wire.sizes import message_size, text_size


class Received:
    """The requests of one conversation in order, as OpenAI's chat completions carry them.

    series   by the name of each sheet. prefix, total: tokens of the newest request, and those that repeat the one
             before it: its leading tools and messages that are the same bytes.
    Cost     each message is counted once.
    """

    def __init__(self, tokenizer: Tokenizer, sheets: Sequence[PriceSheet]) -> None:
        self.series = {sheet.name: Series() for sheet in sheets}
        self.prefix = self.total = 0
        self._tokenizer, self._sheets, self._shape = tokenizer, sheets, OpenAIChat()
        self._sizes: dict[str, Size] = {}
        self._before: list[Message] = []

    def take(self, body: Mapping[str, Any]) -> None:
        """The next request."""
        now = [
            *(as_list(body.get("tools")) or []),
            *(as_dict(each) or {} for each in as_list(body.get("messages")) or []),
        ]
        tools = len(as_list(body.get("tools")) or [])
        sizes = [self._size(each, is_tool=at < tools) for at, each in enumerate(now)]
        pairs = enumerate(zip(now, self._before, strict=False))
        same = next((at for at, (new, old) in pairs if new != old), min(len(now), len(self._before)))
        self.prefix, self.total = (sum(size.tokens for size in part) for part in (sizes[:same], sizes))
        self._before = now
        chars = sum(size.chars for size in sizes)
        for sheet in self._sheets:
            self.series[sheet.name].add(sheet, prefix=self.prefix, total=self.total, chars=chars)

    def _size(self, piece: Message, *, is_tool: bool) -> Size:
        text = compact(piece)
        if text not in self._sizes:
            whole = text_size(text, self._tokenizer) if is_tool else message_size(piece, self._shape, self._tokenizer)
            self._sizes[text] = whole
        return self._sizes[text]
