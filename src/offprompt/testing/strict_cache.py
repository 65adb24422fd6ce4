"""How many tokens of a request a provider reads from its prompt cache, and how many it writes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from offprompt.records import as_dict, as_list, canonical
from offprompt.testing.strict_chunks import StrictWire
from offprompt.wire.lapsing import lapses
from offprompt.wire.prices import PriceSheet, cached_tokens
from offprompt.wire.sizes import PICTURE_TOKENS, PICTURES

MARKS: Final = ("cache_control", "prompt_cache_breakpoint")
LOOK_BACK: Final = 20
"""Anthropic looks for an earlier entry at a mark and at so many blocks before it."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Tokens of one request: all of them, those read from the cache, those written to it."""

    total: int
    read: int = 0
    written: int = 0


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of a prompt in the order in which the model reads it.

    marked   it carries a cache mark. more: tokens of its pictures.
    """

    text: str
    marked: bool = False
    counts: bool = True
    more: int = 0


def prompt_units(body: Mapping[str, Any], wire: StrictWire) -> list[Unit]:
    """A request's prompt: tools, system text, messages; of Anthropic's messages each block."""
    return list(_blocks(body) if wire == "anthropic" else _whole(body, wire))


def _whole(body: Mapping[str, Any], wire: StrictWire) -> Iterator[Unit]:
    for tool in as_list(body.get("tools")) or []:
        yield Unit(canonical(_unmarked(tool)))
    if body.get("instructions"):
        yield Unit(canonical(body["instructions"]))
    given = body.get("messages" if wire == "openai" else "input")
    for item in [given] if isinstance(given, str) else as_list(given) or []:
        yield Unit(canonical(_unmarked(item)), more=_pictures(item))


def _blocks(body: Mapping[str, Any]) -> Iterator[Unit]:
    for tool in as_list(body.get("tools")) or []:
        yield _unit("tool", tool)
    system = body.get("system")
    for block in [{"type": "text", "text": system}] if isinstance(system, str) else as_list(system) or []:
        yield _unit("system", block)
    # Another tool choice or other thinking keeps what is cached of tools and system text, not of messages.
    yield Unit(canonical([body.get("tool_choice"), body.get("thinking")]), counts=False)
    messages = [as_dict(each) or {} for each in as_list(body.get("messages")) or []]
    places = [
        (str(message.get("role")), block)
        for message in messages
        for block in (
            [{"type": "text", "text": message["content"]}]
            if isinstance(message.get("content"), str)
            else as_list(message.get("content")) or []
        )
    ]
    automatic = _automatic(body, messages, len(places))
    for at, (role, block) in enumerate(places):
        unit = _unit(role, block)
        yield replace(unit, marked=unit.marked or at == automatic)


def _automatic(body: Mapping[str, Any], messages: Sequence[Mapping[str, Any]], blocks: int) -> int:
    """The place of the block that a mark for the whole request stands for, the last; what lapses is never cached."""
    if body.get("cache_control") is None:
        return -1
    last: Mapping[str, Any] = messages[-1] if messages else {}
    return blocks - 1 - (len(as_list(last.get("content")) or [last]) if lapses(last) else 0)


def _unit(kind: str, block: object) -> Unit:
    marked = (as_dict(block) or {}).get("cache_control") is not None
    return Unit(f"{kind} {canonical(_unmarked(block))}", marked=marked, more=_pictures(block))


def _pictures(value: Any) -> int:
    """Tokens of the pictures in a piece."""
    members = as_dict(value)
    if members is None:
        return sum(map(_pictures, as_list(value) or []))
    inner = sum(map(_pictures, members.values()))
    return inner + (PICTURE_TOKENS if members.get("type") in PICTURES else 0)


def _unmarked(value: Any) -> Any:
    """The value without what only steers the cache."""
    members, items = as_dict(value), as_list(value)
    if members is not None:
        return {key: _unmarked(item) for key, item in members.items() if key not in MARKS}
    return value if items is None else [_unmarked(item) for item in items]


class PromptCache:
    """Counts as the provider does.

    OpenAI     the longest prefix that any earlier request of the model began with, cut to the sheet's steps; nothing
               below its minimum.
    Anthropic  only with marks: a request writes its prompt up to its last mark, and reads the longest prefix that an
               earlier one wrote up to a mark of its own and that ends at most 20 blocks before a mark of this one.
    sheet      minimum, step, and whether writing is counted. count: tokens of a text.
    Source     OpenAI's and Anthropic's guides to prompt caching. Nothing expires; `clear` empties it.
    """

    def __init__(self, sheet: PriceSheet, count: Callable[[str], int]) -> None:
        self._sheet, self._count = sheet, count
        self._followed: dict[bytes, dict[str, None]] = {}
        self._written: set[bytes] = set()

    def clear(self) -> None:
        """Forget all requests."""
        self._followed.clear()
        self._written.clear()

    def counted(self, body: Mapping[str, Any], wire: StrictWire) -> Counted:
        """The tokens of a request, which later ones may find in the cache."""
        units = prompt_units(body, wire)
        tokens = [self._count(unit.text) + unit.more if unit.counts else 0 for unit in units]
        keys = _chain(str(body.get("model")), units)
        return self._marked(units, tokens, keys) if wire == "anthropic" else self._prefix(units, tokens, keys)

    def _prefix(self, units: list[Unit], tokens: list[int], keys: list[bytes]) -> Counted:
        prefix = 0
        for unit, size, key in zip(units, tokens, keys, strict=False):
            followed = self._followed.get(key, {})
            if unit.text not in followed:
                prefix += max((self._count(unit.text[: _common(unit.text, each)]) for each in followed), default=0)
                break
            prefix += size
        for unit, key in zip(units, keys, strict=False):
            self._followed.setdefault(key, {})[unit.text] = None
        total = sum(tokens)
        read = cached_tokens(self._sheet, prefix)
        counts_writes = self._sheet.cache_write != self._sheet.input and total >= self._sheet.cache_min_tokens
        return Counted(total, read, total - read if counts_writes else 0)

    def _marked(self, units: list[Unit], tokens: list[int], keys: list[bytes]) -> Counted:
        sums = [sum(tokens[: at + 1]) for at in range(len(tokens))]
        marks = [
            at for at, unit in enumerate(units) if unit.marked and sums[at] >= max(1, self._sheet.cache_min_tokens)
        ]
        found = [
            at
            for mark in marks
            for at in range(max(0, mark - LOOK_BACK), mark + 1)
            if keys[at + 1] in self._written and sums[at] >= self._sheet.cache_min_tokens
        ]
        read = cached_tokens(self._sheet, max((sums[at] for at in found), default=0))
        written = max(0, sums[marks[-1]] - read) if marks else 0
        self._written.update(keys[mark + 1] for mark in marks)
        return Counted(sums[-1] if sums else 0, read, written)


def _chain(model: str, units: list[Unit]) -> list[bytes]:
    """A digest of the prompt before each unit, and of the whole."""
    keys = [hashlib.sha256(model.encode()).digest()]
    for unit in units:
        keys.append(hashlib.sha256(keys[-1] + unit.text.encode("utf-8", "surrogatepass")).digest())
    return keys


def _common(one: str, two: str) -> int:
    """How many characters two texts begin with alike."""
    low, high = 0, min(len(one), len(two))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == two[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
