"""Idempotency-Key: what is sent again is not done again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from offprompt.errors import BackendError
from offprompt.records import Identity
from offprompt.rest.app import ENDPOINTS
from offprompt.rest.dispatch import Dispatch, Identify
from offprompt.rest.endpoint import Call, Endpoint, Shape
from offprompt.rest.once import BEGUN_S, KEPT_S, MAX_KEPT_BYTES
from offprompt.service.offprompt import Offprompt
from offprompt.testing import MovedClock
from tests.rest.running import Running, running

DONE: list[str] = []
GATE = threading.Event()
INSIDE = threading.Event()


class What(Shape, frozen=True):
    what: str


def act(call: Call) -> dict[str, Any]:
    what = call.body.what
    DONE.append(what)
    if what == "away":
        raise BackendError("the store is away")
    if what == "broken":
        raise ZeroDivisionError
    if what == "slow":
        INSIDE.set()
        assert GATE.wait(30)
    return {"what": "x" * (MAX_KEPT_BYTES if what == "long" else 1), "count": len(DONE)}


ACT = Endpoint("POST", "/act", "act", act, "Act.", "t", role="write", body=What)
LOOK = Endpoint("POST", "/look", "look", act, "Look.", "t", role="read", body=What)


def app_of(memory: Offprompt, identify: Identify) -> Dispatch:
    return Dispatch(memory, (*ENDPOINTS, ACT, LOOK), identify)


@pytest.fixture(scope="module")
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture(scope="module")
def once(clock: MovedClock) -> Iterator[Running]:
    with running(app_of=app_of, clock=clock) as own:
        yield own


def ask(once: Running, key: str, what: str, path: str = "/act") -> httpx.Response:
    return once.ask("POST", path, json={"what": what}, headers={"Idempotency-Key": key})


def write(once: Running, key: str, value: str, **headers: str) -> httpx.Response:
    return once.ask("PUT", "/v1/slots/city", json={"value": value}, headers={"Idempotency-Key": key, **headers})


def same(first: httpx.Response, second: httpx.Response) -> bool:
    names = ("content-type", "etag")
    return (first.status_code, first.content, [first.headers.get(name) for name in names]) == (
        second.status_code,
        second.content,
        [second.headers.get(name) for name in names],
    )


def test_the_same_is_answered_byte_for_byte_and_done_once(once: Running) -> None:
    first = write(once, "a1", "上海")
    once.ask("PUT", "/v1/slots/city", json={"value": "北京"})
    assert same(write(once, "a1", "上海"), first)
    assert once.ask("GET", "/v1/slots/city").json()["value"] == "北京"


def test_a_key_stands_for_one_request(once: Running) -> None:
    write(once, "b1", "a")
    others = [
        write(once, "b1", "b"),
        write(once, "b1", "a", **{"If-Match": '"1"'}),
        write(once, "b1", "a", **{"Offprompt-Session": "s"}),
        once.ask("PUT", "/v1/slots/town", json={"value": "a"}, headers={"Idempotency-Key": "b1"}),
        once.ask("DELETE", "/v1/slots/city", headers={"Idempotency-Key": "b1"}),
    ]
    assert [answer.status_code for answer in others] == [422] * 5
    assert "another request" in others[0].json()["detail"]


def test_a_refusal_is_kept_and_trouble_is_not(once: Running) -> None:
    refused = write(once, "c1", "x", **{"If-Match": '"99"'})
    assert (refused.status_code, same(write(once, "c1", "x", **{"If-Match": '"99"'}), refused)) == (412, True)
    for what, status in (("away", 503), ("broken", 500)):
        before = len(DONE)
        assert [ask(once, f"c-{what}", what).status_code for _ in range(2)] == [status, status]
        assert DONE[before:] == [what, what]


def test_what_is_being_done_is_not_begun_a_second_time(once: Running) -> None:
    answers: list[httpx.Response] = []
    first = threading.Thread(target=lambda: answers.append(ask(once, "d1", "slow")))
    first.start()
    assert INSIDE.wait(30)
    busy = ask(once, "d1", "slow")
    assert (busy.status_code, busy.headers["retry-after"], busy.json()["code"]) == (409, "1", "ConflictError")
    GATE.set()
    first.join()
    assert same(ask(once, "d1", "slow"), answers[0])
    assert DONE.count("slow") == 1


def test_what_a_lost_server_began_may_be_begun_anew(once: Running, clock: MovedClock) -> None:
    key = "http " + "0" * 64
    coordinator = once.memory.parts.coordinator
    assert coordinator.once(key, "d", seconds=BEGUN_S) is None
    clock.move(BEGUN_S)
    assert coordinator.once(key, "d", seconds=BEGUN_S) is None


def test_a_write_that_a_lost_server_stored_is_not_made_again(once: Running, clock: MovedClock) -> None:
    def lost(*_: object, **__: object) -> None:
        raise BackendError("the server ended here")

    for number, (method, path, body) in enumerate(
        [
            ("PUT", "/v1/slots/w1", {"value": 1}),
            ("POST", "/mem/write", {"slot": "w1", "value": 2}),
            ("POST", "/v1/model/write", {"name": "w1", "value": 3}),
        ]
    ):
        own = {"Idempotency-Key": f"w{number}"}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(once.memory.parts.coordinator), "finish", lost)
            assert once.ask(method, path, json=body, headers=own).status_code == 503
        clock.move(BEGUN_S)
        assert once.ask(method, path, json=body, headers=own).json()["version"] == number + 1


def test_keys_are_kept_for_a_day(once: Running, clock: MovedClock) -> None:
    first = ask(once, "e1", "x")
    clock.move(KEPT_S - 1)
    assert same(ask(once, "e1", "x"), first)
    clock.move(1)
    assert not same(ask(once, "e1", "x"), first)


def test_of_a_long_answer_only_that_it_was_given_is_kept(once: Running) -> None:
    assert ask(once, "f1", "long").status_code == 200
    again = ask(once, "f1", "long")
    assert (again.status_code, again.json()["code"], DONE.count("long")) == (409, "ConflictError", 1)


def test_what_only_reads_may_be_asked_again(once: Running) -> None:
    before = len(DONE)
    assert [ask(once, "g1", what, "/look").status_code for what in ("x", "y")] == [200, 200]
    assert len(DONE) == before + 2


@pytest.mark.parametrize("key", ["", "a b", "é", "x" * 256])
def test_what_is_no_key_is_refused(once: Running, key: str) -> None:
    named = [(b"Idempotency-Key", key.encode()), (b"Offprompt-User", b"alice")]
    assert once.http.post("/act", json={"what": "x"}, headers=named).status_code == 400


def test_two_who_send_one_key_do_not_meet() -> None:
    def by_header(method: str, headers: Any, *, has_body: bool) -> Identity:
        del method, has_body
        return Identity(key=headers["authorization"])

    with running(identify=by_header) as own:
        first, second = (
            own.ask(
                "PUT", "/v1/slots/city", json={"value": who}, headers={"Idempotency-Key": "k", "Authorization": who}
            )
            for who in ("a", "b")
        )
    assert (first.json()["version"], second.json()["version"]) == (1, 2)


def test_servers_of_one_store_agree(tmp_path: Path) -> None:
    url = str(tmp_path / "agent.db")
    with running(url) as one, running(url) as other:
        with ThreadPoolExecutor(8) as threads:
            asked = [threads.submit(write, own, "s1", "a") for own in [one, other] * 4]
        answers = [each.result() for each in asked]
        assert {answer.status_code for answer in answers} <= {201, 409}
        assert {answer.content for answer in answers if answer.status_code == 201} == {write(other, "s1", "a").content}
        assert other.ask("GET", "/v1/slots/city").json()["version"] == 1


def test_no_answer_can_be_read_in_the_store(tmp_path: Path) -> None:
    with running(str(tmp_path / "agent.db")) as own:
        write(own, "a-key-to-look-for", "a-value-to-look-for 要找的值")
        own.ask("POST", "/v1/slots/city/erase")
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert kept
    assert b"a-value-to-look-for" not in kept
    assert b"a-key-to-look-for" not in kept
