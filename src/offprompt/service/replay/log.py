"""A conversation that grows message by message: sizes once per message, whole and as a stub."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from offprompt.protocols import Tokenizer
from offprompt.records import Size, compact
from offprompt.service.replay.logged import LoggedMessage
from offprompt.wire.head import INSTRUCTIONS, Language, language_of, memory_tools
from offprompt.wire.history import Bounds, History, Item, place, window_bounds
from offprompt.wire.openai import OpenAIChat
from offprompt.wire.prices import PriceSheet
from offprompt.wire.stubs import gone_line, stub_text

MESSAGE_TOKENS: Final = 4
"""Tokens that a message's frame costs (role and separators), as OpenAI's cookbook counts them; also of a call."""

STUBBED: Final = ("tool", "observation")
EVIDENCE_CHARS: Final = 16_000_000


@dataclass(frozen=True, slots=True)
class Rules:
    """What a replay computes with.

    context_tokens, reserve_tokens   the model's context and the output reserve; high_tokens, low_tokens: the window's
                   caps. stub_tokens: results above become stubs.
    head           size of our instructions and tools, which every policy of ours pays; None: those of this version, in
                   the conversation's language.
    memory_tokens  values that the column `rewritten` puts into the system prompt anew each turn.
    """

    sheet: PriceSheet
    context_tokens: int = 128_000
    reserve_tokens: int = 4096
    high_tokens: int = 8000
    low_tokens: int = 4000
    head: Size | None = None
    stub_tokens: int = 600
    memory_tokens: int = 1000


def head_size(tokenizer: Tokenizer, language: Language) -> Size:
    """Our instructions and the four tools, as OpenAI's wire carries them."""
    tools = [OpenAIChat().tool(spec) for spec in memory_tools(language)]
    text = INSTRUCTIONS[language] + compact(tools)
    return Size(chars=len(text), tokens=tokenizer.count(text))


@dataclass(frozen=True, slots=True)
class Piece:
    """One message: its size whole and as a stub, its characters, and the stub where there may be one."""

    item: Item
    chars: int
    stub: str | None


class Form:
    """The messages of a log as one kind of policy sends them: results over a size as stubs.

    stub_tokens   results above are stubs at first sight. after_use: all others that may be stubs become some by `stub`.
    history       tokens, whole and as sent. stubs: by index what stands for a result, in the order in which it came so.
    """

    def __init__(self, stub_tokens: int, *, after_use: bool = False) -> None:
        self.history = History()
        self.stubs: dict[int, str] = {}
        self._stub_tokens, self._after_use = stub_tokens, after_use
        self._later: dict[int, str] = {}
        self._whole_chars, self._sent_chars = array("q", [0]), array("q", [0])

    def append(self, piece: Piece) -> None:
        """Add the newest message."""
        item, at = piece.item, len(self.history)
        stub = piece.stub if item.whole > self._stub_tokens else None
        self._whole_chars.append(self._whole_chars[-1] + piece.chars)
        self._sent_chars.append(self._sent_chars[-1] + (piece.chars if stub is None else len(stub)))
        if stub is not None:
            self.stubs[at] = stub
        elif piece.stub is not None and self._after_use:
            self._later[at] = piece.stub
            item = replace(item, sent=item.whole, used=item.sent)
        else:
            item = replace(item, sent=item.whole)
        self.history.append(item)

    def follow(self, pieces: Sequence[Piece]) -> None:
        """Add all messages that are not here yet; pieces: all of the log."""
        for at in range(len(self.history), len(pieces)):
            self.append(pieces[at])

    def stub(self, indices: Sequence[int]) -> None:
        """Send these as stubs from now on."""
        self.history.stub(indices)
        for at in indices:
            self.stubs[at] = self._later.pop(at)
        for at in range(min(indices, default=len(self.history)), len(self.history)):
            whole = self._whole_chars[at + 1] - self._whole_chars[at]
            self._sent_chars[at + 1] = self._sent_chars[at] + (len(self.stubs[at]) if at in self.stubs else whole)

    def chars(self, start: int = 0, *, stubs: bool = False, opener: bool = True) -> int:
        """Characters of the messages sent from a start on, with or without the opener."""
        sums = self._sent_chars if stubs else self._whole_chars
        first = self.history.opener(start) if opener else None
        return sums[-1] - sums[start] + (0 if first is None else sums[first + 1] - sums[first])


