"""Where people live, by rule: Chinese addresses, and those of the USA and Britain."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from offprompt.records.redaction import Span

# A place's name has none of these characters: they are the words before it ("我住在…", "寄到…"), or end a name, so that
# there is one way to read a run of names.
_NAME: Final = r"[^\W0-9A-Za-z_我你您他她它们的在是到从去了位住寄送给把请往搬家址叫说和与及或就省市区县旗镇乡路街号]"
_NUMBER: Final = r"(?:[0-9]{1,5}|[一二三四五六七八九十百零〇]{1,6})"
_PLACE: Final = (
    rf"(?:{_NAME}{{2,7}}?(?:省|自治区|特别行政区))?(?:{_NAME}{{2,8}}?(?:市|自治州|地区|盟))?"
    rf"(?:{_NAME}{{1,7}}?(?:区|县|旗|市))?(?:{_NAME}{{1,7}}?(?:街道|镇|乡))?"
)
_DETAIL: Final = (
    rf"(?:[ ]?(?:{_NAME}{{1,10}}?(?:小区|花园|公寓|大厦|家园|苑|广场|新村|城|府|里|园))?[ ]?"
    rf"(?:{_NUMBER}|[A-Za-z])[ -]?(?:号楼|号院|号|弄|栋|幢|座|楼|单元|层|室|户|组|院)"
    r"(?:[0-9]{1,5}(?![0-9-]|[号弄栋幢座楼单层室户组院]))?)"
)
_STREET_ZH: Final = (
    rf"{_NAME}{{1,9}}?(?:大街|大道|胡同|公路|路|街|道|巷|弄|村|里)[东西南北中]?"
    rf"(?:[一二三四五六七八九十]+[段路街])?"
)
_ESTATE: Final = (
    rf"(?:{_NAME}{{2,8}}?(?:市|自治州))?(?:{_NAME}{{1,7}}?(?:区|县|镇|乡|街道))"
    rf"{_NAME}{{2,10}}?(?:小区|花园|公寓|大厦|家园|苑|新村|村)"
)
_CHINESE: Final = re.compile(rf"(?:{_PLACE}{_STREET_ZH}|{_ESTATE}){_DETAIL}{{1,6}}")
_STREETS: Final = (
    r"Street|St|Avenue|Ave|Road|Rd|Boulevard|Blvd|Lane|Ln|Drive|Dr|Court|Ct|Place|Pl|Square|Sq|Terrace|Ter|Way|Close"
    r"|Crescent|Cres|Gardens|Grove|Mews|Parkway|Pkwy|Highway|Hwy|Circle|Cir|Row|Hill|Walk|Trail"
)
_POSTCODE: Final = r"[A-Z]{1,2}[0-9][A-Z0-9]?[ ][0-9][A-Z]{2}"
_TOWN: Final = r"[A-Z][a-z'’.-][A-Za-z'’.-]{0,20}(?:[ ](?:[a-z]{2,4}[ ])?[A-Z][A-Za-z'’.-]{1,20}){0,2}"
_UNIT: Final = r"(?:Apt|Apartment|Suite|Ste|Unit|Flat|Floor|Fl|Room|Rm|\#)\.?[ ]?[A-Za-z0-9-]{1,6}"
_HOUSE: Final = r"(?:(?:Flat|Apartment|Unit)[ ][0-9A-Za-z]{1,5},?[ ])?[0-9]{1,6}[A-Za-z]?,?[ ](?:[NSEW]{1,2}\.?[ ])?"
_STREET: Final = (
    rf"(?:(?:[A-Z][A-Za-z'’]{{1,20}}|[0-9]{{1,3}}(?:st|nd|rd|th))[ ]){{1,3}}(?:{_STREETS})\b\.?(?:[ ][NSEW]{{1,2}}\b)?"
)
_CODE: Final = rf"(?:,?[ ][A-Z]{{2}}[ ][0-9]{{5}}(?:-[0-9]{{4}})?|,?[ ]{_POSTCODE})?(?!\w)"
_ENGLISH: Final = re.compile(
    rf"(?<![\w.]){_HOUSE}{_STREET}(?:,?[ ]{_UNIT})?(?:,[ ]{_TOWN}){{0,2}}{_CODE}"
    r"|\bP\.?[ ]?O\.?[ ]?Box[ ][0-9]{1,6}\b"
)


def find_addresses(text: str) -> Iterator[Span]:
    """Addresses with a street, or a named place, and a number, in a plain text. Cost: O(n).

    Not   a town or district alone: where somebody lives in that wide a sense is what memory is for.
    """
    for pattern in (_CHINESE, _ENGLISH):
        yield from (Span(match.start(), match.end(), "address") for match in pattern.finditer(text))
