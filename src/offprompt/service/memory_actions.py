"""The model's four actions, run against the session's memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from offprompt.errors import (
    BackendError,
    ConflictError,
    LimitError,
    NameInvalidError,
    NotFoundError,
    OffpromptError,
    UsageError,
)
from offprompt.recall.text import TextIndex, snippet
from offprompt.records import Action, JournalEntry, Receipt, Scope, Slot, clean_name, compact, fold_name, text_of
from offprompt.service.handle_lookup import HandleLookup
from offprompt.service.heads import shown_value
from offprompt.service.session_kit import date_of
from offprompt.service.slot_writer import Writer
from offprompt.service.slots import Slots
from offprompt.service.turn import Turn
from offprompt.wire.handles import Resolved, find_handles, resolve_arguments
from offprompt.wire.head import ShownValue, directory_line, read_result, receipt_text
from offprompt.wire.leaks import find_values
from offprompt.wire.scrub import scrub_text
from offprompt.wire.shapes import loaded

PAGE_TOKENS: Final = 256
SNIPPET_TOKENS: Final = 40
SEARCH_HITS: Final = 5
ID_CHARS: Final = 12
RECEIPT_TOKENS: Final = 25
SINCE: Final = ", written since"
FOREIGN: Final = ("tool", "document")
FOREIGN_LABELS: Final = ("tool:", "document:")


@dataclass(frozen=True, slots=True)
class MemoryActions:
    """Runs actions; each answers with a receipt, and raises nothing.

    departed   the entries of this conversation that are not in the prompt any more: what a search may find.
    key        the reply's journal key: names its writes, so that a replay changes nothing.
    lookup     of handles in the values that are written.
    """

    turn: Turn
    departed: Sequence[JournalEntry]
    key: str
    lookup: HandleLookup

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
            self.turn.event(f"action.{action.name}", _named(action), outcome=type(exc).__name__)
            return Receipt(action.name, self._problem(action, exc), ok=False)

    def _say(self, kind: str, name: str = "", version: int = 0) -> str:
        return receipt_text(kind, self.turn.language, name=name, version=version)

    def _problem(self, action: Action, exc: OffpromptError) -> str:
        """What the model is told of an error: short, in its language, with the way out."""
        name = _named(action)
        match exc:
            case _NeedsError():
                return self._say("needs", exc.what)
            case NameInvalidError():
                return self._say("bad_name")
            case NotFoundError():
                return self._say("missing", name)
            case LimitError(unit="bytes"):
                return self._say("long", version=exc.limit)
            case LimitError():
                return self._say("full", version=exc.limit)
            case ConflictError():
                return self._say("conflict", name)
            case _:
                return self._say("bad_value", name)

    def _write(self, action: Action, index: int) -> Receipt:
        name = clean_name(_slot_name(action))
        if "value" not in action.arguments:
            raise _NeedsError("value")
        resolved = self._resolved(action.arguments["value"])
        if resolved.bad:
            return Receipt("mem_write", self._say("bad_handle", resolved.bad[0].text), ok=False, name=name)
        foreign = self.turn.tainted or any(self.turn.is_foreign(used.name) for used in resolved.used)
        writer = Writer("model", "tool" if foreign else "user", "model", f"{self.key}:{index}")
        scope, name = self._target(name, action.arguments.get("scope"))
        slot = Slots(self.turn.kit.slot_kit, scope).write_as(writer, name, loaded(resolved.text))
        self.turn.changed()
        self.turn.issue(slot.name)
        # What was shown of it is not its value any more: a read shows it again.
        self.turn.shown = [
            replace(shown, why=shown.why + SINCE)
            if shown.name == slot.name and not shown.why.endswith(SINCE)
            else shown
            for shown in self.turn.shown
        ]
        return Receipt("mem_write", self._say("saved", slot.name, slot.version), name=slot.name, version=slot.version)

    def _resolved(self, value: object) -> Resolved:
        """The value as JSON text with its handles resolved: models write by reference, and imitate what they see."""
        try:
            text = compact(value)
        except (TypeError, ValueError, RecursionError) as exc:
            raise UsageError("the value of mem_write is not JSON; give text or JSON") from exc
        resolved = resolve_arguments(text, self.lookup)
        self.lookup.note(resolved, "value of mem_write")
        return resolved

    def _target(self, name: str, asked: object) -> tuple[Scope, str]:
        """Where a write goes: as asked, else where the slot is, else the user's scope, else the session's.

        With the name as the slot there is spelled.
        """
        own = self.turn.scope
        user = Scope(own.app, user=own.user) if own.user else own.without_session()
        if asked not in (None, "user", "session"):
            raise _NeedsError("scope: user | session")
        folded = fold_name(name)
        there = next((slot for slot in self.turn.stored if fold_name(slot.name) == folded), None)
        scope = own if asked == "session" else user
        if asked is None and there is not None and self._is_own(there):
            scope = there.scope
        return scope, there.name if there is not None and there.scope == scope else name

    def _is_own(self, slot: Slot) -> bool:
        """Whether the slot is this user's (without a user this session's), and no one else sees a change."""
        own = self.turn.scope
        return slot.scope.user == own.user if own.user else slot.scope.session == own.session

    def _read(self, action: Action, _index: int) -> Receipt:
        name, page = _slot_name(action), action.arguments.get("page", 1)
        if isinstance(page, str) and page.isdigit():
            page = int(page)
        if not isinstance(page, int) or isinstance(page, bool) or page < 1:
            raise _NeedsError("page: 1, 2 …")
        if name.startswith("@"):
            source, date, text = self._stored_text(name)
            text = scrub_text(text, self.turn.secrets)[0]
            return self._show_text(name, source, date, text, page, foreign=source in FOREIGN)
        slot = self.turn.slots.get(name, actor="model")
        if slot is None:
            return Receipt("mem_read", self._say("missing", name), ok=False, name=name)
        if slot.policy == "never":
            return Receipt("mem_read", self._say("never", slot.name), ok=False, name=slot.name)
        self.turn.reads[slot.name] = slot.value
        self.turn.issue(slot.name)
        value = shown_value(slot, self.turn.hidden)
        return self._show_text(slot.name, value.source, value.date, value.text, page, foreign=slot.trust == "tool")

    def _stored_text(self, name: str) -> tuple[str, str, str]:
        """Source, date and text of a body or an earlier message, by the id after the `@`."""
        body = self.turn.bodies.get(name[1:]) or self.turn.kit.sessions.body(self.turn.scope, name[1:])
        if body is not None:
            return body.kind, date_of(body.at), body.text
        for entry in self.departed:
            if len(name) > ID_CHARS // 2 and entry.key.startswith(name[1:]):
                return entry.kind, date_of(entry.at), entry.text
        raise NotFoundError(f"there is nothing stored as {name!r} in this session")

    def _show_text(self, name: str, source: str, date: str, text: str, page: int, *, foreign: bool) -> Receipt:
        """The text, or a page of it, within what the turn may still show; foreign text taints the turn."""
        turn, count = self.turn, self.turn.kit.tokenizer.count
        if page == 1 and any(shown.name == name and not shown.why.endswith(SINCE) for shown in turn.shown):
            return Receipt("mem_read", self._say("shown", name), name=name)
        pages = [text] if page == 1 and count(text) <= turn.left() else self._pages(text)
        if page > len(pages):
            return Receipt("mem_read", self._say("no_page", name, len(pages)), ok=False, name=name)
        tokens = count(pages[page - 1])
        if tokens > turn.left():
            return Receipt("mem_read", self._say("spent", name), ok=False, name=name)
        turn.tainted = turn.tainted or foreign
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
        folded = fold_name(_slot_name(action))
        there = next((slot for slot in self.turn.stored if fold_name(slot.name) == folded), None)
        if there is not None and not self._is_own(there):
            raise ConflictError(f"slot {there.name!r} belongs to {there.scope}; the application may forget it there")
        name = self.turn.slots.forget(_slot_name(action), writer=Writer("model", trust, "model"))
        self.turn.changed()
        return Receipt("mem_forget", self._say("forgot", name), name=name)

    def _search(self, action: Action, _index: int) -> Receipt:
        query = action.arguments.get("query")
        if not isinstance(query, str) or not query.strip():
            raise _NeedsError("query")
        lines, names = list[str](), list[str]()
        turn, count = self.turn, self.turn.kit.tokenizer.count
        room = turn.left()
        for name, line in self._hits(query):
            tokens = count(line + "\n")
            if tokens > room:
                break
            room -= tokens
            lines.append(line)
            names.append(name)
        if not lines:
            return Receipt("mem_search", self._say("none"), ok=False)
        turn.issue(*names)
        turn.show("mem_search", "search", turn.left() - room)
        for name in find_values("\n".join(lines), turn.values):
            turn.show(name, "in what mem_search found", 0)
        turn.tainted = turn.tainted or any(line.split(" ", 2)[1] in FOREIGN_LABELS for line in lines if line[0] == "@")
        listed = len(names)
        while listed > 1 and count(self._say("found", ", ".join(names[:listed]))) > RECEIPT_TOKENS:
            listed -= 1
        return Receipt("mem_search", self._say("found", ", ".join(names[:listed])), shown="\n".join(lines))

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
                found = snippet(scrub_text(text, self.turn.secrets)[0], query, max_tokens=SNIPPET_TOKENS)
                lines[name] = f"{name} {kind}: {' '.join(found.split())}"
            hits.append((name, lines[name]))
        return hits

    def _is_part(self, slot: Slot) -> bool:
        head, _, number = slot.name.rpartition(".")
        return number.isdigit() and any(each.name == head and each.parts >= int(number) for each in self.turn.stored)


class _NeedsError(UsageError):
    """An argument that is not there, or not what it must be."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"the action needs `{what}`; give it")


def _named(action: Action) -> str:
    slot = action.arguments.get("slot")
    return slot if isinstance(slot, str) else ""


def _slot_name(action: Action) -> str:
    """The slot argument as a plain name, whether it came as a name or as a handle.

    Raises   UsageError if there is none.
    """
    slot = action.arguments.get("slot")
    if not isinstance(slot, str) or not slot.strip():
        raise _NeedsError("slot")
    slot = slot.strip()
    handles = find_handles(slot)
    return handles[0].name if handles and handles[0].start == 0 and handles[0].end == len(slot) else slot
