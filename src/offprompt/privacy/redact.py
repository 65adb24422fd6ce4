"""The redactor that is used unless another is given."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from offprompt.errors import UsageError
from offprompt.privacy.keys import find_keys
from offprompt.privacy.numbers import find_numbers
from offprompt.privacy.plain import plain
from offprompt.records.redaction import KINDS, PROVEN, Redacted, Span, SpanKind

MARKS: Final[dict[SpanKind, tuple[str, str]]] = {
    "id_number": ("[ID number given]", "[已提供身份证号]"),
    "bank_card": ("[card number given]", "[已提供银行卡号]"),
    "api_key": ("[API key given]", "[已提供接口密钥]"),
    "access_token": ("[access token given]", "[已提供访问令牌]"),
    "private_key": ("[private key given]", "[已提供私钥]"),
    "iban": ("[IBAN given]", "[已提供IBAN]"),
    "us_ssn": ("[social security number given]", "[已提供社保号]"),
    "passport": ("[passport number given]", "[已提供护照号]"),
    "email": ("[e-mail address given]", "[已提供邮箱]"),
    "phone": ("[phone number given]", "[已提供电话]"),
    "licence_plate": ("[licence plate given]", "[已提供车牌号]"),
    "qq": ("[QQ number given]", "[已提供QQ号]"),
    "wechat": ("[WeChat id given]", "[已提供微信号]"),
    "address": ("[address given]", "[已提供地址]"),
    "name": ("[name given]", "[已提供姓名]"),
}
"""What stands in place of each kind, in English and Chinese: it says that the thing was given, so that talk goes on."""

REGIONS: Final = ("CN", "US", "GB")
MOST_LOOKS: Final = 8
_HAN: Final = re.compile(r"[\u3400-\u9fff]")
_LATIN_WORD: Final = re.compile(r"[A-Za-z]+")

Find = Callable[[str], Iterable[Span]]


class CheckedRedactor:
    """The default `Redactor`.

    kinds    what is taken out: see docs/redaction.md for what proves each. Unless given those that a check digit or an
             issuer's form proves.
    regions  countries whose phone numbers and licence plates are known in their own form.
    names    names that are taken out wherever they stand, also without the kind `name`.
    Raises   UsageError for a kind or region that is none; UnsupportedError where a kind needs a library of the extra
             `privacy`.
    """

    def __init__(
        self, kinds: Sequence[SpanKind] = PROVEN, *, regions: Sequence[str] = REGIONS, names: Sequence[str] = ()
    ) -> None:
        self._kinds = {*kinds, "name"} if names else set(kinds)
        self._finds = _finders(frozenset(kinds), regions, names)

    def redact(self, text: str) -> Redacted:
        """The text with marks in its own language. Cost: O(n) for each kind.

        Idempotent: it is looked at again until nothing is found, as taking one thing out may bare another.
        """
        found = self._look(text)
        if not found:
            return Redacted(text)
        chinese = _is_chinese(text, found)
        redacted = _marked(text, found, chinese=chinese)
        for _ in range(MOST_LOOKS):
            more = self._look(redacted)
            if not more:
                break
            found = _joined(text, found, more, chinese=chinese)
            redacted = _marked(text, found, chinese=chinese)
        marked = tuple(Span(one.start, one.end, one.kind, MARKS[one.kind][chinese]) for one in found)
        return Redacted(redacted, marked)

    def _look(self, text: str) -> list[Span]:
        """What is found, in order; where two overlap, the one whose kind comes first."""
        simple = plain(text)
        found: list[Span] = []
        for find in self._finds:
            own = [span for span in find(simple) if not any(o.start < span.end and span.start < o.end for o in found)]
            found += own
        return sorted((span for span in found if span.kind in self._kinds), key=lambda span: span.start)


def _finders(asked: frozenset[SpanKind], regions: Sequence[str], names: Sequence[str]) -> list[Find]:
    """What looks for the kinds, what is proven before what is told: a number that is known for a card is no phone's."""
    unknown = sorted(asked - set(KINDS))
    if unknown:
        raise UsageError(f"{unknown[0]!r} is no kind that is redacted; the kinds are: {', '.join(KINDS)}; or all")
    finds: list[Find] = [find_keys, find_numbers]
    if not names and asked <= frozenset(PROVEN):
        return finds
    # Their patterns take long to make, and most need none of them.
    from offprompt.privacy import labelled  # noqa: PLC0415
    from offprompt.privacy.addresses import find_addresses  # noqa: PLC0415
    from offprompt.privacy.names import NameFinder  # noqa: PLC0415
    from offprompt.privacy.phones import PhoneFinder  # noqa: PLC0415
    from offprompt.privacy.registered import RegisteredFinder  # noqa: PLC0415

    if not {"iban", "us_ssn"}.isdisjoint(asked):
        registered = RegisteredFinder()
        # Four groups of an IBAN may pass for a card.
        finds = [find_keys, registered.ibans, find_numbers, registered.us_ssns]
    plates = labelled.plate_finder(regions)
    ordered: dict[SpanKind, Find] = {
        "email": labelled.find_emails,
        "passport": labelled.find_passports,
        "licence_plate": lambda text: labelled.find_plates(text, plates),
        "qq": labelled.find_qq,
        "wechat": labelled.find_wechat,
    }
    finds += [find for kind, find in ordered.items() if kind in asked]
    if "phone" in asked:
        finds.append(PhoneFinder(regions).find)
    if "address" in asked:
        finds.append(find_addresses)
    if names or "name" in asked:
        finds.append(NameFinder(names, told="name" in asked).find)
    return finds


def _marked(text: str, found: Sequence[Span], *, chinese: bool) -> str:
    pieces: list[str] = []
    after = 0
    for span in found:
        pieces += [text[after : span.start], MARKS[span.kind][chinese]]
        after = span.end
    return "".join([*pieces, text[after:]])


def _joined(text: str, found: Sequence[Span], more: Sequence[Span], *, chinese: bool) -> list[Span]:
    """All finds as places in the text: those of a look at the redacted text too. One that reaches over a mark takes
    what the mark stands for with it.
    """
    starts: list[int] = []  # of each character of the redacted text, and of its end: where it stood
    ends: list[int] = []
    after = 0
    for span in found:
        starts += range(after, span.start)
        ends += range(after + 1, span.start + 1)
        length = len(MARKS[span.kind][chinese])
        starts += [span.start] * length
        ends += [span.end] * length
        after = span.end
    starts += range(after, len(text))
    ends += range(after + 1, len(text) + 1)
    fresh = [Span(starts[one.start], ends[one.end - 1], one.kind) for one in more]
    kept = [one for one in found if not any(new.start < one.end and one.start < new.end for new in fresh)]
    return sorted([*kept, *fresh], key=lambda span: span.start)


def _is_chinese(text: str, found: Sequence[Span]) -> bool:
    """Whether the words around what was found are Chinese: more Han characters than Latin words."""
    starts, ends = [0, *(span.end for span in found)], [*(span.start for span in found), len(text)]
    rest = " ".join(text[start:end] for start, end in zip(starts, ends, strict=True))
    return len(_HAN.findall(rest)) > len(_LATIN_WORD.findall(rest))
