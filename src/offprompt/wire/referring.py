"""Whether a user's words refer to what was said before: outright, by standing on the turn before, or to a wish."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Final

_HAN: Final = re.compile(r"[\u3400-\u9fff]")
_FRESH: Final = r"(?<![\u3400-\u9fff])"
_QUESTION: Final = re.compile(
    r"[?？]|什么|谁|哪|怎么|多少|[吗呢]|几[个点次号]"
    r"|(?<![^\W_])(?:what|who|whose|which|how|where|when|why|tell me|remind)(?![^\W_])"
)
_OTHER: Final = re.compile(r"[你您]|(?<![^\W_])(?:you|your|yours|yourself)(?![^\W_])")
_SELF: Final = re.compile(r"[我咱俺]|(?<![^\W_])(?:i|i'm|i've|i'd|i'll|my|mine|me|myself|we|our|ours|us)(?![^\W_])")

_ADVICE: Final = re.compile(
    r"(?<![^\W_])(?:should|can|could|would|may|might|shall|must|need|if|how do|let me|give me|help me|tell me how)"
    r"(?![^\W_])"
    r"|帮我|给我|教我|请|应该|该|怎样|怎么办|如何|才能|能不能|可以|需要|如果"
)
_REQUEST: Final = re.compile(r"(?<![^\W_])(?:tell|remind|show) (?:me|us)(?![^\W_])|告诉我|提醒我")
_SENTENCES: Final = re.compile(r"[^.!?。\n;；]+[.!?。\n;；]*")


def refers_back(text: str) -> bool:
    """Whether the text refers outright to something said before, such as `as I said` or `上次`."""
    return _holds(text, "back")


def is_question(text: str) -> bool:
    """Whether the text asks for something to be told."""
    return _QUESTION.search(text.casefold()) is not None


def asks_of_oneself(text: str) -> bool:
    """Whether a sentence of the text asks for something that concerns the user, such as `where do I live?`.

    Not one that speaks to the other (`can you help me?`, `what is your name?`), nor one that wants advice (`how can I
    …?`): what it needs is not what was told before.
    """
    sentences = _SENTENCES.findall(unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'"))
    return any(
        _QUESTION.search(each)
        and _SELF.search(_REQUEST.sub(" ", each))
        and not _OTHER.search(each)
        and not _ADVICE.search(each)
        for each in sentences
    )


def stands_on_the_last(text: str) -> bool:
    """Whether the text is understood only with the turn before it, such as `still not working` or `那个呢？`."""
    return _holds(text, "on")


def asks_for_wishes(text: str) -> bool:
    """Whether the text asks what the user wished for all times, such as `what did I ask you to always do?`."""
    return refers_back(text) and _holds(text, "wish_asked")


def asks_what_is_known(text: str) -> bool:
    """Whether the text asks for all that is known of the user: `what do you know about me?`, `你记得我什么`."""
    return _holds(text, "known_asked")


def states_wish(text: str) -> bool:
    """Whether the text may state a wish for all times, such as `from now on …` or `以后……`."""
    return _holds(text, "wish_said")


def _holds(text: str, table: str) -> bool:
    folded = unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'")
    return _phrases()[table].search(folded) is not None


@cache
def _phrases() -> dict[str, re.Pattern[str]]:
    tables = tomllib.loads(files("offprompt.wire").joinpath("referring.toml").read_text(encoding="utf-8"))
    return {name: _pattern(phrases) for name, phrases in tables.items()}


def _pattern(phrases: Sequence[str]) -> re.Pattern[str]:
    latin = [re.escape(phrase).replace(r"\ ", r"\s+") for phrase in phrases if not _HAN.search(phrase)]
    han = [_FRESH + re.escape(each[1:]) if each[0] == "^" else re.escape(each) for each in phrases if _HAN.search(each)]
    return re.compile("|".join([rf"(?<![^\W_])(?:{'|'.join(latin)})(?![^\W_])", *han]))
