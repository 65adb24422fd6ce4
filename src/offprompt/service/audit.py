"""Audit: what sessions sent, kept out, showed and cost, from their ledgers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from offprompt.protocols import run
from offprompt.records import LedgerEntry, ListSlots, Scope, SlotQuery
from offprompt.service.accounting import digester
from offprompt.service.comparison import Comparison, compare
from offprompt.service.diagnosis import Diagnosis, diagnose
from offprompt.service.ledger_check import Broken, verify_ledger
from offprompt.service.model_calls import SESSIONS, Spent, spent_in
from offprompt.service.parts import Parts
from offprompt.service.stored_session import StoredSession, read_session
from offprompt.wire.head import INLINE
from offprompt.wire.prices import named_sheet, sheet_for


@dataclass(frozen=True, slots=True)
class ShownValue:
    """A value that was shown: why, in which turns, how many requests carried it, their tokens of it together."""

    name: str
    why: str
    turns: tuple[int, ...]
    requests: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Leak:
    """A fault: values that a request carried though nobody asked for them: in text that Offprompt added, a tool's
    result, or an edited reply.
    """

    scope: Scope
    seq: int
    turn: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums over requests.

    parts       tokens in, by part. prefix: tokens that repeat the request before. outside: bytes kept out of the last
                request of each session. prices: by currency; unpriced: answered requests without a price sheet.
    cuts        turns that left. stubbed: messages that became stubs after use. scrubbed: by name, in how many messages
                its value became its handle.
    unanswered  requests without a reply. carded: requests with a card of standing wishes in the head; inlined: with
                all values in the head, as `mode="inline"` puts them. card_tokens: of cards only.
    clean       requests that showed the model no stored value that was added, beside the card. lapsed: those of all
                that still held one which the provider no longer shows to the model.
    memory_rounds  requests that followed a reply with nothing but `mem_*` calls in it.
    """

    sessions: int = 0
    turns: int = 0
    requests: int = 0
    unanswered: int = 0
    parts: Mapping[str, int] = field(default_factory=dict[str, int])
    chars_in: int = 0
    prefix: int = 0
    tokens_out: int = 0
    outside: int = 0
    prices: Mapping[str, float] = field(default_factory=dict[str, float])
    unpriced: int = 0
    cuts: int = 0
    stubbed: int = 0
    scrubbed: Mapping[str, int] = field(default_factory=dict[str, int])
    clean: int = 0
    carded: int = 0
    inlined: int = 0
    card_tokens: int = 0
    lapsed: int = 0
    memory_rounds: int = 0
    said: frozenset[str] = frozenset()
    unproven: frozenset[str] = frozenset()
    comparison: Comparison = field(default_factory=Comparison)

    @property
    def tokens_in(self) -> int:
        """All tokens in."""
        return sum(self.parts.values())

    @property
    def repeated(self) -> float:
        """The share of the tokens in that repeat the request before."""
        return self.prefix / self.tokens_in if self.tokens_in else 0.0

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            self.sessions + other.sessions,
            self.turns + other.turns,
            self.requests + other.requests,
            self.unanswered + other.unanswered,
            {name: self.parts.get(name, 0) + other.parts.get(name, 0) for name in {**self.parts, **other.parts}},
            self.chars_in + other.chars_in,
            self.prefix + other.prefix,
            self.tokens_out + other.tokens_out,
            self.outside + other.outside,
            {name: self.prices.get(name, 0) + other.prices.get(name, 0) for name in {**self.prices, **other.prices}},
            self.unpriced + other.unpriced,
            self.cuts + other.cuts,
            self.stubbed + other.stubbed,
            Counter(self.scrubbed) + Counter(other.scrubbed),
            self.clean + other.clean,
            self.carded + other.carded,
            self.inlined + other.inlined,
            self.card_tokens + other.card_tokens,
            self.lapsed + other.lapsed,
            self.memory_rounds + other.memory_rounds,
            self.said | other.said,
            self.unproven | other.unproven,
            self.comparison + other.comparison,
        )


