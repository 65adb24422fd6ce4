"""Which policy a slot gets when its writer names none, and why."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from offprompt.privacy.keys import SECRET_VALUE
from offprompt.records import Policy, Slot, Trust, fold_name
from offprompt.wire.asking import idea_of

SECRET_NAMES: Final = frozenset(
    [
        "password",
        "passwd",
        "pwd",
        "passphrase",
        "secret",
        "apikey",
        "credential",
        "credentials",
        "privatekey",
        "pin",
        "cvv",
        "ssn",
        "otp",
        "密码",
        "口令",
        "密钥",
        "私钥",
        "令牌",
        "验证码",
        "身份证",
        "身份证号",
        "银行卡",
        "银行卡号",
    ]
)
SECRET_PAIRS: Final = ("api_key", "private_key", "access_key", "access_token", "auth_token", "bank_card", "card_number")
STANDING_NAMES: Final = frozenset(
    [
        "language",
        "lang",
        "locale",
        "style",
        "tone",
        "diet",
        "format",
        "units",
        "verbosity",
        "语言",
        "风格",
        "语气",
        "饮食",
        "格式",
        "回复风格",
        "回答风格",
    ]
)
PROFILE_IDEAS: Final = frozenset(
    [
        *("user_name", "agent_name", "place", "origin", "work", "birthday", "age", "phone", "email", "spouse"),
        *("language", "diet"),
    ]
)
"""What says who somebody is, of the ideas that `wire.asking` knows; not what a task is about."""

LOOKALIKES: Final = str.maketrans("аеоріѕсухкмтвнαονικρτυ", "aeopiscyxkmtbhaovikptu")
WORD: Final = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A policy and the reason for it, as the event says it."""

    policy: Policy
    why: str


def name_words(name: str) -> list[str]:
    """The words of a slot name, folded: `userName`, `user_name`, `user-name` → `user`, `name`."""
    latin = name.translate(LOOKALIKES)
    return [fold_name(word) for word in WORD.findall(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", latin))]


def is_secret(name: str, text: str) -> bool:
    """Whether a slot's name says that it holds a secret, or its value has the form of a key."""
    words = name_words(name)
    joined = "_".join(words)
    named = any(word in SECRET_NAMES for word in words) or any(pair in joined for pair in SECRET_PAIRS)
    return named or SECRET_VALUE.search(text) is not None


def is_standing(name: str) -> bool:
    """Whether a slot's name says that it holds a standing wish, such as a language or a style."""
    return any(word in STANDING_NAMES for word in name_words(name))


def is_profile(name: str) -> bool:
    """Whether a slot's name says that it tells who the user or the agent is."""
    return idea_of(name) in PROFILE_IDEAS


def may_be_shown(slot: Slot) -> bool:
    """Whether a slot may be shown without the model's asking for it by name: not what foreign text says of a person."""
    return slot.trust == "user" or not is_profile(slot.name)


def choose_policy(
    name: str,
    text: str,
    tokens: int,
    *,
    trust: Trust,
    card_left: Callable[[], int],
    asked_tokens: int,
    default: Policy | None = None,
) -> Chosen:
    """The policy of a slot that its writer gave none.

    tokens      of the value. card_left: tells the tokens still free in the card, where that matters.
    asked_tokens  the most for `when_asked`.
    default     the setting's policy; a secret stays `never` all the same.
    Untrusted   text never becomes a card, and what it says of a person is shown to none who did not ask for the name.
    """
    if is_secret(name, text):
        return Chosen("never", "name or value looks like a secret")
    if trust == "tool" and is_profile(name):
        return Chosen("by_handle", "untrusted text may not stand as profile")
    if default is not None and (default != "when_asked" or tokens <= asked_tokens):
        return Chosen(default, "the setting `policy`")
    if trust == "user" and tokens <= asked_tokens and is_standing(name) and tokens <= card_left():
        return Chosen("card", "the name says a standing wish, and the card has room")
    if tokens <= asked_tokens:
        return Chosen("when_asked", f"{tokens} tokens, {asked_tokens} may be shown when asked for")
    return Chosen("by_handle", f"{tokens} tokens, over the {asked_tokens} shown when asked for")
