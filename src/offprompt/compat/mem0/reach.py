"""What somebody who asks in mem0's words reaches: within which scopes, and which memories by their ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from offprompt.compat.mem0.filters import Bound, Wanted, compile_tree
from offprompt.errors import NotFoundError, ScopeError
from offprompt.protocols import apply
from offprompt.records import (
    MEMORY_STATES,
    EraseMemories,
    GetMemories,
    Identity,
    ListMemories,
    Memory,
    MemoryQuery,
    MemoryState,
    Role,
    Scope,
)
from offprompt.records.scope import clean_id
from offprompt.service.access import actor_for, check_app, check_whole_app, scope_for
from offprompt.service.aliasing import resolved
from offprompt.service.bound import BoundScope
from offprompt.service.memories import Memories
from offprompt.service.offprompt import Offprompt

ALL_STATES: tuple[MemoryState, ...] = ("live", "superseded", "archived")


@dataclass(frozen=True, slots=True)
class Reach:
    """One identity's. A user's or agent's id that it does not allow is a ForbiddenError; a memory is not there."""

    memory: Offprompt
    identity: Identity

    @property
    def everything(self) -> Scope:
        """The scope whose subtree is the whole app."""
        return Scope(self.identity.app, shared=True)

    @property
    def memories(self) -> Memories:
        """All memories of the app, by id. Ask `find` first."""
        return self.memory.parts.memories.of(self.everything)

    def scope(
        self, *, user: str | None = None, agent: str | None = None, run: str | None = None, role: Role
    ) -> BoundScope:
        """The scope of these ids, for that role; without any, the default user's.

        Raises   ForbiddenError, and ScopeError where nothing says whose it is.
        """
        check_app(self.identity, role=role)
        several = self.identity.users is not None and len(self.identity.users) != 1
        if user is None and (several or (agent is None and run is None and self.identity.default_user is None)):
            raise ScopeError(
                "whose memory is it? name user_id, agent_id or run_id, such as user_id='alice'; a key of several users "
                "needs user_id, and app_id is an attribute here, which says of nobody whose it is"
            )
        scope = scope_for(self.identity, user=user, agent=agent, session=run, role=role)
        return self.memory.scope(
            app=scope.app,
            user=scope.user,
            agent=scope.agent,
            session=scope.session,
            shared=scope.shared,
            actor=actor_for(self.identity, scope.user),
        )

    def wanted(self, filters: object) -> Wanted:
        """A tree of filters, with ids as they are stored."""
        return compile_tree(filters, as_stored=self._as_stored)

    def roots(self, bounds: Iterable[Bound], role: Role = "read") -> list[Scope]:
        """Scopes in whose subtrees all lies that has the ids of one of these bounds, and that may be asked for.

        Cost     for a bound without user or agent O(memories of the app), unless the store finds a run's by itself.
        """
        check_app(self.identity, role=role)
        found: dict[Scope, None] = {}
        for bound in bounds:
            for root in self._within(bound.get("user_id"), bound.get("agent_id"), role):
                run = bound.get("run_id")
                if root.shared and run is not None:
                    found |= dict.fromkeys(self._scopes_of(root, run))
                else:
                    found[root] = None
        return [root for root in found if not any(other != root and other.holds(root) for other in found)]

    def _scopes_of(self, root: Scope, run: str) -> list[Scope]:
        """The scopes below a root that hold anything of a run, hidden and expired too."""
        overs = (False, True)
        return [
            one.scope for over in overs for one in self.listed(root, states=MEMORY_STATES, session=run, expired=over)
        ]

    def own_roots(self, role: Role = "read") -> list[Scope]:
        """Scopes in whose subtrees all lies that this identity reaches."""
        return self.roots([{}], role)

    def listed(
        self,
        root: Scope,
        *,
        states: tuple[MemoryState, ...] = ALL_STATES,
        session: str | None = None,
        expired: bool = False,
    ) -> list[Memory]:
        """The memories of a root's subtree, in order of creation."""
        query = MemoryQuery(root, "subtree", states=states, session=session, expired=expired)
        return apply(self.memory.parts.memories.store, ListMemories(query))

    def erase_expired(self, memories: Iterable[Memory]) -> int:
        """Erase memories that have expired and are not swept yet, which no id reaches; how many."""
        actor = self.identity.actor
        gone = [EraseMemories(one.scope, (one.memory_id,), actor=actor) for one in memories]
        for scope in {one.scope for one in memories}:
            self.memory.holds.check(scope)
        if gone:
            self.memory.parts.memories.store.apply(gone)  # counts none of them
        return len(gone)

    def find(self, memory_id: str, role: Role = "read", *, hidden: bool = False) -> Memory:
        """The memory of that id. hidden: a forgotten one too.

        Raises   NotFoundError, in the same words whether there is none or it is somebody else's.
        """
        check_app(self.identity, role=role)
        own = apply(self.memory.parts.memories.store, GetMemories(self.identity.app, (clean_text(memory_id),)))
        for found in own:
            if self.allows(found.scope) and (hidden or found.state != "forgotten"):
                self.check_shared([found], role)
                return found
        shown = clean_text(memory_id)[:40]
        raise NotFoundError(f"no memory {shown!r} here; get_all and search list the ids", name=shown)

    def check_shared(self, memories: Iterable[Memory], role: Role) -> None:
        """Raises ForbiddenError if one of them is everyone's, and the role changes it: that is an admin's to do."""
        if role != "read" and any(memory.scope.shared for memory in memories):
            check_whole_app(self.identity, role="admin")

    def allows(self, scope: Scope) -> bool:
        """Whether a record of that scope may be asked for."""
        users, agents = self._own("user_id"), self._own("agent_id")
        return (users is None or scope.user in users) and (agents is None or scope.agent in agents)

    def _own(self, kind: str) -> Sequence[str] | None:
        ids = self.identity.users if kind == "user_id" else self.identity.agents
        return None if ids is None else [self._as_stored(kind, one) for one in ids]

    def _within(self, user: str | None, agent: str | None, role: Role) -> list[Scope]:
        """The scopes of a user and an agent; where one is not named, of each that the identity has."""
        users, agents = self._named("user_id", user), self._named("agent_id", agent)
        if users == agents == [None]:
            return [self.everything]
        return [self.scope(user=one, agent=other, role=role).scope for one in users for other in agents]

    def _named(self, kind: str, given: str | None) -> Sequence[str | None]:
        own = self._own(kind)
        return [given] if given is not None or own is None else own

    def _as_stored(self, kind: str, value: str) -> str:
        name = {"user_id": "user", "agent_id": "agent", "app_id": "app"}.get(kind, "session")
        clean = clean_id(name, value)
        if name != "user":
            return clean
        return resolved(self.memory.parts.memories.store, Scope(self.identity.app, clean)).user or clean


def clean_text(text: str) -> str:
    """A text that a store can be asked for: half a character is a mark."""
    return text.encode("utf-8", "replace").decode("utf-8")
