"""What becomes of stored values in what is about to be sent: put back to handles, named, or refused."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from offprompt.errors import LeakError
from offprompt.records import Head, JournalEntry, Message
from offprompt.service.leak_watch import newest
from offprompt.service.scrubber import map_arguments
from offprompt.service.turn import Turn
from offprompt.wire.folding import fold
from offprompt.wire.head import INLINE, INSTRUCTIONS, RECEIPTS, TEXT_ACTIONS
from offprompt.wire.leaks import Leak, LeakIndex
from offprompt.wire.shapes import Shape
from offprompt.wire.spelled import handle_or_mark, with_handles

ENCODED: Final = ("base64", "hex")
PASSES: Final = 4
"""How often a text is searched again after a find was replaced: a find may have hidden another."""


@dataclass(slots=True)
class Cleaned:
    """What one message holds: names whose value became its handle, and those whose value stays."""

    scrubbed: dict[str, None]
    leaked: dict[str, None]

    @classmethod
    def none(cls) -> Cleaned:
        """Nothing found yet."""
        return cls({}, {})


def foreign_text(turn: Turn, text: str, found: Cleaned, where: Callable[[], str]) -> str:
    """A text from elsewhere as it is sent; what is found in it is noted in `found`.

    Always   secrets in any spelling become handles, and so do other values that stand whole, as they are.
    leaks    says what becomes of parts and other spellings of them, unless they were shown or said.
    Raises   LeakError with leaks="refuse".
    """
    clean, names = turn.scrub(text)
    found.scrubbed.update(dict.fromkeys(names))
    return _by_mode(turn, clean, found, where)


def foreign_arguments(
    turn: Turn, message: Message, known: Container[str], found: Cleaned, where: Callable[[], str]
) -> dict[str, str]:
    """The arguments of a message's calls that change, by call id, as `foreign_text`; known: ids of calls that do not
    matter.
    """
    changed: dict[str, str] = {}
    for call in turn.model.shape.calls(message):
        if call.call_id and call.call_id not in known:
            clean, names = turn.scrubber.arguments(call.arguments)
            found.scrubbed.update(dict.fromkeys(names))
            clean = _by_mode(turn, clean, found, where, arguments=True)
            if clean != call.arguments:
                changed[call.call_id] = clean
    return changed


def stored_text(turn: Turn, text: str) -> str:
    """A body or an earlier message about to be shown, without what its message would be sent without, or forgotten."""
    clean = turn.scrub(turn.without_forgotten(text))[0]
    return clean if turn.leaks == "warn" else _handled(clean, lambda each: _leaks(turn, each))[0]


def stored_names(turn: Turn, text: str) -> list[str]:
    """The names whose value, or a part of it, stands in a text of ours that is shown on purpose."""
    return list(dict.fromkeys(leak.name for leak in _search(turn, text, ours=True))) if text else []


def note_cleaned(turn: Turn, found: Cleaned, where: Callable[[], str]) -> tuple[str, ...]:
    """Events and warnings for what one message holds; the names whose value stays."""
    for name in sorted(found.scrubbed):
        turn.event("handle.scrub", name, why=f"{where()} held its value")
    turn.issue(*found.scrubbed)
    turn.scrubbed += found.scrubbed
    return note_leaked(turn, found.leaked, where())


def edited_reply() -> str:
    """Where a reply stands that the session does not know again."""
    return "a reply that did not come back as it was"


def still_sent(turn: Turn, entry: JournalEntry, leaked: Sequence[str]) -> tuple[str, ...]:
    """Those names whose value stands in the entry as it is sent: a stub may have taken it out."""
    if not leaked or not entry.bodies:
        return tuple(leaked)
    texts = [turn.model.shape.text(dict(form)) for form in entry.live or ()]
    there = {leak.name for text in texts for leak in _search(turn, text)}
    return tuple(name for name in leaked if name in there)


def note_leaked(turn: Turn, names: Iterable[str], where: str) -> tuple[str, ...]:
    """Events and warnings for values that stay; their names."""
    names = tuple(names)
    for name in names:
        turn.event("slot.leak", name, outcome="LeakError", why=f"its value, or a part of it, stands in {where}")
        turn.warnings.append(f"leak: the value of {name!r}, or a part of it, stands in {where}")
    return names


def guarded_head(turn: Turn, head: Head) -> Head:
    """The head with the names of values that stand in it beside the card; with leaks="scrub" with their handles."""
    turn.in_view += head.carded
    names = dict.fromkeys(leak.name for part in (head.instructions, head.directory) for leak in _added(turn, part))
    if not names:
        return head
    if turn.leaks != "scrub":
        return replace(head, leaked=note_leaked(turn, names, "the head"))
    instructions, directory = (_scrubbed_ours(turn, part)[0] for part in (head.instructions, head.directory))
    found = Cleaned(names, {})
    note_cleaned(turn, found, lambda: "the head")
    text = "\n\n".join(part for part in (instructions, directory, head.card) if part)
    return replace(head, text=text, instructions=instructions, directory=directory, before=head.text)


def guarded_answer(turn: Turn, entry: JournalEntry) -> JournalEntry:
    """Our answer with the names of values in it that were not shown; with leaks="scrub" with their handles."""
    shape = turn.model.shape
    forms = [dict(form) for form in (entry.message, *(entry.settled or ()))]
    names = dict.fromkeys(leak.name for form in forms for leak in _added(turn, shape.text(form)))
    if not names:
        return entry
    if turn.leaks != "scrub":
        return replace(entry, leaked=note_leaked(turn, names, "an answer of the memory"))
    note_cleaned(turn, Cleaned(names, {}), lambda: "an answer of the memory")
    live, *settled = (shape.map_text(form, lambda text: _scrubbed_ours(turn, text)[0]) for form in forms)
    return replace(entry, live=(live,), settled=tuple(settled) or None)


def refuse_added(turn: Turn, name: str, texts: Iterable[str], where: str) -> None:
    """Nothing, unless leaks="refuse".

    Raises   LeakError for a value that stands in texts that Offprompt added.
    """
    if turn.leaks == "refuse":
        leak = next((leak for text in texts for leak in _search(turn, text, ours=True) if leak.name == name), None)
        leak = leak or Leak(name, 0, 0, "as_is", 0, whole=True)
        raise _error(turn, leak, where, "set leaks='scrub' or 'warn', or give the slot another value or name")


def words_of(entries: Iterable[JournalEntry], shape: Shape) -> Iterator[str]:
    """What users and models said, without what we or tools put in."""
    for entry in entries:
        if entry.kind == "assistant":
            for form in () if entry.leaked else entry.live if entry.live is not None else (entry.message,):
                message = dict(form)
                yield shape.text(message)
                yield from (call.arguments for call in shape.calls(message))
        elif entry.kind in ("user", "system"):
            yield own_text(dict(entry.message), shape)


def own_text(message: Message, shape: Shape) -> str:
    """A message's text without the tool results in it."""
    blank = {result.call_id: "" for result in shape.results(message)}
    return shape.text(shape.with_results(message, blank) if blank else message)


