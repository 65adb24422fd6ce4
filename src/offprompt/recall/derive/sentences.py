"""Sentences of a turn, each with what stands between quotation marks, in code and in citations blanked out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MAX_CHARS: Final = 2000
"""Of a turn, sentences that begin beyond this are not looked at; and of a sentence not more than this."""

_QUOTED: Final = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]{0,300}`|^[ \t]*>[^\n]*|“[^”\n]{0,600}”|「[^」\n]{0,600}」|『[^』\n]{0,600}』"
    r"|(?<!\w)\"[^\"\n]{0,600}\"",
    re.DOTALL | re.MULTILINE,
)
BLANK: Final = "\u2588"
"""What a quotation's characters are while rules look at the sentence: no rule's words hold it."""

_END: Final = re.compile(
    r"(?<!\bMr)(?<!\bMs)(?<!\bDr)(?<!\bSt)(?<!\bvs)(?<!\bMrs)(?<!\be\.g)(?<!\bi\.e)(?<!\b[A-Z])\.+(?=[\s\"”’)*]|\Z)"
    r"|[!?]+(?=[\s\"”’)*]|[^\x00-\x7f]|\Z)|[。！？；;\n]+|\u2026+"
)
_QUESTION: Final = re.compile(r"[?？]")
_APOSTROPHES: Final = str.maketrans("’‘ʼ＇\u00a0", "'''' ")


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence. start: of the turn. text: with quotations blanked, as many characters as in the turn.

    asks     it ends with a question mark. joke: its writer says that it is not meant.
    """

    text: str
    start: int
    asks: bool
    joke: bool = False


# Said after a sentence, these take back the one before; a tongue in the cheek is no fact.
_JOKE: Final = re.compile(
    r"\b(?:just kidding|only kidding|i'm kidding|i am kidding|kidding aside|jk|j/k|just joking|i'm joking"
    r"|yeah,? right"
    r"|as if|in my dreams|/s|/sarcasm|said no one ever)\b|(?<!\S)/s(?!\S)|[🙄😏🙃]"
    r"|开玩笑|说笑|逗你|才怪|骗你的|狗头|反话",
    re.IGNORECASE,
)


# What is given to be worked on is no word of the user's own: behind "Translate: …", before "rewrite this", in a game.
_GIVEN: Final = re.compile(
    r"\b(?:translate|summari[sz]e|rewrite|rephrase|proofread|paraphrase|polish|correct|edit|improve|write|draft"
    r"|compose"
    r"|analy[sz]e|review|reply to|respond to)\b[^\n:：.!?。！？]{0,100}(?:[:：]|\n)"
    r"|(?:翻译|总结|改写|润色|校对|概括|续写|仿写|写一[封篇段首个])[^\n：:。！？]{0,40}[：:\n]",
    re.IGNORECASE,
)
_NOT_OWN: Final = re.compile(
    r"\b(?:translate|summari[sz]e|rewrite|rephrase|proofread|paraphrase|polish|correct|edit) (?:this|that|it"
    r"|the above"
    r"|the text|my (?:essay|text|email|letter|story))\b"
    r"|\b(?:role-?play(?:ing)?|let's pretend|act as (?:an?|my|if)|pretend (?:to be|that|you|i)"
    r"|in this (?:story|scenario|game))\b"
    r"|(?:翻译|总结|改写|润色|校对)(?:一下)?(?:这|上面|以上)|把(?:这|上面|以上|下面).{0,12}(?:翻译|改写|润色|总结)"
    r"|角色扮演|你(?:来)?扮演|我们来假装",
    re.IGNORECASE,
)


def sentences(text: str) -> Iterator[Sentence]:
    """The sentences of a turn in the user's own words, in order. Cost: O(n)."""
    plain = blanked(text[: 2 * MAX_CHARS]).translate(_APOSTROPHES)
    if _NOT_OWN.search(plain):
        return
    given = _GIVEN.search(plain)
    plain = plain[: given.start()] if given else plain
    pieces: list[Sentence] = []
    begin = 0
    for end in [*_END.finditer(plain), None]:
        stop = len(plain) if end is None else end.end()
        body = plain[begin : (stop if end is None else end.start())]
        if body.strip() and begin < MAX_CHARS:
            asks = end is not None and _QUESTION.search(end[0]) is not None
            after = plain[stop : stop + 3]  # a wink stands behind the full stop
            joke = _JOKE.search(body) is not None or _JOKE.match(after.strip() or "-") is not None
            pieces.append(Sentence(body[:MAX_CHARS], begin, asks, joke))
        begin = stop
    for at, one in enumerate(pieces):
        taken_back = at + 1 < len(pieces) and pieces[at + 1].joke
        if not one.joke and not taken_back:
            yield one


def blanked(text: str) -> str:
    """The text with BLANK in place of quotations, code and cited lines; short names in quotation marks stay."""
    return _QUOTED.sub(_blank, text)


_SPOKEN: Final = re.compile(r"[.!?。！？，,]|^(?:I|I'm|I've|My|We|You|[a-z]+ [a-z]+ )\b|[我你]")


def _blank(match: re.Match[str]) -> str:
    quoted = match[0]
    inner = quoted[1:-1]
    # A name or a title in quotation marks is part of the sentence: its marks go, one character for one.
    title = len(inner) <= 40 and len(inner.split()) <= 7 and not _SPOKEN.search(inner)
    if title and quoted[0] in '“「『"':
        return f" {inner} " if quoted[0] == '"' or inner.isascii() else quoted
    return BLANK * len(quoted)
