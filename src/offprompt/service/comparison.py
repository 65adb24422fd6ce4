"""What a session's memory cost in its requests, beside the plain way: every value in the system text, each time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from offprompt.protocols import Tokenizer
from offprompt.records import LedgerEntry, Slot, compact, text_of
from offprompt.service.heads import shown_value
from offprompt.service.stored_session import Round, StoredSession
from offprompt.wire.head import INLINE, Language, frame, memory_tools
from offprompt.wire.prices import PER, PriceSheet, cached_tokens, price

HEAD_PARTS = ("instructions", "directory", "card", "memory_tools")
NONCE = "00000000"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Tokens and price of memory in the same requests, both ways.

    ours      memory's part of the requests: head (instructions, directory, card, tools), shown values, receipts, and
              the whole of each request that followed only because the model read or searched its memory (extra).
    inline    what the head with all values in it would have taken: a frame of the values, a line, two tools.
    outside   tokens of the values themselves, as they are stored now.
    price     in `currency`, input only: the head at the cache's rate where a request repeats the one before.
    """

    requests: int = 0
    head_tokens: int = 0
    shown_tokens: int = 0
    receipt_tokens: int = 0
    extra_requests: int = 0
    extra_tokens: int = 0
    inline_tokens: int = 0
    outside_tokens: int = 0
    ours_price: float = 0.0
    inline_price: float = 0.0
    currency: str = ""

    @property
    def ours_tokens(self) -> int:
        """All that memory put into the requests."""
        return self.head_tokens + self.shown_tokens + self.receipt_tokens + self.extra_tokens

    @property
    def saved_tokens(self) -> int:
        """What the values outside saved; negative: what they cost more."""
        return self.inline_tokens - self.ours_tokens

    @property
    def saved_price(self) -> float:
        """The same in money."""
        return self.inline_price - self.ours_price

    def __add__(self, other: Comparison) -> Comparison:
        """Two sessions together; prices only where the currency is the same (an empty one fits any)."""
        currency = self.currency or other.currency
        same = not self.requests or not other.requests or self.currency == other.currency
        return Comparison(
            self.requests + other.requests,
            self.head_tokens + other.head_tokens,
            self.shown_tokens + other.shown_tokens,
            self.receipt_tokens + other.receipt_tokens,
            self.extra_requests + other.extra_requests,
            self.extra_tokens + other.extra_tokens,
            self.inline_tokens + other.inline_tokens,
            self.outside_tokens + other.outside_tokens,
            self.ours_price + other.ours_price if same else 0.0,
            self.inline_price + other.inline_price if same else 0.0,
            currency if same else "",
        )


def compare(session: StoredSession, slots: Sequence[Slot], tokenizer: Tokenizer, sheet: PriceSheet) -> Comparison:
    """The comparison for one session. slots: what it inherits now; a value that was longer before counts as now."""
    shown = [slot for slot in slots if slot.policy != "never" and not slot.parts]
    language: Language = "zh" if session.record.language == "zh" else "en"
    tools = [dict(session.shape.tool(spec)) for spec in memory_tools(language, inline=True)]
    head = INLINE[language] + ("\n\n" + frame([shown_value(slot) for slot in shown], NONCE) if shown else "")
    inline = tokenizer.count(head) + sum(tokenizer.count(compact(tool)) for tool in tools)
    rounds = session.rounds
    total = Comparison(
        outside_tokens=sum(tokenizer.count(text_of(slot.value)) for slot in shown), currency=sheet.currency
    )
    for before, one in zip((None, *rounds), rounds, strict=False):
        total += _one(one, inline, sheet, extra=_followed_a_read(before, one))
    return total


def _followed_a_read(before: Round | None, one: Round) -> bool:
    return before is not None and before.entry.turn == one.entry.turn and before.reads_only


def _one(one: Round, inline: int, sheet: PriceSheet, *, extra: bool) -> Comparison:
    entry = one.entry
    parts = {name: size.tokens for name, size in entry.parts.items()}
    head = sum(parts.get(name, 0) for name in HEAD_PARTS)
    shown, receipts = parts.get("shown", 0), parts.get("receipts", 0)
    cached = cached_tokens(sheet, entry.prefix) > 0
    stays, enters = (sheet.cache_read if cached else sheet.cache_write), sheet.cache_write
    return Comparison(
        requests=1,
        head_tokens=0 if extra else head,
        shown_tokens=0 if extra else shown,
        receipt_tokens=0 if extra else receipts,
        extra_requests=int(extra),
        extra_tokens=entry.sent.tokens if extra else 0,
        inline_tokens=0 if extra else inline,
        ours_price=request_price(entry, sheet) if extra else ((head + receipts) * stays + shown * enters) / PER,
        inline_price=0.0 if extra else inline * stays / PER,
        currency=sheet.currency,
    )


def request_price(entry: LedgerEntry, sheet: PriceSheet) -> float:
    """A request's input by a sheet, from our own counts."""
    total = entry.sent.tokens
    cached = cached_tokens(sheet, min(entry.prefix, total))
    return price(sheet, cached=cached, new=total - cached)
