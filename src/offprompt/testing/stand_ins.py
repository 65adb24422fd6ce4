"""Reader and Caller: stand-ins for models of two kinds, which know nothing but the request that they are given.

What they understand, in English and Chinese:

    My gate code is 4711.                      我的门禁码是4711。        kept in the slot `gate_code`, `门禁码`
    What is my gate code?                      我的门禁码是什么？
    Forget my gate code.                       忘掉我的门禁码。
    Send my gate code to the desk.             把我的门禁码发给前台。    with the client's tool `send_note`
    Sign in with my desk token.                用我的前台令牌登录。      with the client's tool `sign_in`
    What is the reference of the heron file?   苍鹭文件的编号是什么？
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from offprompt.testing.scripted import SAVED, UNKNOWN, Seen, messages_in, read_request
from offprompt.testing.strict_replies import Said, SaidCall
from offprompt.wire.handles import format_handle
from offprompt.wire.profiles import SHAPES
from offprompt.wire.shapes import Wire

Wants: TypeAlias = Literal["state", "ask", "forget", "send", "sign_in", "find"]
_WANTS: Final[tuple[tuple[Wants, str, str], ...]] = (
    ("ask", r"(?i:what is my) ([a-z ]+)\?", r"我的(\S{1,12}?)是什么？"),
    ("find", r"(?i:what is the reference of the) ([a-z ]+)\?", r"(\S{1,12}?)的编号是什么？"),
    ("forget", r"(?i:forget my) ([a-z ]+)\.", r"忘掉我的(\S{1,12}?)。"),
    ("send", r"(?i:send my) ([a-z ]+) to the desk\.", r"把我的(\S{1,12}?)发给前台。"),
    ("sign_in", r"(?i:sign in with my) ([a-z ]+)\.", r"用我的(\S{1,12}?)登录。"),
    ("state", r"(?i:my) ([a-z ]+) is (\S.*)\.", r"我的(\S{1,12}?)是(\S.*)。"),
)
SLOTS: Final = {"name": "user_name", "city": "home_city", "名字": "user_name"}
"""Names of slots that are not the label's own words."""

MAX_LOOKS: Final = 5
DONE: Final = {
    "forget": ("Forgotten.", "已忘掉。"),
    "send": ("Sent.", "已发送。"),
    "sign_in": ("Signed in.", "已登录。"),
}
FAILED: Final = ("That did not work.", "没有成功。")
NOT_DONE: Final = ("not done", "not run", "not found", "nothing found", "no such tool", "未执行", "没有", "不可")


@dataclass(frozen=True, slots=True)
class Wish:
    """What a user's words ask for. label: in the user's words; slot: its name; value: of a fact that is stated."""

    wants: Wants
    label: str
    chinese: bool
    value: str = ""

    @property
    def slot(self) -> str:
        """The slot's name."""
        return slot_of(self.label)

    @property
    def reference(self) -> re.Pattern[str]:
        """What answers a `find`, in any text."""
        label = re.escape(self.label)
        return re.compile(
            rf"{label}的编号是([A-Z]+-\d+)" if self.chinese else rf"reference of the {label} is ([A-Z]+-\d+)"
        )


def slot_of(label: str) -> str:
    """The slot that a label's fact is kept in."""
    return SLOTS.get(label, label.replace(" ", "_"))


def wish_of(text: str) -> Wish | None:
    """What the words ask for, or None: they are about something else."""
    for wants, english, chinese in _WANTS:
        for pattern in (english, chinese):
            found = re.fullmatch(pattern, text.strip())
            if found is not None:
                value = found.group(2) if wants == "state" else ""
                return Wish(wants, found.group(1), pattern is chinese, value)
    return None


class Reader:
    """Never calls a tool: it answers from the text that stands in the request, or says that it has no record."""

    def __init__(self, wire: Wire = "openai") -> None:
        self._shape = SHAPES[wire]

    def __call__(self, **request: Any) -> Said:
        """What it says to a request."""
        seen = read_request(request, self._shape)
        wish = wish_of(seen.user)
        language = 1 if seen.chinese else 0
        if wish is None or wish.wants == "state":
            return Said(SAVED[language])
        if wish.wants == "ask":
            value = shown_value(wish.slot, (seen.frames, seen.system))
            value = value if value is not None else _said_value(wish, seen.said)
        else:
            value = _reference(wish, self.texts(request)) if wish.wants == "find" else None
        return Said(UNKNOWN[language] if value is None else answer(wish, value))

    def texts(self, request: Mapping[str, Any]) -> list[str]:
        """All texts of the request's messages."""
        return [
            text
            for each in messages_in(request)
            for text in (self._shape.text(each), *(result.text for result in self._shape.results(each)))
        ]


