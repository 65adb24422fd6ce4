"""Offprompt: an opened memory, and its scopes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from offprompt.errors import ScopeError
from offprompt.records import (
    APPLICATION,
    Actor,
    ErasureReceipt,
    Finding,
    Scope,
)
from offprompt.records.alias import Joined
from offprompt.records.document import Ingest
from offprompt.records.holder import Holder
from offprompt.records.subject import SubjectExport
from offprompt.service.aliasing import join_users, resolved
from offprompt.service.bound import BoundScope
from offprompt.service.granting import Grants
from offprompt.service.holders import holders
from offprompt.service.holding import Holds
from offprompt.service.parts import Parts

if TYPE_CHECKING:  # NumPy is loaded with the first memory, not with the first slot
    from offprompt.service.keys import Keys


class Offprompt:
    """An opened memory. Close it, or use it in a `with` block; a closed one refuses work."""

    def __init__(self, parts: Parts, *, user: str | None = None) -> None:
        self.parts = parts
        self.is_closed = False
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

    def space(self, name: str, *, app: str | None = None, actor: Actor | str = "app") -> BoundScope:
        """What is kept for whom it is granted to, by its name: documents above all; `space.ingest(path)`.

        Raises   ScopeError for a name that could not be a slot's either.
        """
        scope = Scope(app or self.parts.settings.app, space=name)
        return self.bound(scope, Actor(actor) if isinstance(actor, str) else actor)

    def ingest(self, path: str | os.PathLike[str], *, space: str, app: str | None = None, **options: Any) -> Ingest:
        """Make the documents at a path passages of a space: short for `space(…).ingest(…)`."""
        return self.space(space, app=app).ingest(path, **options)

    def bound(self, scope: Scope, actor: Actor = APPLICATION, *, op_key: str | None = None) -> BoundScope:
        """A scope of this memory; see `scope` and `BoundScope`."""
        return BoundScope(self.parts, actor.view(resolved(self.parts.memories.store, scope)), actor, op_key=op_key)

    def alias(self, old: str, new: str, *, app: str | None = None, preview: bool = False, actor: str = "app") -> Joined:
        """Join two ids of one person: from now on `scope(user=old)` is `scope(user=new)`.

        Moves    memories, slots whose name is free in the other's scopes, and what is granted to it; slots in conflict
                 are named and stay, and once more moves what has become free. Sessions begin anew under the one id.
        preview  says what would move and what conflicts, and changes nothing.
        Scopes   that were made before keep the id that they have.
        Raises   UsageError if the two are one already; ConflictError if `old` is another one's alias.
        """
        if self.parts.spool is not None and not preview:
            self.parts.spool.make_way()
        stores, app = (self.parts.slots, self.parts.memories.store), app or self.parts.settings.app
        joined = join_users(*stores, app, old, new, preview=preview, actor=actor)
        if not preview:
            self.parts.grants.move(app, old, joined.user, actor=actor)
        return joined

    @property
    def grants(self) -> Grants:
        """Who finds what spaces hold, and what agents keep; without a grant nobody does."""
        return self.parts.grants

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
        space: str | None = None,
        app: str | None = None,
        actor: Actor | str = "app",
    ) -> ErasureReceipt:
        """Remove all that is stored of one user, agent, session or space, for good, from every store.

        A user's    other ids (see `alias`) go with it. Events stay, under a pseudonym; its digest key is destroyed.
        Returns     a receipt: what went, what the stores did, which copies they do not reach; see `verify_erased`.
        Later       imports of files made before, waiting writes of other machines, jobs in flight bring nothing back.
        Raises      ScopeError without an id; UsageError for more than one; HeldError: then nothing was changed.
        """
        from offprompt.service.erasing import erase_whole  # noqa: PLC0415 - rare

        if space is None:
            bound = self.scope(user=user, agent=agent, session=session, app=app, actor=actor)
        else:
            scope = Scope(app or self.parts.settings.app, user, agent, session, space=space)
            bound = self.bound(scope, Actor(actor) if isinstance(actor, str) else actor)
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

    def export_subject(
        self,
        path: str | os.PathLike[str],
        *,
        user: str | None = None,
        app: str | None = None,
        secrets: bool = False,
        actor: Actor | str = "app",
    ) -> SubjectExport:
        """Write all that is stored of one person, out of every engine, to a new private zip file, with a README.

        Holds    what `erase` would remove, and what names the user: see SubjectExport. Never another person's data.
        secrets  values of `never` slots too; else they are left out, and handles stand in other texts.
        Cost     reads all that is stored.
        Raises   ScopeError without a user; UsageError for a file that is there; NotFoundError if nothing is stored.
        """
        from offprompt.service.subject_export import export_zip, subject_records  # noqa: PLC0415 - rare

        bound = self.scope(user=user, app=app, actor=actor)
        records = subject_records(self.parts, self.keys, bound.scope, bound.actor, secrets=secrets)
        return export_zip(records, Path(path), bound.actor)

    def users(self, *, app: str | None = None) -> list[Holder]:
        """The users and agents of an app for whom something is stored, and how much; the shared scope first.

        Cost     O(all slots and sessions of the app, and its scopes with memories).
        """
        return holders(self.parts.slots, self.parts.memories.store, self.parts.sessions, app or self.parts.settings.app)

    def close(self) -> None:
        """Write what was kept back, and let go of files and connections."""
        parts, self.is_closed = self.parts, True
        with contextlib.ExitStack() as closing:
            closing.callback(parts.main.close)
            closing.callback(parts.slots.close)
            parts.memories.close()
