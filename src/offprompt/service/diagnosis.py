"""Why a session's tokens went up: causes that the store can show, each with its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, TypeAlias

from offprompt.protocols import Tokenizer
from offprompt.records import Action, JournalEntry, LedgerEntry, canonical
from offprompt.service.comparison import Comparison
from offprompt.service.stored_session import StoredSession
from offprompt.wire.prices import PriceSheet, cached_tokens

Cause: TypeAlias = Literal["result_back", "head_cost", "repeated_calls", "prefix_broke", "uncached"]

LARGE_TOKENS: Final = 100
CACHE_TOKENS: Final = 1024
CACHED_BELOW: Final = 0.5
HEAD: Final = ("system", "instructions", "directory", "card", "tools", "memory_tools")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One cause. tokens: what it added, as far as it can be counted; numbers: what shows it, by name.

    result_back     bodies, body_tokens: tool results read back by `mem_read`; searches, search_tokens; again,
                    again_tokens: results of 100 tokens or more that came from the client a second time.
    head_cost       head, inline: tokens a request, ours and with all values inline; requests, ours_tokens,
                    inline_tokens; extra: requests that only read memory; ours_price, inline_price, currency.
    repeated_calls  in_turn, in_session: calls with the same arguments beyond the first; worst: which; rounds: requests
                    that followed memory calls; turns.
    prefix_broke    head, head_tokens, part: requests whose head differs from the one before, and in what; history,
                    history_tokens: earlier messages changed; cuts, cut_tokens and shown, shown_tokens: by design.
    uncached        repeated, cached: tokens that repeat, and that the provider says it read from its cache.
    """

    cause: Cause
    tokens: int
    numbers: Mapping[str, int | float | str]


def diagnose(
    session: StoredSession, comparison: Comparison, tokenizer: Tokenizer, sheet: PriceSheet
) -> list[Diagnosis]:
    """The causes found in one session, the dearest first; empty if there is none."""
    found = [
        _result_back(session, tokenizer),
        _head_cost(comparison),
        _repeated_calls(session),
        _prefix_broke([one.entry for one in session.rounds]),
        _uncached(session.ledger, sheet),
    ]
    return sorted((one for one in found if one is not None), key=lambda one: -one.tokens)


def _result_back(session: StoredSession, tokenizer: Tokenizer) -> Diagnosis | None:
    shown = [one for turn in session.turns for one in turn.rounds[-1].entry.shown]
    bodies = [one.tokens for one in shown if one.name.startswith("@")]
    searches = [one.tokens for one in shown if one.name == "mem_search"]
    again = [tokens for tokens in _again(session, tokenizer) if tokens >= LARGE_TOKENS]
    if not bodies and not again:
        return None
    numbers = {
        "bodies": len(bodies),
        "body_tokens": sum(bodies),
        "searches": len(searches),
        "search_tokens": sum(searches),
        "again": len(again),
        "again_tokens": sum(again),
    }
    return Diagnosis("result_back", sum(bodies) + sum(searches) + sum(again), numbers)


def _again(session: StoredSession, tokenizer: Tokenizer) -> Iterator[int]:
    """Tokens of each tool result that the conversation held before, in its newest branch."""
    seen: set[str] = set()
    for entry in _newest_branch(session):
        if entry.kind == "tool":
            for result in session.shape.results(dict(entry.message)):
                if result.text in seen:
                    yield tokenizer.count(result.text)
                seen.add(result.text)


def _newest_branch(session: StoredSession) -> list[JournalEntry]:
    by_key = {entry.key: entry for entry in session.journal}
    key = session.rounds[-1].entry.last if session.rounds else ""
    branch: list[JournalEntry] = []
    while (entry := by_key.get(key)) is not None:
        branch.append(entry)
        key = entry.parent
    return branch[::-1]


