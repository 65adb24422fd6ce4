"""Streams of lines, as bodies and as answers."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec
import pytest

from offprompt.errors import NotFoundError
from offprompt.rest import answering
from offprompt.rest.dispatch import STREAMS, Dispatch
from offprompt.rest.endpoint import Call, Endpoint, Lines, LinesOf, Pieces, Shape
from offprompt.rest.guards import Identify
from offprompt.service.offprompt import Offprompt
from tests.rest.running import Running, running


class Line(Shape, frozen=True):
    number: int


def add(call: Call) -> dict[str, int]:
    return {"sum": sum(line.number for line in call.body)}


def doubled(call: Call) -> Lines:
    return Lines((Line(number=2 * line.number) for line in call.body), is_live=True)


def count(call: Call) -> Lines:
    def numbers() -> Iterator[object]:
        for number in range(int(call.path["n"])):
            if number == 9000:
                raise NotFoundError("no more")
            yield Line(number=number) if number % 2 else msgspec.Raw(f'{{"number":{number}}}')

    return Lines(numbers())


def nothing(call: Call) -> Lines:
    def lines() -> Iterator[object]:
        raise NotFoundError("nothing under that name; look elsewhere", name=call.path["n"])
        yield

    return Lines(lines())


CLOSED = threading.Event()


def endless(_: Call) -> Lines:
    def numbers() -> Iterator[object]:
        try:
            while True:
                yield Line(number=1)
        finally:
            CLOSED.set()

    return Lines(numbers())


TESTED = (
    Endpoint("GET", "/endless", "endless", endless, "Count for ever.", "t", answer=LinesOf(Line)),
    Endpoint("POST", "/add", "add", add, "Add.", "t", body=LinesOf(Line)),
    Endpoint("POST", "/double", "double", doubled, "Double.", "t", body=LinesOf(Line), answer=LinesOf(Line)),
    Endpoint("POST", "/raw", "raw", lambda call: {"bytes": sum(map(len, call.body))}, "Take.", "t", body=Pieces()),
    Endpoint("GET", "/count/{n}", "count", count, "Count.", "t", answer=LinesOf(Line)),
    Endpoint("GET", "/nothing/{n}", "nothing", nothing, "Nothing.", "t", answer=LinesOf(Line)),
)
NDJSON = {"content-type": "application/x-ndjson"}


def app_of(memory: Offprompt, identify: Identify) -> Dispatch:
    return Dispatch(memory, TESTED, identify)


@pytest.fixture(scope="module")
def lines() -> Iterator[Running]:
    with running(app_of=app_of) as own:
        yield own


def post(lines: Running, path: str, body: Any) -> httpx.Response:
    return lines.http.post(path, content=body, headers=NDJSON)


def test_lines_are_read_whatever_pieces_they_come_in(lines: Running) -> None:
    text = b"".join(b'{"number":%d}\n' % number for number in range(1000)) + b"\n" + b'{"number":1}'
    for size in (7, 1000, len(text)):
        pieces = (text[at : at + size] for at in range(0, len(text), size))
        assert post(lines, "/add", pieces).json() == {"sum": 999 * 500 + 1}
    assert post(lines, "/add", b"").json() == {"sum": 0}


def test_a_wrong_line_is_named(lines: Running) -> None:
    for line, status in ((b'{"number":"x"}', 422), (b"{", 400), (b'{"number":1,"number":2}', 400), (b"\xff", 400)):
        refused = post(lines, "/add", b'{"number":1}\n\n' + line + b'\n{"number":1}\n')
        assert refused.status_code == status, refused.text
        assert refused.json()["detail"].startswith("line 3 ")


def test_bytes_are_handed_on_unread(lines: Running) -> None:
    pieces = (b"\xff\n" * 1000 for _ in range(1000))
    sent = lines.http.post("/raw", content=pieces, headers={"content-type": "application/octet-stream"})
    assert sent.json() == {"bytes": 2_000_000}
    assert post(lines, "/raw", b"{}").status_code == 415


def test_an_answer_comes_while_the_body_is_sent_and_holds_all(lines: Running) -> None:
    answer = post(lines, "/double", (b'{"number":%d}\n' % number for number in range(100)))
    assert [json.loads(line)["number"] for line in answer.text.splitlines()] == [2 * number for number in range(100)]
    assert answer.headers["content-type"] == "application/x-ndjson"


def test_lines_of_an_answer_stand_one_to_a_line(lines: Running) -> None:
    answer = lines.http.get("/count/3000")
    assert [json.loads(line)["number"] for line in answer.text.splitlines()] == list(range(3000))
    assert lines.http.get("/count/0").text == ""


def test_an_answer_that_fails_before_its_first_line_is_a_problem(lines: Running) -> None:
    answer = lines.http.get("/nothing/x")
    assert (answer.status_code, answer.json()["code"]) == (404, "NotFoundError")


def test_an_answer_that_fails_later_breaks_off_so_that_the_client_sees_it(lines: Running) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        lines.http.get("/count/9999")


@pytest.mark.parametrize("leaves", [True, False])
def test_an_answer_that_nobody_takes_ends(lines: Running, monkeypatch: pytest.MonkeyPatch, *, leaves: bool) -> None:
    if not leaves:
        monkeypatch.setattr(answering, "SEND_S", 0.1)
    CLOSED.clear()
    parts = urlsplit(lines.url)
    with socket.create_connection((parts.hostname or "", parts.port or 0)) as sent:
        sent.sendall(b"GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert sent.recv(100)
        if leaves:
            sent.close()
        assert CLOSED.wait(30)
    assert lines.http.get("/count/1").status_code == 200


def test_lines_of_another_type_are_refused(lines: Running) -> None:
    assert lines.http.post("/add", content=b"{}", headers={"content-type": "application/json"}).status_code == 415
    assert lines.http.post("/add", content=b"{}").status_code == 415
    assert lines.http.get("/count/1", headers={"accept": "application/json"}).status_code == 406


def test_no_more_streams_than_there_are_threads_for(lines: Running) -> None:
    lines.app._streaming += STREAMS  # pyright: ignore[reportPrivateUsage]
    try:
        refused = post(lines, "/add", b"")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    finally:
        lines.app._streaming -= STREAMS  # pyright: ignore[reportPrivateUsage]
    assert post(lines, "/add", b"").status_code == 200
