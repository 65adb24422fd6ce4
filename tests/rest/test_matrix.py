"""Every route, asked for what is another's: the answer is byte for byte that to what never was.

Two stores with one beginning: in the first what the examples name is another's, in the second there is as much of
somebody else's, under other names. Routes come from the endpoint table, so a new one is here by itself.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx
import pytest

import offprompt
from offprompt.records import ROLES, Identity, Role
from offprompt.rest.app import ENDPOINTS, make_app
from offprompt.rest.dispatch import Dispatch
from offprompt.rest.endpoint import Endpoint
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt
from offprompt.testing import MovedClock

ALL: Final = frozenset(ROLES)
NO_ID: Final = "m_01K0000000000000000000000"
NO_KEY: Final = "0123456789abcdef"
NAMES: Final = ("city", "user_pref", "old_address")
ELSEWHERE: Final = {"user": "zed", "agent": "zagent", "session": "z1", "app": "zhop"}
"""Where the second store has what the first one has at the place that is asked for."""

NUMBERS: Final = ("metrics",)
"""What counts all requests of the process, and shows no record."""

GUARDED: Final = [endpoint for endpoint in ENDPOINTS if endpoint.role is not None and endpoint.name not in NUMBERS]
BY_NAME: Final = {endpoint.name: endpoint for endpoint in ENDPOINTS}
DRAWN: Final = re.compile(
    rb"m_[0-9a-hj-km-np-tv-z]{26}|op_[0-9a-f]{16}_[\w-]{43}|(?<![0-9a-f])[0-9a-f]{16}(?![0-9a-f])"
    rb'|erased-[0-9a-f]{12}|(?<="seal":")[0-9a-f]+|(?<="key_prints":\[")[0-9a-f]+'
)
"""What is drawn anew for each answer: ids of what is made, tokens, digests by drawn keys."""

MEASURED: Final = re.compile(rb'(?<="duration_s":)[0-9.e-]+')
"""What is measured: two of the same length are no two of a kind."""

SEALED: Final = re.compile(rb"(?<=[\"/])[\w-]{22}si[\w-]{10,}")
"""An id that says in itself what it stands for: JSON behind a seal of 16 bytes, in base64."""


@dataclass(frozen=True)
class Pair:
    """Who asks, and whose memory stands where the examples look. granted: to whom what the owner's agent keeps is."""

    name: str
    asks: Identity
    headers: Mapping[str, str]
    owner: Mapping[str, Any]
    granted: tuple[str, ...] = ()


PAIRS: Final = (
    Pair("another user's", Identity(users=("alice",), roles=ALL, default_user="alice"), {}, {"user": "bob"}),
    Pair(
        "another user's, whom the headers name",
        Identity(users=("alice",), roles=ALL, default_user="alice"),
        {"Offprompt-User": "bob"},
        {"user": "bob"},
    ),
    Pair(
        "another user's, from the shared scope",
        Identity(users=("alice",), roles=ALL, default_user="alice"),
        {"Offprompt-Shared": "true"},
        {"user": "bob"},
    ),
    Pair(
        "another user's of the same agent",
        Identity(users=("alice",), roles=ALL, default_user="alice"),
        {"Offprompt-Agent": "bot"},
        {"user": "bob", "agent": "bot"},
    ),
    Pair(
        "somebody's, whose session's id was guessed",
        Identity(users=("alice",), roles=ALL, default_user="alice"),
        {"Offprompt-Session": "s1"},
        {"session": "s1"},
    ),
    Pair("another app's", Identity(roles=ALL, default_user="alice"), {}, {"app": "shop", "user": "alice"}),
    Pair(
        "another app's, which the headers name",
        Identity(roles=ALL, default_user="alice"),
        {"Offprompt-App": "shop"},
        {"app": "shop", "user": "alice"},
    ),
    Pair(
        "another agent's of the same user",
        Identity(agents=("billing",), roles=ALL),
        {"Offprompt-User": "alice"},
        {"user": "alice", "agent": "support"},
    ),
    Pair("another agent's", Identity(agents=("billing",), roles=ALL), {}, {"agent": "support"}),
    Pair(
        "another agent's of the same user, granted to others alone",
        Identity(agents=("billing",), roles=ALL, key="f" * 16),
        {"Offprompt-User": "alice"},
        {"user": "alice", "agent": "support"},
        ("user:bob", "agent:sales", "key"),
    ),
)