def _by_mode(turn: Turn, clean: str, found: Cleaned, where: Callable[[], str], *, arguments: bool = False) -> str:
    """The text as the setting has it; arguments: it is a call's, and only texts in it are changed."""
    leaks = _leaks(turn, clean)
    if not leaks:
        return clean
    if turn.leaks == "refuse":
        way_out = "take it out there and prepare again, or set leaks='scrub', which sends its handle"
        raise _error(turn, leaks[0], where(), way_out)
    if turn.leaks == "scrub":

        def handled(text: str) -> str:
            text, names = _handled(text, lambda each: _leaks(turn, each))
            found.scrubbed.update(dict.fromkeys(names))
            return text

        clean = map_arguments(clean, handled) if arguments else handled(clean)
        leaks = _leaks(turn, clean)
    found.leaked.update(dict.fromkeys(leak.name for leak in leaks))
    return clean


def _error(turn: Turn, leak: Leak, where: str, way_out: str) -> LeakError:
    name = turn.mask(leak.name)
    return LeakError(name, form=leak.form, chars=leak.chars, whole=leak.whole, where=where, way_out=way_out)


def _handled(text: str, find: Callable[[str], Sequence[Leak]]) -> tuple[str, list[str]]:
    """The text with handles for all that is found in it, and the names."""
    names: list[str] = []
    for _ in range(PASSES):
        leaks = find(text)
        if not leaks:
            break
        names += [leak.name for leak in leaks]
        leaks = sorted(leaks, key=lambda leak: leak.start)
        text = with_handles(text, [(*_tight(text, leak), handle_or_mark(leak.name)) for leak in leaks])
    return text, names


