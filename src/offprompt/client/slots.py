"""Slots of one scope that a server keeps: what `service.slots` offers, and the server runs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from offprompt.client._answers import record_of, slot_of, slot_version_of
from offprompt.client._requests import Asking, Async, Request, Sync, asked, condition, path_of
from offprompt.errors import NotFoundError, UsageError
from offprompt.records import DEFAULT, Default, Json, Policy, Slot, SlotVersion, Within, clean_name
from offprompt.records.slot import Place
from offprompt.records.values import (
    checked_count,
    checked_options,
    checked_query,
    checked_tags,
    checked_value,
    checked_version,
)

MISSING: Final = object()
SLOTS: Final = ("v1", "slots")


class SlotCalls:
    """The calls of both faces; see `offprompt.service.slots.Slots`, whose arguments, results and errors they have."""

    def __init__(self, transport: Any, headers: Mapping[str, str]) -> None:
        self._transport, self._headers = transport, headers

    @asked
    def write(  # noqa: PLR0913 - options that users type by name
        self,
        name: str,
        value: Json,
        *,
        ttl_s: float | Default | None = DEFAULT,
        tags: Iterable[str] | None = None,
        importance: float | None = None,
        policy: Policy | None = None,
        if_version: int | None = None,
        split: bool = False,
        schema: Mapping[str, Any] | None = None,
        purpose: str | None = None,
        consent: str | None = None,
    ) -> Asking[Slot]:
        """Write a value, and return the slot as stored."""
        name = _sendable(name)
        options = checked_options(name, ttl_s, tags, importance, policy, if_version, schema)
        body: dict[str, Any] = {"value": checked_value(name, value), "policy": policy, "split": split, "schema": schema}
        body |= {"tags": options["tags"], "importance": importance, "purpose": purpose, "consent": consent}
        body = {key: each for key, each in body.items() if each is not None or key == "value"}
        if ttl_s is not DEFAULT:
            body["ttl_s"] = ttl_s
        headers = {**self._headers, **condition(if_version)}
        return slot_of((yield Request("PUT", path_of(*SLOTS, name), body=body, headers=headers)))

    @asked
    def get(self, name: str, *, touch: bool = True) -> Asking[Slot | None]:
        """The slot under that name in the scopes this one inherits, or None. Counts as a use."""
        return (yield from self._slot(name, touch=touch))

    @asked
    def get_many(self, names: Sequence[str]) -> Asking[dict[str, Slot]]:
        """The slots that are there, by the name asked for. One request for each."""
        if isinstance(names, str):
            raise UsageError(f"names={names!r} is one text; pass a list, such as [{names!r}]")
        found: dict[str, Slot] = {}
        for name in names:
            slot = yield from self._slot(name)
            if slot is not None:
                found[name] = slot
        return found

    @asked
    def read(self, name: str, default: object = MISSING) -> Asking[Any]:
        """The value under that name, or `default`."""
        try:
            return slot_of((yield self._reading(name))).value
        except NotFoundError:
            if default is MISSING:
                raise
            return default

    @asked
    def forget(self, name: str, *, if_version: int | None = None) -> Asking[str]:
        """Hide the slot under that name (`undo` brings it back within `undo_s`); returns its name as stored."""
        name = clean_name(name)
        checked_version(f"slot {name!r}", if_version)
        headers = {**self._headers, **condition(if_version)}
        answer = yield Request("DELETE", path_of(*SLOTS, name), headers=headers)
        return str(answer["name"])

    @asked
    def undo(self, name: str) -> Asking[Slot]:
        """Bring back what `forget` hid in exactly this scope."""
        return slot_of((yield Request("POST", path_of(*SLOTS, clean_name(name), "undo"), headers=self._headers)))

    @asked
    def list(
        self,
        names: str | None = None,
        *,
        tags: Iterable[str] = (),
        since: float | None = None,
        until: float | None = None,
        within: Within = "inherit",
        forgotten: bool = False,
    ) -> Asking[list[Slot]]:
        """The slots that fit all conditions, by name."""
        checked_query(names, since, until, within)
        query = {"names": names, "tags": [*checked_tags(tags)], "since": since, "until": until, "within": within}
        query["forgotten"] = forgotten or None
        found: list[Slot] = []
        while True:
            answer = yield Request("GET", path_of(*SLOTS), query=query, headers=self._headers)
            found += [slot_of(one) for one in answer["slots"]]
            if not answer.get("cursor"):
                return found
            query["cursor"] = answer["cursor"]

    @asked
    def rank(self, *, limit: int | None = None) -> Asking[list[tuple[Slot, float]]]:
        """The slots this scope inherits, by use and importance, best first."""
        checked_count("limit", limit)
        answer = yield Request("GET", path_of("v1", "rank"), query={"limit": limit}, headers=self._headers)
        return [(slot_of(one["slot"]), float(one["score"])) for one in answer["slots"]]

    @asked
    def history(self, name: str) -> Asking[list[SlotVersion]]:
        """The kept versions of the slot, oldest first."""
        answer = yield Request("GET", path_of(*SLOTS, clean_name(name), "history"), headers=self._headers)
        return [slot_version_of(one) for one in answer["versions"]]

    @asked
    def snapshot(self) -> Asking[dict[str, Json]]:
        """All values that this scope sees, by name; for the application, never for a prompt."""
        answer = yield Request("GET", path_of("v1", "snapshot"), headers=self._headers)
        return dict(answer["values"])

    @asked
    def erase(self, *names: str, within: Literal["exact", "subtree"] = "exact") -> Asking[int]:
        """Remove slots with all their versions, for good, hidden ones too; without names all of the scope."""
        if within not in ("exact", "subtree"):
            raise UsageError(f"within={within!r}: it is exact or subtree")
        chosen = [clean_name(name) for name in names] or "all"
        body = {"slots": chosen, "within": within}
        answer = yield Request("POST", path_of("v1", "erase"), body=body, headers=self._headers)
        return int(answer["slots"])

    @asked
    def allow(self, name: str, tool: str, argument: str, *, host: str = "") -> Asking[Slot]:
        """Let the handle of a `never` slot resolve in one more place; everywhere else it stays refused."""
        return (yield from self._guard(name, {"allow": [_place(tool, argument, host)]}))

    @asked
    def disallow(self, name: str, tool: str, argument: str, *, host: str = "") -> Asking[Slot]:
        """Take a place away, as it was allowed; one that is not there is no error."""
        return (yield from self._guard(name, {"disallow": [_place(tool, argument, host)]}))

    @asked
    def allowed(self, name: str) -> Asking[tuple[Place, ...]]:
        """The places of a slot that this scope sees, in the order in which they were allowed."""
        answer = yield Request("GET", path_of(*SLOTS, clean_name(name), "guard"), headers=self._headers)
        return record_of(answer["allow"], tuple[Place, ...])

    @asked
    def lock(self, name: str) -> Asking[Slot]:
        """Let models neither write nor forget the slot; the application still may."""
        return (yield from self._guard(name, {"locked": True}))

    @asked
    def unlock(self, name: str) -> Asking[Slot]:
        """Take the lock away."""
        return (yield from self._guard(name, {"locked": False}))

    def _reading(self, name: str, *, touch: bool = True) -> Request:
        query = {} if touch else {"touch": False}
        return Request("GET", path_of(*SLOTS, clean_name(name)), query=query, headers=self._headers)

    def _slot(self, name: str, *, touch: bool = True) -> Asking[Slot | None]:
        try:
            return slot_of((yield self._reading(name, touch=touch)))
        except NotFoundError:
            return None

    def _guard(self, name: str, change: Mapping[str, Any]) -> Asking[Slot]:
        path = path_of(*SLOTS, clean_name(name), "guard")
        return slot_of((yield Request("POST", path, body=change, headers=self._headers)))


class Slots(SlotCalls, Sync):
    """The slots of one scope."""


class AsyncSlots(SlotCalls, Async):
    """The slots of one scope, for `async` code."""


def _place(tool: object, argument: object, host: object) -> dict[str, object]:
    return {"tool": tool, "argument": argument, "host": host}


def _sendable(name: str) -> str:
    """The name as it is: the server refuses a wrong one, with an event. What no address can hold is refused here."""
    try:
        return name if name.encode() else clean_name(name)
    except (AttributeError, UnicodeEncodeError):
        return clean_name(name)
