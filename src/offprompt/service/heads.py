"""The head of a session: instructions, directory and card, built once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from offprompt.records import Head, Scope, Slot, compact, text_of
from offprompt.records.scope import lent
from offprompt.service.scrubber import Scrubber
from offprompt.service.session_kit import date_of
from offprompt.service.turn import Turn
from offprompt.wire.head import (
    INLINE,
    INSTRUCTIONS,
    TEXT_ACTIONS,
    ShownValue,
    card_text,
    directory_line,
    directory_text,
    frame,
    memory_tools,
    secret_line,
)
from offprompt.wire.options import SessionOptions

NOTHING_HIDDEN: Final = Scrubber({}, {})


def build_head(turn: Turn, options: SessionOptions, nonce: str) -> Head:
    """The head for the session's first request, by its mode; reads all slots that the session inherits."""
    slots = [slot for slot, _ in turn.slots.rank() if slot.policy != "never" or slot.allow]
    if options.mode in ("off_prompt", "as_needed"):
        return _off_prompt(turn, options, slots, nonce)
    inline = _inline(turn, slots, nonce)
    if options.mode == "inline":
        return inline
    off = _off_prompt(turn, options, slots, nonce)
    return inline if head_tokens(turn, inline) <= head_tokens(turn, off) else off


def head_tokens(turn: Turn, head: Head) -> int:
    """Tokens of the head with its tools."""
    return turn.kit.tokenizer.count(head.text) + turn.kit.tokenizer.count(compact(list(head.tools)))


def shown_value(slot: Slot, scrubber: Scrubber = NOTHING_HIDDEN) -> ShownValue:
    """A slot's value as a frame shows it: what looks like a handle is none; hidden values in it are their handles.

    Its source is `tool` where foreign text led to it, whoever wrote it.
    """
    text = scrubber.hide(text_of(slot.value))
    source = "tool" if slot.trust == "tool" and slot.source != "document" else slot.source
    return ShownValue(slot.name, text, source, date_of(slot.updated_at), foreign=slot.trust != "user")


def is_trusted(slot: Slot, reader: Scope) -> bool:
    """Whether a value may stand in every turn of a reader: no foreign text led to it, and no other agent lends it."""
    return slot.trust == "user" and not lent(reader, slot.scope)


def slot_line(turn: Turn, slot: Slot) -> str:
    """What the directory says of a slot."""
    if slot.policy == "never":
        return secret_line(slot.name, slot.allow, turn.language)
    return directory_line(slot.name, slot.kind, turn.kit.tokenizer.count(text_of(slot.value)))


def _off_prompt(turn: Turn, options: SessionOptions, slots: Sequence[Slot], nonce: str) -> Head:
    carded = _carded(turn, slots)
    directory, names = _directory(turn, [slot for slot in slots if slot not in carded])
    instructions = INSTRUCTIONS[turn.language]
    tools: tuple[dict[str, object], ...] = ()
    if options.actions == "text":
        instructions += TEXT_ACTIONS[turn.language]
    else:
        tools = tuple(dict(turn.model.shape.tool(spec)) for spec in memory_tools(turn.language))
    card = card_text([shown_value(slot, turn.scrubber) for slot in carded], nonce, turn.language)
    return Head(
        text="\n\n".join(part for part in (instructions, directory, card) if part),
        tools=tools,
        names=tuple(names),
        carded=tuple(slot.name for slot in carded),
        instructions=instructions,
        directory=directory,
        card=card,
    )


def _inline(turn: Turn, slots: Sequence[Slot], nonce: str) -> Head:
    """All values but secrets, and but those of others, which would be in every turn; of secrets their lines."""
    usable = [slot for slot in slots if slot.policy == "never"]
    directory = directory_text([slot_line(turn, slot) for slot in usable], 0, turn.language)
    slots = [slot for slot in slots if slot.policy != "never" and is_trusted(slot, turn.scope)]
    values = frame([shown_value(slot, turn.scrubber) for slot in slots], nonce) if slots else ""
    instructions = INLINE[turn.language]
    tools = tuple(dict(turn.model.shape.tool(spec)) for spec in memory_tools(turn.language, inline=True))
    return Head(
        text="\n\n".join(part for part in (instructions, directory, values) if part),
        tools=tools,
        names=tuple(slot.name for slot in usable),
        carded=tuple(slot.name for slot in slots),
        instructions=instructions,
        directory=directory,
        card=values,
    )


def _carded(turn: Turn, slots: Sequence[Slot]) -> list[Slot]:
    """The card's slots, best first, as many as fit."""
    left, chosen = turn.kit.settings.card_tokens, list[Slot]()
    for slot in slots:
        tokens = turn.kit.tokenizer.count(text_of(slot.value))
        if slot.policy == "card" and is_trusted(slot, turn.scope) and tokens <= left:
            chosen.append(slot)
            left -= tokens
    return chosen


def _directory(turn: Turn, slots: Sequence[Slot]) -> tuple[str, list[str]]:
    """The directory within its share of the context, and the names in it.

    Names that foreign text led to are not in it: `mem_search` finds them, marked.
    """
    count = turn.kit.tokenizer.count
    budget = int(turn.kit.settings.directory_share * turn.model.context_tokens)
    lines, names = list[str](), list[str]()
    # Title and "N more" line are counted first, so that the whole stays within the share.
    used = count(directory_text(["-"], len(slots), turn.language))
    for slot in slots:
        if slot.trust == "tool":
            continue
        line = slot_line(turn, slot)
        used += count(line + "\n")
        if used > budget:
            break
        lines.append(line)
        names.append(slot.name)
    return directory_text(lines, len(slots) - len(lines), turn.language), names
