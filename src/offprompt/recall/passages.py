"""A document's text in passages: under its headings, whole paragraphs, else whole sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from offprompt.records.document import label_of

PASSAGE_SIZE: Final = 1200
"""Letters of a passage at most; a Han character counts as two, since it says about as much as two of them."""

MAX_HEADING_CHARS: Final = 1000
"""Longer lines are none, and are not looked at: they could be made to take long."""

_HEADING: Final = re.compile(r"(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*")
_UNDERLINE: Final = re.compile(r" {0,3}(=+|-{2,})[ \t]*")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_HAN: Final = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")
_BREAKS: Final = (
    re.compile(r"\n[ \t]*\n+"),
    re.compile(r"\n"),
    re.compile(r"(?<=[。！？；…])[”’」』）)]*|(?<=[.!?])[\"')\]]*\s+"),
    re.compile(r"[，、：]|[,;:]?\s+"),
)
"""Where a text may be parted, the best first: between paragraphs, lines, sentences, words."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a text, `text[start:end]`. headings: the path to it, outermost first. page: from 1, where there are."""

    text: str
    start: int
    end: int
    headings: tuple[str, ...] = ()
    page: int | None = None


@dataclass(frozen=True, slots=True)
class _Section:
    """What stands under one heading, with its line: from start to end, the rest from body on."""

    start: int
    body: int
    end: int
    headings: tuple[str, ...]


def passages(text: str, *, pages: Sequence[int] = (), markdown: bool = True, size: int = PASSAGE_SIZE) -> list[Passage]:
    """The passages of a text, in order; what is left out is blank, or a heading with nothing under it but others.

    pages     offsets at which its pages begin. A passage lies in one page and under one heading.
    markdown  whether lines with # in front, or underlined, are headings.
    Cost      O(text).
    """
    found: list[Passage] = []
    sections = list(_sections(text)) if markdown else [_Section(0, 0, len(text), ())]
    for at, section in enumerate(sections):
        is_bare = section.body > section.start and not text[section.body : section.end].strip()
        if is_bare and at + 1 < len(sections) and len(sections[at + 1].headings) > len(section.headings):
            continue
        for start, end, page in _paged(section, pages):
            found += [
                Passage(text[first:last], first, last, section.headings, page)
                for first, last in _spans(text, start, end, size)
            ]
    return found


def title_of(text: str) -> str:
    """The first heading; empty if there is none."""
    return next((one.headings[0] for one in _sections(text) if one.headings and one.headings[0]), "")


def _sections(text: str) -> Iterator[_Section]:
    """What stands before the first heading, and under each."""
    path: list[tuple[int, str]] = []
    start = body = 0
    for at, after, level, heading in _headings(text):
        if at > start:
            yield _Section(start, body, at, tuple(name for _, name in path))
        path = [*((depth, name) for depth, name in path if depth < level), (level, heading)]
        start, body = at, after
    if len(text) > start:
        yield _Section(start, body, len(text), tuple(name for _, name in path))


def _headings(text: str) -> Iterator[tuple[int, int, int, str]]:
    """Each heading: where it begins and ends, its level, what it says. In fenced code there are none."""
    fence, at, before = "", 0, ""
    for line in text.splitlines(keepends=True):
        after = at + len(line)
        if len(line) > MAX_HEADING_CHARS:
            at, before = after, ""
            continue
        bare = line.rstrip("\r\n")
        opened = _FENCE.match(bare)
        if fence:
            if opened is not None and opened[1].startswith(fence) and not bare.strip(" \t`~"):
                fence = ""
        elif opened is not None:
            fence = opened[1]
        elif (found := _HEADING.fullmatch(bare)) is not None and label_of(found[2] or ""):
            yield at, after, len(found[1]), label_of(found[2])
        elif before.strip() and (under := _UNDERLINE.fullmatch(bare)) is not None and _is_title(before):
            yield at - len(before), after, 1 if under[1][0] == "=" else 2, label_of(before)
        before = "" if fence or not bare.strip() or _HEADING.fullmatch(bare) is not None else line
        at = after


def _is_title(line: str) -> bool:
    """Whether what is underlined is a heading and no row of a table or list."""
    return not line.startswith(("    ", "\t")) and "|" not in line and line.lstrip()[:2] not in ("- ", "* ", "> ", "+ ")


def _paged(section: _Section, pages: Sequence[int]) -> Iterator[tuple[int, int, int | None]]:
    """A section's parts, each in one page, and the page's number."""
    if not pages:
        yield section.start, section.end, None
        return
    for number, start in enumerate(pages, 1):
        end = pages[number] if number < len(pages) else section.end
        first, last = max(start, section.start), min(end, section.end)
        if first < last:
            yield first, last, number


def _spans(text: str, start: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    """Parts of text[start:end], none longer than the size, without the blanks around them."""
    while start < end:
        reach = _reach(text, start, end, size)
        stop = end if reach == end else _parting(text, start, reach)
        first, last = start, stop
        while first < last and text[first].isspace():
            first += 1
        while last > first and text[last - 1].isspace():
            last -= 1
        if first < last:
            yield first, last
        start = stop


def _reach(text: str, start: int, end: int, size: int) -> int:
    """How far a passage from here may go."""
    reach = min(end, start + size)
    while (over := reach - start + len(_HAN.findall(text, start, reach)) - size) > 0:
        reach -= (over + 1) // 2
    return max(reach, start + 1)


def _parting(text: str, start: int, reach: int) -> int:
    """Where to part what is too long: at the last of the best breaks that leaves half of it, else at its end."""
    half = start + (reach - start) // 2
    for pattern in _BREAKS:
        ends = [found.end() for found in pattern.finditer(text, half, reach) if half < found.end() <= reach]
        if ends:
            return ends[-1]
    return reach
