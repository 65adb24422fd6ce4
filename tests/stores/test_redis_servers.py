"""What a Redis server must be, what `doctor` says of it, and how it is refused."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import re
import sys
import threading
import uuid
from collections.abc import Iterator

import pytest

from offprompt.errors import BackendError, OffpromptError, UnsupportedError, UsageError
from offprompt.models.clocks import SystemClock
from offprompt.records import Scope
from offprompt.stores import _redis_check
from offprompt.stores.redis import RedisStore
from offprompt.testing import MovedClock
from offprompt.testing.kit import erase, get, history, put, sweep
from tests import servers
from tests.servers import redis_url


@pytest.fixture(params=["redis_server", "valkey_server"])
def url(request: pytest.FixtureRequest) -> str:
    return f"{redis_url(request.getfixturevalue(request.param))}?prefix=f{uuid.uuid4().hex[:12]}"


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def store(url: str, clock: MovedClock) -> Iterator[RedisStore]:
    store = RedisStore(url, clock=clock, busy_timeout_s=20)
    yield store
    store.close()


def refused(match: str, *options: str) -> None:
    """A server started with these options is refused like that."""
    with servers.running(servers.valkey(*options)) as server, pytest.raises(OffpromptError, match=match):
        RedisStore(redis_url(server), clock=MovedClock(), busy_timeout_s=1)


def test_a_server_that_may_throw_keys_away_is_refused_with_the_command() -> None:
    refused("CONFIG SET maxmemory-policy noeviction", "--maxmemory-policy", "allkeys-lru")


def test_an_old_server_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def old(_server: object) -> dict[str, str]:
        return {"redis_version": "6.2.14"}

    monkeypatch.setattr(_redis_check, "_info", old)
    with pytest.raises(UnsupportedError, match=r"is Redis 6\.2\.14; use Redis 7\.0"):
        RedisStore(url, clock=MovedClock())


def test_a_cluster_is_refused() -> None:
    # Its second port is the first one and 10,000 unless it is said: there may be no such port.
    refused("Redis Cluster", "--cluster-enabled", "yes", "--cluster-port", str(servers.free_port()))


def test_a_replica_is_refused_with_its_primary() -> None:
    refused("read-only replica of 127.0.0.1:1;", "--replicaof", "127.0.0.1 1", "--replica-serve-stale-data", "yes")


def test_a_wrong_password_and_too_few_rights_are_said_without_the_password() -> None:
    with servers.running(servers.valkey()) as server:
        store = RedisStore(redis_url(server), clock=MovedClock())
        store._server.call("ACL", "SETUSER", "reader", "on", ">hunter2", "~*", "+get", "+ping")
        store._server.call("CONFIG", "SET", "requirepass", "right")
        store.close()
        for user in ("", ":hunter2@", "reader:hunter2@", "nobody:hunter2@"):
            with pytest.raises(BackendError, match="refuses this user") as raised:
                RedisStore(redis_url(server).replace("//", f"//{user}"), clock=MovedClock(), busy_timeout_s=1)
            assert "hunter2" not in str(raised.value)
        RedisStore(redis_url(server).replace("//", "//:right@"), clock=MovedClock()).close()


def test_a_user_with_few_rights_can_do_all() -> None:
    """The rights that docs/operations.md names."""
    rights = ["+@read", "+@write", "+@scripting", "+info", "+ping", "+time", "+dbsize", "+client", "~offprompt:*"]
    with servers.running(servers.valkey()) as server:
        admin = RedisStore(redis_url(server), clock=SystemClock())
        admin._server.call("ACL", "SETUSER", "small", "on", ">pass", *rights)
        admin.close()
        store = RedisStore(redis_url(server).replace("//", "//small:pass@"), clock=SystemClock())
        put(store, "a", 1, ttl_s=60)
        get(store, "a", touch=True)
        store.drop_events(store.events()[-1].seq)
        assert [row[5] for row in store.scan("slots")] == ["a"]
        assert erase(store, scope=Scope(user="alice@example.com"), within="subtree") == 1
        assert sweep(store) == 0
        assert store.coordinator().lease("k", "h", seconds=5) == 1
        assert {finding.state for finding in store.check()} == {"ok"}
        store.close()


def test_a_server_that_is_not_there_is_said() -> None:
    with pytest.raises(BackendError, match=r"does not answer.*check that the server runs"):
        RedisStore("redis://127.0.0.1:1/0", clock=MovedClock(), busy_timeout_s=0.1)


def test_a_store_of_a_newer_format_is_refused(store: RedisStore, url: str, clock: MovedClock) -> None:
    store._server.call("HSET", store._keys.meta, "format", "99")
    with pytest.raises(BackendError, match="has format 99, and this program knows formats up to 1"):
        RedisStore(url, clock=clock)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("redis://:hunter2@/0", "names no Redis server"),
        ("redis://h/nine", "names no Redis server"),
        ("redis://h:x/0", "cannot be read"),
        ("redis://h/0?prefix=a{b}", "use 1 to 64 letters"),
        ("redis://h/0?db=1", "option 'db' that is not known"),
    ],
)
def test_a_bad_url_is_said(bad: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as raised:
        RedisStore(bad, clock=MovedClock())
    assert "hunter2" not in str(raised.value)


def findings(*options: str) -> dict[str, tuple[str, str]]:
    with servers.running(servers.valkey(*options)) as server:
        store = RedisStore(redis_url(server), clock=SystemClock())
        put(store, "a", 1)
        found = {finding.name: (finding.state, finding.what + finding.way_out) for finding in store.check()}
        store.close()
    return found


@pytest.mark.parametrize(
    ("options", "state", "says"),
    [
        (("--appendfsync", "always"), "ok", "acknowledged is on disk"),
        (("--appendfsync", "everysec"), "ok", "up to two seconds"),
        (("--appendfsync", "no"), "warn", "half a minute"),
        (("--appendonly", "no"), "warn", "a restart of the server loses"),
        (("--rename-command", "CONFIG", ""), "ok", "may not ask"),
    ],
    ids=["always", "everysec", "no sync", "no file", "no CONFIG"],
)
def test_doctor_says_what_the_append_only_file_promises(options: tuple[str, ...], state: str, says: str) -> None:
    found = findings(*options)
    assert found["durability"][0] == state
    assert says in found["durability"][1]
    assert {name for name, (how, _) in found.items() if how != "ok"} == ({"durability"} if state == "warn" else set())


def test_doctor_says_that_keys_may_be_thrown_away(store: RedisStore) -> None:
    """The policy may be changed while the store is open."""
    with servers.running(servers.valkey()) as server:
        store = RedisStore(redis_url(server), clock=SystemClock())
        store._server.call("CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
        assert [finding.state for finding in store.check() if finding.name == "eviction"] == ["fail"]
        store.close()


def test_doctor_finds_versions_without_their_slot(store: RedisStore) -> None:
    put(store, "a", 1)
    put(store, "a", 2)
    for key in store._server.call("KEYS", f"{store._keys.prefix}:*:versions:*"):
        store._server.call("HSET", key, "9:gone", "x")
        store._server.call("HDEL", key, "1:a")
    found = [finding for finding in store.check() if finding.name == "versions"]
    assert (found[0].state, found[0].what) == ("fail", "1 versions are missing, 1 have no slot")


def test_doctor_reads_slots_and_versions_at_one_moment(store: RedisStore, url: str) -> None:
    """A store in use is not said to be damaged."""
    busy, over = RedisStore(url, clock=SystemClock()), threading.Event()

    def write() -> None:
        turn = 0
        while not over.is_set():
            turn += 1
            put(busy, f"n{turn % 5}", turn)
            erase(busy, f"n{turn * 3 % 5}")

    writer = threading.Thread(target=write)
    writer.start()
    states = {finding.state for _ in range(30) for finding in store.check() if finding.name == "versions"}
    over.set()
    writer.join()
    assert states == {"ok"}
    busy.close()


def test_a_killed_server_keeps_what_was_acknowledged(clock: MovedClock) -> None:
    with servers.running(servers.valkey()) as server:
        store = RedisStore(redis_url(server), clock=clock)
        for turn in range(3):
            put(store, "a", turn)
            server.kill()
            server.start()
        assert [version.value for version in history(store, "a")] == [0, 1, 2]
        assert len(store.events()) == 3
        store.close()


def test_without_the_client_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    monkeypatch.setitem(sys.modules, "redis.exceptions", None)
    with pytest.raises(UnsupportedError, match=re.escape("pip install 'offprompt[redis]'")):
        RedisStore("redis://127.0.0.1:1/0", clock=MovedClock())
