"""Which writes are spooled, and how each is done when its time comes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from offprompt.errors import UsageError
from offprompt.records import DEFAULT, Json, Scope, Slot, text_of
from offprompt.service.slot_writer import Kit, Writer
from offprompt.service.spooling import Spooled

if TYPE_CHECKING:  # NumPy is loaded with the first memory
    from offprompt.service.memory_access import MemoryAccess


def spooled_slot(
    key: str, at: float, scope: Scope, name: str, value: Json, options: dict[str, Any], writer: Writer
) -> Spooled:
    """The write of a slot. options: those of `Slots.write_as`, JSON but for DEFAULT."""
    given = {option: value for option, value in options.items() if value is not DEFAULT}
    what = {"name": name, "value": value, "options": given, "actor": writer.actor, "basis": writer.basis}
    return Spooled(key, at, "write", scope, what)


def told_slot(spooled: Spooled) -> Slot:
    """What the caller of a spooled write gets: the slot as far as it is known, `spooled`, version 0."""
    what, at = spooled.what, spooled.at
    policy, size = what["options"].get("policy") or "never", len(text_of(what["value"]).encode())
    written = (policy, "user", "app", what["actor"], at, at, size)
    return Slot(spooled.scope, what["name"], what["value"], 0, *written, spooled=True)


@dataclass(frozen=True, slots=True)
class SpooledWrites:
    """Does spooled writes on the stores of an opened memory."""

    kit: Kit
    memories: MemoryAccess

    def perform(self, one: Spooled) -> None:
        """Do one; nothing for somebody who was erased since it was asked for.

        Raises   BackendError if the store does not answer; another error of ours if it refuses.
        """
        if one.at <= self.kit.erased_at(one.scope):
            return
        if one.op == "write":
            self._write(one)
        elif one.op == "remember":
            self._remember(one)
        else:
            raise UsageError(f"a spooled {one.op!r} is not known to this program; install a newer offprompt")

    def _write(self, one: Spooled) -> None:
        from offprompt.service.slots import Slots  # noqa: PLC0415 - which spools itself

        options: dict[str, Any] = {"ttl_s": DEFAULT, **one.what["options"]}
        if options.get("tags") is not None:
            options["tags"] = tuple(options["tags"])
        slots = Slots(replace(self.kit, spool=None), one.scope)
        actor = one.what.get("actor", "app")  # what an older program spooled was the application's
        rests = one.what.get("basis")
        writer = Writer(actor=actor, op_key=one.key, basis=None if rests is None else tuple(rests))
        slots.write_as(writer, one.what["name"], one.what["value"], **options)

    def _remember(self, one: Spooled) -> None:
        from offprompt.service.remembering import Marks, Rememberer, Said  # noqa: PLC0415 - loads NumPy and the rules

        said = msgspec.convert(one.what["said"], tuple[Said, ...])
        Rememberer(self.memories.kit, one.scope).store_now(said, msgspec.convert(one.what["marks"], Marks))
