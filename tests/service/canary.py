"""Canaries for `never` slots: what they are, how they are known again, and all that came out of a session."""

from __future__ import annotations

import json
import random
import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import quote

from offprompt.records import Reply, as_list, canonical, text_of
from offprompt.service.bound import BoundScope
from tests.service.talk import Say, Talk, flat

PIECE: Final = 12
CODES: Final = 24
_ESCAPE: Final = re.compile(r"\\+u([0-9a-fA-F]{4})")
HAN: Final = "春夏秋冬山水云雨风雪花鸟鱼虫琴棋书画诗酒茶米油盐酱醋柴门窗桥路船车马牛羊金银铜铁锡石木竹纸笔墨砚"
LETTERS: Final = "abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
STORED: Final = {"en": "api_key", "zh": "密钥", "json": "login", "split": "long_key"}


def words(seed: int, letters: str, size: int, count: int) -> str:
    rng = random.Random(seed)  # noqa: S311 - a canary must be the same in each run
    return " ".join("".join(rng.choices(letters, k=size)) for _ in range(count))


ENGLISH: Final = words(1, LETTERS, 9, 5)
CHINESE: Final = words(2, HAN, 16, 2).replace(" ", "，")
QUOTED: Final = words(3, LETTERS, 13, 3).replace(" ", '"\n')
PARTED: Final = words(4, LETTERS, 11, 120)
VALUES: Final[dict[str, Any]] = {
    "en": ENGLISH,
    "zh": CHINESE,
    "json": {"user": "ann", "keys": [{"word": QUOTED, "pin": 6142079358401, "zh": CHINESE[::-1]}]},
    "split": PARTED,
}
TEXTS: Final = {"en": (ENGLISH,), "zh": (CHINESE,), "json": (QUOTED, CHINESE[::-1]), "split": (PARTED,)}
"""What is looked for of each value: its own words."""


def _pieces(text: str, size: int) -> set[str]:
    return {text[at : at + size] for at in range(len(text) - size + 1)}


def _base64(raw: bytes) -> Iterator[str]:
    """What stands in base64 of any text that holds these bytes, one for each alignment."""
    for before in range(3):
        coded = b64encode(b"\0" * before + raw).decode().rstrip("=")
        yield coded[(0, 2, 3)[before] : len(coded) - 1]


def _plain(text: str) -> str:
    """The text without escapes, case and line ends, however often it was escaped."""
    text = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    return re.sub(r"\\+[nrt]|\\|\s", "", text).lower()


def _traces(text: str) -> set[str]:
    """The pieces of a text by which it is known: 12 characters of it, or 24 of its codes."""
    codes = (text.encode().hex(), quote(text).lower(), *_base64(text.encode()))
    return _pieces(_plain(text), PIECE) | {piece for code in codes for piece in _pieces(code, CODES)}


TRACES: Final = {kind: set[str]().union(*map(_traces, texts)) for kind, texts in TEXTS.items()}


def found(text: str) -> dict[str, list[str]]:
    """The pieces of canaries in a text, by kind; the first few."""
    inside = _pieces(_plain(text), PIECE) | _pieces(text, CODES) | _pieces(text.lower(), CODES)
    return {kind: sorted(traces & inside)[:3] for kind, traces in TRACES.items() if traces & inside}


@dataclass
class Channels:
    """All that came out, by where."""

    texts: dict[str, str] = field(default_factory=dict[str, str])

    def add(self, where: str, *values: Any) -> None:
        """Payload as it is read, records as they are printed; each text once."""
        for value in values:
            self.texts.setdefault(flat(value) if isinstance(value, (str, dict, list)) else repr(value), where)

    def check(self) -> None:
        """No canary anywhere."""
        leaks = {where: pieces for text, where in self.texts.items() if (pieces := found(text))}
        assert not leaks, leaks


