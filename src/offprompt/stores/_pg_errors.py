"""PostgreSQL's errors: which of them pass, and what they are in our words."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from offprompt.errors import BackendError

Trouble: TypeAlias = Literal["again", "lost", "busy", "slow", "fault"]
"""`again`: the same work may succeed at once; `lost`: on another connection, when the server is back."""

_AGAIN: Final = frozenset({"40001", "40P01", "23505"})
_LOST: Final = frozenset({"57P01", "57P02", "57P03", "57P05", "53300", "25P03", "08000", "08003", "08006", "08001"})
_BUSY: Final = "55P03"
_SLOW: Final = "57014"

_WAYS_OUT: Final = {
    "53100": "the server's disk is full: free space there, then try again",
    "53200": "the server is out of memory: give it more, or lower its max_connections",
    "53300": "the server takes no more connections: raise its max_connections, or lower pool=… in the URL",
    "25006": "this server only reads (a replica?): connect to the primary, or add target_session_attrs=read-write",
    "42501": "the role lacks the right: grant it what docs/engines.md lists, or connect as the schema's owner",
    "3F000": "the schema is not there: open the store once as a role that may make it",
    "42P01": "a table is not there: open the store once as the schema's owner, or restore a backup",
    "42703": "a column is not there: the tables are not this program's; give another schema=… in the URL",
    "58030": "the server's disk failed: check it",
    "XX001": "data is damaged: restore a backup",
    "XX002": "an index is damaged: REINDEX it, or restore a backup",
    "54000": "store less in one call",
    "22023": "check the role and the options in the URL",
}

_SAID: Final = (
    ("password authentication failed", "check user and password"),
    ("no password supplied", "give a password: postgresql://USER:PASSWORD@…, PGPASSWORD, or ~/.pgpass"),
    ("no pg_hba.conf entry", "the server does not let this user in from here: add a line to its pg_hba.conf"),
    ("role", "check the user in the URL"),
    ("database", "make the database (createdb), or correct its name in the URL"),
    ("certificate", "check sslmode, sslrootcert and the host's name"),
    ("SSL", "check sslmode in the URL"),
    ("translate host name", "check the host in the URL"),
    ("refused", "start the server, or correct host and port in the URL"),
    ("timeout expired", "check host, port and firewall"),
)
"""What a server says before there is a connection, which comes without a code."""


def trouble_of(exc: Exception, *, is_closed: bool) -> Trouble:
    """What kind of trouble an error is; is_closed: its connection is gone."""
    code = code_of(exc)
    if code in _AGAIN:
        return "again"
    if is_closed or code in _LOST:
        return "lost"
    return {_BUSY: "busy", _SLOW: "slow"}.get(code, "fault")  # type: ignore[return-value]


def may_come_back(exc: Exception) -> bool:
    """Whether a connection that could not be opened may be opened a moment later."""
    said = str(exc)
    return code_of(exc) in _LOST or any(
        part in said
        for part in ("starting up", "shutting down", "recovery", "too many clients", "remaining connection", "refused",
                     "closed the connection", "reset by peer", "No such file", "timeout expired")
    )  # fmt: skip


def code_of(exc: Exception) -> str:
    """The error's SQLSTATE; "" if the server did not say one."""
    return getattr(exc, "sqlstate", None) or ""


def failure(place: str, exc: Exception) -> BackendError:
    """The error in our words, with the way out; of what the server says only the first line, which holds no values."""
    said = str(exc).strip().splitlines()[0] if str(exc).strip() else type(exc).__name__
    code = code_of(exc)
    way_out = _WAYS_OUT.get(code) or next((out for part, out in _SAID if not code and part in said), "")
    return BackendError(f"{place} failed: {said}; {way_out or 'run `offprompt doctor` on it, and see its log'}")