def _tight(text: str, leak: Leak) -> tuple[int, int]:
    """Where a find stands without the spaces at its ends: they part it from the words beside it."""
    piece = text[leak.start : leak.end]
    return leak.start + len(piece) - len(piece.lstrip()), leak.end - len(piece) + len(piece.rstrip())


def _scrubbed_ours(turn: Turn, text: str) -> tuple[str, list[str]]:
    return _handled(text, lambda each: _added(turn, each))


def _leaks(turn: Turn, text: str) -> list[Leak]:
    """What a foreign text holds of stored values that were neither shown in this turn nor said in the conversation."""
    return _rest(turn, text, _search(turn, text), b"")


def _added(turn: Turn, text: str) -> list[Leak]:
    """What a text of ours holds of stored values that were not shown, beside the words that are always ours."""
    return _rest(turn, text, _search(turn, text, ours=True), _own_words())


def _search(turn: Turn, text: str, *, ours: bool = False) -> list[Leak]:
    watch = turn.kit.watches.of(turn.scope)
    if ours and not watch.has_bodies:
        watch.keep(newest(turn.kit.sessions.bodies(turn.scope)))
    return watch.find(text, turn.watched, ours=ours)


def _rest(turn: Turn, text: str, leaks: Sequence[Leak], known: bytes) -> list[Leak]:
    if not leaks:
        return []
    shown = dict.fromkeys((*(each.name for each in turn.shown), *turn.in_view))
    leaks = [leak for leak in leaks if leak.name not in shown]
    if not leaks:
        return []
    values = [value for name in shown if (value := _value(turn, name))]
    allowed = [known, turn.said, *map(fold, values)]
    return [leak for leak in leaks if not _stands_in(turn, leak, text[leak.start : leak.end], allowed, values)]


def _value(turn: Turn, name: str) -> str:
    if name.startswith("@"):
        body = turn.bodies.get(name[1:]) or turn.kit.sessions.body(turn.scope, name[1:])
        return "" if body is None else body.text
    return turn.watched[name].text if name in turn.watched else ""


def _stands_in(turn: Turn, leak: Leak, piece: str, allowed: Sequence[bytes], values: Sequence[str]) -> bool:
    """Whether what was found stands in texts that may be sent anyway, in whatever spelling.

    allowed   those texts, folded. values: of them the ones that are shown, as they are.
    """
    whole = fold(_value(turn, leak.name))
    if whole and any(whole in each for each in allowed):
        return True
    if leak.form not in ENCODED:
        return any(fold(piece) in each for each in allowed)
    index = LeakIndex({str(at): each for at, each in enumerate(("\n".join(turn.words()), *values))})
    return any(found.chars >= leak.chars for found in index.find(piece))


@cache
def _own_words() -> bytes:
    """The words of ours that are the same for everybody; what stands in them was not taken from a value."""
    receipts = [text for pair in RECEIPTS.values() for text in pair]
    return b"\0".join(map(fold, (*INSTRUCTIONS.values(), *TEXT_ACTIONS.values(), *INLINE.values(), *receipts)))