class Log:
    """The messages so far, with running sums.

    form      results over `stub_tokens` are stubs. pieces: the messages, for forms of other kinds.
    texts     what each message says, for finding values; stops growing after 16 million characters
              (`evidence_open`), the sums do not. base_tokens, base_chars: of the system text and tools in front.
    """

    def __init__(self, system: str, tokenizer: Tokenizer, rules: Rules) -> None:
        self.rules = rules
        self.form = Form(rules.stub_tokens)
        self.pieces: list[Piece] = []
        self.texts: list[str] = []
        self.language: Language = "en"
        self.base_tokens = tokenizer.count(system) + (MESSAGE_TOKENS if system else 0)
        self.base_chars = len(system)
        self.newest_user = ""
        self._tokenizer = tokenizer
        self._text_chars = 0
        self._kind = "user"
        self._head: Size | None = None
        self._bounds: Bounds | None = None
        self._places = place(self._kinds())

    @property
    def history(self) -> History:
        """The messages' tokens; whole ones are the same in every form."""
        return self.form.history

    @property
    def evidence_open(self) -> bool:
        """Whether texts are still kept."""
        return self._text_chars < EVIDENCE_CHARS

    @property
    def note(self) -> str:
        """The line that says that earlier turns left."""
        return gone_line(self.language)

    @property
    def note_tokens(self) -> int:
        """The note's tokens as a message."""
        return self._tokenizer.count(self.note) + MESSAGE_TOKENS

    @property
    def turn(self) -> int:
        """The turn of the newest message."""
        return self.history.items[-1].turn if self.history.items else 0

    @property
    def head(self) -> Size:
        """Our instructions and tools."""
        if self._head is None:
            self._head = self.rules.head or head_size(self._tokenizer, self.language)
        return self._head

    @property
    def bounds(self) -> Bounds:
        """The window of this conversation."""
        if self._bounds is None:
            rules = self.rules
            self._bounds = window_bounds(
                rules.context_tokens,
                reserve_tokens=rules.reserve_tokens,
                head_tokens=self.base_tokens + self.head.tokens,
                high_cap=rules.high_tokens,
                low_cap=rules.low_tokens,
            )
        return self._bounds

    def size(self, message: LoggedMessage) -> int:
        """Tokens of a message with its calls and frames."""
        calls = [call for call in message.calls if not call.inline]
        texts = [message.text, *(call.name for call in calls), *(call.arguments for call in calls)]
        return sum(map(self._tokenizer.count, texts)) + MESSAGE_TOKENS * (1 + len(calls))

    def append(self, message: LoggedMessage) -> int:
        """Add the newest message; its tokens."""
        if not self.history.items:
            self.language = language_of(message.text[:4000])
        if message.kind == "user":
            self.newest_user = message.text
        self._kind = message.kind
        turn, group = next(self._places)
        whole = self.size(message)
        chars = len(message.text) + sum(len(c.name) + len(c.arguments) for c in message.calls if not c.inline)
        stub = self._stub(message, whole)
        sent = whole if stub is None else self._tokenizer.count(stub) + MESSAGE_TOKENS
        if sent >= whole:
            sent, stub = whole, None
        if self.evidence_open:
            self._text_chars += chars
            self.texts.append(message.searchable)
        self.pieces.append(Piece(Item(whole, sent, turn, group, message.kind), chars, stub))
        self.form.append(self.pieces[-1])
        return whole

    def _stub(self, message: LoggedMessage, whole: int) -> str | None:
        if message.kind not in STUBBED or whole <= self.rules.stub_tokens:
            return None
        digest = hashlib.blake2b(message.text.encode("utf-8", "replace"), digest_size=6).hexdigest()
        return stub_text(message.text, handle=f"[[mem:@{digest}]]", kind=message.kind, language=self.language)

    def _kinds(self) -> Iterator[str]:
        while True:
            yield self._kind