def forms(kind: str) -> list[str]:
    """What a tool may say of a value, in every way."""
    own = VALUES[kind]
    texts = [*TEXTS[kind], text_of(own), canonical({"deep": [own]}), json.dumps({"deep": own}, indent=2)]
    said = [*texts, *(json.dumps(json.dumps(text)) for text in texts), *(text.upper() for text in TEXTS[kind])]
    said += [b64encode(b"x" * before + text.encode()).decode() for text in texts for before in range(3)]
    said += [text.encode().hex() for text in texts]
    said += [quote(text) for text in texts]
    said += [text[3 : 3 + max(len(text) // 2, 34)] for text in TEXTS[kind]]
    return [" | ".join(said[at : at + 5]) for at in range(0, len(said), 5)]


def plant(scope: BoundScope) -> None:
    """The canaries, and innocent slots that hold them too."""
    for kind, name in STORED.items():
        scope.write(name, VALUES[kind], policy="never", split=True, tags=["secret", "机密"])
    coded = b64encode(ENGLISH.encode()).decode()
    scope.write("notes", f"kept: {ENGLISH} and {coded} and {CHINESE.encode().hex()}", policy="by_handle")
    scope.write("diet", f"no {coded}", policy="by_handle")
    scope.write("settings", {"a": {"b": QUOTED}, "c": CHINESE[::-1]}, policy="by_handle")


@dataclass
class Spy:
    """A talk whose every channel is kept."""

    talk: Talk
    out: Channels = field(default_factory=Channels)

    def turn(self, user: Any, *said: str | Say, show: tuple[str, ...] = ()) -> Reply:
        reply = self.talk.turn(user, *said, show=show)
        self.note()
        return reply

    def go(self, *said: str | Say) -> Reply:
        reply = self.talk.go(*said)
        self.note()
        return reply

    def note(self) -> None:
        """What the newest replies gave out."""
        for reply in self.talk.replies:
            # What the application reads of its own slots is for the application.
            self.out.add("reply", reply.text, reply.raw_text, list(reply.messages), replace(reply, reads={}))
            self.out.add("receipts", *reply.receipts)
            self.out.add("calls", [each.arguments for each in reply.tool_calls])
        self.talk.replies.clear()

    def close(self, scope: BoundScope) -> None:
        """Requests, journal, ledger, events."""
        self.out.add(
            "request",
            *(
                part
                for each in self.talk.requests
                for parts in each.values()
                for part in as_list(parts) or [str(parts)]
            ),
        )
        for entry in self.talk.session.journal():
            # The raw message is what was said, and stays where it was said.
            for where, sent in (("live", entry.live), ("settled", entry.settled), ("stub", entry.stub)):
                self.out.add(f"journal {where}", [dict(each) for each in sent or ()])
            self.out.add("journal receipts", *entry.receipts, *entry.shown)
        self.out.add("ledger", *self.talk.session.ledger())
        self.out.add("record", self.talk.session.record)
        self.out.add("events", *scope.events(limit=10000))
        self.out.add(
            "reprs",
            scope,
            self.talk.session,
            scope.slots,
            *(slot for slot in scope.slots.list() if slot.policy == "never"),
        )
        for name in STORED.values():
            self.out.add("reprs", *scope.slots.history(name))


def errors(scope: BoundScope, spy: Spy, kind: str) -> Iterator[Callable[[], object]]:
    """What goes wrong with a value in hand."""
    name, value, text = STORED[kind], VALUES[kind], TEXTS[kind][0]
    wrong: tuple[Any, ...] = (
        {"a": (text,)},
        {"a": {text}},
        {text: float("nan")},
        text + "\ud800",
        text * 90,
        [text] * 500,
    )
    for each in wrong:
        yield lambda each=each: scope.write(name, each)
    yield lambda: scope.write(name, value, if_version=7, split=True)
    yield lambda: scope.write(name, text * 9, policy="when_asked")
    yield lambda: scope.write(name, text * 9, policy="card")
    yield lambda: scope.write("bad name", value)
    yield lambda: scope.write(f"{name}.1", text, split=True)
    for schema in (
        {"type": "integer"},
        {"enum": [1]},
        {"const": 2},
        {"maxLength": 1, "maxProperties": 0},
        {"pattern": "^q$"},
    ):
        yield lambda schema=schema: scope.write("other", value, schema=schema)
        yield lambda schema=schema: scope.write(
            "other", {"deep": [value]}, schema={"properties": {"deep": {"items": schema}}}
        )
    yield lambda: scope.forget(name, if_version=9)
    yield lambda: spy.talk.session.prepare([{"role": "user", "content": {"x": value}}])
    yield lambda: spy.talk.session.prepare([{"role": "nobody", "content": text}])
    yield lambda: spy.talk.session.prepare([{"role": "user", "content": [{"type": text, "text": 1}]}])
    yield lambda: spy.talk.session.prepare(text)
    yield lambda: spy.talk.session.absorb({"choices": [{"message": {"content": [value], "role": text}}]})
    yield lambda: spy.talk.session.absorb({"content": value})
    yield lambda: spy.talk.session.absorb(text)