def filled(scope: BoundScope, mark: str, session: str) -> str:
    """Everything that the examples name, in one scope; the id of a memory. mark: before names, "" for none."""
    for name in NAMES:
        scope.write(mark + name, "Oslo", policy="by_handle")
    (memory, *_) = scope.remember("My cat is called Muffin.", derive="none")
    own = scope.session(session, model="gpt-4o-mini")
    own.prepare([{"role": "user", "content": "Hello"}])
    own.absorb({"choices": [{"message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}]})
    return memory.name


class World:
    """A served store, with a clock that stands."""

    def __init__(self, path: Path, asks: Identity) -> None:
        self.memory: Offprompt = offprompt.open(str(path), clock=MovedClock())

        def identify(method: str, headers: Mapping[str, str], *, has_body: bool) -> Identity:
            del method, headers, has_body
            return asks

        self.app: Dispatch = make_app(self.memory, identify)
        self._loop = asyncio.Runner()  # an application lives in one loop

    def close(self) -> None:
        self._loop.close()
        self.memory.close()

    def ask(self, endpoint: Endpoint, path: str, content: bytes | None, headers: Mapping[str, str]) -> httpx.Response:
        async def once() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://t") as http:
                return await http.request(endpoint.method, path, content=content, headers=dict(headers))

        return self._loop.run(once())


@dataclass(frozen=True)
class Worlds:
    """One store where the others' records are what is asked for, and one where they are elsewhere."""

    there: World
    elsewhere: World
    memory_id: str
    key_id: str


@pytest.fixture(params=PAIRS, ids=lambda pair: pair.name)
def pair(request: pytest.FixtureRequest) -> Pair:
    return request.param


@pytest.fixture
def worlds(pair: Pair, tmp_path: Path) -> Iterator[Worlds]:
    base = tmp_path / "base.db"
    with offprompt.open(str(base), clock=MovedClock()) as memory:
        own: dict[str, Any]
        for own in ({"user": "alice"}, {"user": "alice", "agent": "billing"}, {"agent": "billing"}):
            scope = memory.scope(**own)
            scope.write("own", "1")
            scope.session("own", model="gpt-4o-mini").prepare([{"role": "user", "content": "Hello"}])
    for name in ("there", "elsewhere"):
        shutil.copy(base, tmp_path / f"{name}.db")
    there, elsewhere = World(tmp_path / "there.db", pair.asks), World(tmp_path / "elsewhere.db", pair.asks)
    with closing(there), closing(elsewhere):
        memory_id = filled(there.memory.scope(**pair.owner), "", "s1")
        key_app = pair.owner.get("app", "shop")
        key = there.memory.keys.create("theirs", app=key_app)
        moved: dict[str, Any] = {
            kind: ELSEWHERE[kind] for kind in pair.owner if kind != "user" or "app" not in pair.owner
        }
        filled(elsewhere.memory.scope(**{**pair.owner, **moved}), "z", "z1")
        elsewhere.memory.keys.create("theirs", app="zhop")
        for world, agent in ((there, pair.owner.get("agent", "")), (elsewhere, ELSEWHERE["agent"])):
            for to in pair.granted:
                key_id = world.memory.keys.create("granted").key.key_id if to == "key" else ""
                world.memory.grants.add("agent", agent, to=f"key:{key_id}" if key_id else to)
        yield Worlds(there, elsewhere, memory_id, key.key.key_id)


def requested(endpoint: Endpoint, worlds: Worlds, owner: str) -> tuple[str, bytes | None, dict[str, str]]:
    """The endpoint's example for another's records: path, content and headers. owner: the user whom it names."""
    example = endpoint.example

    def theirs(text: str) -> str:
        return (
            text.replace(NO_ID, worlds.memory_id).replace(NO_KEY, worlds.key_id).replace('"alice"', json.dumps(owner))
        )

    path = "/".join(
        quote(theirs(str(example.path.get(part[1:-1], "s1"))), safe="") if part.startswith("{") else part
        for part in endpoint.path.split("/")
    )
    query = {name: theirs(json.dumps(str(value))) for name, value in example.query.items()}
    path += f"?{httpx.QueryParams({name: json.loads(value) for name, value in query.items()})}" if query else ""
    headers, content = dict(example.headers), None
    if endpoint.body is not None:
        headers["Content-Type"] = endpoint.reads
        content = theirs(example.content if endpoint.is_stream else json.dumps(example.body)).encode()
    return path, content, headers


def opened(sealed: re.Match[bytes]) -> bytes:
    """What such an id says, without its seal."""
    text = sealed[0]
    return base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))[16:]


def seen(answer: httpx.Response) -> tuple[int, list[tuple[str, str]], bytes]:
    """What is compared: status, headers but date and the request's own id, and the body; drawn ids by their order."""
    found: dict[bytes, bytes] = {}
    body = SEALED.sub(opened, answer.content)
    body = MEASURED.sub(b"0", body)
    body = DRAWN.sub(lambda one: found.setdefault(one[0], b"<%d>" % len(found)), body)
    names = ("date", "request-id", "content-length")
    return answer.status_code, sorted((n, v) for n, v in answer.headers.items() if n not in names), body


def differing(pair: Pair, worlds: Worlds, owner: str) -> dict[str, Any]:
    """The routes that answer otherwise, with both answers."""
    wrong: dict[str, Any] = {}
    for endpoint in GUARDED:
        path, content, headers = requested(endpoint, worlds, owner)
        answers = [
            seen(world.ask(endpoint, path, content, {**headers, **pair.headers}))
            for world in (worlds.there, worlds.elsewhere)
        ]
        if answers[0] != answers[1]:
            wrong[endpoint.name] = answers
        if answers[0][0] >= 500 and answers[0][0] != 501:
            wrong[f"{endpoint.name} fails"] = answers[0]
    return wrong


def test_what_is_anothers_is_as_what_never_was(pair: Pair, worlds: Worlds) -> None:
    assert differing(pair, worlds, "alice") == {}


def test_naming_another_user_says_nothing_of_them(pair: Pair, worlds: Worlds) -> None:
    owner = str(pair.owner.get("user", "bob"))
    assert differing(pair, worlds, owner if owner != "alice" else "carol") == {}


def test_nothing_of_anothers_was_changed(pair: Pair, worlds: Worlds) -> None:
    scope = worlds.there.memory.scope(**pair.owner)

    def state() -> Any:
        slots = [(slot.name, slot.version, slot.value) for slot in scope.slots.list(within="exact")]
        memory = scope.memories.get(worlds.memory_id)
        return slots, memory, scope.session("s1", model="gpt-4o-mini").record, worlds.there.memory.keys.list("shop")

    before = state()
    assert before[1] is not None
    differing(pair, worlds, "alice")
    assert state() == before


@pytest.mark.parametrize("role", ROLES)
def test_each_route_wants_its_role(role: Role, tmp_path: Path) -> None:
    """With all other roles it is refused before anything is looked at."""
    world = World(tmp_path / "a.db", Identity(roles=frozenset({role}), default_user="alice"))
    nothing = Worlds(world, world, NO_ID, NO_KEY)
    wrong: dict[str, Any] = {}
    with closing(world):
        for endpoint in GUARDED:
            path, content, headers = requested(endpoint, nothing, "alice")
            answer = world.ask(endpoint, path, content, headers)
            is_refused = answer.status_code == 403
            if is_refused is not (role not in (endpoint.role, "admin")):
                wrong[endpoint.name] = answer.status_code, answer.text[:200]
    assert wrong == {}
