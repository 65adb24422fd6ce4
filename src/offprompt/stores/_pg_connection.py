"""PostgreSQL's client: connections with a deadline for each answer, statements sent together, transactions.

The one file that imports psycopg.
"""

from __future__ import annotations

import contextlib
import math
import re
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, LiteralString, TypeVar, cast

import psycopg
from psycopg import conninfo, pq
from psycopg.adapt import Buffer, Dumper, Loader

from offprompt.errors import UsageError
from offprompt.stores._pg_address import OWN_OPTIONS, Address

R = TypeVar("R")
Error = psycopg.Error

ANSWER_SLACK_S: Final = 1.0
"""How much later than the server's own timeout a client gives up."""

CONNECT_S: Final = 10
_SETTINGS: Final = (
    "SELECT set_config('search_path', %s, false), set_config('statement_timeout', %s, false), "
    "set_config('lock_timeout', %s, false), "
    "set_config('idle_in_transaction_session_timeout', %s, false), set_config('jit', 'off', false), "
    "set_config('default_transaction_isolation', 'read committed', false), "
    "set_config('synchronous_commit', CASE WHEN %s THEN 'off' WHEN current_setting('synchronous_commit') = 'off' "
    "THEN 'on' ELSE current_setting('synchronous_commit') END, false)"
)


# PostgreSQL keeps neither NUL nor halves of characters: they go behind a U+0001, which goes so itself. Order stays.
_SPECIAL: Final = re.compile("[\x00\x01\ud800-\udfff]")
_PORTS: Final = re.compile(r"[0-9,]*")
_ESCAPED: Final = re.compile("\x01([0-9a-f]{4})")


def _escaped(text: str) -> bytes:
    return _SPECIAL.sub(lambda found: f"\x01{ord(found[0]):04x}", text).encode()


class _Text(Dumper):
    """Texts of any type."""

    def dump(self, obj: str) -> Buffer:
        try:
            data = obj.encode()
        except UnicodeEncodeError:
            return _escaped(obj)
        return _escaped(obj) if b"\x00" in data or b"\x01" in data else data


class _TypedText(_Text):
    oid = psycopg.adapters.types["text"].oid


class _LoadText(Loader):
    """Texts as they went in."""

    def load(self, data: Buffer) -> str:
        text = str(data, "utf-8")
        return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text) if "\x01" in text else text


class _LoadBinaryText(_LoadText):
    format = pq.Format.BINARY


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that gives up when an answer takes longer than `answer_s`; it is closed then.

    writer   its own name, under which it leaves a mark with each write.
    """

    answer_s: float | None = None
    writer: str = ""
    used_at: float = 0.0

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """See psycopg."""
        limit = timeout if timeout is not None else self.answer_s
        started = time.monotonic()
        try:
            return super().wait(gen, interval, limit)
        except psycopg.OperationalError:
            if limit is not None and time.monotonic() - started >= limit:
                self.pgconn.finish()
            raise


def connect(address: Address, *, answer_s: float, relaxed: bool) -> Connection:
    """A connection of its own.

    answer_s  seconds for a statement, and for a lock. relaxed: a commit does not wait for the disk.
    Raises    UsageError for options that are not libpq's; psycopg's Error if there is no connection.
    """
    connect_s = math.ceil(min(CONNECT_S, answer_s))
    given: dict[str, Any] = {"connect_timeout": connect_s, "application_name": "offprompt", "client_encoding": "UTF8"}
    given |= _options(address)
    connection = Connection.connect(**given, autocommit=True)
    try:
        adapters = connection.adapters
        adapters.register_dumper(str, _TypedText)
        adapters.register_dumper(str, _Text)
        for name in ("text", "varchar", "name"):
            adapters.register_loader(name, _LoadText)
            adapters.register_loader(name, _LoadBinaryText)
        milliseconds = f"{max(1, round(answer_s * 1000))}"
        if address.role:
            connection.execute("SELECT set_config('role', %s, false)", (address.role,))
        connection.execute(_SETTINGS, (address.schema, *[milliseconds] * 3, relaxed))
        connection.answer_s = answer_s + ANSWER_SLACK_S
        connection.writer = secrets.token_hex(8)
    except BaseException:
        connection.close()
        raise
    return connection


def _options(address: Address) -> dict[str, Any]:
    """The URL as libpq's options. What libpq says of a URL may hold the password, so it is not repeated."""
    try:
        found = conninfo.conninfo_to_dict(address.url)
    except psycopg.Error:
        found = None
    # A password with a bare / or @ is read as port and database.
    if found is None or not _PORTS.fullmatch(str(found.get("port") or "")) or "@" in str(found.get("dbname") or ""):
        raise UsageError(
            "the PostgreSQL URL cannot be read, or has an option that is neither libpq's nor one of "
            f"{', '.join(OWN_OPTIONS)}; write postgresql://USER:PASSWORD@HOST:5432/DATABASE, with %40 for @ and %2F "
            "for / in a password"
        ) from None
    return {name: value for name, value in found.items() if value is not None}


def place_of(address: Address) -> str:
    """How messages call the store: host, port, database and schema, never a password."""
    given = _options(address)
    host, port = given.get("host") or given.get("hostaddr") or "the local socket", given.get("port") or "5432"
    return f"PostgreSQL {host}:{port}/{given.get('dbname') or given.get('user') or ''} (schema {address.schema})"


class Statements:
    """Statements within a transaction: sent together, and waited for where an answer is asked for."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def writer(self) -> str:
        """The connection's own name."""
        return self._connection.writer

    def run(self, sql: str, given: Sequence[Any] = ()) -> None:
        """Send a statement; what it says is heard with the next answer."""
        self._send(sql, given)

    def many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Send a statement once for each row."""
        for row in rows:
            self._send(sql, row)

    def later(self, sql: str, given: Sequence[Any] = ()) -> Callable[[], list[tuple[Any, ...]]]:
        """Send a statement; the call gives its rows."""
        return self._send(sql, given).fetchall

    def rows(self, sql: str, given: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a statement."""
        return self._send(sql, given).fetchall()

    def row(self, sql: str, given: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """The first row of a statement, or None."""
        return self._send(sql, given).fetchone()

    def _send(self, sql: str, given: Sequence[Any]) -> psycopg.Cursor[tuple[Any, ...]]:
        return self._connection.cursor(binary=True).execute(cast("LiteralString", sql), given)


def transact(connection: Connection, begin: str, work: Callable[[Statements], R], *, sent: Callable[[R], None]) -> R:
    """The work's result, once the transaction is committed; rolled back if anything fails.

    sent     called with the result right before COMMIT goes out: from then on only the server knows.
    """
    statements = Statements(connection)
    together = connection.pipeline()
    together.__enter__()
    try:
        statements.run(begin)
        result = work(statements)
        sent(result)
        statements.run("COMMIT")
    except BaseException:
        # As if all were well: psycopg logs what it has to pass over at the end of a pipeline that failed.
        with contextlib.suppress(psycopg.Error):
            together.__exit__(None, None, None)
        roll_back(connection)
        raise
    try:
        together.__exit__(None, None, None)
    except BaseException:
        roll_back(connection)
        raise
    return result


def roll_back(connection: Connection) -> None:
    """Leave the connection without a transaction, or closed."""
    if not connection.closed and connection.info.transaction_status != pq.TransactionStatus.IDLE:
        with contextlib.suppress(psycopg.Error):
            connection.execute("ROLLBACK")
    if not connection.closed and connection.info.transaction_status != pq.TransactionStatus.IDLE:
        connection.close()
