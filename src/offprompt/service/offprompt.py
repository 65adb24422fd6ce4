"""Offprompt: an opened memory, and its scopes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from offprompt.config import Settings
from offprompt.errors import NotFoundError, ScopeError, UsageError
from offprompt.protocols import Clock, Coordinator, SessionStore, SlotStore, Store, Tokenizer, apply, run
from offprompt.records import (
    APPLICATION,
    Actor,
    EraseMemories,
    EraseSlots,
    ErasureReceipt,
    Event,
    Finding,
    Known,
    Recalled,
    Remembered,
    Scope,
)
from offprompt.records.alias import Joined
from offprompt.records.holder import Holder
from offprompt.records.slot import RESERVED_PREFIX
from offprompt.records.values import check_unversioned, checked_count, checked_tools
from offprompt.service.aliasing import join_users, resolved, with_aliases
from offprompt.service.async_session import AsyncSession
from offprompt.service.holders import holders
from offprompt.service.holding import Holds
from offprompt.service.leak_watch import LeakWatches
from offprompt.service.memory_access import MemoryAccess
from offprompt.service.model_calls import SESSIONS, ModelCalls
from offprompt.service.quotas import Quotas
from offprompt.service.session import Session
from offprompt.service.session_kit import SessionKit
from offprompt.service.slot_writer import Kit
from offprompt.service.slots import Slots
from offprompt.service.spooling import Spool
from offprompt.wire.options import Capture, Derive, HistoryPolicy, Mode, SessionOptions
from offprompt.wire.prices import PriceSheet
from offprompt.wire.shapes import Wire

if TYPE_CHECKING:  # NumPy is loaded with the first memory, not with the first slot
    from offprompt.service.keys import Keys
    from offprompt.service.memories import Memories


@dataclass(frozen=True, slots=True)
class Parts:
    """What an opened memory is made of.

    main     the engine of memories, sessions and all the rest. slots: that of the slots, the same one or another.
    url      as it was given, without passwords. place: the same from whatever folder, and without the vectors' engine.
    coordinator  what processes that use these engines agree on. spool: writes that wait; None: none is kept.
    quotas   what an app may store and ask for; None: anything.
    """

    slots: SlotStore
    main: Store
    clock: Clock
    tokenizer: Tokenizer
    settings: Settings
    sheets: Sequence[PriceSheet]
    tokenizer_for: Callable[[str], Tokenizer]
    memories: MemoryAccess
    url: str
    place: str
    coordinator: Coordinator
    spool: Spool | None = None
    watches: LeakWatches = field(default_factory=LeakWatches)
    quotas: Quotas | None = None

    @property
    def models(self) -> ModelCalls | None:
        """The language models for memory, by purpose."""
        return self.memories.models

    @property
    def holds(self) -> Holds:
        """The legal holds: whose records are not erased."""
        return Holds(self.main, self.clock)

    @property
    def sessions(self) -> SessionStore:
        """The store of sessions."""
        return self.main


class BoundScope:
    """A scope of an opened memory: `write`, `read` are short for `slots.…`, `remember`, `recall` for `memories.…`.

    actor    whose doing, as events say it, what is done here is. op_key: see `Guards`.
    """

    def __init__(self, parts: Parts, scope: Scope, actor: Actor = APPLICATION, *, op_key: str | None = None) -> None:
        self._parts = parts
        self.scope, self.actor = scope, actor
        kit = Kit(parts.slots, parts.clock, parts.tokenizer, parts.settings, parts.spool, parts.quotas, parts.holds)
        self.slots = Slots(kit, scope, actor, op_key=op_key)
        self.write = self.slots.write
        self.read = self.slots.read

    def __repr__(self) -> str:
        return f"<scope {self.scope}>"

    @property
    def memories(self) -> Memories:
        """The memories of this scope."""
        return self._parts.memories.of(self.scope, self.actor)

    def remember(self, what: Any, **options: Any) -> list[Remembered]:
        """Store texts or turns, found by meaning from now on; see `Memories.remember`."""
        return self.memories.remember(what, **options)

    def recall(self, query: Any, **options: Any) -> Recalled:
        """The memories that answer a question, best first; see `Memories.recall`."""
        return self.memories.recall(query, **options)

    def forget(self, name: str, *, if_version: int | None = None) -> str:
        """Hide a slot by its name, or a memory by its id (`m_…`); returns the name. `undo_s` seconds undoable.

        Raises   NotFoundError if there is none; ConflictError if a slot's version differs; UsageError for if_version
                 with a memory.
        """
        if not isinstance(name, str) or not name.startswith(RESERVED_PREFIX):  # pyright: ignore[reportUnnecessaryIsInstance]
            return self.slots.forget(name, if_version=if_version)
        check_unversioned(name, if_version)
        if not self.memories.forget(name):
            known = f"no memory {name[:40]!r} in scope {self.scope}; find its id with recall or memories.list"
            raise NotFoundError(known, name=name[:40])
        return name

    def known(self, *, limit: int = 100) -> list[Known]:
        """What is known of whom the scope is of, in words that they can read; by its names `correct`, `pin`."""
        from offprompt.service.known import known  # noqa: PLC0415 - loaded with its first use

        return known(self.slots, self.memories, limit)

    def correct(self, name: str, text: str) -> Known:
        """Put another text in place of what `known` lists under a name.

        Raises   NotFoundError if nothing is known under the name; as `write` and `memories.update`.
        """
        from offprompt.service.known import correct  # noqa: PLC0415 - loaded with its first use

        return correct(self.slots, self.memories, name, text)

    def pin(self, name: str, *, pinned: bool = True) -> Known:
        """Keep a fact that `known` lists for ever, and first in the list; `pinned=False`: no longer."""
        from offprompt.service.known import pin  # noqa: PLC0415 - loaded with its first use

        return pin(self.memories, name, pinned=pinned)

    def upsert_fact(self, subject: str, attribute: str, value: str, **options: Any) -> Remembered:
        """Store what a business system knows: `attribute` of `subject` is `value`; see `Memories.upsert_fact`."""
        return self.memories.upsert_fact(subject, attribute, value, **options)

    def narrow(self, *, user: str | None = None, agent: str | None = None, session: str | None = None) -> BoundScope:
        """This scope with further ids.

        Raises   ScopeError if an id is set to something else already.
        """
        scope = self.scope.narrow(user=user, agent=agent, session=session)
        return BoundScope(self._parts, resolved(self._parts.memories.store, scope), self.actor)

    def session(  # noqa: PLR0913 - options that users type by name
        self,
        session_id: str,
        *,
        model: str = "",
        wire: Wire | None = None,
        system: str = "",
        tools: list[dict[str, Any]] | None = None,
        context_tokens: int | None = None,
        policy: HistoryPolicy = "auto",
        mode: Mode = "off_prompt",
        actions: Literal["tools", "text"] = "tools",
        capture: Capture | None = None,
        derive: Derive | None = None,
    ) -> Session:
        """The conversation of that id in this scope, new or gone on with; any process may go on with it.

        model           sets tokenizer, price sheet, context size and wire; it is passed on in `prepare`.
        wire            `openai` chat completions, `anthropic` messages, or `responses`, OpenAI's other API; None: by
                        the model's name, and for OpenAI's models chat completions.
        system, tools   the application's own, sent before ours and never changed.
        context_tokens  of the model; None: what its profile says.
        policy          what leaves the prompt of the history; see docs/policies.md.
        mode            `off_prompt`: names and handles. `inline`: all values once, in the stable head.
                        `auto`: inline while the values cost less than the four tools would. `as_needed`: nothing for
                        a user of whom nothing is known, until something leaves the prompt.
        actions         `tools`: native calls. `text`: JSON in the reply's text, for models without tools.
        capture         which turns become memories by themselves: `all`, the `user`'s words, or none (`off`); None:
                        the setting of that name. derive: `rules` read them for facts and profile, or `none` do.
        """
        checked_tools(tools)
        if isinstance(session_id, str) and session_id.startswith(SESSIONS):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"the session id {session_id!r} is one of Offprompt's own ledgers; choose another one")
        scope = self.scope.narrow(session=session_id)
        options = SessionOptions(
            model=model,
            wire=wire,
            system=system,
            tools=tuple(tools or ()),
            context_tokens=context_tokens,
            policy=policy,
            mode=mode,
            actions=actions,
            capture=capture,
            derive=derive,
        )
        parts = self._parts
        kit = SessionKit(
            parts.slots,
            parts.sessions,
            parts.clock,
            parts.tokenizer_for(model),
            parts.settings,
            parts.sheets,
            parts.memories,
            parts.watches,
            # Where the memories' engine coordinates, a lease costs two durable writes: its revisions have to do.
            parts.coordinator if parts.slots is not parts.main else None,
            self.actor,
            parts.quotas,
        )
        return Session(kit, scope, options)

    def async_session(self, session_id: str, **options: Any) -> AsyncSession:
        """`session`, with the same options, for `async` code."""
        return AsyncSession(self.session(session_id, **options))

    def events(self, *, op: str | None = None, after: int = 0, limit: int = 1000) -> list[Event]:
        """The events of this scope and those below it, oldest first; never a value.

        op       a prefix such as `slot.`; after: only events with a greater `seq`; limit: at most so many.
        Raises   UsageError for another type.
        """
        if op is not None and not isinstance(op, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"op={op!r}: give the beginning of an operation's name, such as op='slot.write'")
        checked_count("after", after)
        checked_count("limit", limit)
        self.actor.check_within(self.scope, "subtree")
        return self._parts.slots.events(scope=self.scope, op=op, after=after, limit=limit)

    def clear(self) -> dict[str, int]:
        """Remove this scope whole, with every scope below it: slots, memories, sessions, journals, bodies, ledgers.

        Of a session's scope the memories stay: they are its owner's. What is left of a user's aliases goes too.
        Returns how many of each went; there is no undo.
        """
        self.actor.check_within(self.scope, "subtree")
        parts, counts, who = self._parts, {"slots": 0, "memories": 0, "sessions": 0}, self.actor.name
        parts.holds.check(self.scope)
        for scope in with_aliases(parts.memories.store, self.scope):
            if parts.spool is not None:
                parts.spool.drop(scope)
            counts["slots"] += run(parts.slots, EraseSlots(scope, None, "subtree", who))
            if not scope.session:
                counts["memories"] += apply(parts.memories.store, EraseMemories(scope, within="subtree", actor=who))
            counts["sessions"] += parts.sessions.drop_sessions(scope=scope)
            parts.watches.drop(scope)
            parts.memories.drop(scope)
        return counts


class Offprompt:
    """An opened memory. Close it, or use it in a `with` block; a closed one refuses work."""

    def __init__(self, parts: Parts, *, user: str | None = None) -> None:
        self.parts = parts
        self._user = user

    def __enter__(self) -> Offprompt:
        return self

    @cached_property
    def keys(self) -> Keys:
        """The keys with which others may ask for this memory over a network."""
        from offprompt.service.keys import Keys  # noqa: PLC0415 - only servers, and who makes keys for them, need it

        return Keys(self.parts.main, self.parts.clock)

    @property
    def default_user(self) -> str | None:
        """Whose memory is meant where no id is given."""
        return self._user

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Where it is, as it was given, without passwords."""
        return self.parts.url

    def scope(
        self,
        *,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        app: str | None = None,
        shared: bool = False,
        actor: Actor | str = "app",
    ) -> BoundScope:
        """A scope by its ids; without any, the user of OFFPROMPT_USER or of the config file.

        actor    whose doing it is, as events say it: a name, or an Actor, who may do less than the application.
        Raises   ScopeError if no id is given anywhere; never a wildcard.
        """
        for kind, value in (("user", user), ("agent", agent), ("session", session), ("app", app)):
            if value == "":
                raise ScopeError(f"{kind}='' is no id; leave it out, or pass 1 to 256 bytes of text")
        if user is None and agent is None and session is None and not shared:
            user = self._user
        scope = Scope(app or self.parts.settings.app, user, agent, session, shared)
        return self.bound(scope, Actor(actor) if isinstance(actor, str) else actor)

    def bound(self, scope: Scope, actor: Actor = APPLICATION, *, op_key: str | None = None) -> BoundScope:
        """A scope of this memory; see `scope` and `BoundScope`."""
        return BoundScope(self.parts, actor.view(resolved(self.parts.memories.store, scope)), actor, op_key=op_key)

    def alias(self, old: str, new: str, *, app: str | None = None, preview: bool = False, actor: str = "app") -> Joined:
        """Join two ids of one person: from now on `scope(user=old)` is `scope(user=new)`.

        Moves    memories, and slots whose name is free in the other's scopes; slots in conflict are named and stay, and
                 once more moves what has become free. Sessions begin anew under the one id.
        preview  says what would move and what conflicts, and changes nothing.
        Scopes   that were made before keep the id that they have.
        Raises   UsageError if the two are one already; ConflictError if `old` is another one's alias.
        """
        if self.parts.spool is not None and not preview:
            self.parts.spool.make_way()
        stores = self.parts.slots, self.parts.memories.store
        return join_users(*stores, app or self.parts.settings.app, old, new, preview=preview, actor=actor)

    @property
    def holds(self) -> Holds:
        """Legal holds: whose records are not erased until they are lifted."""
        return self.parts.holds

    def erase(
        self,
        *,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        app: str | None = None,
        actor: Actor | str = "app",
    ) -> ErasureReceipt:
        """Remove all that is stored of one user, one agent or one session, for good, from every store.

        A user's    other ids (see `alias`) go with it. Events stay, under a pseudonym; its digest key is destroyed.
        Returns     a receipt: what went, what the stores did, which copies they do not reach; see `verify_erased`.
        Later       imports of files made before, waiting writes of other machines, jobs in flight bring nothing back.
        Raises      ScopeError without an id; UsageError for more than one; HeldError: then nothing was changed.
        """
        from offprompt.service.erasing import erase_whole  # noqa: PLC0415 - rare

        bound = self.scope(user=user, agent=agent, session=session, app=app, actor=actor)
        return erase_whole(self.parts, self.keys, bound.scope, bound.actor)

    def restore(self, source: str | os.PathLike[str], *, force: bool = False) -> list[ErasureReceipt]:
        """Put a backup in place of all that the store holds, and erase anew who was erased since it was made.

        Raises   as `maintenance.restore`.
        """
        from offprompt.service.erasing import restore_without  # noqa: PLC0415 - rare

        return restore_without(self.parts, self.keys, source, force=force)

    def verify_erased(self, receipt: ErasureReceipt, *, texts: Sequence[str] = ()) -> list[Finding]:
        """Look whether what a receipt says is so: rows of every table, the vectors, the spool, bytes of files.

        texts    what was stored, to be looked for in rows, and byte for byte in the files of a SQLite store.
        Cost     reads all that is stored.
        """
        from offprompt.service.erasure_check import verify  # noqa: PLC0415 - rare

        return verify(self.parts, receipt, texts)

    def users(self, *, app: str | None = None) -> list[Holder]:
        """The users and agents of an app for whom something is stored, and how much; the shared scope first.

        Cost     O(all slots and sessions of the app, and its scopes with memories).
        """
        return holders(self.parts.slots, self.parts.memories.store, self.parts.sessions, app or self.parts.settings.app)

    def close(self) -> None:
        """Write what was kept back, and let go of files and connections."""
        parts = self.parts
        with contextlib.ExitStack() as closing:
            closing.callback(parts.main.close)
            closing.callback(parts.slots.close)
            parts.memories.close()
