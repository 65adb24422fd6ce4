"""BoundScope: a scope of an opened memory, and all that is done in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal

from offprompt.errors import NotFoundError, UsageError
from offprompt.protocols import apply, run
from offprompt.records import (
    APPLICATION,
    Actor,
    EraseMemories,
    EraseSlots,
    Event,
    Known,
    Recalled,
    Remembered,
    Scope,
    Slot,
)
from offprompt.records.document import Document, Ingest, Ingested, IngestStep
from offprompt.records.scope import clean_spaces
from offprompt.records.slot import RESERVED_PREFIX
from offprompt.records.values import check_unversioned, checked_count, checked_tools
from offprompt.records.withdrawn import Withdrawn
from offprompt.service.aliasing import resolved, with_aliases
from offprompt.service.async_session import AsyncSession
from offprompt.service.model_calls import SESSIONS
from offprompt.service.parts import Parts
from offprompt.service.session import Session
from offprompt.service.session_kit import SessionKit
from offprompt.service.slot_writer import Kit, Writer
from offprompt.service.slots import Slots
from offprompt.wire.options import Capture, Derive, HistoryPolicy, Mode, SessionOptions
from offprompt.wire.shapes import Wire

if TYPE_CHECKING:  # NumPy is loaded with the first memory, not with the first slot
    from offprompt.service.ingesting import Ingester
    from offprompt.service.memories import Memories


class BoundScope:
    """A scope of an opened memory: `write`, `read` are short for `slots.…`, `remember`, `recall` for `memories.…`.

    actor    whose doing, as events say it, what is done here is. op_key: see `Guards`.
    """

    def __init__(self, parts: Parts, scope: Scope, actor: Actor = APPLICATION, *, op_key: str | None = None) -> None:
        self._parts = parts
        self._scope, self.actor = scope, actor
        own = (parts.slots, parts.clock, parts.tokenizer, parts.settings, parts.spool, parts.quotas, parts.holds)
        kit = Kit(*own, stones=parts.memories.stones)
        self.slots = Slots(kit, scope, actor, op_key=op_key, grants=parts.grants, behind=self._let_go)
        self.write = self.slots.write
        self.read = self.slots.read

    def _let_go(self, slot: Slot, writer: Writer) -> None:
        from offprompt.service.known import forget_behind  # noqa: PLC0415 - loaded with its first use

        forget_behind(self.memories, slot, writer)

    def __repr__(self) -> str:
        return f"<scope {self._scope}>"

    @property
    def scope(self) -> Scope:
        """Whose memory it is; what is granted to it now is found with it."""
        return self._parts.grants.view(self._scope, self.actor)

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
            if (there := self.memories.get(name)) is not None:
                self.actor.check_change(self.scope, there.scope, f"memory {name}")
            known = f"no memory {name[:40]!r} in scope {self.scope}; find its id with recall or memories.list"
            raise NotFoundError(known, name=name[:40])
        return name

    def known(self, *, limit: int = 100) -> list[Known]:
        """What is known of whom the scope is of, in words that they can read; by its names `correct`, `pin`.

        Of a user, without an agent: what each agent keeps for them too, and which one.
        """
        from offprompt.service.known import known  # noqa: PLC0415 - loaded with its first use

        return known(self.slots, self.memories, limit, agents=True)

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

    def withdraw(self, consent: str) -> Withdrawn:
        """Remove for good what rests on a consent, in this scope and all below it, and tell what went.

        Goes     slots with all their versions, memories with theirs and what was derived of them, conversations that
                 were opened with it. What rests on another consent too stays.
        Later    nothing is stored under it in this scope any more, imports of older files included.
        Raises   UsageError for what is no name; HeldError: then nothing was changed.
        """
        from offprompt.service.withdrawing import withdraw  # noqa: PLC0415 - rare

        return withdraw(self._parts, self.scope, consent, self.actor)

    def ingest(
        self,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        remove: bool = False,
        progress: Callable[[IngestStep], object] | None = None,
    ) -> Ingest:
        """Make the documents at a path passages of this space, and tell what became of each.

        path      a file, or a folder with all below it: Markdown, text, HTML, PDF, DOCX (the latter three with the
                  extra `documents`). A document's name is the file's; in a folder the path from that folder's name on.
        name      what the file or the folder is called instead. remove: documents of that folder's name that are not in
                  it any more go.
        Changes   only what changed: the same file makes no new vector. A document is seen whole, before or after.
        Refused   is what cannot be read, each with the reason; nothing is changed then.
        Raises    NotFoundError if there is nothing at the path; UsageError unless this is a space; BackendError.
        """
        from offprompt.service.ingest_files import ingest_path  # noqa: PLC0415 - loaded with its first use

        limit = self._parts.settings.document_bytes
        return ingest_path(self._ingester, path, limit=limit, name=name, remove=remove, progress=progress)

    def put_document(self, name: str, data: bytes) -> Ingested:
        """Make bytes a document of this space, as `ingest` does with a file; what it is, its name's ending says."""
        return self._ingester.put(name, data)

    def documents(self) -> list[Document]:
        """The documents of this space, by name."""
        return self._ingester.documents()

    def forget_document(self, *names: str) -> list[Ingested]:
        """Remove documents of this space for good, with their passages.

        Raises   NotFoundError for one that is not there, HeldError; then nothing was changed.
        """
        return self._ingester.forget(*names)

    @property
    def _ingester(self) -> Ingester:
        from offprompt.service.ingesting import Ingester  # noqa: PLC0415 - loads NumPy

        return Ingester(self._parts.memories.kit, self.scope, self.actor)

    def narrow(self, *, user: str | None = None, agent: str | None = None, session: str | None = None) -> BoundScope:
        """This scope with further ids.

        Raises   ScopeError if an id is set to something else already.
        """
        scope = self._scope.narrow(user=user, agent=agent, session=session)
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
        spaces: Iterable[str] = (),
        purpose: str | None = None,
        consent: str | None = None,
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
        spaces          names of spaces in which `mem_search` and the recall of a turn look besides, as far as they are
                        granted to this scope. Passages are data of documents: nothing is learned from them.
        purpose         what the conversation is for: what is stored of it may be used for that, and memories that may
                        not be are not found in it. consent: what it rests on, see `withdraw`.
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
            purpose=purpose,
            consent=consent,
            spaces=clean_spaces(spaces),
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
            options.spaces,
            options.basis,
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
