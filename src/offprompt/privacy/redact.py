"""The redactor that is used unless another is given: numbers with check digits, keys and private keys."""

from __future__ import annotations

import re
from typing import Final

from offprompt.privacy.keys import find_keys
from offprompt.privacy.numbers import find_numbers
from offprompt.records.redaction import Redacted, Span, SpanKind

MARKS: Final[dict[SpanKind, tuple[str, str]]] = {
    "id_number": ("[ID number given]", "[已提供身份证号]"),
    "bank_card": ("[card number given]", "[已提供银行卡号]"),
    "api_key": ("[API key given]", "[已提供接口密钥]"),
    "access_token": ("[access token given]", "[已提供访问令牌]"),
    "private_key": ("[private key given]", "[已提供私钥]"),
}
"""What stands in place of each kind, in English and Chinese: it says that the thing was given, so that talk goes on."""

_HAN: Final = re.compile(r"[\u3400-\u9fff]")
_LATIN_WORD: Final = re.compile(r"[A-Za-z]+")


class CheckedRedactor:
    """The default `Redactor`: what its form or its check digit proves.

    Kinds    id_number (resident identity numbers of China) · bank_card · api_key · access_token · private_key.
    Not      names, phones, addresses, passwords: they have no form that proves them, and are what memory is for.
    """

    def redact(self, text: str) -> Redacted:
        """The text with marks in its own language. Cost: O(n). Idempotent: marks are found by none of the rules."""
        keys = find_keys(text)
        # A key may hold digits that pass for a card; inside it they are part of it.
        numbers = [one for one in find_numbers(text) if not any(k.start < one.end and one.start < k.end for k in keys)]
        found = sorted([*keys, *numbers], key=lambda span: span.start)
        if not found:
            return Redacted(text)
        chinese = _is_chinese(text, found)
        pieces: list[str] = []
        after = 0
        for span in found:
            pieces += [text[after : span.start], MARKS[span.kind][chinese]]
            after = span.end
        return Redacted("".join([*pieces, text[after:]]), tuple(found))


def _is_chinese(text: str, found: list[Span]) -> bool:
    """Whether the words around what was found are Chinese: more Han characters than Latin words."""
    starts, ends = [0, *(span.end for span in found)], [*(span.start for span in found), len(text)]
    rest = " ".join(text[start:end] for start, end in zip(starts, ends, strict=True))
    return len(_HAN.findall(rest)) > len(_LATIN_WORD.findall(rest))
