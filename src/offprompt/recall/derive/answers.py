"""Short answers to what the assistant asked: "What is your name?" "Sam"."""

from __future__ import annotations

import re
from typing import Final

from offprompt.recall.derive.names import is_han_name, is_name
from offprompt.recall.derive.records import USER, Derived, Quote, Turn
from offprompt.recall.derive.saying import Saying

RULE: Final = ".name.answer"

_ASKED: Final = re.compile(
    r"(?:what(?:'s| is) your name|what (?:should|can|may|shall) I call you|how (?:should|can|may) I (?:call"
    r"|address) you"
    r"|may I (?:have|ask|know) your name|who am I (?:speaking|talking) (?:to|with)"
    r"|怎么称呼|你叫什么|您叫什么|你的名字是|贵姓大名)"
    r"[^?？。.!]{0,40}[?？]?\W*$",
    re.IGNORECASE,
)
_ANSWER: Final = re.compile(
    r"\W{0,3}(?:(?:it's|it is|i'm|i am|just|oh|well|sure|是|叫"
    r"|嗯)[, ，]*){0,2}(?P<v>[^\s,.!?，。！？]{1,25}(?: [A-Z][^\s,.!?，。！？]{1,25})?)\W{0,3}",
    re.IGNORECASE,
)


def answered(question: Turn, saying: Saying) -> Derived | None:
    """The name that a short turn gives, right after it was asked for."""
    asked = _ASKED.search(question.text[-300:])
    match = _ANSWER.fullmatch(saying.turn.text[:80].replace("\u2019", "'")) if asked else None
    if match is None or len(saying.turn.text) > 60:
        return None
    value = match["v"]
    chinese = is_han_name(value)
    if not chinese and not (is_name(value, alone=True) and value[:1].isascii()):
        return None
    asked_at = max(0, len(question.text) - 300) + (asked.start() if asked else 0)
    quotes = (
        Quote(saying.turn.turn_id, match.start("v"), match.end("v")),
        Quote(question.turn_id, asked_at, len(question.text)),
    )
    text = f"{saying.shown('zh')}的名字叫{value}。" if chinese else f"{saying.shown('en')}'s name is {value}."
    return _named(f"{'zh' if chinese else 'en'}{RULE}", saying.me, value, text, quotes)


def answer_of(rule: str, quote: str) -> Derived | None:
    """The answer that a stored fact holds, whose question is not known any more; None if the fact is no answer."""
    return _named(rule, USER, quote, "", ()) if rule.endswith(RULE) else None


def _named(rule: str, subject: str, value: str, text: str, quotes: tuple[Quote, ...]) -> Derived:
    return Derived(
        kind="slot",
        rule=rule,
        subject=subject,
        attribute="name",
        value=value,
        text=text,
        quotes=quotes,
        slot="user_name",
        effect="replaces",
    )
