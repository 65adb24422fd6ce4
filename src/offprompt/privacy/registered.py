"""Numbers whose rules python-stdnum keeps: bank accounts by IBAN, and social security numbers of the USA."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from offprompt.errors import UnsupportedError
from offprompt.records.redaction import Span

_IBAN: Final = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}[0-9]{2}(?:[ -]?[A-Z0-9]){11,30}(?![a-z0-9])", re.ASCII)
_GROUP_END: Final = re.compile(r"[A-Z0-9](?![A-Za-z0-9])", re.ASCII)
_DASHED_SSN: Final = re.compile(r"(?<![\w+.-])[0-9]{3}-[0-9]{2}-[0-9]{4}(?![\w-])")
_SAID_SSN: Final = re.compile(
    r"\b(?:ssn|social security(?: (?:number|no\.?|#))?|社会安全号码?|社安号码?)[^0-9\n]{0,16}"
    r"(?P<it>[0-9]{3}([ -]?)[0-9]{2}\2[0-9]{4})(?![\w-])",
    re.IGNORECASE,
)
_SHORTEST: Final = 15


class RegisteredFinder:
    """Finds what a register's rules prove. Raises UnsupportedError without the library."""

    def __init__(self) -> None:
        try:
            from stdnum import iban  # noqa: PLC0415 - an extra
            from stdnum.us import ssn  # noqa: PLC0415
        except ImportError as exc:
            raise UnsupportedError(
                "IBANs and social security numbers are found with python-stdnum, which is not installed: "
                "pip install 'offprompt[privacy]'"
            ) from exc
        self._iban: Any = iban
        self._ssn: Any = ssn

    def ibans(self, text: str) -> Iterator[Span]:
        """IBANs whose country, length, form and check digits agree, also in groups. Cost: O(n)."""
        for match in _IBAN.finditer(text):
            ends = [one.end() for one in _GROUP_END.finditer(match[0])]
            end = next((one for one in reversed(ends) if one >= _SHORTEST and self._iban.is_valid(match[0][:one])), 0)
            if end:
                yield Span(match.start(), match.start() + end, "iban")

    def us_ssns(self, text: str) -> Iterator[Span]:
        """Those with dashes, and others that are said to be one; none of areas never given out. Cost: O(n)."""
        found = {(match.start(), match.end()) for match in _DASHED_SSN.finditer(text)}
        found |= {(match.start("it"), match.end("it")) for match in _SAID_SSN.finditer(text)}
        for start, end in sorted(found):
            if self._ssn.is_valid(re.sub(r"[ -]", "", text[start:end])):
                yield Span(start, end, "us_ssn")
