"""Memories out and in as streams: bounded, repeatable, and no path of the server's machine is read for anybody."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt.errors import BackendError, UsageError
from offprompt.records import Identity
from offprompt.rest import transfer
from offprompt.service import importing
from tests.rest.running import Running, running

LINES = {"Content-Type": "application/octet-stream"}


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(embedder="none") as own:
        yield own


def sent(server: Running, user: str, body: bytes, **headers: str) -> list[dict[str, Any]]:
    """The reports of an import."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = server.ask("POST", "/v1/import", user=user, content=body, headers=LINES | named)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.text.splitlines()]


def export_of(count: int) -> bytes:
    head = {"format": "offprompt-memories", "version": 1}
    rows = [{"memory_id": f"m_{number:026d}", "kind": "fact", "text": f"note {number}"} for number in range(count)]
    return "\n".join(json.dumps(row) for row in (head, *rows)).encode()


def test_an_export_is_a_head_and_a_line_for_each_memory(server: Running) -> None:
    scope = server.memory.scope(user="e1")
    scope.remember([f"note {number}" for number in range(450)], derive="none")
    answer = server.ask("GET", "/v1/export", user="e1")
    head, *rows = [json.loads(line) for line in answer.text.splitlines()]
    assert (head["format"], len(rows), rows[449]["text"]) == ("offprompt-memories", 450, "note 449")
    assert answer.headers["transfer-encoding"] == "chunked"


def test_secrets_go_out_for_the_role_admin_only() -> None:
    def reader(*_: Any, **__: Any) -> Identity:
        return Identity(roles=frozenset({"read"}))

    with running(identify=reader, embedder="none") as server:
        scope = server.memory.scope(user="a")
        scope.write("key", "s3cret-0123456789-0123456789", policy="never")
        scope.remember("it is s3cret-0123456789-0123456789", derive="none")
        refused = server.ask("GET", "/v1/export?secrets=true", user="a")
        assert (refused.status_code, refused.json()["code"]) == (403, "ForbiddenError")
        plain = server.ask("GET", "/v1/export", user="a").text
        assert "s3cret" not in plain
        assert "[[mem:key]]" in plain


def test_an_import_reports_each_batch_and_is_known_the_second_time(server: Running) -> None:
    reports = sent(server, "i1", export_of(450))
    assert [one["added"] for one in reports] == [200, 400, 450, 450]
    assert [one["done"] for one in reports] == [False, False, False, True]
    again = sent(server, "i1", export_of(450))
    assert (again[-1]["added"], again[-1]["known"]) == (0, 450)


def test_lines_that_are_left_out_are_named_once(server: Running) -> None:
    body = export_of(3) + b'\n{"memory": 7}\nno json\n{"text": "x", "scope": {"user": "other"}}\n'
    reports = sent(server, "i2", body)
    refused = [each for one in reports for each in one["refused"]]
    assert [each["line"] for each in refused] == [5, 6, 7]
    assert reports[-1]["added"] == 3


def test_an_import_that_breaks_off_says_how_far_it_got_and_goes_on(
    server: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "all.jsonl"
    file.write_bytes(export_of(50))
    store, calls = importing._store, 0  # pyright: ignore[reportPrivateUsage]

    def failing(*given: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise BackendError("the store went away")
        store(*given)

    monkeypatch.setattr(importing, "BATCH", 10)
    monkeypatch.setattr(importing, "_store", failing)
    with offprompt.open(server.url) as memory:
        scope = memory.scope(user="i3")
        with pytest.raises(BackendError, match=r"the store went away; 20 were added and 0 known before that"):
            scope.memories.import_file(file)
        assert len(scope.memories.list(limit=1000)) == 20
        done = scope.memories.import_file(file)
        assert (done.added, done.known) == (30, 20)


def test_an_import_that_fails_at_once_is_a_problem(server: Running) -> None:
    answer = server.ask("POST", "/v1/import", user="i4", content=b"no log at all", headers=LINES)
    assert (answer.status_code, answer.json()["code"]) == (400, "UsageError")
    assert "upload.jsonl" in answer.json()["detail"]


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "..", "", "%20", "a%00b", "a%2Fb", "a\\b", "x" * 256, "%ff"])
def test_a_file_has_a_name_and_no_path(server: Running, name: str) -> None:
    answer = server.ask("POST", "/v1/import", content=export_of(1), headers=LINES | {"Offprompt-File": name})
    assert (answer.status_code, answer.json()["code"]) == (400, "UsageError")


