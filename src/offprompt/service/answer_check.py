"""Whether a turn's answer agrees with the slots that the turn showed to the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from offprompt.records import Slot, SlotVersion, fold_name, text_of
from offprompt.service.stored_session import StoredTurn
from offprompt.wire.actions import parse_actions
from offprompt.wire.contradiction import Contradiction, Known, contradictions
from offprompt.wire.handles import format_handle


def turn_flags(
    turn: StoredTurn,
    slots: Mapping[str, Slot],
    versions: Mapping[str, Sequence[SlotVersion]],
) -> list[Contradiction]:
    """What the turn's answer gets wrong about the slots that the turn showed; none for a turn without an answer.

    slots, versions   by folded name. Slots that the turn itself wrote or forgot are left out: its answer is about that.
    """
    last = turn.rounds[-1]
    if last.reply is None or (last.parsed.actions and last.calls == () and not last.parsed.text.strip()):
        return []
    replies = [one.reply for one in turn.rounds if one.reply is not None]
    answer = "\n".join(parse_actions(dict(reply.resolved or reply.message)).text for reply in replies)
    changed = {
        fold_name(str(action.arguments.get("slot", "")))
        for one in turn.rounds
        for action in one.parsed.actions
        if action.name in ("mem_write", "mem_forget")
    }
    # What the turn handed to the client's tools, by value or by handle, was used as much as what it said.
    used = "\n".join(call.arguments for one in turn.rounds for call in one.calls)
    known: list[Known] = []
    for shown in {shown.name: shown for shown in last.entry.shown}.values():
        slot = slots.get(fold_name(shown.name))
        if slot is None or fold_name(shown.name) in changed or slot.policy == "never":
            continue
        values = _values_at(versions.get(fold_name(shown.name), ()), turn.rounds[0].entry.at, last.reply.at)
        if any(format_handle(slot.name) in used or value in used for value in values):
            continue
        known.append(Known(slot.name, values, slot.tags, asked=_is_asked(shown.why)))
    return contradictions(answer, known)


def _is_asked(why: str) -> bool:
    return why in ("identity", "name") or why.startswith("alias ")


def _values_at(versions: Sequence[SlotVersion], start: float, end: float) -> tuple[str, ...]:
    """The texts that were current at some time between start and end."""
    before = [version for version in versions if version.written_at <= start][-1:]
    within = [version for version in versions if start < version.written_at <= end]
    return tuple(text_of(version.value) for version in (*before, *within) if version.value is not None)
