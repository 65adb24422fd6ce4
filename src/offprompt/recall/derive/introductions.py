"""Who people introduce themselves as: "Hi! I'm Sam", "I'm Maria, 34, from Lisbon", 「我是王芳」."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from offprompt.recall.derive.asks import PARTICLES
from offprompt.recall.derive.names import has_given_name, is_common_han_name, is_name, is_trait
from offprompt.recall.derive.records import Derived, Language, Quote
from offprompt.recall.derive.rules import word
from offprompt.recall.derive.saying import Saying
from offprompt.recall.derive.sentences import Sentence

_GREETING: Final = re.compile(
    r"\W{0,3}(?:hi|hello|hey|good (?:morning|evening|afternoon)|greetings|nice to meet you"
    r"|你好|您好|大家好|嗨|早上好|晚上好|下午好)"
    r"(?: there| everyone| all| again)?\W{1,3}",
    re.IGNORECASE,
)
_MET: Final = re.compile(r"\b(?:nice|pleased|good|glad) to meet you\b|很高兴认识你", re.IGNORECASE)
_INTRODUCED: Final = re.compile(
    r"(?:I'm|I am|it's|this is) (?P<v>[A-Z][\w'-]+(?: [A-Z][\w'-]+)?)(?=$|,| and | from )"
    r"|我是(?P<zh>[\u4e00-\u9fff]{2,3})$"
)
_OF_ONESELF: Final = re.compile(r"I'm |I am |我是")
_AGED: Final = re.compile(
    r", (?P<age>[1-9]\d)(?: years old)?"
    r"(?:,? (?:and )?(?:I'm |I am )?(?:originally )?from (?P<home>[A-Z][\w'-]+(?: [A-Z][\w'-]+){0,2}))?"
    r"(?=$|,| and )"
)
_SUPPORTED: Final = re.compile(r",? from [A-Z]|,? and I(?:'m| am)?\b")
_GOES_ON: Final = re.compile(r"，(?:我?今年|我?来自|我?住)")
_NO_PERSON: Final = re.compile(r"[生座人身员师手的者族党粉迷方司子家说来]$|.*[一个新你]")


def introduced(sentence: Sentence, saying: Saying) -> Iterator[Derived]:
    """The name in a greeting, or of who begins with it; with it the age and hometown that stand beside it.

    Without a greeting "I'm" may go on with anything, so a name counts there as the whole sentence, if it is a common
    one, or with an age behind it; a common one also before "from Lisbon" and "and I live …". Cost: O(n).
    """
    greeting = _GREETING.match(saying.turn.text)
    greeted = greeting is not None and sentence.start <= greeting.end() + 1
    met = _MET.search(sentence.text) is not None  # "I'm Sam, nice to meet you"
    begins = not saying.turn.text[: sentence.start].strip()
    if sentence.asks or not (greeted or met or begins):
        return
    at = max(0, greeting.end() - sentence.start) if greeting else 0
    whole = PARTICLES.sub("", sentence.text[at:])
    body = whole.split("，")[0]
    match = _INTRODUCED.match(body.lstrip())
    if match is None:
        return
    value = match["v"] or match["zh"]
    language: Language = "zh" if match["zh"] else "en"
    if not is_name(value) or (match["zh"] and _NO_PERSON.search(value)):
        return
    indent = len(body) - len(body.lstrip())
    rest = whole[indent + match.end() :]
    if not (greeted or met) and not (_OF_ONESELF.match(match[0]) and _is_certain(value, rest, language)):
        return
    begin = sentence.start + at + indent
    text = f"{saying.shown('zh')}的名字叫{value}。" if match["zh"] else f"{saying.shown('en')}'s name is {value}."
    yield _built(f"{language}.name.greeting", ("user_name", "name"), value, text, saying, begin, begin + match.end())
    aged = _AGED.match(rest) if language == "en" else None
    if aged is None:
        return
    end = begin + match.end() + aged.end()
    text = f"{saying.shown('en')} is {aged['age']} years old."
    yield _built("en.age.greeting", ("age", "age"), aged["age"], text, saying, begin, end)
    if aged["home"]:
        text = f"{saying.shown('en')} is from {aged['home']}."
        yield _built("en.hometown.greeting", ("hometown", "hometown"), aged["home"], text, saying, begin, end)


def _is_certain(value: str, rest: str, language: Language) -> bool:
    """Whether what follows "I'm" is a name without a greeting before it."""
    if language == "zh":
        placed = re.match(word("zh", "CITY"), value) is not None
        return not placed and is_common_han_name(value) and (not rest or _GOES_ON.match(rest) is not None)
    if _AGED.match(rest):
        return has_given_name(value) or not is_trait(value)
    return has_given_name(value) and (not rest or _SUPPORTED.match(rest) is not None)


def _built(rule: str, filled: tuple[str, str], value: str, text: str, saying: Saying, begin: int, end: int) -> Derived:
    return Derived(
        kind="slot",
        rule=rule,
        subject=saying.me,
        attribute=filled[1],
        value=value,
        text=text,
        quotes=(Quote(saying.turn.turn_id, begin, end),),
        slot=filled[0],
        effect="replaces",
    )
