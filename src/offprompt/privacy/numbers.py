"""Numbers that carry a check digit: identity numbers and bank cards, however their digits are set."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from typing import Final

from offprompt.privacy.plain import plain
from offprompt.records.redaction import Span

_RUN: Final = re.compile(r"[0-9](?:[ -]{0,2}[0-9]){11,}(?:[ -]?[Xx](?![A-Za-z]))?", re.ASCII)
_REGION: Final = re.compile(r"1[1-5]|2[1-3]|3[1-7]|4[1-6]|5[0-4]|6[1-5]|71|8[1-3]", re.ASCII)
_ID_LENGTH: Final = 18
_CARD_LENGTHS: Final = range(13, 20)
_CARD: Final = re.compile(r"62\d{14,17}|4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2[2-7]\d{14}|3[47]\d{13}", re.ASCII)


def find_numbers(text: str) -> list[Span]:
    """The identity numbers and bank cards in a text, in order; identity numbers first, cards in what is left.

    Digits   plain or full-width, in one run or set apart by spaces or dashes of any width.
    Cost     O(n): each digit is looked at once for each length that a number may have.
    """
    digits = plain(text)
    found: list[Span] = []
    for run in _RUN.finditer(digits):
        before = digits[run.start() - 1 : run.start()]
        glued = before.isascii() and before.isalnum()
        found += _in_run(run[0], run.start(), glued=glued)
    return found


def id_number_ok(number: str) -> bool:
    """Whether 18 characters are a resident identity number of China: region, date of birth, check digit.

    Source   GB 11643-1999; the check digit is ISO/IEC 7064, MOD 11-2: the weighted sum leaves 1.
    """
    if len(number) != _ID_LENGTH or not number[:17].isdigit() or not number.isascii() or not _looks_like_id(number):
        return False
    total = sum(int(digit) * pow(2, 17 - at, 11) for at, digit in enumerate(number[:17]))
    last = 10 if number[17] in "Xx" else int(number[17]) if number[17].isdigit() else -1
    return (total + last) % 11 == 1


def card_ok(number: str) -> bool:
    """Whether digits are a bank card's: an issuer's prefix, its length, and the check digit.

    Source   ISO/IEC 7812-1 (Luhn). Luhn alone holds for one number in ten, so the prefixes are required: 62 (UnionPay),
             4, 51 to 55 and 22 to 27, 34 and 37.
    """
    if not _CARD.fullmatch(number):
        return False
    doubled = "0246813579"
    digits = reversed(number)
    return sum(int(doubled[int(digit)]) if at % 2 else int(digit) for at, digit in enumerate(digits)) % 10 == 0


def _looks_like_id(number: str) -> bool:
    """Whether region and date of birth are possible ones."""
    year, month, day = int(number[6:10]), int(number[10:12]), int(number[12:14])
    if not _REGION.match(number) or not 1900 <= year < 2100:
        return False
    try:
        return date(year, month, day).year == year
    except ValueError:
        return False


def _in_run(run: str, offset: int, *, glued: bool) -> Iterator[Span]:
    """The numbers in one run of digits and separators; glued: a letter stands right before it."""
    places = [at for at, char in enumerate(run) if char not in " -"]
    digits = "".join(run[at] for at in places)
    # A number begins and ends where a group of digits does: 20 digits in a row are no 18 with two more.
    begins = [n for n, at in enumerate(places) if n == 0 or places[n - 1] != at - 1]
    ends = {*begins[1:], len(digits)}
    after = 0
    for at, begin in enumerate(begins):
        if begin < after:
            continue
        groups = [n - begin for n in begins[at : at + _CARD_LENGTHS[-1]]]
        end = _number_end(digits, begin, ends, groups, glued=glued and begin == 0)
        if end:
            kind = "id_number" if id_number_ok(digits[begin:end]) else "bank_card"
            yield Span(offset + places[begin], offset + places[end - 1] + 1, kind)
            after = end


def _number_end(digits: str, begin: int, ends: set[int], groups: list[int], *, glued: bool) -> int:
    """Where the number that begins there ends, 0 if none does; groups: where groups of digits begin, from there on."""
    whole = begin + _ID_LENGTH
    if whole in ends and id_number_ok(digits[begin:whole]):
        return whole
    if glued:
        return 0
    for length in reversed(_CARD_LENGTHS):
        end, number = begin + length, digits[begin : begin + length]
        # An order number may be built like an identity number; with a wrong check digit it is neither.
        if end not in ends or (length == _ID_LENGTH and _looks_like_id(number)) or not card_ok(number):
            continue
        if _set_as_card([n for n in groups if n < length], length):
            return end
    return 0


def _set_as_card(begins: list[int], length: int) -> bool:
    """Whether groups that begin there are how cards are set: one run, fours, 4-6-5, 6 and the rest, single digits."""
    if len(begins) == 1 or begins == [0, 6] or (begins == [0, 4, 10] and length == 15):
        return True
    return begins in (list(range(0, length, 4)), list(range(length)))
