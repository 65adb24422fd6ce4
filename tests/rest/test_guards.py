"""Who asks, and from where: keys, the token of this machine, names of the server, pages of other sites."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt.errors import ForbiddenError, OffpromptError, UnauthenticatedError, UsageError
from offprompt.records import ROLES, Identity
from offprompt.records.places import private_text, token_file
from offprompt.rest.guarding import guard_for
from offprompt.rest.guards import Guard, check_guarded, host_of, is_loopback
from offprompt.rest.token_file import local_token
from offprompt.service.keys import Keys
from offprompt.service.offprompt import Offprompt
from offprompt.testing import MovedClock

LOCAL = Identity("default", roles=frozenset(ROLES), default_user="alice")
SHOWN = "local_0"
HERE = {"host": "127.0.0.1:7333"}


def asked(guard: Guard, headers: dict[str, str]) -> Identity:
    found = guard("POST", headers, has_body=True)
    return found if isinstance(found, Identity) else found()


@pytest.fixture
def memory(clock: MovedClock) -> Iterator[Offprompt]:
    with offprompt.open(":memory:", clock=clock) as opened:
        yield opened


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def keys(memory: Offprompt) -> Keys:
    return Keys(memory.parts.main, memory.parts.clock)


@pytest.fixture
def guard(keys: Keys) -> Guard:
    return Guard(keys, local=LOCAL, token=SHOWN, hosts=["127.0.0.1"])


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "Token"])
def test_the_token_of_this_machine_is_who_runs_it(guard: Guard, scheme: str) -> None:
    assert asked(guard, {**HERE, "authorization": f"{scheme} {SHOWN}"}) == LOCAL


def test_a_key_is_asked_for_in_a_thread_once_and_then_known_at_once(guard: Guard, keys: Keys) -> None:
    made = keys.create("svc", app="shop", users=["bob"])
    shown = {**HERE, "authorization": f"Bearer {made.token}"}
    assert not isinstance(guard("GET", shown, has_body=False), Identity)
    assert asked(guard, shown) == made.key.identity
    assert guard("GET", shown, has_body=False) == made.key.identity


@pytest.mark.parametrize(
    "given",
    [
        "",
        "Bearer",
        "Bearer ",
        f"Basic {SHOWN}",
        SHOWN,
        "Bearer local_",
        f"Bearer {SHOWN}x",
        "Bearer a.b.c",
        "Bearer op_1_2",
    ],
)
def test_who_shows_nothing_valid_is_nobody(guard: Guard, given: str) -> None:
    with pytest.raises(UnauthenticatedError):
        asked(guard, {**HERE, "authorization": given} if given else HERE)


@pytest.mark.parametrize("given", ["Bearer", "Bearer ", f"Basic {SHOWN}", SHOWN])
def test_who_says_no_bearer_is_told_the_form_and_not_what_was_sent(guard: Guard, given: str) -> None:
    with pytest.raises(
        UnauthenticatedError, match=r"does not say 'Bearer KEY'.*send 'Authorization: Bearer KEY'"
    ) as told:
        asked(guard, {**HERE, "authorization": given})
    assert SHOWN not in str(told.value)


def test_an_empty_token_of_this_machine_opens_nothing(keys: Keys) -> None:
    closed = Guard(keys, local=LOCAL)
    for given in ("Bearer ", "Bearer  ", "Bearer local_"):
        with pytest.raises(UnauthenticatedError):
            asked(closed, {"authorization": given})


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:7333", "localhost:9", "LOCALHOST", "localhost.", "[::1]:7333"]
)
def test_a_server_on_the_loopback_is_asked_by_its_own_names(guard: Guard, host: str) -> None:
    assert asked(guard, {"host": host, "authorization": f"Bearer {SHOWN}"}) == LOCAL


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:7333", "127.0.0.1.evil.example", "localhost.evil", "", "a b", "[::1", "10.0.0.1"],
)
def test_a_name_that_another_site_lets_mean_this_machine_is_refused(guard: Guard, host: str) -> None:
    with pytest.raises(ForbiddenError, match="not a name of this server"):
        asked(guard, {"host": host, "authorization": f"Bearer {SHOWN}"})
    with pytest.raises(ForbiddenError):
        asked(guard, {"authorization": f"Bearer {SHOWN}"})


@pytest.mark.parametrize(
    ("headers", "is_own"),
    [
        ({"origin": "http://127.0.0.1:7333"}, True),
        ({"origin": "http://127.0.0.1:7333", "sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "none"}, True),
        ({"origin": "http://127.0.0.1:8000"}, False),
        ({"origin": "http://localhost:7333"}, False),
        ({"origin": "https://evil.example"}, False),
        ({"origin": "null"}, False),
        ({"origin": ""}, False),
        ({"origin": "http://["}, False),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "same-site"}, False),
    ],
)
def test_no_page_of_another_site_may_ask(guard: Guard, headers: dict[str, str], is_own: bool) -> None:
    given = {**HERE, **headers, "authorization": f"Bearer {SHOWN}"}
    if is_own:
        assert asked(guard, given) == LOCAL
        return
    with pytest.raises(ForbiddenError, match="another site"):
        asked(guard, given)


def test_a_server_that_others_reach_has_any_name_and_wants_a_key(memory: Offprompt, keys: Keys) -> None:
    with pytest.raises(UsageError, match="offprompt key create"):
        guard_for(memory, ["192.0.2.7"])
    made = keys.create("svc")
    guard = guard_for(memory, ["192.0.2.7"])
    assert asked(guard, {"host": "memory.example", "authorization": f"Bearer {made.token}"}) == made.key.identity
    with pytest.raises(UnauthenticatedError):
        asked(guard, {"host": "127.0.0.1"})


def test_a_key_that_has_expired_lets_no_server_start(keys: Keys, clock: MovedClock) -> None:
    keys.create("svc", expires_at=clock.now() + 1)
    check_guarded(keys, "10.0.0.1", has_issuer=False)
    clock.move(1)
    with pytest.raises(UsageError, match=r"10\.0\.0\.1"):
        check_guarded(keys, "10.0.0.1", has_issuer=False)
    check_guarded(keys, "10.0.0.1", has_issuer=True)
    check_guarded(keys, "127.0.0.1", has_issuer=False)


def test_what_only_this_machine_reaches() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "localhost", "Localhost.")))
    assert not any(map(is_loopback, ("::", "192.0.2.7", "memory.example", "", "127.0.0.1.example")))


def test_a_host_is_read_without_its_port() -> None:
    assert [host_of(each) for each in ("A.b:1", "[::1]:2", "[::1]", "x:y", "u@x", "::1")] == [
        "a.b",
        "::1",
        "::1",
        None,
        None,
        None,
    ]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "offprompt" / "serve"


def test_the_token_is_in_a_file_of_this_user_alone_while_the_server_runs(home: Path) -> None:
    with local_token(7333) as token:
        path = token_file(7333)
        assert path == home / "7333.token"
        assert private_text(path) == token
        assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(home.stat().st_mode)) == (0o600, 0o700)
        assert list(home.iterdir()) == [path]
    assert list(home.iterdir()) == []


@pytest.mark.usefixtures("home")
def test_what_a_killed_server_left_is_replaced() -> None:
    with local_token(7333) as before:
        left = token_file(7333).read_bytes()
    token_file(7333).write_bytes(left)
    token_file(7333).chmod(0o600)
    with local_token(7333) as token:
        assert token != before
        assert private_text(token_file(7333)) == token


@pytest.mark.usefixtures("home")
def test_the_file_of_a_server_that_began_since_stays() -> None:
    with local_token(7333):
        with local_token(7333) as newer:
            pass
        token_file(7333).write_text(newer)
    assert token_file(7333).read_text() == newer


@pytest.mark.parametrize("planted", ["open file", "link", "folder", "open folder"])
def test_what_others_may_have_put_there_is_refused(home: Path, tmp_path: Path, planted: str) -> None:
    home.mkdir(mode=0o700, parents=True)
    path = token_file(7333)
    match planted:
        case "open file":
            path.write_text("local_known")
            path.chmod(0o644)
        case "link":
            path.symlink_to(tmp_path / "elsewhere")
        case "folder":
            path.mkdir()
        case _:
            home.chmod(0o777)
    with pytest.raises(OffpromptError, match=r"token"), local_token(7333):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_a_token_that_others_may_read_is_not_used_by_clients(home: Path) -> None:
    home.mkdir(parents=True)
    path = home / "1.token"
    assert private_text(path) is None
    path.write_text("local_x")
    path.chmod(0o640)
    assert private_text(path) is None
    path.chmod(0o600)
    assert private_text(path) == "local_x"
    (home / "2.token").symlink_to(path)
    assert private_text(home / "2.token") is None


def test_a_token_is_taken_from_its_own_port_only(home: Path) -> None:
    with local_token(1) as one, local_token(2) as two:
        assert one != two
        assert (private_text(token_file(1)), private_text(token_file(2))) == (one, two)
    assert list(home.iterdir()) == []


def test_nothing_that_is_refused_says_whose_key_it_was(guard: Guard, keys: Keys) -> None:
    made = keys.create("secret-name", users=["alice"])
    messages: set[Any] = set()
    for given in (made.token + "x", f"op_{made.key.key_id}_y", "op_0000000000000000_z"):
        with pytest.raises(UnauthenticatedError) as refused:
            asked(guard, {**HERE, "authorization": f"Bearer {given}"})
        messages.add(str(refused.value))
    assert len(messages) == 1
    assert "secret-name" not in messages.pop()