def test_a_chat_log_names_its_sessions_after_the_file(server: Running) -> None:
    log = json.dumps({"messages": [{"role": "user", "content": "我叫李明"}]}, ensure_ascii=False).encode()
    reports = sent(server, "i5", log, Offprompt_File="%E8%81%8A%E5%A4%A9.json")
    assert reports[-1]["added"] >= 1
    assert list(server.memory.scope(user="i5").memories.sessions()) == ["聊天.json:1"]


@pytest.mark.parametrize(
    ("limit", "body"),
    [
        ("MAX_IMPORT_BYTES", export_of(450)),
        ("MAX_LINE_BYTES", export_of(1) + b'\n{"text": "' + b"x" * 200_000 + b'"}'),
        ("MAX_DOCUMENT_BYTES", b'["offprompt-memories",\n' + b'"x",\n' * 400 + b'"x"]'),
        ("MAX_DOCUMENT_BYTES", json.dumps([{"role": "user", "content": "I like tea"}] * 100).encode()),
    ],
    ids=["all", "line", "like", "document"],
)
def test_too_much_at_once_is_refused_and_leaves_nothing(
    server: Running, monkeypatch: pytest.MonkeyPatch, limit: str, body: bytes
) -> None:
    monkeypatch.setattr(transfer, limit, 1000)
    answer = server.ask("POST", "/v1/import", user="i6", content=body, headers=LINES)
    assert (answer.status_code, answer.json()["code"]) == (413, "UsageError")
    assert "1,000 bytes" in answer.json()["detail"]
    assert len(server.memory.scope(user="i6").memories.list()) == 0


def test_of_our_own_export_more_is_taken_than_of_others(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "MAX_DOCUMENT_BYTES", 1000)
    assert sent(server, "i8", export_of(450))[-1]["added"] == 450


def test_an_upload_is_gone_when_it_was_read(server: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    seen: list[str] = []
    store = importing._store  # pyright: ignore[reportPrivateUsage]

    def looking(*given: Any) -> None:
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        seen.extend(f"{oct(path.stat().st_mode & 0o777)} {path.name}" for path in files)
        store(*given)

    monkeypatch.setattr(importing, "_store", looking)
    sent(server, "i7", export_of(2))
    assert seen == ["0o600 upload.jsonl"]
    assert list(tmp_path.iterdir()) == []


def test_an_export_that_breaks_off_leaves_no_file(
    server: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any, **__: Any) -> Iterator[str]:
        yield '{"format": "offprompt-memories"}'
        yield from ('{"text": "' + "x" * 70_000 + '"}' for _ in range(3))
        raise BackendError("the store went away")

    monkeypatch.setattr(transfer, "exported", failing)
    with offprompt.open(server.url) as memory, pytest.raises(BackendError, match="broke off"):
        memory.scope(user="a").memories.export(tmp_path / "out.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_here_is_a_usage_error(server: Running, tmp_path: Path) -> None:
    with offprompt.open(server.url) as memory:
        scope = memory.scope(user="e2")
        for path in (tmp_path, tmp_path / "no" / "such" / "folder.jsonl"):
            with pytest.raises(UsageError, match="cannot be written"):
                scope.memories.export(path)


def test_a_reindex_says_how_far_it_is(tmp_path: Path) -> None:
    file = str(tmp_path / "agent.db")
    with offprompt.open(file, embedder="none") as without:
        without.scope(user="a").remember(["I like tea", "我喜欢茶"], derive="none")
    with running(file) as server, offprompt.open(server.url) as memory:
        told: list[int] = []
        done = memory.scope(user="a").memories.reindex(progress=told.append)
        assert (done.done, done.mended, told) == (2, 0, [2])
        assert done.embedder.startswith("use-")
        assert memory.scope(user="a").memories.reindex(progress=told.append).done == 0
        assert told == [2]
