"""Ledger: one entry per outgoing request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Size:
    """Characters and tokens of one part of a request."""

    chars: int = 0
    tokens: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(self.chars + other.chars, self.tokens + other.tokens)


@dataclass(frozen=True, slots=True)
class Shown:
    """A value that the model was let to see: its name, why, and what it cost."""

    name: str
    why: str
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """What the provider says that it counted, in tokens; None where it says nothing.

    cleared   tokens that it cleared of the request before it counted `input`. cleared_results: the tool results that
              held them, the oldest ones.
    """

    input: int | None = None
    cached: int | None = None
    written: int | None = None
    output: int | None = None
    cleared: int | None = None
    cleared_results: int | None = None


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One outgoing request of a session.

    parts     what went in, by part: `system` `instructions` `directory` `card` `tools` `memory_tools` `history`
              `stubs` `notes` `shown` `receipts` `user`; the sum is the request.
    prefix    tokens of the leading run that repeats the request before it, byte for byte.
    outside   bytes stored outside the prompt that this session could ask for.
    said      names whose value stands in the client's own words. shown: names shown on purpose, with the reason.
    lapsed    names that an earlier turn showed, whose value is still sent though the provider no longer shows it to
              the model: in no part, since it is not counted there either.
    leaked    names whose value, or a part of it, stands in text that Offprompt added, or in a tool result or edited
              reply whose source it is not; a fault. unproven: names too short to look for.
    scrubbed  names whose value became its handle in messages that are new in this request, once for each message.
    price     in the sheet's currency, input and output; None without a sheet. cut: turns that left at this request.
    stubbed   messages that became stubs at this request, after the model had seen them whole: like a cut, it breaks the
              prefix.
    outcome   `ok`, `cut`: the reply ended before its end (token limit, stream), `no reply`: none was absorbed.
    last      journal key of the request's last message: its reply is the assistant's entry behind it.
    before    tokens of what the client gave: its messages, system text and tools as they came.
    previous  hash of the session's entry before, hash: of this one (`audit --verify` recomputes it).
    """

    seq: int
    at: float
    turn: int
    model: str
    parts: Mapping[str, Size] = field(default_factory=dict[str, Size])
    prefix: int = 0
    out: Size = Size()
    outside: int = 0
    said: tuple[str, ...] = ()
    shown: tuple[Shown, ...] = ()
    leaked: tuple[str, ...] = ()
    unproven: tuple[str, ...] = ()
    usage: Usage = Usage()
    price: float | None = None
    currency: str = "USD"
    cut: int = 0
    warnings: tuple[str, ...] = ()
    outcome: str = "ok"
    last: str = ""
    previous: str = ""
    hash: str = ""
    stubbed: int = 0
    scrubbed: tuple[str, ...] = ()
    lapsed: tuple[str, ...] = ()
    before: int = 0

    @property
    def sent(self) -> Size:
        """All that went in."""
        return sum(self.parts.values(), Size())
