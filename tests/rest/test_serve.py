"""`offprompt serve` as a process: how it begins, how it ends, its workers, and what it says when it cannot begin."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

import offprompt
from tests.rest.process import WAIT_S, Process, failed, is_alive, serving, wait_until

LINE = b'{"messages": [{"role": "user", "content": "I moved to Shanghai in May."}]}\n'


@contextmanager
def upload(
    own: Process, line: str = "POST /v1/import", kind: str = "application/octet-stream"
) -> Generator[socket.socket]:
    """A request that runs until its body is sent to the end: that is up to the test."""
    parts = urlsplit(own.url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), WAIT_S) as sent:
        head = (
            f"{line} HTTP/1.1\r\nHost: localhost\r\nOffprompt-User: alice\r\n"
            f"Authorization: {own.headers['Authorization']}\r\nContent-Type: {kind}\r\n"
            "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
        )
        sent.sendall(head.encode())
        assert sent.recv(1000).startswith(b"HTTP/1.1 100")  # it runs
        yield sent


def finish(sent: socket.socket) -> bytes:
    """Send the rest of the body, and read the whole answer."""
    sent.sendall(b"%x\r\n%s\r\n0\r\n\r\n" % (len(LINE), LINE))
    raw = b""
    while piece := sent.recv(65536):
        raw += piece
    return raw


def test_it_says_where_it_listens_and_where_the_token_is(tmp_path: Path) -> None:
    with serving(tmp_path) as own:
        assert own.said["pid"] == own.popen.pid
        assert Path(own.said["token_file"]).stat().st_mode & 0o777 == 0o600
        with own.client() as http:
            assert http.get("/ready").json() == {"status": "ready"}
            assert http.post("/mem/write", json={"slot": "city", "value": "上海"}).json()["version"] == 1
            assert http.get("/mem/read", params={"slot": "city"}).json()["value"] == "上海"
        assert httpx.get(f"{own.url}/mem/read?slot=city").status_code == 401
        token = Path(own.said["token_file"])
        assert (own.end(), token.exists()) == (0, False)


def test_the_command_that_it_prints_works_in_chinese_too(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "offprompt", "serve", "--port", "0", "--url", str(tmp_path / "agent.db")]
    with subprocess.Popen([*words, "--log", "off", "--lang", "zh"], stdout=subprocess.PIPE, text=True) as popen:
        assert popen.stdout is not None
        first, second = popen.stdout.readline(), popen.stdout.readline()
        assert first.startswith("正在监听 http://127.0.0.1:")
        line = second.partition("curl ")[2]
        sent = subprocess.run(["bash", "-c", f"curl -sS {line}"], capture_output=True, text=True, check=True)
        assert '"slot":"city"' in sent.stdout
        popen.send_signal(signal.SIGINT)
        assert popen.wait(WAIT_S) == 0


def test_what_runs_is_finished_and_nothing_new_is_taken(tmp_path: Path) -> None:
    with serving(tmp_path) as own, own.client() as http, upload(own) as sent:
        assert http.get("/ready").status_code == 200
        own.popen.send_signal(signal.SIGTERM)
        wait_until(lambda: http.get("/ready").status_code == 503)
        refused = http.get("/v1/slots")
        assert (refused.status_code, refused.headers["connection"], refused.headers["retry-after"]) == (
            503,
            "close",
            "1",
        )
        assert http.get("/health").status_code == 200
        assert b"HTTP/1.1 200" in finish(sent)
        assert own.popen.wait(WAIT_S) == 0
    with offprompt.open(str(tmp_path / "agent.db")) as memory:
        assert "Shanghai" in str(memory.scope(user="alice").memories.list())


def test_what_takes_too_long_is_broken_off(tmp_path: Path) -> None:
    with serving(tmp_path, "--stop", "0.1") as own, upload(own):
        assert own.end() == 0
        assert "stopped with 1 requests" in own.errors.read_text()


def test_a_store_that_does_not_answer_does_not_keep_it(tmp_path: Path) -> None:
    with serving(tmp_path, "--stop", "0.5") as own, closing(sqlite3.connect(tmp_path / "agent.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        with upload(own, "PUT /v1/slots/city", "application/json") as sent:
            sent.sendall(b'b\r\n{"value":1}\r\n0\r\n\r\n')
            assert own.end() == 0


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with serving(tmp_path) as own, own.client() as http, upload(own):
        own.popen.send_signal(signal.SIGTERM)
        wait_until(lambda: http.get("/ready").status_code == 503)
        assert own.end() == 128 + signal.SIGTERM


def test_uses_that_were_kept_back_are_stored_in_the_end(tmp_path: Path) -> None:
    with serving(tmp_path) as own:
        with own.client() as http:
            http.put("/v1/slots/city", json={"value": "Shanghai"})
            for _ in range(5):
                http.get("/v1/slots/city")
        assert own.end() == 0
    with offprompt.open(str(tmp_path / "agent.db")) as memory:
        slot = memory.scope(user="alice").slots.get("city", touch=False)
        assert slot is not None
        assert slot.uses == 5


def test_a_worker_that_dies_is_begun_again_and_nothing_is_lost(tmp_path: Path) -> None:
    with serving(tmp_path, "--workers", "2") as own:
        first = own.workers
        assert len(first) == 2
        for number in range(3):
            with own.client() as http:
                assert http.put(f"/v1/slots/n{number}", json={"value": number}).status_code == 201
            os.kill(own.workers[number % 2], signal.SIGKILL)
            wait_until(lambda: len([pid for pid in own.workers if is_alive(pid)]) == 2)
        assert set(first) != set(own.workers)
        wait_until(lambda: answers(own, "/ready"))
        with own.client() as http:
            assert [slot["value"] for slot in http.get("/v1/slots").json()["slots"]] == list(range(3))
        left = own.workers
        assert own.end() == 0
        assert not [pid for pid in left if is_alive(pid)]


def answers(own: Process, path: str) -> bool:
    """Whether it answers; a connection that a killed worker had taken breaks off."""
    try:
        return httpx.get(f"{own.url}{path}", timeout=WAIT_S).status_code == 200
    except httpx.TransportError:
        return False


def test_workers_finish_what_runs_too(tmp_path: Path) -> None:
    with serving(tmp_path, "--workers", "2") as own, upload(own) as sent:
        own.popen.send_signal(signal.SIGTERM)
        wait_until(lambda: len(own.workers) == 1)
        assert b"HTTP/1.1 200" in finish(sent)
        assert own.popen.wait(WAIT_S) == 0


def test_workers_end_with_who_looks_after_them(tmp_path: Path) -> None:
    with serving(tmp_path, "--workers", "2") as own:
        workers = own.workers
        own.popen.kill()
        wait_until(lambda: not [pid for pid in workers if is_alive(pid)])


def test_a_second_signal_ends_all_workers_at_once(tmp_path: Path) -> None:
    with serving(tmp_path, "--workers", "2") as own, upload(own):
        workers = own.workers
        own.popen.send_signal(signal.SIGTERM)
        wait_until(lambda: len(own.workers) == 1)
        assert own.end() == 128 + signal.SIGTERM
        wait_until(lambda: not [pid for pid in workers if is_alive(pid)])


def test_a_port_that_is_taken_is_said_so(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, said = failed("--url", str(tmp_path / "a.db"), "--port", port)
    assert code == 5
    assert f"cannot listen on 127.0.0.1:{port}" in said
    assert "--port" in said


def test_a_store_that_is_away_is_said_so_once_though_there_are_workers() -> None:
    # The store tries for five seconds.
    code, said = failed("--url", "postgresql://u@127.0.0.1:1/x", "--workers", "2", "--log", "off")
    assert code == 5
    assert said.count("127.0.0.1:1") == 1
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--url", ":memory:", "--workers", "2"), "':memory:'"),
        (("--url", "memories=:memory: vectors=qdrant://127.0.0.1:1", "--workers", "2"), "':memory:'"),
        (("--url", ":memory:", "--host", "0.0.0.0"), "key"),  # noqa: S104 - refused
        (("--url", ":memory:", "--host", "nowhere.invalid"), "nowhere.invalid"),
        (("--workers", "0"), "workers"),
    ],
    ids=["memory", "roles", "keys", "host", "workers"],
)
def test_what_cannot_be_served_is_refused(words: tuple[str, ...], part: str) -> None:
    code, said = failed(*words)
    assert code == 2
    assert part in said
    assert said.count("\n") == 1


def test_a_missing_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['uvicorn'] = None; from offprompt.cli import main; "
        "sys.exit(main(['serve', '--port', '0', '--url', ':memory:']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert "pip install 'offprompt[serve]'" in done.stderr


def test_connections_leave_room_for_the_files_of_the_store(tmp_path: Path) -> None:
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (300, 500)); "
        "from offprompt.rest.serving import OTHER_FILES, room_for_connections as room; "
        "assert room() == 500 - OTHER_FILES; assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 500"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)
