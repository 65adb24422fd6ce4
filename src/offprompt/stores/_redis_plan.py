"""What a commit does, as its script takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from offprompt.records import Scope
from offprompt.stores._redis_rows import Keys, decode_kept, place_of, sub_of, tag_of, version_field

Place: TypeAlias = tuple[Scope, str]
"""A scope and a folded name."""

Word: TypeAlias = str | bytes | int


@dataclass(frozen=True, slots=True)
class Change:
    """A slot's row as it was and as it will be; None: not there."""

    place: Place
    old: bytes | None
    new: bytes | None


@dataclass(slots=True)
class _Plan:
    """Commands over keys, which the script gets by their numbers."""

    keys: dict[str, int]
    commands: list[list[Word]] = field(default_factory=list[list[Word]])
    emptied: dict[str, list[Word]] = field(default_factory=dict[str, list[Word]])

    def key(self, name: str) -> int:
        return self.keys.setdefault(name, len(self.keys) + 1)

    def add(self, command: str, key: str, *words: str | bytes) -> None:
        self.commands.append([command, self.key(key), len(words), *words])


def plan_of(
    names: Keys,
    changes: Sequence[Change],
    versions: Mapping[tuple[Place, int], bytes | None],
    loose: Sequence[Place],
    fences: Mapping[str, str],
    events: Sequence[bytes],
) -> tuple[list[str], list[Word]]:
    """The keys behind the writer's, and the plan; see COMMIT.

    versions  older ones that are new, or go (None). loose: places without a slot that may still stand among those that
              expire or are hidden. fences: the revision that each owner must have; '' for none.
    """
    plan = _Plan({"writer": 1, names.log: 2})
    fenced: list[list[Word]] = [[plan.key(names.owner(tag, "rev")), revision] for tag, revision in fences.items()]
    for scope, folded in loose:
        for what in ("expiry", "hidden"):
            plan.add("ZREM", names.app(scope.app, what), place_of(scope, folded))
    for change in changes:
        _change(plan, names, change)
    owners = dict.fromkeys(tag_of(place[0]) for place in (*(one.place for one in changes), *(at for at, _ in versions)))
    changed = [plan.key(names.owner(tag, "rev")) for tag in owners]
    for ((scope, folded), number), cells in versions.items():
        key = names.owner(tag_of(scope), f"versions:{sub_of(scope)}")
        where = version_field(folded, number)
        if cells is None:
            plan.add("HDEL", key, where)
        else:
            plan.add("HSET", key, where, cells)
    lists: list[list[list[Word]]] = [
        fenced,
        [[key] for key in changed],
        plan.commands,
        list(plan.emptied.values()),
        [[event] for event in events],
    ]
    return list(plan.keys)[1:], [word for one in lists for words in ([len(one)], *one) for word in words]


def _change(plan: _Plan, names: Keys, change: Change) -> None:
    scope, folded = change.place
    tag, sub = tag_of(scope), sub_of(scope)
    slots, scopes = names.owner(tag, f"slots:{sub}"), names.owner(tag, "scopes")
    old = decode_kept(change.old) if change.old is not None else None
    new = decode_kept(change.new) if change.new is not None else None
    if change.new is None:
        plan.add("HDEL", slots, folded)
        owners, revision = plan.key(names.app(scope.app, "owners")), plan.key(names.owner(tag, "rev"))
        plan.emptied[slots] = [plan.key(slots), plan.key(scopes), sub, owners, tag, revision]
    else:
        plan.add("HSET", slots, folded, change.new)
        if change.old is None:
            plan.add("SADD", scopes, sub)
            plan.add("SADD", names.app(scope.app, "owners"), tag)
            plan.add("SADD", names.apps, scope.app)
    for what, before, after in (
        ("expiry", old and old.expires_at, new and new.expires_at),
        ("hidden", old and old.forgotten_at, new and new.forgotten_at),
    ):
        if after is not None:
            plan.add("ZADD", names.app(scope.app, what), repr(after), place_of(scope, folded))
        elif before is not None:
            plan.add("ZREM", names.app(scope.app, what), place_of(scope, folded))
