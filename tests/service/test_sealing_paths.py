"""A canary on each path into a store: sealed into its slot, a handle in its place, and in no other cell."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import offprompt
from offprompt.records.tables import TABLES
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt
from offprompt.service.subject_rows import engine_of, scanned
from offprompt.testing import MovedClock
from offprompt.testing.upstream import Upstream
from tests.gateway.conftest import before
from tests.mcp.conftest import call, said, server_of
from tests.rest.running import running
from tests.servers import of_run, postgres_url, redis_url

PHONE = "138 1234 5678"
BARE = PHONE.replace(" ", "")
HANDLE = re.compile(r"\[\[mem:(phone_[a-p]{10})\]\]")
SEALED: dict[str, Any] = {"redact_seal": "phone", "redact_kinds": "phone, bank_card", "embedder": "none"}


def cells(mem: Offprompt) -> dict[str, str]:
    """What stands in each table, without what is the sealed slot's own."""
    return {name: str(list(scanned(engine_of(mem.parts, name), name))) for name in TABLES if name != "versions"}


def check(mem: Offprompt, own: BoundScope) -> None:
    """The canary is in its slot, by handle in the memories, and nowhere else."""
    (slot,) = own.slots.list(tags=["sealed"])
    assert (slot.policy, str(slot.value).replace(" ", "")) == ("never", BARE)
    there = cells(mem)
    assert [name for name, text in there.items() if PHONE in text or BARE in text] == []
    assert slot.name in HANDLE.findall(there["memories"] + there["journal"])


def remembered(**options: Any) -> Callable[[BoundScope, Path], object]:
    return lambda own, _: own.remember("She can be reached.", derive="none", **options)


def updated(own: BoundScope, _: Path) -> None:
    kept = own.remember("She can be reached.", derive="none")[0].name
    own.memories.update(kept, metadata={"phones": [PHONE]})


def retagged(own: BoundScope, _: Path) -> None:
    kept = own.remember("She can be reached.", derive="none")[0].name
    own.memories.update(kept, tags=[PHONE])


def spoken(own: BoundScope, _: Path) -> None:
    own.remember([{"role": "user", "content": "Hello there.", "name": PHONE}], derive="none")


def chat_log(own: BoundScope, folder: Path) -> None:
    file = folder / "chat.json"
    file.write_text(json.dumps({"messages": [{"role": "user", "content": f"Call {PHONE}"}]}))
    own.memories.import_file(file)


def own_lines(own: BoundScope, folder: Path) -> None:
    with offprompt.open(":memory:", embedder="none", redact="off", redact_kinds="") as other:
        other.scope(user="alice").remember(f"Call {PHONE}", metadata={"at": BARE}, derive="none")
        other.scope(user="alice").memories.export(folder / "out.jsonl")
    own.memories.import_file(folder / "out.jsonl")


def in_session(own: BoundScope, _: Path) -> None:
    session = own.session("s1", model="gpt-4o-mini")
    session.prepare([{"role": "user", "content": f"Call {PHONE}"}])
    message = {"role": "assistant", "content": "I will."}
    session.absorb({"choices": [{"message": message, "finish_reason": "stop", "index": 0}]})


PATHS: dict[str, Callable[[BoundScope, Path], object]] = {
    "metadata": remembered(metadata={"contact": {"phone": PHONE}}),
    "a key of metadata": remembered(metadata={PHONE: 1}),
    "a number in metadata": remembered(metadata={"phone": int(BARE)}),
    "tags": remembered(tags=["sister", PHONE]),
    "an update's metadata": updated,
    "an update's tags": retagged,
    "a speaker": spoken,
    "a chat log": chat_log,
    "lines of ours": own_lines,
    "a session": in_session,
}


@pytest.mark.parametrize("path", PATHS)
def test_a_canary_is_sealed_on_each_path(path: str, tmp_path: Path) -> None:
    with offprompt.open(tmp_path / "m.db", clock=MovedClock(), **SEALED) as mem:
        own = mem.scope(user="alice")
        PATHS[path](own, tmp_path)
        check(mem, own)
        for memory in own.memories.list():
            own.memories.erase(memory.memory_id)
        assert own.slots.list(tags=["sealed"]) == own.slots.list(tags=["sealed"], forgotten=True) == []


def test_what_waits_on_this_machine_is_sealed_when_it_is_stored(tmp_path: Path) -> None:
    with offprompt.open(tmp_path / "m.db", clock=MovedClock(), write_deadline_s=5.0, **SEALED) as mem:
        own, spool = mem.scope(user="alice"), mem.parts.spool
        assert spool is not None
        real = mem.parts.memories.kit.uses.apply

        def away(*_: object) -> Any:
            raise offprompt.BackendError("away")

        object.__setattr__(mem.parts.memories.kit.uses, "apply", away)
        card = "4111 1111 1111 1111"
        done = own.remember(f"Call {PHONE}, card {card}", metadata={"phone": PHONE}, tags=[PHONE], derive="none")
        assert [one.outcome for one in done] == ["spooled"]
        assert PHONE not in done[0].text
        assert card not in spool.path.read_text()
        object.__setattr__(mem.parts.memories.kit.uses, "apply", real)
        assert spool.replay().done == 1
        check(mem, own)
        (memory,) = own.memories.list()
        assert len(HANDLE.findall(str([memory.text, memory.metadata, memory.tags]))) == 3
        assert not spool.path.exists()


def test_over_rest_it_is_sealed() -> None:
    with running(":memory:", **SEALED) as server, offprompt.open(server.url) as client:
        own = client.scope(user="alice")
        own.remember(f"Call {PHONE}", metadata={"phone": PHONE}, tags=[PHONE], derive="none")
        check(server.memory, server.memory.scope(user="alice"))
        assert PHONE not in str([own.memories.list(), own.memories.recall("call")])


def test_through_mcp_it_is_sealed() -> None:
    with offprompt.open(":memory:", **SEALED) as mem:
        server = server_of(mem).server
        assert PHONE not in said(call(server, "mem_write", value=f"Call {PHONE}"))
        assert PHONE not in said(call(server, "mem_search", query="What do you know about me?"))
        check(mem, mem.scope(user="alice"))


def test_through_the_gateway_it_is_sealed() -> None:
    message = {"role": "assistant", "content": "I will."}
    answer = {"choices": [{"message": message, "finish_reason": "stop", "index": 0}]}
    with before(Upstream([answer]), settings=SEALED) as gateway:
        asked = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": f"Call {PHONE}"}]}
        done = httpx.post(f"{gateway.url}/v1/chat/completions", json=asked, headers={"Authorization": "Bearer sk-x"})
        assert done.status_code == 200
        check(gateway.memory, gateway.alice)


def test_in_postgresql_and_redis_it_is_sealed(request: pytest.FixtureRequest) -> None:
    own = uuid.uuid4().hex
    url = (
        f"memories={postgres_url(of_run(request, 'postgres'))}?schema=t{own} "
        f"slots={redis_url(of_run(request, 'redis'))}?prefix=t{own}"
    )
    with offprompt.open(url, clock=MovedClock(), **SEALED) as mem:
        alice = mem.scope(user="alice")
        alice.remember(f"Call {PHONE}", metadata={"phone": PHONE}, tags=[PHONE], derive="none")
        check(mem, alice)
