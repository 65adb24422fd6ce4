"""Phone numbers, mobile and landline: those that a country's numbering plan has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from offprompt.errors import UnsupportedError, UsageError
from offprompt.records.redaction import Span

if TYPE_CHECKING:
    from phonenumbers import PhoneNumber

# Where a number may stand: a run of digits with at most three separators in between. Bounded, so that a text full of
# digits costs a bounded look at each of its places.
_RUN: Final = re.compile(r"(?<![0-9A-Za-z_])[+(]{0,2}[0-9](?:[ ().\-/]{0,3}[0-9]){6,18}(?![0-9A-Za-z_])", re.ASCII)
_LABEL: Final = re.compile(
    r"(?:电话|手机|座机|固话|号码|联系方式|传真|热线|来电|致电|拨打?"
    r"|\b(?:tel|phone|telephone|mobile|cell|cellphone|call|calling|text|sms|whatsapp|fax|dial|ring|reach)\b)"
    r"[^0-9\n]{0,16}$",
    re.IGNORECASE,
)
_CHINESE: Final = re.compile(r"(?:(?:00)?86[ -]?)?[(]?(?:1[3-9][0-9]|0[1-9][0-9])[0-9 ()-]{7,}", re.ASCII)
_BEFORE: Final = 28
MOST_GROUPS: Final = 8


class PhoneFinder:
    """Finds the numbers of some countries, and those of any that begin with `+`.

    regions  as ISO 3166-1 writes them: CN, US, GB …
    Not      numbers of businesses by their kind (400, 800, premium): they are said to be called, and nobody's own.
    Raises   UnsupportedError without the library, UsageError for a region that has no numbering plan.
    """

    def __init__(self, regions: Sequence[str]) -> None:
        try:
            import phonenumbers  # noqa: PLC0415 - an extra
        except ImportError as exc:
            raise UnsupportedError(
                "phone numbers are found with phonenumbers, which is not installed: pip install 'offprompt[privacy]'"
            ) from exc
        self._lib: Any = phonenumbers
        unknown = [region for region in regions if region not in phonenumbers.SUPPORTED_REGIONS]
        if unknown:
            raise UsageError(f"redact_regions: {unknown[0]!r} is no country; write codes of two letters, as CN, US, GB")
        self._regions = tuple(regions)
        kinds = phonenumbers.PhoneNumberType
        self._own = {
            *(kinds.MOBILE, kinds.FIXED_LINE, kinds.FIXED_LINE_OR_MOBILE),
            *(kinds.VOIP, kinds.PERSONAL_NUMBER, kinds.PAGER),
        }

    def find(self, text: str) -> Iterator[Span]:
        """The phone numbers in a plain text, in order.

        Cost   O(n), and up to .1 ms for each run of 7 digits or more.
        """
        for run in _RUN.finditer(text):
            yield from self._in_run(text, run.start(), run.end())

    def _in_run(self, text: str, start: int, end: int) -> Iterator[Span]:
        run = text[start:end]
        if len(re.findall(r"[0-9]+", run)) > MOST_GROUPS:
            return
        labelled = _LABEL.search(text[max(0, start - _BEFORE) : start]) is not None
        for region in self._regions:
            loose = region == "CN" or labelled
            leniency = self._lib.Leniency.VALID if loose else self._lib.Leniency.STRICT_GROUPING
            found = [
                (match.start, match.end)
                for match in self._lib.PhoneNumberMatcher(run, region, leniency=leniency)
                if self._is_own(match.number) and self._is_set_as_one(match.raw_string, region, labelled=labelled)
            ]
            if found:
                yield from (Span(start + begin, start + stop, "phone") for begin, stop in found)
                return

    def _is_own(self, number: PhoneNumber) -> bool:
        """Whether it may be one person's."""
        return self._lib.number_type(number) in self._own

    @staticmethod
    def _is_set_as_one(raw: str, region: str, *, labelled: bool) -> bool:
        """Whether it is written as phone numbers are: with `+`, in groups, said to be one, or as Chinese ones are."""
        if raw.startswith("+"):
            return True
        if region == "CN":
            return _CHINESE.fullmatch(raw) is not None
        return labelled or not raw.isdigit()
