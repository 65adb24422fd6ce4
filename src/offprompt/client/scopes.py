"""A scope of a memory that a server keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NoReturn

from offprompt.client._answers import record_of, records_of
from offprompt.client._documents import DocumentCalls
from offprompt.client._requests import Asking, Async, AsyncSending, Request, Sending, Sync, asked, id_headers, path_of
from offprompt.client.memories import AsyncMemories, Memories, fact_of
from offprompt.client.sessions import AsyncSession, Session
from offprompt.client.slots import AsyncSlots, Slots
from offprompt.errors import NotFoundError, ScopeError, UnsupportedError, UsageError
from offprompt.records import Event, Known, Recalled, Remembered, Scope
from offprompt.records.basis import basis_name
from offprompt.records.scope import clean_spaces
from offprompt.records.slot import RESERVED_PREFIX
from offprompt.records.values import check_unversioned, checked_count, checked_tools
from offprompt.records.withdrawn import Withdrawn
from offprompt.wire.options import Capture, Derive, HistoryPolicy, Mode, SessionOptions
from offprompt.wire.shapes import Wire

EVENTS_PAGE = 1000


class ScopeCalls(DocumentCalls):
    """The calls of both faces; see `offprompt.service.bound.BoundScope`."""

    _headers: Mapping[str, str]

    @asked
    def events(self, *, op: str | None = None, after: int = 0, limit: int = 1000) -> Asking[list[Event]]:
        """The events of this scope and those below it, oldest first; never a value."""
        if op is not None and not isinstance(op, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"op={op!r}: give the beginning of an operation's name, such as op='slot.write'")
        checked_count("after", after)
        checked_count("limit", limit)
        found: list[Event] = []
        while len(found) < limit:
            most = min(EVENTS_PAGE, limit - len(found))
            query = {"op": op, "after": after, "limit": most}
            answer = yield Request("GET", path_of("v1", "events"), query=query, headers=self._headers)
            page = records_of(answer["events"], Event)
            found += page
            if len(page) < most:
                break
            after = page[-1].seq
        return found

    @asked
    def known(self, *, limit: int = 100) -> Asking[list[Known]]:
        """What is known of whom the scope is of, in words that they can read; by its names `correct`, `pin`."""
        answer = yield Request("GET", path_of("v1", "known"), query={"limit": limit}, headers=self._headers)
        return records_of(answer["known"], Known)

    @asked
    def correct(self, name: str, text: str) -> Asking[Known]:
        """Put another text in place of what `known` lists under a name."""
        path = path_of("v1", "known", name)
        return record_of((yield Request("PUT", path, body={"text": text}, headers=self._headers)), Known)

    @asked
    def pin(self, name: str, *, pinned: bool = True) -> Asking[Known]:
        """Keep a fact that `known` lists for ever, and first in the list; `pinned=False`: no longer."""
        path = path_of("v1", "known", name, "pin")
        return record_of((yield Request("POST", path, body={"pinned": pinned}, headers=self._headers)), Known)

    @asked
    def upsert_fact(self, subject: str, attribute: str, value: str, **options: Any) -> Asking[Remembered]:
        """Store what a business system knows: `attribute` of `subject` is `value`; see `Memories.upsert_fact`."""
        return (yield from fact_of(self._headers, subject, attribute, value, **options))

    @asked
    def withdraw(self, consent: str) -> Asking[Withdrawn]:
        """Remove for good what rests on a consent, in this scope and all below it, and tell what went."""
        body = {"consent": basis_name("consent", consent)}
        answer = yield Request("POST", path_of("v1", "withdrawals"), body=body, headers=self._headers)
        return record_of(answer, Withdrawn)

    @asked
    def clear(self) -> Asking[dict[str, int]]:
        """Remove this scope whole, with every scope below it: slots, memories, sessions, journals, bodies, ledgers."""
        return dict((yield Request("POST", path_of("v1", "clear"), headers=self._headers)))


class BoundScope(ScopeCalls, Sync):
    """A scope of a server's memory: `write`, `read` are short for `slots.…`, `remember`, `recall` for `memories.…`."""

    def __init__(self, transport: Sending, headers: Mapping[str, str], scope: Scope) -> None:
        self._transport, self._headers, self.scope = transport, headers, scope
        self.slots = Slots(transport, headers)
        self.memories = Memories(transport, headers)
        self.write = self.slots.write
        self.read = self.slots.read

    def __repr__(self) -> str:
        return f"<scope {self.scope}>"

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
        if not is_memory(name):
            return self.slots.forget(name, if_version=if_version)
        check_unversioned(name, if_version)
        if not self.memories.forget(name):
            raise no_memory(name, self.scope)
        return name

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
        """The conversation of that id in this scope, new or gone on with; asks nothing. See the library's `session`."""
        checked_tools(tools)
        options = SessionOptions(
            *(model, wire, system, tuple(tools or ()), context_tokens, policy, mode, actions, capture, derive),
            purpose=purpose,
            consent=consent,
            spaces=clean_spaces(spaces),
        )
        return Session(self._transport, self._headers, lambda: self.scope, session_id, options)

    def async_session(self, session_id: str, **options: Any) -> NoReturn:
        """Not of this client.

        Raises   UnsupportedError: `AsyncClient` has sessions for `async` code.
        """
        del session_id, options
        raise UnsupportedError("for async code open offprompt.AsyncClient(url); its scopes' session(…) is awaited")

    def narrow(self, *, user: str | None = None, agent: str | None = None, session: str | None = None) -> BoundScope:
        """This scope with further ids.

        Raises   ScopeError if an id is set to something else already.
        """
        scope = self.scope.narrow(user=user, agent=agent, session=session)
        return BoundScope(self._transport, narrowed(self._headers, scope), scope)


