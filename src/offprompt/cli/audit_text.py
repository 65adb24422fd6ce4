"""How `audit` says what it found, and `trace` what is wrong with an answer, in English and Chinese."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from offprompt.service.audit import Audit, Leak, MemoryCalls, SessionAudit, Totals
from offprompt.service.comparison import Comparison
from offprompt.service.diagnosis import Diagnosis
from offprompt.service.ledger_check import Broken
from offprompt.wire.contradiction import Contradiction

Lang = Literal["en", "zh"]


@cache
def _sentences() -> dict[str, Any]:
    return tomllib.loads(files("offprompt.cli").joinpath("audit.toml").read_text(encoding="utf-8"))


def line(lang: Lang, key: str, /, **numbers: Any) -> str:
    """One sentence of the audit."""
    return _sentences()["lines"][key][lang].format(**numbers)


def broken_line(lang: Lang, broken: Broken) -> str:
    """Where and how a ledger is broken."""
    return line(lang, "broken", seq=broken.seq, why=_sentences()["broken"][broken.kind][lang])


def diagnosis_line(lang: Lang, one: Diagnosis) -> str:
    """A cause with its numbers, and what to do."""
    return _sentences()["causes"][one.cause][lang].format(**one.numbers)


def flag_line(lang: Lang, flag: Contradiction) -> str:
    """What an answer does with a slot that was shown."""
    return _sentences()["flags"][flag.fault][lang].format(slot=flag.slot, quote=flag.quote)


def warning_text(lang: Lang, text: str) -> str:
    """A stored warning in that language; in English where it is of no kind that the table has."""
    if lang == "zh":
        for kind in _sentences()["warnings"]:
            found = re.fullmatch(kind["en"], text, re.DOTALL)
            if found is not None:
                return kind["zh"].format(**{name: warning_text(lang, part) for name, part in found.groupdict().items()})
    return text


def warning_lines(lang: Lang, warnings: Sequence[tuple[str, int]]) -> list[str]:
    """The warnings, those that differ only in their numbers as one line, with the first's."""
    alike: dict[str, list[tuple[str, int]]] = {}
    for text, count in warnings:
        alike.setdefault(re.sub(r"\d[\d,.]*", "#", text), []).append((text, count))
    return [
        line(
            lang,
            "warning" if len(group) == 1 else "warnings",
            count=sum(count for _, count in group),
            text=warning_text(lang, group[0][0]),
        )
        for group in alike.values()
    ]


def audit_text(found: Audit, lang: Lang, *, diagnosed: bool) -> str:
    """The whole audit as text: faults first, then each session, then all together."""
    lines = _leaks(found.leaks, lang)
    for one in found.sessions:
        lines += ["", *_session(one, lang, diagnosed=diagnosed)]
    if len(found.sessions) > 1:
        lines += ["", line(lang, "total", sessions=len(found.sessions)), *_indent(_totals(found.totals, lang))]
    for one in found.for_memory:
        lines += ["", *_for_memory(one, lang)]
    kept = _kept(found, lang) if found.sessions else [_no_calls(found, lang)]
    return "\n".join([*lines, "", *kept]).lstrip("\n")


def _for_memory(one: MemoryCalls, lang: Lang) -> list[str]:
    """What models took for memory in one scope on one day."""
    spent = one.spent
    calls = ", ".join(f"{purpose} {count:,}" for purpose, count in sorted(spent.calls.items()))
    prices = ", ".join(money(lang, price, currency) for currency, price in spent.prices.items()) or "-"
    lines = [line(lang, "for_memory", calls=calls or "-", tokens=spent.tokens, price=prices)]
    lines += [line(lang, "calls_failed", failed=spent.failed)] if spent.failed else []
    lines += [line(lang, "budget_spent")] if spent.refused else []
    if one.broken is not None:
        lines.append(broken_line(lang, one.broken))
    elif one.verified:
        lines.append(line(lang, "whole", count=one.entries))
    return [str(one.scope), *_indent(lines)]


def _leaks(leaks: Sequence[Leak], lang: Lang) -> list[str]:
    """The faults; the same values in requests one after the other are one line."""
    runs: list[list[Leak]] = []
    for leak in leaks:
        before = runs[-1][-1] if runs else None
        if before and (before.scope, before.names, before.seq + 1) == (leak.scope, leak.names, leak.seq):
            runs[-1].append(leak)
        else:
            runs.append([leak])
    lines: list[str] = []
    for run in runs:
        first, last = run[0], run[-1]
        seq = str(first.seq) if first is last else f"{first.seq}–{last.seq}"
        turn = str(first.turn) if first.turn == last.turn else f"{first.turn}–{last.turn}"
        lines.append(line(lang, "leak", seq=seq, turn=turn, scope=first.scope, names=", ".join(first.names)))
    return lines


