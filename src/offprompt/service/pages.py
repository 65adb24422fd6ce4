"""What `mem_read` shows of a text: all of it, or a page, within what the turn may still show."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from offprompt.records import Receipt
from offprompt.service.recalling import RECALLED
from offprompt.service.turn import Turn
from offprompt.wire.head import ShownValue, read_result, receipt_text

PAGE_TOKENS: Final = 256
SINCE: Final = ", written since"
READ: Final = "mem_read"
PAGE_SHOWN: Final = "mem_read page "


@dataclass(frozen=True, slots=True)
class Pages:
    """Shows texts in one turn."""

    turn: Turn

    def show(self, value: ShownValue, page: int, *, foreign: bool, again: bool) -> Receipt:
        """The value, or a page of it, within what the turn may still show; foreign text taints the turn.

        again    the page was asked for before in this turn.
        """
        name, text = value.name, value.text
        turn, count = self.turn, self.turn.kit.tokenizer.count
        if self._is_shown(name, page, again=again):
            return Receipt("mem_read", self._say("shown", name), name=name)
        pages = [text] if page == 1 and count(text) <= turn.left() else self._pages(text)
        if page > len(pages):
            return Receipt("mem_read", self._say("no_page", name, len(pages)), ok=False, name=name)
        tokens = count(pages[page - 1])
        if tokens > turn.left():
            return Receipt("mem_read", self._say("spent", name), ok=False, name=name)
        turn.tainted = turn.tainted or foreign
        turn.show(name, READ if len(pages) == 1 else f"{PAGE_SHOWN}{page}", tokens)
        shown = read_result(replace(value, text=pages[page - 1]), page, len(pages), turn.language)
        return Receipt("mem_read", self._say("read", name), name=name, shown=shown)

    def _is_shown(self, name: str, page: int, *, again: bool) -> bool:
        """Whether that page stands above as it is now; the whole value counts as its first.

        What a read showed stands above only if it was asked for on this branch: a reply may have been thrown away.
        What came back by recall may be a part.
        """
        shown = {each.why for each in self.turn.shown if each.name == name and not each.why.endswith(SINCE)}
        reads = {why for why in shown if why.startswith(READ)}
        if page == 1 and shown - reads - {RECALLED}:
            return True
        return again and (f"{PAGE_SHOWN}{page}" in reads or (page == 1 and READ in reads))

    def _pages(self, text: str) -> list[str]:
        size = min(PAGE_TOKENS, self.turn.kit.settings.shown_tokens)
        pages, rest = list[str](), text
        while rest:
            pages.append(self.turn.kit.tokenizer.clip(rest, size) or rest[:1])
            rest = rest[len(pages[-1]) :]
        return pages or [""]

    def _say(self, kind: str, name: str = "", version: int = 0) -> str:
        return receipt_text(kind, self.turn.language, name=name, version=version)


def outdate(turn: Turn, name: str) -> None:
    """Mark what was shown of a slot in this turn: it is not its value any more, and a read shows it again."""
    turn.shown = [
        replace(shown, why=shown.why + SINCE) if shown.name == name and not shown.why.endswith(SINCE) else shown
        for shown in turn.shown
    ]