class AsyncBoundScope(ScopeCalls, Async):
    """`BoundScope` for `async` code: the same names, awaited."""

    def __init__(self, transport: AsyncSending, headers: Mapping[str, str], scope: Scope | None) -> None:
        self._transport, self._headers, self._scope = transport, headers, scope
        self.slots = AsyncSlots(transport, headers)
        self.memories = AsyncMemories(transport, headers)
        self.write = self.slots.write
        self.read = self.slots.read

    def __repr__(self) -> str:
        return f"<scope {self._scope or 'of the key'}>"

    @property
    def scope(self) -> Scope:
        """Whose memory.

        Raises   ScopeError where no id was given: then the server knows, by the key.
        """
        if self._scope is None:
            raise ScopeError(
                "no id was given, and the server says by the key whose memory it is; pass user=… to name it"
            )
        return self._scope

    async def remember(self, what: Any, **options: Any) -> list[Remembered]:
        """See `BoundScope.remember`."""
        return await self.memories.remember(what, **options)

    async def recall(self, query: Any, **options: Any) -> Recalled:
        """See `BoundScope.recall`."""
        return await self.memories.recall(query, **options)

    async def forget(self, name: str, *, if_version: int | None = None) -> str:
        """See `BoundScope.forget`."""
        if not is_memory(name):
            return await self.slots.forget(name, if_version=if_version)
        check_unversioned(name, if_version)
        if not await self.memories.forget(name):
            raise no_memory(name, self._scope)
        return name

    def session(self, session_id: str, **options: Any) -> AsyncSession:
        """See `BoundScope.session`, with the same options; its calls are awaited."""
        tools = options.pop("tools", None)
        checked_tools(tools)
        given = SessionOptions(tools=tuple(tools or ()), **options)
        return AsyncSession(self._transport, self._headers, lambda: self.scope, session_id, given)

    def narrow(
        self, *, user: str | None = None, agent: str | None = None, session: str | None = None
    ) -> AsyncBoundScope:
        """See `BoundScope.narrow`."""
        scope = self.scope.narrow(user=user, agent=agent, session=session)
        return AsyncBoundScope(self._transport, narrowed(self._headers, scope), scope)


def is_memory(name: object) -> bool:
    """Whether a name is a memory's id."""
    return isinstance(name, str) and name.startswith(RESERVED_PREFIX)


def no_memory(name: str, scope: Scope | None) -> NotFoundError:
    """That there is no such memory."""
    where = f"scope {scope}" if scope is not None else "the key's scope"
    return NotFoundError(
        f"no memory {name[:40]!r} in {where}; find its id with recall or memories.list", name=name[:40]
    )


def narrowed(headers: Mapping[str, str], scope: Scope) -> dict[str, str]:
    """The headers of a narrower scope of the same app."""
    app = {name: value for name, value in headers.items() if name == "Offprompt-App"}
    return app | id_headers(None, scope)
