"""What a call answers, and how much of it: no answer is over 2,000 tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from offprompt.errors import ConflictError
from offprompt.protocols import Tokenizer
from offprompt.records import compact
from offprompt.service.model_memory import Known
from offprompt.service.model_words import CursorError
from offprompt.wire.head import Language, ShownValue, directory_line, unverified, value_line

MAX_TOKENS: Final = 2000
"""Of one whole answer, text and structured content together, by o200k_base."""

PIECE_TOKENS: Final = 800
"""Of a value, at first: it stands in the text and in the structured content."""

SHRINK: Final = 0.8


@dataclass(frozen=True, slots=True)
class Answer:
    """A call's result: the text for a model, and the same as data; an error has no data."""

    text: str
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Pager:
    """Cuts answers so that they fit, in one language."""

    tokenizer: Tokenizer
    language: Language

    def piece(self, known: Known, cursor: str, value_of: Callable[[str], Any]) -> Answer:
        """A value, or the piece of it that begins at the cursor.

        cursor    empty, or what the answer before gave. value_of: a whole value's text as data.
        Raises    UsageError for a cursor that is none; ConflictError if the value was written since.
        """
        rest, size = known.text[offset_of(known, cursor) :], PIECE_TOKENS
        while True:
            piece = self.tokenizer.clip(rest, size) or rest[:1]
            answer = self._piece(known, len(known.text) - len(rest), piece, value_of)
            if size == 1 or self._fits(answer):
                return answer
            size = max(int(size * SHRINK), 1)

    def listed(self, found: Iterable[Known], cursor_of: Callable[[int, Known], str]) -> Answer:
        """As many of them as fit, and the cursor of the rest.

        cursor_of   the cursor behind the last one shown: how many were, and which it is.
        """
        shown: list[Known] = []
        left, more = MAX_TOKENS, False
        for known in found:
            left -= self.tokenizer.count(compact([self._line(known), item_of(known)]))
            if shown and left < 0:
                more = True
                break
            shown.append(known)
        while True:
            answer = self._listed(shown, cursor_of(len(shown), shown[-1]) if more else "")
            if len(shown) <= 1 or self._fits(answer):
                return answer
            shown.pop()
            more = True

    def lines(self, found: Iterable[Known]) -> str:
        """As many of them as fit into one text, a line each."""
        return self.listed(found, lambda _number, _last: "").text

    def _fits(self, answer: Answer) -> bool:
        return self.tokenizer.count(compact([answer.text, answer.data])) <= MAX_TOKENS

    def _piece(self, known: Known, offset: int, piece: str, value_of: Callable[[str], Any]) -> Answer:
        head = self._marked(f"{known.name} ({known.source}, {known.day})", known)
        data = {"name": known.name, "version": known.version}
        if len(piece) == len(known.text):
            return Answer(f"{head}:\n{piece}", {**data, "value": value_of(piece)})
        end, total = offset + len(piece), len(known.text)
        span = f"{offset + 1:,}-{end:,} / {total:,}"
        cursor = f"{known.version}-{end}" if end < total else ""
        data |= {"value": piece, **({"cursor": cursor} if cursor else {})}
        return Answer(self._with_cursor(f"{head}, {span}:\n{piece}", cursor), data)

    def _listed(self, shown: Sequence[Known], cursor: str) -> Answer:
        text = self._with_cursor("\n".join(map(self._line, shown)), cursor)
        return Answer(text, {"items": list(map(item_of, shown)), **({"cursor": cursor} if cursor else {})})

    def _line(self, known: Known) -> str:
        line = directory_line(known.name, known.kind, known.tokens)
        if known.text:
            line = value_line(ShownValue(known.name, known.text, known.source, known.day))
        if known.pinned:
            line += " [pinned]" if self.language == "en" else " [已固定]"
        return self._marked(line, known)

    def _marked(self, line: str, known: Known) -> str:
        return unverified(line, self.language) if known.foreign else line

    def _with_cursor(self, text: str, cursor: str) -> str:
        if not cursor:
            return text
        more = "more with cursor" if self.language == "en" else "其余用 cursor 读取："
        return f"{text}\n… {more} {cursor}"


def item_of(known: Known) -> dict[str, Any]:
    """One of a list as data; without the text where a list shows none."""
    item: dict[str, Any] = {"name": known.name, "kind": known.kind, "tokens": known.tokens, "day": known.day}
    if known.text:
        item["text"] = known.text
    if known.foreign:
        item["unverified"] = True
    if known.pinned:
        item["pinned"] = True
    return item


def offset_of(known: Known, cursor: str) -> int:
    """Where in a value's text a cursor stands.

    Raises   UsageError for one that no answer gave; ConflictError if the value was written since.
    """
    if not cursor:
        return 0
    version, _, offset = cursor.partition("-")
    if not (is_number(version) and is_number(offset) and 0 < int(offset) < max(len(known.text), 1)):
        raise CursorError(cursor, f"an answer on {known.name!r}")
    if int(version) != known.version:
        raise ConflictError(f"{known.name!r} was written since that page; read it from the start, without cursor")
    return int(offset)


def is_number(text: str) -> bool:
    """Whether a text is a whole number as our cursors write it."""
    return text.isascii() and text.isdigit() and len(text) < 16
