"""Which slots a user's words ask for: by identity, by name, by alias. No model, no vectors."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from offprompt.records.basis import plain_tags

_WORD: Final = re.compile(r"[^\W\d_]+|\d+")
_TOKEN: Final = re.compile(r"[^\W_]+|[^\w\s]")
_ASKING: Final = re.compile(
    r"[?？]|什么|谁|哪|怎么|吗|呢|记得|告诉|提醒|(?<![^\W_])(?:what|who|which|how|tell|remind|remember|say|know)(?![^\W_])"
)
_HAN: Final = re.compile(r"[\u3400-\u9fff]")

# Words that say whose a value is or that it is one, not which: alone they ask for nothing.
_GENERIC: Final = frozenset(
    [
        *("user", "users", "my", "the", "a", "an", "of", "your", "our", "info", "data", "value", "current", "default"),
        *("is", "are", "preferred", "preference", "preferences", "pref", "favorite", "favourite", "main"),
    ]
)
_HAN_GENERIC: Final = ("用户的", "用户", "我的", "当前", "默认", "偏好的", "偏好", "喜欢的", "最喜欢的")


def asked_for(text: str, slots: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The slots that a user's text asks for, each with why.

    slots    other names (tags) by slot name.
    Why      `identity` (who I am, who you are), `name`, `alias NAME` (a tag, or another word for the same idea).
    Rule     all words of the name that are not generic stand in the text, next to each other or not; a Han name
             as a run. Identity is a rule, not a search: "my name" never finds the assistant's.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    words = {_stem(word) for word in _WORD.findall(folded)}
    asked = _ideas_in(folded)
    found: dict[str, str] = {}
    for name, tags in slots.items():
        why = _why(name, plain_tags(tags), folded, words, asked)
        if why:
            found[name] = why
    return found


def idea_of(name: str) -> str:
    """The idea that a slot's name stands for, such as `user_name` or `place`; empty if it is none of those known."""
    idea = _idea_of(_own(name))
    return "" if idea is None else idea.name


def asks_identity(text: str) -> bool:
    """Whether a text asks who the user or the assistant is: answered by what is known of them, never by likeness."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    asked = _ideas_in(folded)
    return bool(_ASKING.search(folded)) and any(idea.identity and idea.name in asked for idea in _ideas())


@dataclass(frozen=True, slots=True)
class _Idea:
    name: str
    names: frozenset[str]
    asked: tuple[str, ...]
    identity: bool


@cache
def _ideas() -> tuple[_Idea, ...]:
    tables = tomllib.loads(files("offprompt.wire").joinpath("ideas.toml").read_text(encoding="utf-8"))
    return tuple(
        _Idea(name, frozenset(table["names"]), tuple(table["asked"]), bool(table.get("identity")))
        for name, table in tables.items()
    )


def _why(name: str, tags: Sequence[str], folded: str, words: set[str], asked: set[str]) -> str:
    own = _own(name)
    idea = _idea_of(own)
    if idea is not None and idea.name in asked and (not idea.identity or _ASKING.search(folded)):
        return "identity" if idea.identity else f"alias {idea.name}"
    # "my name" holds the word "name", which the assistant's name has too: identity is asked by phrase alone.
    if idea is not None and idea.identity and not (len(own) > 4 and _bounded(own, folded)):
        return ""
    if _stands(own, folded, words):
        return "name"
    tag = next((tag for tag in tags if _stands(unicodedata.normalize("NFKC", tag).casefold(), folded, words)), None)
    return "" if tag is None else f"alias {tag}"


def _own(name: str) -> str:
    """A slot's name folded, the words of `userName` apart."""
    return unicodedata.normalize("NFKC", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)).casefold()


def _spaced(text: str) -> str:
    return " " + " ".join(_TOKEN.findall(text)) + " "


def _ideas_in(folded: str) -> set[str]:
    """The ideas that a folded text asks for."""
    spaced = _spaced(folded.replace("\u2019", "'"))
    return {
        idea.name
        for idea in _ideas()
        if any((phrase in folded) if _HAN.search(phrase) else (_spaced(phrase) in spaced) for phrase in idea.asked)
    }


def _idea_of(own: str) -> _Idea | None:
    """The idea that a slot's name stands for: by its whole name first, then by its telling words."""
    joined = re.sub(r"[-.\s]+", "_", own)
    bare = "_".join(word for word in joined.split("_") if word and word not in _GENERIC)
    for generic in _HAN_GENERIC:
        bare = bare.removeprefix(generic)
    whole = next((idea for idea in _ideas() if joined in idea.names or bare in idea.names), None)
    if whole is not None or not bare:
        return whole
    # `home_city`: every telling word names the same idea; identity is only ever named whole.
    telling = set(bare.split("_"))
    return next((idea for idea in _ideas() if not idea.identity and telling <= idea.names), None)


def _stands(name: str, folded: str, words: set[str]) -> bool:
    """Whether the telling words of a name stand in the text."""
    if len(name) >= 2 and name in folded and _bounded(name, folded):
        return True
    han = "".join(_HAN.findall(name))
    for generic in _HAN_GENERIC:
        han = han.removeprefix(generic)
    if len(han) >= 2 and han in folded:
        return True
    parts = [_stem(word) for word in _WORD.findall(name.replace("_", " ")) if not _HAN.search(word)]
    telling = [word for word in parts if word not in _GENERIC and (len(word) > 2 or word.isdigit())]
    return bool(telling) and any(not word.isdigit() for word in telling) and all(word in words for word in telling)


def _bounded(name: str, folded: str) -> bool:
    if _HAN.search(name):
        return True
    return re.search(rf"(?<![^\W_]){re.escape(name)}(?![^\W_])", folded) is not None


def _stem(word: str) -> str:
    """An English plural without its ending; everything else as it is."""
    if len(word) > 3 and word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