def _session(one: SessionAudit, lang: Lang, *, diagnosed: bool) -> list[str]:
    lines = _totals(one.totals, lang)
    for shown in one.shown:
        turns = ", ".join(map(str, shown.turns))
        lines.append(
            line(
                lang, "shown", name=shown.name, why=shown.why, turns=turns, requests=shown.requests, tokens=shown.tokens
            )
        )
    lines += warning_lines(lang, one.warnings)
    if one.broken is not None:
        lines.append(broken_line(lang, one.broken))
    elif one.verified:
        lines.append(line(lang, "whole", count=one.entries))
    if diagnosed:
        lines += [diagnosis_line(lang, each) for each in one.diagnoses] or [line(lang, "no_cause")]
    return [f"{one.scope}  {one.model}".rstrip(), *_indent(lines)]


def _totals(totals: Totals, lang: Lang) -> list[str]:
    parts = ", ".join(f"{name} {tokens:,}" for name, tokens in sorted(totals.parts.items(), key=lambda item: -item[1]))
    prices = ", ".join(money(lang, price, currency) for currency, price in totals.prices.items()) or "-"
    if totals.unpriced:
        prices = line(lang, "unpriced", price=prices, count=totals.unpriced)
    lines = [
        line(lang, "requests", requests=totals.requests, turns=totals.turns, unanswered=totals.unanswered),
        line(lang, "in", tokens=totals.tokens_in, parts=parts),
        line(lang, "repeated", prefix=totals.prefix, share=totals.repeated),
        line(lang, "out", tokens=totals.tokens_out),
        line(lang, "outside", bytes=totals.outside),
        line(lang, "price", price=prices),
        line(lang, "cuts", cuts=totals.cuts),
    ]
    lines += [line(lang, "stubbed", count=totals.stubbed)] if totals.stubbed else []
    if totals.scrubbed:
        each = ", ".join(f"{name} {count}" for name, count in sorted(totals.scrubbed.items()))
        lines.append(line(lang, "scrubbed", count=sum(totals.scrubbed.values()), names=each))
    lines += [line(lang, "said", names=_names(totals.said))] if totals.said else []
    lines += [line(lang, "unproven", names=_names(totals.unproven))] if totals.unproven else []
    return lines


def _kept(found: Audit, lang: Lang) -> list[str]:
    """Which of the two properties was kept, and whether anything was saved."""
    totals = found.totals
    shown = ", ".join(dict.fromkeys(f"{one.name} ({one.why})" for session in found.sessions for one in session.shown))
    others = line(lang, "b_others", shown=shown) if shown else ""
    lines = [line(lang, "b", clean=totals.clean, requests=totals.requests, others=others)]
    if totals.lapsed:
        lines.append(line(lang, "lapsed", lapsed=totals.lapsed))
    if found.leaks:
        lines.append(line(lang, "b_broken", count=len(found.leaks)))
    if totals.inlined:
        lines.append(line(lang, "inline", inlined=totals.inlined))
    if totals.carded:
        lines.append(line(lang, "card", carded=totals.carded, tokens=totals.card_tokens))
    return [*lines, _no_calls(found, lang), _saved(totals.comparison, lang)]


def _no_calls(found: Audit, lang: Lang) -> str:
    """Whether models were asked for memory."""
    calls = sum(found.calls.values())
    return line(lang, "a_calls" if calls else "a", rounds=found.totals.memory_rounds, count=calls)


def _saved(one: Comparison, lang: Lang) -> str:
    price = ""
    if one.currency:
        ours, inline = (money(lang, each, one.currency) for each in (one.ours_price, one.inline_price))
        dearer = one.saved_tokens > 0 > one.saved_price
        price = line(lang, "dearer_price" if dearer else "saved_price", ours=ours, inline=inline)
    return line(
        lang,
        "saved" if one.saved_tokens > 0 else "dearer",
        inline=one.inline_tokens,
        ours=one.ours_tokens,
        head=one.head_tokens,
        shown=one.shown_tokens,
        receipts=one.receipt_tokens,
        extra=one.extra_requests,
        extra_tokens=one.extra_tokens,
        saved=abs(one.saved_tokens),
        price=price,
    )


def money(lang: Lang, price: float, currency: str) -> str:
    """A price with its currency; of a sheet without one, as a multiple of what a million input tokens cost."""
    if currency.startswith("×"):
        return line(lang, "relative", price=f"{price:.6f}")
    return f"{price:.6f} {currency}".rstrip()


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _indent(lines: list[str]) -> list[str]:
    return [f"  {each}" for each in lines]
