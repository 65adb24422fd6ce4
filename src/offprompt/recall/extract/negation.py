"""Whether a text says that something is not so."""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

Denial: TypeAlias = Literal["", "denied", "denied twice"]

_NONE: Final = re.compile(
    r"^\s*(?:no|nope|nah)\s*[,.!;—-]|\b(?:not only|no problem|no worries|why not|don['’]?t (?:forget|worry)"
    r"|can['’]?t wait|never ?mind|no doubt|not to mention|nothing but)\b"
    r"|^\s*(?:不是?|没有)\s*[,，.。!！]|不错|非常|不但|不仅|不过|不止|别人|特别|级别|性别|分别|没问题|没关系|没事"
    r"|不久|不断|差不多|不得不|无论|非洲|未来|要不|不好意思|别忘|了不起|不管|非要",
    re.IGNORECASE,
)
_NOT: Final = re.compile(
    r"\b(?:no|not|never|none|nothing|nobody|cannot|without|neither|nor)\b|n['’]t\b|[不没沒無无非未别勿]", re.IGNORECASE
)
_AVERSE: Final = re.compile(
    r"\b(?:stop(?:ped|s)?|quit|gave up|give up|avoids?|dislikes?|hates?|refuses?|unable|allergic|allergy|former(?:ly)?"
    r"|lacks?|used to)\b|过敏|讨厌|停止|放弃|忌|戒|以前",
    re.IGNORECASE,
)


def denial(text: str) -> Denial:
    """Whether a text denies something, or says that it ended.

    denied        by a "not", or by words that deny by themselves (quit, allergic, 讨厌). denied twice: by two of these.
    No denial     "no problem", 不错, and a "no" that only answers.
    Rule          a fact must deny as the words that carry it do: a lost "not" is the worst of errors.
    Source        none: a rule of this product.
    """
    told = _NONE.sub(" ", text)
    found = len(_NOT.findall(told)) + bool(_AVERSE.search(told))
    return "denied twice" if found > 1 else "denied" if found else ""
