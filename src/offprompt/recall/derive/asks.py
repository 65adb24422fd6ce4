"""What users ask for once and for all: names, language, style, wishes, what to remember."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from offprompt.recall.derive.chinese import AWAY, about_self, chinese_facts
from offprompt.recall.derive.chinese_dates import chinese_dates
from offprompt.recall.derive.dates import Day
from offprompt.recall.derive.english import POINTS_AWAY, english_facts
from offprompt.recall.derive.english_dates import english_dates
from offprompt.recall.derive.english_voice import about_them, agreeing, expanded
from offprompt.recall.derive.names import is_name
from offprompt.recall.derive.records import AGENT, Derived, Language, Quote
from offprompt.recall.derive.rules import Rule, rules
from offprompt.recall.derive.saying import Saying, with_dates
from offprompt.recall.derive.sentences import BLANK, Sentence

_STARTS: Final[dict[Language, re.Pattern[str]]] = {
    "en": re.compile(
        r"(?:^|[,;:—–，：]|\b(?:and|but|so)\b)\s*(?:(?:oh|ok|okay|well|hey|hi|hello|yes|no|sure|thanks|thank you"
        r"|by the way"
        r"|btw|also|and|but|so|then|actually|plus|one more thing|just|yeah|great|good|cool)(?:[,!. ]+))*"
        r"(?P<polite>(?:can|could|would|will) you (?:please |just |kindly )?)?",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        r"(?:^|[，,；：:])\s*(?:(?:嗯+|哦+|对了|好的|好啊?|你好|您好|嗨|那么?|另外|还有|不过|但是|而且|谢谢|顺便说一下)[！!，,、\s]*)*"
        r"(?P<polite>(?:你|您)?(?:能不能|能|可以|可不可以))?"
    ),
}
_DOUBT: Final = re.compile(
    r"\b(?:if|unless|whether|suppose|imagine|pretend|said|says|told|tells|she|he|translate|example)\b|\u2588|如果|要是"
    r"|假如|说我|比如|例如",
    re.IGNORECASE,
)
_ASKING: Final = re.compile(
    r"\W*(?:please|be|keep|make|use|do|don't|never|always|only|from now on|call|answer|reply)\b", re.IGNORECASE
)
"""How a sentence begins that asks from its first word on."""

PARTICLES: Final = re.compile(r"[啊呀哦啦呢哈嘛喔哟哇~～！!。.\s]+$")
_YEARLY: Final = re.compile(r"birthday|anniversary|生日|纪念日", re.IGNORECASE)
_MAX_STARTS: Final = 24


def asked_facts(sentence: Sentence, saying: Saying, language: Language) -> list[Derived]:
    """What one sentence asks for; of what is to be remembered the facts in it, if rules find any. Cost: O(n)."""
    text = sentence.text
    if _DOUBT.search(text):
        return []
    found: list[Derived] = []
    after = 0
    for number, start in enumerate(_STARTS[language].finditer(text)):
        if number >= _MAX_STARTS or (sentence.asks and not start["polite"] and not _naming(text[start.end() :])):
            break
        if start.end() < after:
            continue
        # "They make me smile and always remind me of home" states on: nothing is asked for behind its "and".
        states = start[0].lower().startswith(("and", "but")) and not _ASKING.match(text)
        for rule in rules(language, "ask"):
            if states and rule.slot == "wishes":
                continue
            facts, end = _asked(rule, sentence, start.end(), saying, language)
            if facts:
                found += facts
                after = end
                break
    return found


def _naming(text: str) -> bool:
    """Whether a question gives a name: "Can I call you Max?"."""
    return re.match(r"(?:can|may|could) I call you |我?(?:可以|能)?叫你", text, re.IGNORECASE) is not None


def _asked(rule: Rule, sentence: Sentence, start: int, saying: Saying, language: Language) -> tuple[list[Derived], int]:
    """What one rule makes of the sentence from there on, and where that ends."""
    whole = sentence.text[start : start + 300]
    piece = whole if language == "en" or not rule.text else re.split(r"[，,；]", whole)[0]
    body = PARTICLES.sub("", piece)
    match = rule.pattern.match(body)
    value = rule.value(body)
    if match is None or value is None or BLANK in value:
        return [], 0
    end = start + len(body)
    if not rule.text:
        return list(
            _remembered(
                rule, value, Sentence(value, sentence.start + start + body.index(value), asks=False), saying, language
            )
        ), end
    if rule.check == "name" and not is_name(value, alone=True):
        return [], 0
    quote = Quote(saying.turn.turn_id, sentence.start + start, sentence.start + start + max(match.end(), 1))
    value, days = _for_good(value, saying, language)
    shown = value.title() if rule.slot == "language" and language == "en" else value
    said = about_them(shown) if language == "en" else about_self(shown)
    said = shown if rule.check else said
    text = rule.text.format(me=saying.shown(language), v=said)
    return [_dated(_built(rule, said, text, quote, saying, language), days, saying)], end


def _remembered(rule: Rule, value: str, sentence: Sentence, saying: Saying, language: Language) -> Iterator[Derived]:
    inner = list(english_facts(sentence, saying) if language == "en" else chinese_facts(sentence, saying))
    if inner or (POINTS_AWAY if language == "en" else AWAY).search(value):
        yield from inner
        return
    value, days = _for_good(value, saying, language)
    if language == "zh":
        text = re.sub(r"^我(?!们)", saying.shown("zh"), value)
        text = about_self(text, saying.shown("zh")) + "。"
    else:
        text = _about_speaker(value, saying) + "."
    quote = Quote(saying.turn.turn_id, sentence.start, sentence.start + len(sentence.text))
    yield _dated(_built(rule, value, text, quote, saying, language), days, saying)


def _for_good(value: str, saying: Saying, language: Language) -> tuple[str, list[Day]]:
    """A value with its dates said for good, and the dates."""
    dates = english_dates if language == "en" else chinese_dates
    # A day of every year stays as said.
    days = [] if _YEARLY.search(value) else dates(value, saying.day, past=False)
    return with_dates(value, days, language), days


def _dated(fact: Derived, days: list[Day], saying: Saying) -> Derived:
    return replace(fact, event_at=days[0].at(saying.zone), precision=days[0].precision) if days else fact


def _about_speaker(value: str, saying: Saying) -> str:
    """A remembered statement with its speaker named: "my code is 12" → "The user's code is 12"."""
    owner = saying.shown("en")
    if re.match(r"I\b", value):
        return f"{owner} {about_them(agreeing(expanded(value[1:])))}"
    if re.match(r"my\b", value, re.IGNORECASE):
        return f"{owner}'s{about_them(value[2:])}"
    return value[:1].upper() + about_them(value[1:])


def _built(rule: Rule, value: str, text: str, quote: Quote, saying: Saying, language: Language) -> Derived:
    return Derived(
        kind="slot" if rule.slot else "fact",
        rule=f"{language}.{rule.name}",
        subject=AGENT if rule.slot == "agent_name" else saying.me,
        attribute="name" if rule.slot == "agent_name" else rule.attribute,
        value=value,
        text=text,
        quotes=(quote,),
        slot=rule.slot,
        policy=rule.policy,
        positive=rule.positive,
        effect=rule.effect,
    )


def without_doubles(found: list[Derived]) -> list[Derived]:
    """The facts without those that say what one before says."""
    kept: list[Derived] = []
    seen: set[tuple[str, str, str, bool, str]] = set()
    for one in found:
        said = (one.subject, one.attribute, one.value, one.positive, one.effect)
        if said not in seen:
            seen.add(said)
            kept.append(one)
    return kept
