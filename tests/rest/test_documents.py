"""Documents over HTTP: uploaded as bytes, bounded, for admins of the whole app; recall for whom it is granted to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

import offprompt
from offprompt.client.clients import AsyncClient
from offprompt.errors import ForbiddenError, NotFoundError, ScopeError
from offprompt.records import Identity, Scope
from offprompt.records.document import IngestStep
from tests.document_files import docx_of
from tests.rest.running import Running, running

LEAVE = "# Leave\n\n## Sick leave\n\nSick staff get ten days a year with pay.\n"
PATH = "/v1/spaces/legal/documents"


def put(server: Running, path: str, content: Any) -> httpx.Response:
    return server.ask("PUT", path, user=None, content=content, headers={"Content-Type": "application/octet-stream"})


@pytest.fixture(scope="module")
def small() -> Iterator[Running]:
    with running(document_bytes=100_000) as own:
        yield own


def test_bytes_become_a_document_and_the_same_once_more_changes_nothing(small: Running) -> None:
    path = f"{PATH}/%E5%81%87%2Fleave.md"
    answer = put(small, path, LEAVE.encode())
    assert (answer.status_code, answer.json()["outcome"], answer.json()["added"]) == (200, "added", 1)
    assert put(small, path, LEAVE.encode()).json()["outcome"] == "unchanged"
    listed = small.ask("GET", PATH, user=None).json()["documents"]
    assert [(one["name"], one["media"], one["passages"]) for one in listed] == [("假/leave.md", "markdown", 1)]
    body = {"query": "How many sick days?", "spaces": ["legal"]}
    nothing = small.ask("POST", "/v1/memories/recall", json=body).json()
    assert (nothing["hits"], "offprompt grant space legal" in nothing["degraded"]) == ([], True)
    small.ask("POST", "/v1/grants", user=None, json={"kind": "space", "name": "legal", "to": "user:alice"})
    hit = small.ask("POST", "/v1/memories/recall", json=body).json()["hits"][0]["memory"]
    assert (hit["scope"]["space"], hit["session"], hit["metadata"]["headings"]) == (
        *("legal", "假/leave.md"),
        ["Leave", "Sick leave"],
    )
    assert small.ask("POST", "/v1/memories/recall", user="bob", json=body).json()["hits"] == []
    gone = small.ask("DELETE", path, user=None)
    assert (gone.status_code, gone.json()["removed"]) == (200, 1)
    assert small.ask("DELETE", path, user=None).status_code == 404
    assert small.ask("POST", "/v1/memories/recall", json=body).json()["hits"] == []


def test_what_cannot_be_read_is_refused_and_what_is_too_long_is_413(small: Running) -> None:
    refused = put(small, f"{PATH}/a.docx", b"no zip").json()
    assert (refused["outcome"], "cannot be read as DOCX" in refused["why"]) == ("refused", True)
    long = put(small, f"{PATH}/a.txt", b"x" * 100_001)
    assert (long.status_code, "100,000" in long.json()["detail"]) == (413, True)

    def pieces() -> Iterator[bytes]:
        yield from [b"x" * 60_000] * 2

    assert put(small, f"{PATH}/a.txt", pieces()).status_code == 413
    assert put(small, "/v1/spaces/a%20b/documents/a.txt", b"x").status_code == 400
    assert put(small, f"{PATH}/a%0Ab.txt", b"x").json()["outcome"] == "refused"


@pytest.mark.parametrize(
    "identity",
    [
        Identity(roles=frozenset({"read", "write"})),
        Identity(users=("alice",), roles=frozenset({"admin"})),
        Identity(agents=("hr",), roles=frozenset({"admin"})),
    ],
    ids=["writer", "user", "agent"],
)
def test_documents_are_for_admins_of_the_whole_app(identity: Identity) -> None:
    def identify(method: str, headers: Mapping[str, str], *, has_body: bool) -> Identity:
        del method, headers, has_body
        return identity

    with running(identify=identify) as own, offprompt.open(own.url) as mem:
        space = mem.space("legal")
        for forbidden in (
            lambda: space.put_document("a.md", b"x"),
            space.documents,
            lambda: space.forget_document("a.md"),
            lambda: space.recall("x"),
            space.slots.list,
            lambda: space.write("a", 1),
        ):
            with pytest.raises(ForbiddenError):
                forbidden()


def test_the_client_has_the_same_face(small: Running, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "leave.md").write_text(LEAVE)
    (docs / "notice.docx").write_bytes(docx_of([("heading 1", "Notice"), ("", "A month's notice ends the lease.")]))
    (docs / "big.txt").write_text("x" * 100_001)
    (docs / "pic.png").write_bytes(b"x")
    steps: list[IngestStep] = []
    with offprompt.open(small.url) as mem:
        done = mem.ingest(docs, space="HR", progress=steps.append)
        assert (done.space, done.counts) == ("hr", {"added": 2, "refused": 2})
        assert steps[-1] == IngestStep("", 4, 4)
        space = mem.space("hr")
        assert space.scope == Scope(space="hr")
        assert [one.name for one in space.documents()] == ["docs/leave.md", "docs/notice.docx"]
        assert space.recall("notice")[0].citation is not None
        mem.grants.add("space", "hr", to="everyone")
        hit = mem.scope(user="carol").recall("How does the lease end?", spaces=["hr"])[0]
        assert str(hit.citation).startswith("hr: Notice (docs/notice.docx), ")
        session = mem.scope(user="carol").session("s1", model="gpt-4o-mini", spaces=["hr"])
        request = session.prepare([{"role": "user", "content": "How many sick days a year with pay?"}])
        assert "Sick staff get ten days a year with pay." in str(request)
        (docs / "leave.md").unlink()
        assert mem.ingest(docs, space="hr", remove=True).counts == {"unchanged": 1, "refused": 2, "removed": 1}
        assert [one.removed for one in space.forget_document("docs/notice.docx")] == [1]
        with pytest.raises(NotFoundError, match="there is no document"):
            space.forget_document("docs/notice.docx")
        with pytest.raises(ScopeError, match="the name of a space"):
            mem.space("a b")
        space.write("owner", "Ann")
        assert mem.erase(space="hr").scopes == (Scope(space="hr"),)
        assert space.slots.list() == []


def test_the_async_client_too(small: Running, tmp_path: Path) -> None:
    (tmp_path / "leave.md").write_text(LEAVE)

    async def run() -> None:
        async with AsyncClient(small.url) as mem:
            assert (await mem.ingest(tmp_path / "leave.md", space="later"))[0].outcome == "added"
            space = mem.space("later")
            assert [one.name for one in await space.documents()] == ["leave.md"]
            assert (await space.recall("sick days"))[0].citation is not None
            assert (await space.forget_document("leave.md"))[0].outcome == "removed"

    asyncio.run(run())
