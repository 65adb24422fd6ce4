"""Redis connections that break, and servers that refuse: nothing is lost, done twice, or done by half."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import socket
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from offprompt.errors import BackendError
from offprompt.protocols import run
from offprompt.records import EraseSlots, Event, ForgetSlot, Scope, SlotLimits
from offprompt.stores._redis_connection import Stale
from offprompt.stores._redis_scripts import COMMIT
from offprompt.stores._redis_step import RedisStep
from offprompt.stores.redis import RedisStore
from offprompt.testing import MovedClock
from offprompt.testing.kit import ALICE, history, names_of, put, value_of
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


class Relay:
    """A server's address under which the next answer of a commit is swallowed and the connection cut, if `cuts`.

    before   cut before the commit reaches the server, instead of behind it.
    """

    def __init__(self, port: int) -> None:
        self.cuts, self.before = 0, False
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._port))
            threading.Thread(target=self._carry, args=(client, server), daemon=True).start()

    def _carry(self, client: socket.socket, server: socket.socket) -> None:
        with client, server:
            while sent := client.recv(1 << 20):
                is_cut = self.cuts > 0 and b":writer:" in sent
                self.cuts -= is_cut
                if is_cut and self.before:
                    return
                server.sendall(sent)
                answer = server.recv(1 << 20)
                if is_cut:
                    return
                client.sendall(answer)

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def relay(url: str) -> Iterator[Relay]:
    relay = Relay(int(url.split(":")[2].split("/", maxsplit=1)[0]))
    yield relay
    relay.close()


@pytest.mark.parametrize("before", [False, True], ids=["behind", "before"])
def test_a_write_whose_connection_breaks_is_done_once(
    url: str, clock: MovedClock, relay: Relay, *, before: bool
) -> None:
    store = RedisStore(f"redis://127.0.0.1:{relay.port}/0?{url.split('?')[1]}", clock=clock)
    put(store, "a", 0)
    relay.before = before
    for turn in range(1, 6):
        relay.cuts = 1
        assert put(store, "a", turn, if_version=turn).version == turn + 1
        assert relay.cuts == 0
    assert [version.value for version in history(store, "a")] == list(range(6))
    assert len(store.events(op="slot.write")) == 6
    store.close()


def test_a_commit_that_was_given_up_is_never_done(store: RedisStore) -> None:
    server: Any = store._server
    late: list[Any] = []
    send = server._send

    def lose(*command: Any) -> Any:
        if any(b":writer:" in str(word).encode() for word in command) and not late:
            late.append(command)
            raise server._errors.ConnectionError("cut")
        return send(*command)

    server._send = lose
    step = RedisStep(server, store._keys)
    step.events.append(Event(5.0, ALICE, "slot.write"))
    with pytest.raises(Stale):
        step.commit()
    # The server gets what was on its way only now.
    server._send = send
    assert send("EVAL", COMMIT.text, *late[0][2:]) == b"void"
    assert store.events() == []


def test_an_outcome_that_cannot_be_known_is_said(store: RedisStore) -> None:
    server: Any = store._server

    def lose(*command: Any) -> Any:
        if any(b":writer:" in str(word).encode() for word in command):
            raise server._errors.TimeoutError("no answer")
        return send(*command)

    send, server._send, server.busy_timeout_s = server._send, lose, 0.1
    with pytest.raises(BackendError, match="not known whether it was stored"):
        put(store, "a", 1)
    server._send = send


def test_a_full_server_takes_no_write_but_lets_one_forget_and_erase(clock: MovedClock) -> None:
    with servers.running(servers.valkey("--maxmemory", "4mb", "--maxmemory-policy", "noeviction")) as server:
        store = RedisStore(redis_url(server), clock=clock)

        def fill() -> None:
            for number in range(200):
                put(store, f"n{number}", "x" * 50_000, Scope(user="u0"), limits=SlotLimits(200, 100_000))

        with pytest.raises(BackendError, match="reached maxmemory, and nothing was stored"):
            fill()
        full = store.check()
        assert "memory" in [finding.name for finding in full if finding.state == "warn"]
        names = names_of(store, Scope(user="u0"))
        assert run(store, ForgetSlot(Scope(user="u0"), names[0])) is True
        assert run(store, EraseSlots(Scope(user="u0"))) == len(names)
        assert [finding.name for finding in store.check() if finding.state == "fail"] == []
        store.close()


def test_a_key_of_another_program_leaves_nothing_half_done(store: RedisStore) -> None:
    put(store, "a", 1)
    store._server.call("RENAME", store._keys.log, f"{store._keys.log}.kept")
    store._server.call("SET", store._keys.log, "not ours")
    with pytest.raises(BackendError, match="another program's type, and nothing was stored"):
        put(store, "a", 2)
    store._server.call("RENAME", f"{store._keys.log}.kept", store._keys.log)
    assert (value_of(store, "a"), len(store.events())) == (1, 1)
