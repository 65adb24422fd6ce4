"""What `offprompt chat` answers to /mem, /forget, /why and /help."""

from __future__ import annotations

from typing import Final

from offprompt.cli.call import Call
from offprompt.cli.render import shortened, table
from offprompt.errors import UsageError
from offprompt.records import text_of
from offprompt.records.slot import RESERVED_PREFIX
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt
from offprompt.service.trace import Trace

MEMORIES_SHOWN: Final = 10


def held(call: Call, scope: BoundScope) -> str:
    """The slots that are seen from the scope, secrets without their values, and its facts."""
    slots = scope.slots.list(within="inherit")
    rows = [
        [slot.name, slot.policy, "***" if slot.policy == "never" else shortened(text_of(slot.value))] for slot in slots
    ]
    lines = [table([call.say("name"), call.say("policy"), call.say("value")], rows)] if rows else []
    memories = scope.memories.list(kinds=["fact"], limit=MEMORIES_SHOWN)
    lines += [f"{each.memory_id}  {call.say('fact')}: {shortened(each.text)}" for each in memories]
    lines += [f"{call.say('more:')} offprompt memory list"] if memories.cursor else []
    return "\n".join(lines) or call.say("nothing here")


def forgotten(call: Call, memory: Offprompt, scope: BoundScope, name: str) -> str:
    """Hide a slot or memory of that name.

    Raises   NotFoundError if there is none.
    """
    if not name:
        raise UsageError("/forget needs the name of a slot or the id of a memory; /mem lists them")
    where = scope if name.startswith(RESERVED_PREFIX) else _owner(memory, scope, name)
    return f"{where.forget(name)}: {call.say('forgotten')}"


def _owner(memory: Offprompt, scope: BoundScope, name: str) -> BoundScope:
    """The scope whose slot of that name is seen: a forget works where the slot is."""
    slot = scope.slots.get(name, touch=False)
    return scope if slot is None else BoundScope(memory.parts, slot.scope)


def why(call: Call, found: Trace, scope: BoundScope) -> str:
    """Why values were shown in the turn, or stayed out."""
    lines: list[str] = []
    shown = {each.name: each for turn in found.turns for one in turn.rounds for each in one.shown}
    lines += [f"{each.name}: {call.say('shown')}: {each.why} ({each.tokens})" for each in shown.values()]
    out = [slot for slot in scope.slots.list(within="inherit") if slot.name not in shown]
    reasons = {event.name: event.why for event in scope.events(op="slot.write") if event.outcome == "ok"}
    lines += [
        f"{slot.name}: {call.say('kept out')}: {slot.policy}; {reasons.get(slot.name, '')}".rstrip("; ") for slot in out
    ]
    return "\n".join(lines) or call.say("nothing here")


def chat_help(call: Call) -> str:
    """What may be typed."""
    rows = (
        ("/mem", call.say("slots and facts")),
        ("/forget NAME", call.say("hide a slot or a memory")),
        ("/trace", call.say("the last turn, request by request")),
        ("/why", call.say("why each value was shown, or stayed out")),
        ("/quit", call.say("end; the conversation stays")),
    )
    return "\n".join(f"{typed:<13} {does}" for typed, does in rows)
