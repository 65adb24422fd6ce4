"""Users, agents, apps and runs in mem0's words: who there is, their profiles, and wiping what is theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from offprompt.compat.mem0 import tokens, views
from offprompt.compat.mem0.marks import created_at, marks_of, run_of
from offprompt.compat.mem0.reach import Reach
from offprompt.errors import NotFoundError, UnsupportedError, UsageError
from offprompt.records import MEMORY_STATES, RULES, Memory, Scope, Slot, as_dict

TYPES: Final = ("user", "agent", "app", "run")
JOB: Final = "profile_job"
SAMPLE: Final = 5
MAX_SAMPLE: Final = 10


@dataclass(slots=True)
class _Seen:
    """When somebody's first memory was made, when the last one changed, and how many there are."""

    first: float | None = None
    last: float | None = None
    memories: int = 0

    def add(self, memory: Memory) -> None:
        at = created_at(memory)
        self.first = at if self.first is None else min(self.first, at)
        self.last = memory.updated_at if self.last is None else max(self.last, memory.updated_at)
        self.memories += 1


class Entities:
    """Whom one identity reaches."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    def listed(self, kind: str | None = None) -> dict[str, Any]:
        """All of them, or those of one type, by type and name. Cost: O(memories that are reached).

        Raises   UsageError for another type.
        """
        if kind is not None:
            _check_type(kind)
        seen: dict[tuple[str, str], _Seen] = {}
        for root in self._reach.own_roots():
            for memory in self._reach.listed(root):
                for one in _of(memory):
                    seen.setdefault(one, _Seen()).add(memory)
        for scope in self._holders():
            for one in (("user", scope.user), ("agent", scope.agent)):
                if one[1] is not None:
                    seen.setdefault((one[0], one[1]), _Seen())
        counts = {each: sum(of == each for of, _ in seen) for each in TYPES}
        results = [
            {
                "id": f"{of}:{name}",
                "name": name,
                "type": of,
                "created_at": views.iso(one.first),
                "updated_at": views.iso(one.last),
                "total_memories": one.memories,
                "owner": self._reach.identity.app,
                "metadata": None,
            }
            for (of, name), one in sorted(seen.items(), key=lambda item: (TYPES.index(item[0][0]), item[0][1]))
            if kind in (None, of)
        ]
        totals = {f"total_{each}s": count for each, count in counts.items()}
        return {"count": len(results), "next": None, "previous": None, "results": results, **totals}

    def delete(self, kind: str, name: str) -> dict[str, Any]:
        """Wipe what is somebody's, for good: how much. One that is not there has nothing.

        Roles    `admin`. A user, an agent: memories, slots, sessions, journals. A run: its memories and its session. An
                 app is an attribute: the memories that have it.
        Raises   UsageError for another type; ForbiddenError.
        """
        _check_type(kind)
        bound = {f"{kind}_id": name}
        roots = self._reach.roots([bound], "admin")
        gone = {"slots": 0, "memories": 0, "sessions": 0}
        if kind in ("app", "run"):
            gone["memories"] = self._erased(roots, kind, name)
        if kind != "app":
            for scope in self._whole(kind, name):
                cleared = self._reach.scope(user=scope.user, agent=scope.agent, run=scope.session, role="admin")
                gone = {each: gone[each] + count for each, count in cleared.clear().items()}
        return {"message": f"{kind} {name!r} deleted: {gone['memories']} memories", "deleted": gone}

    def _erased(self, roots: Sequence[Scope], kind: str, name: str) -> int:
        """Memories of an app or a run, erased; what has expired and is not swept yet goes too, uncounted."""

        def of(root: Scope, *, expired: bool) -> list[Memory]:
            rows = self._reach.listed(root, states=MEMORY_STATES, expired=expired)
            return [memory for memory in rows if (kind, name) in _of(memory)]

        ids = [memory.memory_id for root in roots for memory in of(root, expired=False)]
        self._reach.erase_expired([memory for root in roots for memory in of(root, expired=True)])
        return self._reach.memories.erase(*ids, actor=self._reach.identity.actor) if ids else 0

    def _whole(self, kind: str, name: str) -> list[Scope]:
        """The scopes that are somebody's whole, as far as they are reached."""
        if kind == "run":
            owners = self._reach.own_roots("admin")
            return [Scope(one.app, one.user, one.agent, name) for one in owners]
        return self._reach.roots([{f"{kind}_id": name}], "admin")

    def profile(self, user: str) -> dict[str, Any]:
        """What rules know of a user by now: the slots that they fill.

        Raises   NotFoundError if nothing is stored for that user; ForbiddenError.
        """
        scope = self._reach.scope(user=user, role="read")
        slots = self._profile_slots(scope.scope)
        if not slots and not self._reach.listed(scope.scope) and scope.scope not in self._holders():
            raise NotFoundError(f"nothing is stored for the user {user[:40]!r}; users() lists who there is", name=user)
        return {
            "profile": {slot.name: slot.value for slot in slots},
            "status": "succeeded" if slots else "insufficient_data",
            "entity_type": "user",
            "entity_id": user,
            "updated_at": views.iso(max((slot.updated_at for slot in slots), default=None)),
            "generation_count": sum(slot.version for slot in slots),
        }

    def _profile_slots(self, scope: Scope) -> list[Slot]:
        found = self._reach.memory.scope(app=scope.app, user=scope.user, agent=scope.agent).slots.list(within="exact")
        return [slot for slot in found if slot.actor == RULES and slot.policy != "never"]

    def profile_job(self, operation: str, user: str | None = None, limit: int | None = None) -> dict[str, Any]:
        """A job of profiles. Rules fill them with each message, so it is done when it begins.

        operation  `trigger`: one user's. `sample`: those of `limit` users, the first by name.
        Raises     UsageError, NotFoundError, ForbiddenError.
        """
        if operation == "trigger":
            if not user:
                raise UsageError("the operation 'trigger' needs the user's entity_id; name it")
            users = [str(self.profile(user)["entity_id"])]
        elif operation == "sample":
            if not 1 <= (limit or SAMPLE) <= MAX_SAMPLE:
                raise UsageError(f"limit={limit}: sample 1 to {MAX_SAMPLE} users")
            users = [one["name"] for one in self.listed("user")["results"]][: limit or SAMPLE]
        else:
            raise UsageError(f"operation={operation[:40]!r}: it is 'trigger' or 'sample'")
        job = tokens.issue(self._reach, JOB, {"users": users, "operation": operation})
        more = {"sampled": len(users), "entity_ids": users} if operation == "sample" else {}
        return {
            "job_id": job,
            "status": "succeeded",
            "status_url": f"/v2/profiles/jobs/{job}/",
            "operation": operation,
            "entity_type": "user",
            "entity_count_reserved": len(users),
            "event_id": job,
            "replayed": False,
            **more,
        }

    def job(self, job_id: str) -> dict[str, Any]:
        """How a job of profiles stands, counted anew.

        Raises   NotFoundError for an id that was not issued here; ForbiddenError.
        """
        found = tokens.read(self._reach, JOB, job_id)
        if found is None:
            raise NotFoundError(f"no job {job_id[:40]!r} here; generate_profile and sample_profiles begin one")
        users: list[str] = found["users"]
        there = sum(bool(self._profile_slots(self._reach.scope(user=one, role="read").scope)) for one in users)
        count = {"total": len(users), "completed": len(users), "succeeded": there, "failed": 0}
        skipped = len(users) - there
        return {"job": {"status": "succeeded", **count, "skipped": skipped, "enumeration_complete": True}}

    def profile_settings(self) -> dict[str, Any]:
        """How profiles are made: by rules, always."""
        return {
            "enabled": True,
            "entities": {"user": {"schema": None, "custom_instructions": None}},
            "capabilities": {"schema": False, "custom_instructions": False, "languages": ["en", "zh"]},
        }

    def set_profile_settings(self, given: dict[str, Any]) -> dict[str, Any]:
        """What is so already may be said once more.

        Raises   UnsupportedError for all else.
        """
        user = as_dict((as_dict(given.get("entities")) or {}).get("user")) or {}
        if given.get("enabled") is False or any(user.get(name) for name in ("schema", "custom_instructions")):
            raise UnsupportedError(
                "profiles are filled by rules as users speak: they cannot be switched off, and follow no schema or "
                "instructions; call add with infer=False for what should leave them alone"
            )
        return self.profile_settings()

    def _holders(self) -> list[Scope]:
        """Who has slots or sessions, memories or not."""
        found = self._reach.memory.users(app=self._reach.identity.app)
        return [one.scope for one in found if self._reach.allows(one.scope)]


def _check_type(kind: str) -> None:
    if kind not in TYPES:
        raise UsageError(f"an entity of type {kind[:40]!r}; it is {', '.join(TYPES)}")


def _of(memory: Memory) -> list[tuple[str, str]]:
    """Whose a memory is, by type and name."""
    ids = {
        "user": memory.scope.user,
        "agent": memory.scope.agent,
        "app": marks_of(memory).get("app_id"),
        "run": run_of(memory),
    }
    return [(kind, name) for kind, name in ids.items() if name]