def _head_cost(comparison: Comparison) -> Diagnosis | None:
    if comparison.saved_tokens >= 0:
        return None
    requests = comparison.requests - comparison.extra_requests
    numbers = {
        "requests": comparison.requests,
        "head": comparison.head_tokens // max(requests, 1),
        "inline": comparison.inline_tokens // max(requests, 1),
        "ours_tokens": comparison.ours_tokens,
        "inline_tokens": comparison.inline_tokens,
        "outside_tokens": comparison.outside_tokens,
        "extra": comparison.extra_requests,
        "ours_price": comparison.ours_price,
        "inline_price": comparison.inline_price,
        "currency": comparison.currency,
    }
    return Diagnosis("head_cost", -comparison.saved_tokens, numbers)


def _repeated_calls(session: StoredSession) -> Diagnosis | None:
    in_turn, tokens, rounds = 0, 0, 0
    all_calls: Counter[str] = Counter()
    for turn in session.turns:
        seen: set[str] = set()
        for at, one in enumerate(turn.rounds):
            calls = [_call(action) for action in one.parsed.actions]
            repeated = [call for call in calls if call in seen]
            in_turn += len(repeated)
            seen |= set(calls)
            all_calls.update(calls)
            if calls and not one.calls and at + 1 < len(turn.rounds):
                rounds += 1
                # A round made only of what was asked before is paid whole.
                tokens += turn.rounds[at + 1].entry.sent.tokens if len(repeated) == len(calls) else 0
    in_session = sum(count - 1 for count in all_calls.values())
    if not in_turn and in_session < 2:
        return None
    worst, count = max(all_calls.items(), key=lambda item: item[1])
    numbers = {
        "in_turn": in_turn,
        "in_session": in_session,
        "worst": worst.partition("\n")[0],
        "worst_count": count,
        "rounds": rounds,
        "turns": len(session.turns),
    }
    return Diagnosis("repeated_calls", tokens, numbers)


def _call(action: Action) -> str:
    """A call and its slot on the first line, all its arguments behind: they may hold values and are not shown."""
    slot = action.arguments.get("slot")
    return f"{action.name} {slot if isinstance(slot, str) else ''}".strip() + "\n" + canonical(dict(action.arguments))


def _prefix_broke(entries: Sequence[LedgerEntry]) -> Diagnosis | None:
    count: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    part = ""
    for before, entry in pairwise(entries):
        gone = before.sent.tokens - entry.prefix
        if gone <= 0:
            continue
        why = _break(before, entry)
        count[why] += 1
        lost[why] += gone
        if why == "head":
            part = _changed_part(before, entry)
    if not count["head"] and not count["history"]:
        return None
    numbers: dict[str, int | float | str] = {"part": part, "requests": len(entries)}
    for why in ("head", "history", "cut", "shown"):
        numbers |= {why: count[why], f"{why}_tokens": lost[why]}
    return Diagnosis("prefix_broke", lost["head"] + lost["history"], numbers)


def _break(before: LedgerEntry, entry: LedgerEntry) -> str:
    """Why a request repeats less than all of the one before."""
    if entry.prefix < sum(before.parts[name].tokens for name in HEAD if name in before.parts):
        return "head"
    if entry.cut or entry.stubbed:
        return "cut"
    return "shown" if entry.turn != before.turn and "shown" in before.parts else "history"


def _changed_part(before: LedgerEntry, entry: LedgerEntry) -> str:
    """The part of the head that changed, by its size; `head` where only the bytes did."""
    return next((name for name in HEAD if before.parts.get(name) != entry.parts.get(name)), "head")


def _uncached(ledger: Sequence[LedgerEntry], sheet: PriceSheet) -> Diagnosis | None:
    told = [
        entry
        for entry in ledger
        # What the provider cleared repeats in what we sent, not in what it read.
        if entry.usage.cached is not None and not entry.usage.cleared and entry.prefix >= CACHE_TOKENS
    ]
    repeated = sum(cached_tokens(sheet, entry.prefix) for entry in told)
    cached = sum(entry.usage.cached or 0 for entry in told)
    if not repeated or cached >= CACHED_BELOW * repeated:
        return None
    return Diagnosis("uncached", repeated - cached, {"repeated": repeated, "cached": cached, "requests": len(told)})
