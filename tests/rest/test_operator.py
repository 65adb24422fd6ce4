"""What an operator of `offprompt serve` gets: numbers of all workers, a log, traces, with a real process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.house.tree import ROOT
from tests.rest.process import Process, serving, wait_until

VALUE = "上海 where nobody looks"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with serving(tmp_path_factory.mktemp("operator"), "--workers", "2", "--log", "json") as own:
        yield own


def number(said: str, name: str) -> float:
    return sum(float(line.rpartition(" ")[2]) for line in said.splitlines() if line.startswith(name))


def line_of(server: Process, answer: httpx.Response) -> dict[str, Any]:
    """A request's line in the log, all lines of which are JSON."""
    found: list[dict[str, Any]] = []

    def is_there() -> bool:
        lines = [
            json.loads(line) for line in server.errors.read_text().splitlines(keepends=True) if line.endswith("\n")
        ]
        found[:] = [one for one in lines if one.get("request") == answer.headers["request-id"]]
        return bool(found)

    wait_until(is_there)  # it is written when the request is over, a moment after its answer
    (line,) = found
    return line


def test_the_numbers_are_those_of_all_workers_and_outlive_one_that_is_killed(server: Process) -> None:
    for each in range(20):
        with server.client() as http:  # a connection of its own, to whichever worker takes it
            assert http.put(f"/v1/slots/name{each}", json={"value": VALUE}).status_code == 201
    series = 'offprompt_requests_total{method="PUT",route="/v1/slots/{name}",status="201"}'

    def text() -> str:
        with server.client() as http:
            said = http.get("/metrics")
        assert said.headers["content-type"].startswith("text/plain; version=0.0.4")
        return said.text

    wait_until(lambda: number(text(), series) == 20)  # a request is counted when it is over, a moment after its answer
    said = text()
    assert number(said, "offprompt_requests_in_flight") == 1
    os.kill(server.workers[0], signal.SIGKILL)
    answers: list[str] = []
    while len(answers) < 5:  # whichever answers, and whoever takes the place of the killed one
        answers.append(text())
    assert {number(one, series) for one in answers} == {20}
    assert VALUE not in "".join(answers)


def test_the_log_is_lines_of_json_that_tell_no_value(server: Process) -> None:
    with server.client() as http:
        answer = http.post("/mem/write", json={"slot": "city", "value": VALUE})
    line = line_of(server, answer)
    assert (line["method"], line["route"], line["status"], line["app"]) == ("POST", "/mem/write", 200, "default")
    assert VALUE not in server.errors.read_text()
    assert "上海" not in server.errors.read_text()


def test_numbers_are_for_admins_alone(server: Process) -> None:
    with server.client() as http:
        token = http.post("/v1/keys", json={"name": "shop", "roles": ["read", "write"]}).json()["token"]
        refused = http.get("/metrics", headers={"Authorization": f"Bearer {token}"})
        used = http.get("/v1/slots", headers={"Authorization": f"Bearer {token}"})
        own = {"name": "prometheus", "users": ["prometheus"], "roles": ["admin"]}  # sees numbers, and nobody's memory
        theirs = {"Authorization": f"Bearer {http.post('/v1/keys', json=own).json()['token']}"}
        assert http.get("/metrics", headers=theirs).status_code == 200
        assert http.get("/v1/slots", headers=theirs).status_code == 403
    assert (refused.status_code, used.status_code) == (403, 200)
    assert line_of(server, refused)["key"] == line_of(server, used)["key"] != ""
    assert token not in server.errors.read_text()


def test_the_image_asks_after_its_health_as_the_server_answers(server: Process) -> None:
    asks = (ROOT / "Dockerfile").read_text(encoding="utf-8").partition("HEALTHCHECK")[2]
    command = json.loads("[" + asks.partition("CMD [")[2].partition("]")[0] + "]")
    answered = subprocess.run(
        [sys.executable, *command[1:-1], command[-1].replace("http://127.0.0.1:7333", server.url)], check=False
    )
    assert answered.returncode == 0


class _Receiver(BaseHTTPRequestHandler):
    """Takes spans as OpenTelemetry's exporter sends them."""

    taken: list[bytes]

    def do_POST(self) -> None:
        self.taken.append(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        del format, args


def test_spans_go_where_the_environment_says_and_the_last_ones_before_the_end(tmp_path: Path) -> None:
    taken: list[bytes] = []
    receiver = ThreadingHTTPServer(("127.0.0.1", 0), type("Receiver", (_Receiver,), {"taken": taken}))
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    try:
        where = f"http://127.0.0.1:{receiver.server_address[1]}"
        with serving(
            tmp_path, "--log", "text", OTEL_EXPORTER_OTLP_ENDPOINT=where, OTEL_BSP_SCHEDULE_DELAY="60000"
        ) as own:
            with own.client() as http:
                parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
                http.put("/v1/slots/city", json={"value": VALUE}, headers={"traceparent": parent})
            assert own.end() == 0
        log = own.errors.read_text()
    finally:
        receiver.shutdown()
        receiver.server_close()
    sent = b"".join(taken)
    assert b"PUT /v1/slots/{name}" in sent
    assert bytes.fromhex("4bf92f3577b34da6a3ce929d0e0e4736") in sent
    assert VALUE.encode() not in sent
    assert re.search(r"Z 201 PUT /v1/slots/\{name\} [\d.]+ ms .* trace=4bf92f3577b34da6a3ce929d0e0e4736\n", log)
