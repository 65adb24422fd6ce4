"""What a Redis server has to be before it is used, and what `doctor` looks at in one."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Final

from offprompt.errors import BackendError, UnsupportedError
from offprompt.records import Finding, Reached
from offprompt.stores._redis_connection import RedisServer
from offprompt.stores._redis_portable import AT_ONCE, all_scopes
from offprompt.stores._redis_rows import FORMAT, Keys, decode_kept, sub_of, tag_of, version_field
from offprompt.stores._redis_scripts import READ

OLDEST: Final = (7, 0)
CLOCK_SLACK_S: Final = 60.0
UNDO_S: Final = 7 * 86400.0
FULL_SHARE: Final = 0.9
MANY_EVENTS: Final = 100_000
KEEP: Final = "redis-cli CONFIG SET maxmemory-policy noeviction"


def open_store(server: RedisServer, keys: Keys) -> None:
    """Check the server, and mark the store as ours if it is new.

    Raises   UnsupportedError for an old server or a cluster; BackendError for one that may evict keys, a replica, and
             keys of a newer format.
    """
    info = _info(server)
    if _version(info) < OLDEST:
        raise UnsupportedError(f"{server.url} is Redis {info.get('redis_version')}; use Redis 7.0, Valkey, or newer")
    if info.get("cluster_enabled") == "1":
        raise UnsupportedError(
            f"{server.url} is part of a Redis Cluster, which this version does not serve: a batch is one script over "
            "all that it touches; give a server of its own, or a primary with replicas"
        )
    if info.get("role") == "slave":
        primary = f"{info.get('master_host')}:{info.get('master_port')}"
        raise BackendError(f"{server.url} is a read-only replica of {primary}; give the primary's address")
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        raise BackendError(
            f"{server.url} may throw keys away when its memory is full (maxmemory-policy {policy}), and slots would be "
            f"lost without a word; run `{KEEP}` and put it into the server's configuration file (CONFIG REWRITE), "
            "or give another server"
        )
    server.call("HSETNX", keys.meta, "format", str(FORMAT))
    found = int(server.call("HGET", keys.meta, "format"))
    if found > FORMAT:
        raise BackendError(
            f"the store {server.url} has format {found}, and this program knows formats up to {FORMAT}; "
            "install a newer offprompt, or give the URL another ?prefix="
        )


def log_id(server: RedisServer, keys: Keys) -> str:
    """The name of the log of events: drawn once, and again by a server that came back without its data."""
    server.call("HSETNX", keys.meta, "id", uuid.uuid4().hex)
    return server.call("HGET", keys.meta, "id").decode()


def check_server(server: RedisServer, keys: Keys, now: float) -> list[Finding]:
    """All findings; there is nothing that could be mended here."""
    info = _info(server)
    return [
        Finding("server", "ok", f"{_name(info)} at {server.url}"),
        _eviction(info),
        _durability(server, info),
        _memory(server, info),
        _versions(server, keys),
        _events(server, keys),
        _clock(server, now),
        _waiting(server, keys, now),
    ]


def scour_server(server: RedisServer) -> Reached:
    """Have the server write its files anew without what was deleted; what it says it cannot, or keeps elsewhere."""
    info, done, not_reached = _info(server), list[str](), list[str]()
    wanted = [("BGREWRITEAOF", "append-only file")] if info.get("aof_enabled") == "1" else []
    if info.get("rdb_last_save_time", "0") != "0":
        wanted.append(("BGSAVE SCHEDULE", "snapshot"))
    for command, file in wanted:
        try:
            server.call(*command.split())
            done.append(f"the server writes its {file} anew, without what was deleted")
        except BackendError as exc:
            not_reached.append(f"the server's {file}, until it is written anew: {exc}")
    if replicas := int(info.get("connected_slaves", "0")):
        not_reached.append(f"{replicas} replicas follow the server: their files until they write them anew")
    return Reached(("what was deleted is out of the server's memory", *done), tuple(not_reached))


def _info(server: RedisServer) -> Mapping[str, str]:
    said: str = server.call("INFO").decode(errors="replace")
    pairs = (line.partition(":") for line in said.splitlines() if ":" in line and not line.startswith("#"))
    return {name: value for name, _, value in pairs}


def _version(info: Mapping[str, str]) -> tuple[int, ...]:
    return tuple(int(part) for part in info.get("redis_version", "0").split(".")[:2] if part.isdecimal())


def _name(info: Mapping[str, str]) -> str:
    if "valkey_version" in info:
        return f"Valkey {info['valkey_version']}"
    return f"Redis {info.get('redis_version')}"


def _eviction(info: Mapping[str, str]) -> Finding:
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        what = f"maxmemory-policy is {policy}: a full server throws slots away without a word"
        return Finding("eviction", "fail", what, f"run `{KEEP}`, and CONFIG REWRITE")
    return Finding("eviction", "ok", "nothing is thrown away when memory is full")


def _durability(server: RedisServer, info: Mapping[str, str]) -> Finding:
    if info.get("aof_enabled") != "1":
        return Finding(
            "durability",
            "warn",
            "there is no append-only file: a restart of the server loses all since its last snapshot, if it makes any",
            "run `redis-cli CONFIG SET appendonly yes`, and CONFIG REWRITE",
        )
    if info.get("aof_last_write_status", "ok") != "ok":
        what = "the last write to the append-only file failed, and the server takes no more"
        return Finding("durability", "fail", what, "see the server's log, and free space on its disk")
    try:
        synced = dict(zip(*[iter(server.call("CONFIG", "GET", "appendfsync"))] * 2, strict=True))[b"appendfsync"]
    except (BackendError, KeyError):
        what = "there is an append-only file; how often it is synced this user may not ask (CONFIG GET)"
        return Finding("durability", "ok", what)
    promises = {
        b"always": Finding("durability", "ok", "appendfsync always: a write that was acknowledged is on disk"),
        b"everysec": Finding(
            "durability",
            "ok",
            "appendfsync everysec: a crash or a power loss may lose up to two seconds of acknowledged writes",
        ),
    }
    never = Finding(
        "durability",
        "warn",
        "appendfsync no: a power loss may lose half a minute of acknowledged writes",
        "run `redis-cli CONFIG SET appendfsync everysec` (or always), and CONFIG REWRITE",
    )
    return promises.get(synced, never)


def _memory(server: RedisServer, info: Mapping[str, str]) -> Finding:
    used, most = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    count = int(server.call("DBSIZE"))
    what = f"{used / 2**20:,.1f} MiB used by the server, {count:,} keys in the database"
    if most:
        what += f"; maxmemory {most / 2**20:,.1f} MiB"
        if used > most * FULL_SHARE:
            return Finding("memory", "warn", what, "raise maxmemory, or sweep and erase: a full server takes no write")
    return Finding("memory", "ok", what)


def _clock(server: RedisServer, now: float) -> Finding:
    seconds, micros = map(int, server.call("TIME"))
    ahead = now - seconds - micros / 1e6
    if abs(ahead) > CLOCK_SLACK_S:
        what = f"this clock is {ahead:+,.0f} s off the server's"
        return Finding("clock", "warn", what, "set the system's clock; slots with a life expire by it")
    return Finding("clock", "ok", f"this clock and the server's are within {CLOCK_SLACK_S:.0f} s")


def _waiting(server: RedisServer, keys: Keys, now: float) -> Finding:
    over = 0
    for app in server.call("SMEMBERS", keys.apps):
        name = app.decode()
        over += int(server.call("ZCOUNT", keys.app(name, "expiry"), "-inf", repr(now)))
        over += int(server.call("ZCOUNT", keys.app(name, "hidden"), "-inf", repr(now - UNDO_S)))
    if over:
        return Finding("sweep", "warn", f"{over:,} slots expired or forgotten long ago are still stored", "run a sweep")
    return Finding("sweep", "ok", "nothing waits for a sweep")


def _events(server: RedisServer, keys: Keys) -> Finding:
    count = int(server.call("XLEN", keys.log))
    what = f"{count:,} events wait to be moved to the log of the memories' engine"
    if count > MANY_EVENTS:
        return Finding("events", "warn", what, "run `offprompt worker`")
    return Finding("events", "ok", what)


def _versions(server: RedisServer, keys: Keys) -> Finding:
    """Whether each slot has its older versions, and each of those its slot; some scopes at one moment."""
    lost = stray = 0
    scopes = all_scopes(server, keys)
    for start in range(0, len(scopes), AT_ONCE):
        some = [(tag_of(scope), sub_of(scope)) for scope in scopes[start : start + AT_ONCE]]
        pairs = [(tag, f"{what}:{sub}") for tag, sub in some for what in ("slots", "versions")]
        asked = [keys.owner(tag, what) for tag, name in pairs for what in ("rev", name)]
        replies = [found for _, found in server.run(READ, asked, ["all", "", "names", ""] * len(some))]
        for flat, fields in zip(replies[::2], replies[1::2], strict=True):
            kept = {folded.decode(): decode_kept(row) for folded, row in zip(flat[::2], flat[1::2], strict=True)}
            needed = {version_field(name, mark.version) for name, row in kept.items() for mark in row.older}
            found = {field.decode() for field in fields}
            lost += len(needed - found) + sum(not row.current for row in kept.values())
            stray += len(found - needed)
    if lost or stray:
        what = f"{lost} versions are missing, {stray} have no slot"
        return Finding("versions", "fail", what, "restore the server's files from a copy")
    return Finding("versions", "ok", "each slot has its versions")
