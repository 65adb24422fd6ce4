"""A conversation that grows message by message: sizes once per message, whole and as a stub."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from offprompt.protocols import Tokenizer
from offprompt.records import Size, compact
from offprompt.service.replay.logged import LoggedMessage
from offprompt.wire.head import INSTRUCTIONS, Language, language_of, memory_tools
from offprompt.wire.history import Bounds, History, Item, gone_line, place, stub_text, window_bounds
from offprompt.wire.openai import OpenAIChat
from offprompt.wire.prices import PriceSheet

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


class Form:
    """The messages of a log as one kind of policy sends them: results over a size as stubs.

    history   tokens, whole and as sent. stubs: by index what stands for a result.
    """

    def __init__(self, stub_tokens: int) -> None:
        self.history = History()
        self.stubs: dict[int, str] = {}
        self.stub_tokens = stub_tokens
        self._whole_chars = [0]
        self._sent_chars = [0]

    def append(self, item: Item, chars: int, stub: str | None) -> None:
        """Add the newest message: its size whole and as a stub, and the stub where there is one."""
        if item.whole <= self.stub_tokens:
            stub = None
        self._whole_chars.append(self._whole_chars[-1] + chars)
        self._sent_chars.append(self._sent_chars[-1] + (chars if stub is None else len(stub)))
        if stub is not None:
            self.stubs[len(self.history)] = stub
        self.history.append(replace(item, sent=item.whole) if stub is None else item)

    def chars(self, start: int = 0, *, stubs: bool = False, opener: bool = True) -> int:
        """Characters of the messages sent from a start on, with or without the opener."""
        sums = self._sent_chars if stubs else self._whole_chars
        first = self.history.opener(start) if opener else None
        return sums[-1] - sums[start] + (0 if first is None else sums[first + 1] - sums[first])


class Log:
    """The messages so far, with running sums.

    form      results over `stub_tokens` are stubs. gentle: only results that the window could not hold, so that the
              model sees every other one whole once; what `auto` sends.
    texts     what each message says, for finding values; stops growing after 16 million characters
              (`evidence_open`), the sums do not. base_tokens, base_chars: of the system text and tools in front.
    """

    def __init__(self, system: str, tokenizer: Tokenizer, rules: Rules) -> None:
        self.rules = rules
        self.form = Form(rules.stub_tokens)
        self.gentle = Form(max(rules.stub_tokens, rules.high_tokens))
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
        for form in (self.form, self.gentle):
            form.append(Item(whole, sent, turn, group, message.kind), chars, stub)
        return whole

    def _stub(self, message: LoggedMessage, whole: int) -> str | None:
        if message.kind not in STUBBED or whole <= self.rules.stub_tokens:
            return None
        digest = hashlib.blake2b(message.text.encode("utf-8", "replace"), digest_size=6).hexdigest()
        return stub_text(message.text, handle=f"[[mem:@{digest}]]", kind=message.kind, language=self.language)

    def _kinds(self) -> Iterator[str]:
        while True:
            yield self._kind