@dataclass(frozen=True, slots=True)
class SessionAudit:
    """One session audited. entries: in its ledger. broken: None if the ledger is whole, or was not verified."""

    scope: Scope
    model: str
    totals: Totals
    shown: tuple[ShownValue, ...]
    leaks: tuple[Leak, ...]
    warnings: tuple[tuple[str, int], ...]
    entries: int = 0
    verified: bool = False
    broken: Broken | None = None
    diagnoses: tuple[Diagnosis, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryCalls:
    """What models took for memory in a scope on a day. entries, verified, broken: as of a session."""

    scope: Scope
    spent: Spent
    entries: int
    verified: bool = False
    broken: Broken | None = None


@dataclass(frozen=True, slots=True)
class Audit:
    """Sessions audited, and their sums; beside them the calls of models that were made for memory."""

    sessions: tuple[SessionAudit, ...]
    totals: Totals
    for_memory: tuple[MemoryCalls, ...] = ()

    @property
    def calls(self) -> dict[str, int]:
        """The calls of models for memory, by purpose."""
        return dict(sum((Counter(one.spent.calls) for one in self.for_memory), Counter[str]()))

    @property
    def leaks(self) -> list[Leak]:
        """All faults."""
        return [leak for one in self.sessions for leak in one.leaks]

    @property
    def broken(self) -> list[tuple[Scope, Broken]]:
        """The ledgers that are not as they were written."""
        return [(one.scope, one.broken) for one in (*self.sessions, *self.for_memory) if one.broken is not None]


def audit(parts: Parts, scope: Scope | None = None, *, verify: bool = False, diagnosis: bool = False) -> Audit:
    """The sessions of a scope's subtree, or all, the most recently used first.

    verify     recompute every hash and the chain. diagnosis: look for what made tokens go up.
    Changes    nothing; values are read to be counted and are not in what is returned.
    """
    found: list[SessionAudit] = []
    for_memory: list[MemoryCalls] = []
    for record in parts.sessions.sessions(scope):
        ours = (record.scope.session or "").startswith(SESSIONS)
        session = None if ours else read_session(parts.sessions, record)
        broken = None
        if verify:
            ledger = parts.sessions.ledger(record.scope) if session is None else session.ledger
            broken = verify_ledger(record, ledger, digester(parts.sessions.digest_key(record.scope)))
        if session is None:
            for_memory.append(MemoryCalls(record.scope, spent_in(record), record.requests, verify, broken))
        else:
            one = _audit_session(parts, session, diagnosis=diagnosis)
            found.append(replace(one, verified=verify, broken=broken))
    return Audit(tuple(found), sum((one.totals for one in found), Totals()), tuple(for_memory))


def _audit_session(parts: Parts, session: StoredSession, *, diagnosis: bool) -> SessionAudit:
    record, entries = session.record, [one.entry for one in session.rounds]
    sheet = sheet_for(record.model, parts.sheets) or named_sheet("default", parts.sheets)
    tokenizer = parts.tokenizer_for(record.model)
    slots = run(parts.slots, ListSlots(SlotQuery(record.scope, "inherit")))
    comparison = compare(session, slots, tokenizer, sheet)
    inline = record.head is not None and record.head.instructions in INLINE.values()
    answered = [one.entry for one in session.rounds if one.reply is not None]
    totals = Totals(
        sessions=1,
        turns=len(session.turns),
        requests=len(entries),
        unanswered=len(entries) - len(answered),
        parts=_parts(entries),
        chars_in=sum(entry.sent.chars for entry in entries),
        prefix=sum(entry.prefix for entry in entries),
        tokens_out=sum(entry.out.tokens for entry in entries),
        outside=entries[-1].outside if entries else 0,
        prices=_prices(entries),
        unpriced=sum(entry.price is None for entry in answered),
        cuts=sum(entry.cut for entry in entries),
        stubbed=sum(entry.stubbed for entry in entries),
        scrubbed=Counter(name for entry in entries for name in entry.scrubbed),
        clean=sum(not (entry.shown or entry.leaked or (inline and "card" in entry.parts)) for entry in entries),
        lapsed=sum(bool(entry.lapsed) for entry in entries),
        carded=0 if inline else sum("card" in entry.parts for entry in entries),
        card_tokens=0 if inline else _parts(entries).get("card", 0),
        inlined=sum("card" in entry.parts for entry in entries) if inline else 0,
        memory_rounds=sum(
            before.entry.turn == one.entry.turn and bool(before.parsed.actions) and not before.calls
            for before, one in pairwise(session.rounds)
        ),
        said=frozenset(name for entry in entries for name in entry.said),
        unproven=frozenset(name for entry in entries for name in entry.unproven),
        comparison=comparison,
    )
    leaks = [Leak(record.scope, entry.seq, entry.turn, entry.leaked) for entry in entries if entry.leaked]
    warnings = Counter(warning for entry in entries for warning in entry.warnings)
    found = tuple(diagnose(session, comparison, tokenizer, sheet)) if diagnosis else ()
    return SessionAudit(
        record.scope,
        record.model,
        totals,
        tuple(_shown(entries)),
        tuple(leaks),
        tuple(warnings.items()),
        len(session.ledger),
        diagnoses=found,
    )


def _parts(entries: Sequence[LedgerEntry]) -> dict[str, int]:
    total: dict[str, int] = {}
    for entry in entries:
        for name, size in entry.parts.items():
            total[name] = total.get(name, 0) + size.tokens
    return total


def _prices(entries: Sequence[LedgerEntry]) -> dict[str, float]:
    total: dict[str, float] = {}
    for entry in entries:
        if entry.price is not None:
            total[entry.currency] = total.get(entry.currency, 0.0) + entry.price
    return total


def _shown(entries: Sequence[LedgerEntry]) -> list[ShownValue]:
    """The values shown, in the order of their first show."""
    found: dict[tuple[str, str], ShownValue] = {}
    for entry in entries:
        for shown in entry.shown:
            key = (shown.name, shown.why)
            one = found.get(key, ShownValue(shown.name, shown.why, (), 0, 0))
            turns = tuple(dict.fromkeys([*one.turns, entry.turn]))
            found[key] = replace(one, turns=turns, requests=one.requests + 1, tokens=one.tokens + shown.tokens)
    return list(found.values())
