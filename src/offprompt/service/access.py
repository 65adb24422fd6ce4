"""Whose memory a request may touch: what it names only narrows what its identity allows."""

from __future__ import annotations

from typing import NoReturn

from offprompt.errors import ForbiddenError, ScopeError
from offprompt.records import Actor, Identity, Role, Scope
from offprompt.records.scope import clean_id

NO_SCOPE = (
    "no scope: say whose memory it is with the header 'Offprompt-User: alice', or with Offprompt-Agent or "
    "Offprompt-Session; with 'Offprompt-Shared: true' it is what everyone may read; a key of one user needs none"
)


def scope_for(
    identity: Identity,
    *,
    app: str | None = None,
    user: str | None = None,
    agent: str | None = None,
    session: str | None = None,
    shared: bool = False,
    role: Role = "read",
) -> Scope:
    """The scope that a request names, if its identity may use it with that role.

    Default  without any id the identity's default user. A key of users or agents always means one of its own: the only
             one it has need not be named.
    Shared   what the app shares is read with any key, and changed with the role `admin` of a key that is of no user.
    Raises   ScopeError if nothing says whose memory it is, or for what is no id; ForbiddenError for another app, user
             or agent, and for a role that the identity lacks.
    """
    check_app(identity, app, role=role)
    if shared:
        if role != "read":
            check_whole_app(identity, role="admin")
        return Scope(identity.app, user, agent, session, shared=True)
    user = _bound("user", identity.users, None if user is None else clean_id("user", user))
    agent = _bound("agent", identity.agents, None if agent is None else clean_id("agent", agent))
    if user is None and agent is None and session is None:
        user = identity.default_user
        if user is None:
            raise ScopeError(NO_SCOPE)
    return Scope(identity.app, user, agent, session)


def actor_for(identity: Identity, user: str | None) -> Actor:
    """Whose doing it is what the identity does in a user's scope; only an admin of the whole app is not bounded."""
    bounded = not (identity.whole_app and identity.may("admin"))
    return Actor(identity.acting_for(user), bounded=bounded, of_user=identity.users is not None, key=identity.key)


def check_app(identity: Identity, app: str | None = None, *, role: Role) -> str:
    """The identity's app.

    Raises   ForbiddenError if another one is named, or for a role that the identity lacks.
    """
    check_role(identity, role)
    if app is not None and clean_id("app", app) != identity.app:
        _forbid(f"the key is of another app than {app!r}; leave Offprompt-App out, or use a key of that app")
    return identity.app


def check_role(identity: Identity, role: Role) -> None:
    """Raises ForbiddenError for a role that the identity lacks."""
    if not identity.may(role):
        has = ", ".join(sorted(identity.roles)) or "none"
        _forbid(f"this needs the role {role!r}, and the key has {has}; use a key that was made with --role {role}")


def check_whole_app(identity: Identity, app: str | None = None, *, role: Role) -> str:
    """The identity's app, for what is not of one scope: users, keys, a whole export.

    Raises   as `check_app`; ForbiddenError too for a key of some users or agents only.
    """
    own = check_app(identity, app, role=role)
    if not identity.whole_app:
        _forbid("this is about the whole app, and the key is of some users or agents only; use a key made without them")
    return own


def _bound(kind: str, allowed: tuple[str, ...] | None, named: str | None) -> str | None:
    """The id that is named, or the only one of a key that has one."""
    if allowed is None or named in allowed:
        return named
    if named is not None:
        _forbid(f"the key does not allow {kind}={named!r}; use a key of that {kind}, or one that is of none")
    if len(allowed) == 1:
        return allowed[0]
    title = f"Offprompt-{kind.title()}"
    raise ScopeError(
        f"the key is of several {kind}s: say which one with the header {title}, e.g. {title}: {allowed[0]}"
    )


def _forbid(why: str) -> NoReturn:
    raise ForbiddenError(why)
