"""The model's four actions, run against the session's memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from offprompt.errors import BackendError, NotFoundError, OffpromptError, UsageError
from offprompt.recall.text import TextIndex, snippet
from offprompt.records import Action, JournalEntry, Receipt, Scope, Slot, clean_name, fold_name, text_of
from offprompt.service.heads import shown_value
from offprompt.service.session_kit import date_of
from offprompt.service.slot_writer import Writer
from offprompt.service.slots import Slots
from offprompt.service.turn import Turn
from offprompt.wire.handles import find_handles
from offprompt.wire.head import ShownValue, directory_line, read_result, receipt_text
from offprompt.wire.scrub import scrub_text

PAGE_TOKENS: Final = 256
SNIPPET_TOKENS: Final = 40
SEARCH_HITS: Final = 5
ID_CHARS: Final = 12


@dataclass(frozen=True, slots=True)
class MemoryActions:
    """Runs actions; each answers with a receipt, and raises nothing.

    departed   the entries of this conversation that are not in the prompt any more: what a search may find.
    key        the reply's journal key: names its writes, so that a replay changes nothing.
    """

    turn: Turn
    departed: Sequence[JournalEntry]
    key: str

    def run(self, action: Action, index: int) -> Receipt:
        """One action's receipt; `ok` False when it was not done, and then nothing is changed."""
        runs = {
            "mem_write": self._write,
            "mem_read": self._read,
            "mem_forget": self._forget,
            "mem_search": self._search,
        }
        try:
            return runs[action.name](action, index)
        except BackendError as exc:
            self.turn.warnings.append(f"{action.name}: {exc}")
            return Receipt(action.name, receipt_text("trouble", self.turn.language), ok=False)
        except OffpromptError as exc:
            return Receipt(action.name, self._say("refused", str(exc)), ok=False)

    def _say(self, kind: str, name: str = "", version: int = 0) -> str:
        return receipt_text(kind, self.turn.language, name=name, version=version)

    def _write(self, action: Action, index: int) -> Receipt:
        name = clean_name(_slot_name(action))
        if "value" not in action.arguments:
            raise UsageError("mem_write needs `value`; give the text to keep")
        trust = "tool" if self.turn.tainted else "user"
        writer = Writer("model", trust, "model", f"{self.key}:{index}")
        slots = Slots(self.turn.kit.slot_kit, self._target(name, action.arguments.get("scope")))
        slot = slots.write_as(writer, name, action.arguments["value"])
        self.turn.changed()
        self.turn.issue(slot.name)
        return Receipt("mem_write", self._say("saved", slot.name, slot.version), name=slot.name, version=slot.version)

    def _target(self, name: str, asked: object) -> Scope:
        """Where a write goes: as asked, else where the slot is, else the user's scope, else the session's."""
        own = self.turn.scope
        user = Scope(own.app, user=own.user) if own.user else own.without_session()
        if asked == "session":
            return own
        if asked == "user":
            return user
        if asked is not None:
            raise UsageError(f"mem_write scope={asked!r}; it is 'user' or 'session'")
        folded = fold_name(name)
        there = next((slot for slot in self.turn.stored if fold_name(slot.name) == folded), None)
        return there.scope if there is not None and not there.scope.shared else user

    def _read(self, action: Action, _index: int) -> Receipt:
        name, page = _slot_name(action), action.arguments.get("page", 1)
        if isinstance(page, str) and page.isdigit():
            page = int(page)
        if not isinstance(page, int) or isinstance(page, bool) or page < 1:
            raise UsageError(f"mem_read page={page!r}; give a number from 1")
        if name.startswith("@"):
            return self._show_text(name, *self._stored_text(name), page)
        slot = self.turn.slots.get(name, actor="model")
        if slot is None:
            return Receipt("mem_read", self._say("missing", name), ok=False, name=name)
        if slot.policy == "never":
            return Receipt("mem_read", self._say("never", slot.name), ok=False, name=slot.name)
        self.turn.reads[slot.name] = slot.value
        self.turn.issue(slot.name)
        value = shown_value(slot)
        return self._show_text(slot.name, value.source, value.date, value.text, page)

    def _stored_text(self, name: str) -> tuple[str, str, str]:
        """Source, date and text of a body or an earlier message, by the id after the `@`."""
        body = self.turn.bodies.get(name[1:]) or self.turn.kit.sessions.body(self.turn.scope, name[1:])
        if body is not None:
            return body.kind, date_of(body.at), body.text
        for entry in self.departed:
            if len(name) > ID_CHARS // 2 and entry.key.startswith(name[1:]):
                return entry.kind, date_of(entry.at), scrub_text(entry.text, self.turn.secrets)[0]
        raise NotFoundError(f"there is nothing stored as {name!r} in this session")

    def _show_text(self, name: str, source: str, date: str, text: str, page: int) -> Receipt:
        """The text, or a page of it, within what the turn may still show."""
        turn, count = self.turn, self.turn.kit.tokenizer.count
        if page == 1 and any(shown.name == name for shown in turn.shown):
            return Receipt("mem_read", self._say("shown", name), name=name)
        pages = [text] if count(text) <= turn.left() else self._pages(text)
        if page > len(pages):
            return Receipt("mem_read", self._say("no_page", name, len(pages)), ok=False, name=name)
        tokens = count(pages[page - 1])
        if tokens > turn.left():
            return Receipt("mem_read", self._say("spent", name), ok=False, name=name)
        turn.show(name, "mem_read" if len(pages) == 1 else f"mem_read page {page}", tokens)
        shown = read_result(ShownValue(name, pages[page - 1], source, date), page, len(pages), turn.language)
        return Receipt("mem_read", self._say("read", name), name=name, shown=shown)

    def _pages(self, text: str) -> list[str]:
        size = min(PAGE_TOKENS, self.turn.kit.settings.shown_tokens)
        pages, rest = list[str](), text
        while rest:
            pages.append(self.turn.kit.tokenizer.clip(rest, size) or rest[:1])
            rest = rest[len(pages[-1]) :]
        return pages or [""]

    def _forget(self, action: Action, _index: int) -> Receipt:
        trust = "tool" if self.turn.tainted else "user"
        name = self.turn.slots.forget(_slot_name(action), writer=Writer("model", trust, "model"))
        self.turn.changed()
        return Receipt("mem_forget", self._say("forgot", name), name=name)

    def _search(self, action: Action, _index: int) -> Receipt:
        query = action.arguments.get("query")
        if not isinstance(query, str) or not query.strip():
            raise UsageError("mem_search needs `query`; give the words to look for")
        lines, names = list[str](), list[str]()
        room = self.turn.left()
        for name, line in self._hits(query):
            tokens = self.turn.kit.tokenizer.count(line + "\n")
            if tokens > room:
                break
            room -= tokens
            lines.append(line)
            names.append(name)
        if not lines:
            return Receipt("mem_search", self._say("none"), ok=False)
        self.turn.issue(*names)
        self.turn.show("mem_search", "search", self.turn.left() - room)
        return Receipt("mem_search", self._say("found", ", ".join(names)), shown="\n".join(lines))

    def _hits(self, query: str) -> list[tuple[str, str]]:
        """Names and lines of the best hits: slots by label, earlier messages and bodies by a snippet."""
        index, lines = TextIndex[str](), dict[str, str]()
        count = self.turn.kit.tokenizer.count
        for slot in self.turn.stored:
            if slot.policy != "never" and not self._is_part(slot):
                words = " ".join([slot.name, slot.name.replace("_", " "), *slot.tags, text_of(slot.value)])
                index.add(slot.name, words)
                lines[slot.name] = directory_line(slot.name, slot.kind, count(text_of(slot.value)))
        texts = {f"@{entry.key[:ID_CHARS]}": (entry.kind, entry.text) for entry in self.departed if entry.text}
        for body in self.turn.kit.sessions.bodies(self.turn.scope):
            texts[f"@{body.body_id}"] = (body.kind, body.text)
        for name, (_, text) in texts.items():
            index.add(name, text)
        hits: list[tuple[str, str]] = []
        for name, _ in index.search(query, SEARCH_HITS):
            if name in texts:
                kind, text = texts[name]
                found = scrub_text(snippet(text, query, max_tokens=SNIPPET_TOKENS), self.turn.secrets)[0]
                lines[name] = f"{name} {kind}: {' '.join(found.split())}"
            hits.append((name, lines[name]))
        return hits

    def _is_part(self, slot: Slot) -> bool:
        head, _, number = slot.name.rpartition(".")
        return number.isdigit() and any(each.name == head and each.parts >= int(number) for each in self.turn.stored)


def _slot_name(action: Action) -> str:
    """The slot argument as a plain name, whether it came as a name or as a handle.

    Raises   UsageError if there is none.
    """
    slot = action.arguments.get("slot")
    if not isinstance(slot, str) or not slot.strip():
        raise UsageError(f"{action.name} needs `slot`; give the slot's name")
    handles = find_handles(slot)
    return handles[0].name if len(handles) == 1 else slot.strip()
