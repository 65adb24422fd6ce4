"""What `doctor` looks at in a PostgreSQL store."""

# ruff: noqa: S608 - statements are joined from this module's own constants

from __future__ import annotations

from typing import Final, Literal

from offprompt.records import Finding
from offprompt.stores._pg_connection import Statements
from offprompt.stores._pg_rows import PLACE
from offprompt.stores._pg_schema import FORMAT, OF_APPS

CLOCK_SLACK_S: Final = 60.0
DAY_S: Final = 86400.0
UNDO_DAYS: Final = 7
CROWDED: Final = 0.8
_RESTORE: Final = "restore a backup"
_NO_MEMORY: Final = "NOT EXISTS (SELECT FROM memories m WHERE m.app = x.app AND m.memory_id = x.memory_id)"

# What is counted, in which table and under which condition; the finding's name, its state if there is any, what is said
# of them, and the way out.
_CHECKS: Final[tuple[tuple[str, str, Literal["warn", "fail"], str, str], ...]] = (
    (
        f"slots LEFT JOIN versions v USING ({PLACE}, folded, version) WHERE v.value IS NULL",
        "versions",
        "fail",
        "slots without their version",
        _RESTORE,
    ),
    (
        f"versions LEFT JOIN slots s USING ({PLACE}, folded) WHERE s.name IS NULL",
        "versions",
        "fail",
        "versions without their slot",
        _RESTORE,
    ),
    (
        "memories m WHERE NOT EXISTS (SELECT FROM memory_versions x WHERE x.app = m.app AND x.memory_id = m.memory_id)",
        "memories",
        "fail",
        "memories without their versions",
        _RESTORE,
    ),
    (
        f"(SELECT DISTINCT app, memory_id FROM memory_versions) x WHERE {_NO_MEMORY}",
        "memories",
        "fail",
        "memories of which only versions are left",
        _RESTORE,
    ),
    (
        f"memories m LEFT JOIN memory_scopes s USING ({PLACE}) WHERE s.revision IS NULL OR m.revision > s.revision",
        "memories",
        "fail",
        "memories of a later revision than their scope's, which recall may not find",
        _RESTORE,
    ),
    (
        "memory_scopes WHERE whole_before > revision",
        "memories",
        "fail",
        "scopes that are loaded whole for each recall (whole_before is beyond their revision)",
        _RESTORE,
    ),
    (f"memory_index x WHERE {_NO_MEMORY}", "memories", "fail", "entries of the index without their memory", _RESTORE),
    (
        f"memory_keys x WHERE {_NO_MEMORY}",
        "memories",
        "warn",
        "keys of writes that lead to no memory, so that such a write comes a second time",
        _RESTORE,
    ),
    (
        "memories m JOIN memory_index x USING (app, memory_id) WHERE m.state = 'live' AND x.version <> m.version",
        "memories",
        "warn",
        "memories whose entry in the index is of another version, so that they are found by words alone",
        "reindex",
    ),
)


def check_store(db: Statements, now: float, *, is_confined: bool) -> list[Finding]:
    """All findings; see Checkable.check. Cost: O(all that is stored), unless the role sees one app at a time."""
    findings = [*_server(db), _format(db), _clock(db, now), _crowd(db), _vectors(db)]
    if is_confined:
        what = "this role sees the apps that it names, so the tables were not looked through"
        return [*findings, Finding("tables", "warn", what, "look at them as the schema's owner")]
    return [*findings, *_tables(db), _waiting(db, now), _size(db)]


def _server(db: Statements) -> list[Finding]:
    row = db.row(
        "SELECT current_setting('server_version'), current_setting('fsync'), current_setting('full_page_writes'), "
        "current_setting('synchronous_commit'), pg_is_in_recovery()"
    )
    version, fsync, whole_pages, commit, only_reads = row or ("", "on", "on", "on", False)
    if only_reads:
        return [Finding("server", "fail", f"PostgreSQL {version} only reads (a replica)", "connect to the primary")]
    lossy = [name for name, value in (("fsync", fsync), ("full_page_writes", whole_pages)) if value == "off"]
    findings = [Finding("server", "ok", f"PostgreSQL {version}")]
    if lossy:
        what = f"the server runs with {' and '.join(lossy)} off: a power loss may damage all that is stored"
        findings.append(Finding("durability", "warn", what, "turn it on in postgresql.conf"))
    elif commit == "off":
        what = "a crash of the server may take the last writes (durability is `process`)"
        findings.append(Finding("durability", "ok", what))
    else:
        findings.append(Finding("durability", "ok", f"a write that returned is on disk (synchronous_commit {commit})"))
    return findings


