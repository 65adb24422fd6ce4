"""The client's own keys go to the upstream, and are nowhere else: not in a store, a log, an error, an export."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sqlite3
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import pytest

import offprompt
from offprompt import cli
from offprompt.rest.logs import log_to
from tests.gateway.between import Between
from tests.gateway.echo import whole
from tests.gateway.standing import PATHS, body, post, said, standing
from tests.service.talk import Wire, call

CANARIES = {
    "Authorization": "Bearer sk-canary-authorization-7731",
    "X-Api-Key": "sk-canary-anthropic-7732",
    "Api-Key": "canary-azure-7733",
    "Cookie": "session=canary-cookie-7734",
    "X-Goog-Api-Key": "canary-goog-7735",
    "OpenAI-Organization": "org-canary-7736",
}
QUERY = "key=canary-query-7737"
MARK = b"canary"


def everything_in(folder: Path) -> list[str]:
    """Files of the folder in whose bytes a canary stands."""
    return [str(path) for path in folder.rglob("*") if path.is_file() and MARK in path.read_bytes()]


@pytest.fixture
def log() -> Generator[io.StringIO]:
    """What the server's log says, with every logger at DEBUG; it has no access log of the library below."""
    root, out = logging.getLogger(), io.StringIO()
    handlers, level = root.handlers[:], root.level
    log_to("json", out)
    root.setLevel(logging.DEBUG)
    logging.getLogger("offprompt").setLevel(logging.DEBUG)
    logging.getLogger("uvicorn.access").disabled = True
    yield out
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)
    logging.getLogger("offprompt").setLevel(logging.NOTSET)
    logging.getLogger("uvicorn.access").disabled = False


def test_a_clients_keys_are_in_no_byte_that_is_kept(
    tmp_path: Path, wire: Wire, log: io.StringIO, capfd: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    """Through an ordinary turn with a memory call, a stream, a refusal, an upstream's error and a store that fails."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    replies = said(wire, call("mem_write", slot="city", value="Ulm"), "Noted.", "Ulm.")
    told: list[str] = []
    with offprompt.open(tmp_path / "a.db", write_deadline_s=0.5) as memory:
        with standing(memory, replies, user="alice") as running:

            def ask(asked: Any, path: str = f"{PATHS[wire]}?{QUERY}", **headers: str) -> httpx.Response:
                answer = httpx.post(running.url + path, json=asked, headers={**CANARIES, **headers}, timeout=30)
                told.extend([answer.text, repr(answer.headers)])
                return answer

            assert ask(body(wire, "I live in Ulm")).status_code == 200
            assert ask(body(wire, "Where?", stream=True)).status_code == 200
            assert ask(body(wire, "The script is at its end")).status_code == 500
            assert ask(body(wire, "Hi"), **{"Offprompt-User": "bob"}).status_code == 403
            ask({"no": "conversation"})
            ask({}, path=f"/v1/files?{QUERY}")

            load = memory.parts.main.load

            def away(*_: object, **__: object) -> Any:
                raise offprompt.BackendError("the store is away")

            monkeypatch.setattr(memory.parts.main, "load", away)
            ask(body(wire, "Hello"))
            monkeypatch.setattr(memory.parts.main, "load", load)
            running.upstream.replies = said(wire, "What a name.")
            spool = memory.parts.spool
            assert spool is not None
            assert tmp_path in spool.path.parents
            with contextlib.closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                assert ask(body(wire, "My dog is called Rex")).headers["offprompt-memory"].startswith("off; ")
                other.execute("ROLLBACK")
            assert "Rex" in spool.path.read_text()
            assert everything_in(spool.path.parent) == []
        scope = memory.scope(user="alice")
        scope.memories.export(tmp_path / "export.jsonl")
        sessions = [scope.session(one, wire=wire, model="") for one in scope.memories.sessions()]
        kept = [repr([one.journal(), one.ledger(), one.record]) for one in sessions]
        kept += [repr(scope.events()), repr(scope.slots.list(within="subtree"))]
        # While it is open the write-ahead log holds what the file does not yet.
        assert (tmp_path / "a.db-wal").exists()
        assert everything_in(tmp_path) == []
    assert everything_in(tmp_path) == []
    monkeypatch.setenv("OFFPROMPT_URL", str(tmp_path / "a.db"))
    for line in (f"trace {sessions[0].scope.session} --values", f"trace {sessions[0].scope.session} --undo", "audit"):
        kept += capfd.readouterr()
        assert cli.main([*line.split(), "--user", "alice"]) == 0
        out = capfd.readouterr()
        assert "tokens" in out.out or "Ulm" in out.out
        kept += out
    assert "offprompt" in log.getvalue()
    shown = [*told, *kept, log.getvalue(), *capfd.readouterr()]
    assert [text for text in shown if "canary" in text] == []


def test_every_way_to_show_a_key_reaches_the_upstream() -> None:
    asked = json.dumps(body("openai", "Hi")).encode()
    with Between(lambda _: whole("200 OK", [], b"{}")) as between:
        between.ask("POST", f"/v1/chat/completions?{QUERY}", [*CANARIES.items(), ("Offprompt-Session", "s")], asked)
        (heard,) = between.upstream.heard
    assert heard.line == f"POST /v1/chat/completions?{QUERY} HTTP/1.1"
    assert {name: heard.values(name.lower()) for name in CANARIES} == {name: [text] for name, text in CANARIES.items()}
    assert not [name for name, _ in heard.headers if name.startswith("offprompt")]


def test_our_own_key_goes_nowhere(tmp_path: Path, log: io.StringIO) -> None:
    with offprompt.open(tmp_path / "a.db") as memory:
        key = memory.keys.create("bot", users=["alice"]).token
        with standing(memory, said("openai", "Hi.")) as running:
            assert post(running, "openai", body("openai", "Hi"), Offprompt_Key=key).status_code == 200
            wrong = post(running, "openai", body("openai", "Hi"), Offprompt_Key=f"{key}x")
        assert wrong.status_code == 401
        files = [path for path in tmp_path.rglob("*") if key.encode() in path.read_bytes()]
        assert files == []
    assert key not in wrong.text
    assert key not in log.getvalue()


@pytest.mark.parametrize("place", ["Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Cookie", "?key="])
def test_our_own_key_in_the_providers_place_is_not_sent_on(tmp_path: Path, place: str) -> None:
    """Who reads "Authorization: Bearer op_…" of the server's page puts it there; the provider must not get it."""
    with offprompt.open(tmp_path / "a.db") as memory:
        key = memory.keys.create("bot", users=["alice"]).token
        with standing(memory, [], user="alice", without_scope="pass") as running:
            query = f"?key={key}" if place == "?key=" else ""
            shown = {} if query else {place: f"Bearer {key}"}
            url = running.url + PATHS["openai"] + query
            asked = httpx.post(url, json=body("openai", "Hi"), headers=shown, timeout=30)
            models = httpx.get(f"{running.url}/v1/models{query}", headers=shown)
        assert [asked.status_code, models.status_code] == [401, 401]
        assert "Offprompt-Key" in asked.json()["error"]["message"]
        assert key not in asked.text
        assert running.upstream.requests == []