class Caller(Reader):
    """Uses its memory well: saves what is stated, reads what is asked for, searches, forgets, and passes handles on.

    Handles   in the client's tools' arguments always; in an answer for every other slot's name, else the value.
    """

    def __call__(self, **request: Any) -> Said:
        """What it says to a request."""
        seen = read_request(request, self._shape)
        wish = wish_of(seen.user)
        if wish is None:
            return Said(SAVED[seen.chinese])
        if wish.wants == "ask":
            return self._asked(wish, seen)
        if wish.wants == "find":
            return self._look_for(wish, seen, self.texts(request))
        if seen.answered:
            failed = any(word in seen.answered[-1] for word in NOT_DONE)
            good = SAVED if wish.wants == "state" else DONE[wish.wants]
            return Said((FAILED if failed else good)[wish.chinese])
        return Said(calls=(_call(wish),))

    def _asked(self, wish: Wish, seen: Seen) -> Said:
        value = shown_value(wish.slot, (seen.frames, *reversed(seen.answered), seen.system))
        if value is not None:
            by_handle = len(wish.slot) % 2 == 0
            return Said(answer(wish, format_handle(wish.slot) if by_handle else value))
        looks = (SaidCall("mem_read", {"slot": wish.slot}), SaidCall("mem_search", {"query": wish.label}))
        if len(seen.answered) < len(looks):
            return Said(calls=(looks[len(seen.answered)],))
        return Said(UNKNOWN[wish.chinese])

    def _look_for(self, wish: Wish, seen: Seen, texts: Iterable[str]) -> Said:
        value = _reference(wish, texts)
        if value is not None:
            return Said(answer(wish, value))
        if not seen.answered:
            return Said(calls=(SaidCall("mem_search", {"query": wish.label}),))
        hits = re.findall(r"^(@\w+) ", seen.answered[0], re.MULTILINE)
        looked = len(seen.answered) - 1
        if looked >= min(len(hits), MAX_LOOKS):
            return Said(UNKNOWN[wish.chinese])
        return Said(calls=(SaidCall("mem_read", {"slot": hits[looked]}),))


def _call(wish: Wish) -> SaidCall:
    handle = format_handle(wish.slot)
    if wish.wants == "state":
        return SaidCall("mem_write", {"slot": wish.slot, "value": wish.value})
    if wish.wants == "forget":
        return SaidCall("mem_forget", {"slot": wish.slot})
    if wish.wants == "send":
        return SaidCall("send_note", {"to": "desk", "text": f"{wish.label}: {handle}"})
    return SaidCall("sign_in", {"token": handle})


def answer(wish: Wish, value: str) -> str:
    """A sentence that gives the value."""
    if wish.wants == "find":
        return f"{wish.label}的编号是{value}。" if wish.chinese else f"The reference of the {wish.label} is {value}."
    return f"你的{wish.label}是{value}。" if wish.chinese else f"Your {wish.label} is {value}."


def shown_value(slot: str, texts: Iterable[str]) -> str | None:
    """The slot's value as a frame, a card or a `mem_read` shows it, in the first of the texts that has it."""
    line = re.compile(rf"^{re.escape(slot)} \([^)\n]*\):[ \n](\S.*)$", re.MULTILINE | re.IGNORECASE)
    return next((found.group(1).strip() for text in texts if (found := line.search(text)) is not None), None)


def _said_value(wish: Wish, said: Iterable[str]) -> str | None:
    """What the user said last of it."""
    stated = [each for text in said if (each := wish_of(text)) is not None and each.wants == "state"]
    return next((each.value for each in reversed(stated) if each.slot == wish.slot), None)


def _reference(wish: Wish, texts: Iterable[str]) -> str | None:
    return next((found.group(1) for text in texts if (found := wish.reference.search(text)) is not None), None)