def _format(db: Statements) -> Finding:
    row = db.row("SELECT value FROM meta WHERE name = 'format'")
    found = int(row[0]) if row is not None else 0
    if found == FORMAT:
        return Finding("format", "ok", f"format {found}")
    return Finding("format", "fail", f"format {found}, and this program knows {FORMAT}", "install the newest offprompt")


def _clock(db: Statements, now: float) -> Finding:
    row = db.row("SELECT extract(epoch FROM clock_timestamp())::float8, (SELECT max(at) FROM events WHERE seq > "
                 "(SELECT coalesce(max(seq), 0) - 1 FROM events))")  # fmt: skip
    server, newest = row or (now, None)
    way_out = "set the clocks by one time server; slots and memories with a life expire by the caller's"
    if newest is not None and newest > now + CLOCK_SLACK_S:
        what = f"the newest event is {(newest - now) / 3600:,.1f} h later than now"
        return Finding("clock", "warn", what, way_out)
    if abs(server - now) > CLOCK_SLACK_S:
        what = f"this machine's clock and the server's are {abs(server - now):,.0f} s apart"
        return Finding("clock", "warn", what, way_out)
    return Finding("clock", "ok", "this machine's clock and the server's agree")


def _crowd(db: Statements) -> Finding:
    row = db.row("SELECT count(*), current_setting('max_connections')::int FROM pg_stat_activity WHERE "
                 "backend_type = 'client backend'")  # fmt: skip
    used, most = row or (0, 1)
    what = f"{used:,} of the server's {most:,} connections are in use"
    if used > CROWDED * most:
        return Finding("connections", "warn", what, "raise max_connections, lower pool=… in the URLs, or use a pooler")
    return Finding("connections", "ok", what)


def _vectors(db: Statements) -> Finding:
    row = db.row("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
    if row is not None:
        return Finding("pgvector", "ok", f"pgvector {row[0]}")
    return Finding("pgvector", "ok", "pgvector is not installed: vectors are compared by this program, not the server")


def _tables(db: Statements) -> list[Finding]:
    counts = [db.later(f"SELECT count(*) FROM {which}") for which, *_ in _CHECKS]
    findings: list[Finding] = []
    for count, (_, name, state, what, way_out) in zip(counts, _CHECKS, strict=True):
        ((number,),) = count()
        if number:
            findings.append(Finding(name, state, f"{number:,} {what}", way_out))
    sound = {"versions": "each slot has its version", "memories": "each memory has its versions, and the index fits"}
    wrong = {finding.name for finding in findings}
    return [*findings, *(Finding(name, "ok", what) for name, what in sound.items() if name not in wrong)]


def _waiting(db: Statements, now: float) -> Finding:
    row = db.row(
        "SELECT count(*) FROM slots WHERE expires_at <= %s OR forgotten_at <= %s", (now, now - UNDO_DAYS * DAY_S)
    )
    over = row[0] if row is not None else 0
    if over:
        return Finding("sweep", "warn", f"{over:,} slots expired or forgotten long ago are still stored", "run a sweep")
    return Finding("sweep", "ok", "nothing waits for a sweep")


def _size(db: Statements) -> Finding:
    rows = db.rows(
        "SELECT name, pg_total_relation_size(name::regclass) FROM unnest(%s::text[]) AS one (name) ORDER BY 2 DESC",
        (list(OF_APPS),),
    )
    largest = ", ".join(f"{name} {size / 2**20:,.1f}" for name, size in rows[:3])
    return Finding("size", "ok", f"{sum(size for _, size in rows) / 2**20:,.1f} MiB with indexes; {largest}")
