"""Documents become passages of a space: once, whole, and again only where they changed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt.errors import HeldError, NotFoundError, UsageError
from offprompt.recall.convert.choosing import converted
from offprompt.records import Memory, Scope
from offprompt.records.document import Ingested, IngestStep
from offprompt.service import ingesting
from offprompt.service.bound import BoundScope
from offprompt.service.offprompt import Offprompt
from tests.document_files import docx_of, pdf_of

ROOT = Path(__file__).parents[2]
LEAVE = "# Leave\n\n## Sick leave\n\nTen days a year with pay.\n\n## 产假\n\n产假为九十八天，难产的增加十五天。\n"
RENT = "# 租约\n\n租客每月一号付款。\n\n## 违约\n\n逾期每日加收千分之五。\n"


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    (folder / "more").mkdir(parents=True)
    (folder / "leave.md").write_text(LEAVE)
    (folder / "more" / "rent.txt").write_bytes(RENT.encode("gb18030"))
    return folder


@pytest.fixture
def legal(mem: Offprompt) -> BoundScope:
    return mem.space("legal")


def stored(space: BoundScope, name: str | None = None) -> list[Memory]:
    found = space.memories.list(kinds=["passage"], within="exact", session=name, limit=1000).memories
    return sorted(found, key=lambda one: (one.session, one.metadata["start"]))


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are made findable from now on."""
    seen: list[str] = []
    real = ingesting.index_texts

    def index_texts(embedder: Any, memories: Sequence[Memory]) -> Any:
        seen.extend(memory.text for memory in memories)
        return real(embedder, memories)

    monkeypatch.setattr(ingesting, "index_texts", index_texts)
    return seen


def test_a_folder_becomes_passages_with_headings_and_exact_offsets(mem: Offprompt, docs: Path) -> None:
    done = mem.ingest(docs, space="legal")
    assert (done.space, done.counts) == ("legal", {"added": 2})
    assert [(one.document, one.passages, one.added) for one in done] == [
        ("docs/leave.md", 2, 2),
        ("docs/more/rent.txt", 1, 1),
    ]
    for one in stored(mem.space("legal")):
        text = converted(one.session, (docs.parent / one.session).read_bytes()).text
        assert text[one.metadata["start"] : one.metadata["end"]] == one.text
        assert (one.kind, one.scope, one.source, one.trust) == ("passage", Scope(space="legal"), "document", "tool")
    sick = stored(mem.space("legal"), "docs/leave.md")[0]
    assert sick.metadata["headings"] == ["Leave", "Sick leave"]


def test_the_same_again_changes_nothing_and_makes_no_vector(
    mem: Offprompt, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mem.ingest(docs, space="legal")
    before, events = stored(mem.space("legal")), len(mem.space("legal").events())
    seen = counted(monkeypatch)
    done = mem.ingest(docs, space="Legal")
    assert (done.counts, sum(one.passages for one in done)) == ({"unchanged": 2}, 3)
    assert (seen, stored(mem.space("legal")), len(mem.space("legal").events())) == ([], before, events)


def test_what_changed_is_replaced_and_the_rest_only_moves(
    mem: Offprompt, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sections = [f"## Part {at}\n\nRule number {at} holds.\n\n" for at in range(40)]
    (docs / "leave.md").write_text("# Law\n\n" + "".join(sections))
    mem.ingest(docs, space="legal")
    before = {one.memory_id for one in stored(mem.space("legal"), "docs/leave.md")}
    sections[3] = "## Part 3\n\nRule number 3 holds no longer, and this is why.\n\n"
    sections[7:8] = []
    sections.append("## Part 99\n\nNew.\n")
    text = "# Law\n\n" + "".join(sections)
    (docs / "leave.md").write_text(text)
    seen = counted(monkeypatch)
    done = mem.ingest(docs, space="legal")
    assert done[0] == Ingested("changed", "docs/leave.md", passages=40, added=2, removed=2)
    assert len(seen) == 2
    after = stored(mem.space("legal"), "docs/leave.md")
    assert len(before & {one.memory_id for one in after}) == 38
    assert [text[one.metadata["start"] : one.metadata["end"]] for one in after] == [one.text for one in after]
    assert mem.space("legal").documents()[0].passages == 40
    assert [hit.text for hit in mem.space("legal").recall("Why does rule 3 hold no longer?", top_k=1)] == [
        "## Part 3\n\nRule number 3 holds no longer, and this is why."
    ]


def test_passages_that_say_the_same_are_each_there(legal: BoundScope) -> None:
    legal.put_document("a.md", b"# A\n\nSame.\n\n# A\n\nSame.\n")
    legal.put_document("b.md", b"# A\n\nSame.\n\n# A\n\nSame.\n")
    assert [one.session for one in stored(legal)] == ["a.md", "a.md", "b.md", "b.md"]
    assert legal.put_document("a.md", b"# A\n\nSame.\n").removed == 1
    assert [one.session for one in stored(legal)] == ["a.md", "b.md", "b.md"]


def test_what_is_no_document_is_refused_with_the_reason_and_the_rest_is_read(docs: Path) -> None:
    (docs / "empty.md").write_text("")
    (docs / "pic.png").write_bytes(b"\x89PNG")
    (docs / "binary.txt").write_bytes(b"\x00\x01" * 50)
    (docs / "link.md").symlink_to(docs / "leave.md")
    (docs / "latin.txt").write_bytes("où est l'été, très bientôt".encode("cp1252"))
    (docs / "big.txt").write_text("x" * 5000)
    (docs / ".hidden.md").write_text("x")
    with offprompt.open(":memory:", document_bytes=4000) as small:
        done = small.ingest(docs, space="legal")
    assert done.counts == {"added": 2, "refused": 7}
    why = {one.document.rpartition("/")[2]: one.why for one in done if one.outcome == "refused"}
    said = {
        "empty.md": "says nothing",
        "pic.png": "no converter for .png",
        "binary.txt": "binary",
        "link.md": "a link",
        "latin.txt": "save it as UTF-8",
        "big.txt": "has 5,000 bytes, the limit is 4,000",
        ".hidden.md": "hidden",
    }
    assert why.keys() == said.keys()
    assert [name for name, words in said.items() if words not in why[name]] == []


def test_a_name_that_is_not_utf8_is_told(mem: Offprompt, docs: Path) -> None:
    try:
        (docs / "a\udcff.md").write_text("x")
    except (OSError, UnicodeError):
        pytest.skip("the file system takes UTF-8 names only")
    refused = [one for one in mem.ingest(docs, space="legal") if one.outcome == "refused"]
    assert ["is not UTF-8" in one.why for one in refused] == [True]
    str(refused).encode()


def test_a_document_that_can_no_longer_be_read_stays_as_it_was(legal: BoundScope) -> None:
    legal.put_document("leave.md", LEAVE.encode())
    assert legal.put_document("leave.md", b"").outcome == "refused"
    assert [one.name for one in legal.documents()] == ["leave.md"]
    assert len(stored(legal)) == 2


def test_a_document_of_each_format_is_found_by_what_it_says(legal: BoundScope) -> None:
    legal.put_document("a.pdf", pdf_of(["First page.", "违约金为合同金额的百分之五。"], title="Contract"))
    legal.put_document(
        "b.docx", docx_of([("heading 1", "Notice"), ("", "Either side may end it with a month's notice.")])
    )
    legal.put_document("c.html", b"<title>Keys</title><h1>Keys</h1><p>Lost keys are paid by the tenant.</p>")
    documents = [(one.name, one.title, one.media, one.pages) for one in legal.documents()]
    assert documents == [
        ("a.pdf", "Contract", "pdf", 2),
        ("b.docx", "Notice", "docx", None),
        ("c.html", "Keys", "html", None),
    ]
    for question, name in (
        ("合同的违约金是多少", "a.pdf"),
        ("How much notice?", "b.docx"),
        ("Who pays lost keys?", "c.html"),
    ):
        assert legal.recall(question, top_k=1)[0].memory.session == name


def test_documents_of_a_folder_that_are_gone_go_if_that_is_asked_for(mem: Offprompt, docs: Path) -> None:
    legal = mem.space("legal")
    mem.ingest(docs, space="legal")
    legal.put_document("other.md", b"stays")
    (docs / "leave.md").unlink()
    assert mem.ingest(docs, space="legal").counts == {"unchanged": 1}
    done = mem.ingest(docs, space="legal", remove=True)
    assert [(one.outcome, one.document, one.removed) for one in done][1:] == [("removed", "docs/leave.md", 2)]
    assert [one.name for one in legal.documents()] == ["docs/more/rent.txt", "other.md"]


def test_a_document_is_removed_by_its_name(legal: BoundScope) -> None:
    legal.put_document("leave.md", LEAVE.encode())
    legal.put_document("leave.md2.md", LEAVE.encode())
    with pytest.raises(NotFoundError, match="there is no document 'leave'"):
        legal.forget_document("leave.md", "leave")
    assert len(legal.documents()) == 2
    assert [one.removed for one in legal.forget_document("leave.md")] == [2]
    assert {one.session for one in stored(legal)} == {"leave.md2.md"}
    assert legal.put_document("leave.md", LEAVE.encode()).outcome == "added"


def test_a_hold_on_the_space_keeps_what_it_says(mem: Offprompt, legal: BoundScope) -> None:
    legal.put_document("leave.md", LEAVE.encode())
    mem.holds.add(legal.scope, "case 7")
    for change in (lambda: legal.forget_document("leave.md"), lambda: legal.put_document("leave.md", b"# New\n\nx")):
        with pytest.raises(HeldError, match="case 7"):
            change()
    assert legal.put_document("new.md", b"is taken").outcome == "added"
    assert len(stored(legal, "leave.md")) == 2


def test_documents_belong_to_a_space(mem: Offprompt) -> None:
    for scope in (mem.scope(user="alice"), mem.scope(shared=True)):
        with pytest.raises(UsageError, match="documents belong to a space"):
            scope.put_document("a.md", b"x")


def test_what_is_personal_is_taken_out_before_it_is_stored(legal: BoundScope) -> None:
    legal.put_document("id.md", "# 名册\n\n张三，身份证号 11010519491231002X。".encode())
    assert "11010519491231002X" not in stored(legal)[0].text


def test_progress_is_told(mem: Offprompt, docs: Path) -> None:
    steps: list[IngestStep] = []
    mem.ingest(docs, space="legal", progress=steps.append)
    assert steps == [
        IngestStep("docs/leave.md", 0, 2),
        IngestStep("docs/leave.md", 0, 2, 0, 2),
        IngestStep("docs/leave.md", 0, 2, 2, 2),
        IngestStep("docs/more/rent.txt", 1, 2),
        IngestStep("docs/more/rent.txt", 1, 2, 0, 1),
        IngestStep("docs/more/rent.txt", 1, 2, 1, 1),
        IngestStep("", 2, 2),
    ]


def test_a_batch_that_the_store_refuses_leaves_the_old_document(
    legal: BoundScope, monkeypatch: pytest.MonkeyPatch
) -> None:
    legal.put_document("leave.md", LEAVE.encode())
    before = stored(legal)
    real = ingesting.index_texts

    def index_texts(embedder: Any, memories: Sequence[Memory]) -> Any:
        indexed, why = real(embedder, memories)
        object.__setattr__(memories[-1], "memory_id", "not an id")
        return indexed, why

    monkeypatch.setattr(ingesting, "index_texts", index_texts)
    with pytest.raises(UsageError, match="does not begin with m_"):
        legal.put_document("leave.md", b"# New\n\nOne.\n\n# Newer\n\nTwo.\n")
    assert (stored(legal), len(legal.documents())) == (before, 1)


def test_of_two_that_store_one_document_at_once_the_later_ones_stays(
    mem: Offprompt, legal: BoundScope, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, other = ingesting.index_texts, iter((b"# B\n\nTheirs first.\n", b"# B\n\nTheirs then.\n"))

    def index_texts(embedder: Any, memories: Sequence[Memory]) -> Any:
        if (theirs := next(other, None)) is not None:
            monkeypatch.setattr(ingesting, "index_texts", real)
            mem.space("legal").put_document("a.md", theirs)
            monkeypatch.setattr(ingesting, "index_texts", index_texts)
        return real(embedder, memories)

    monkeypatch.setattr(ingesting, "index_texts", index_texts)
    assert legal.put_document("a.md", b"# A\n\nOurs.\n").outcome == "changed"
    assert [one.text for one in stored(legal)] == ["# A\n\nOurs."]
    assert len(legal.documents()) == 1


@pytest.mark.parametrize("where", ["before it is stored", "in the middle", "before the commit"])
def test_a_kill_leaves_each_document_whole(docs: Path, tmp_path: Path, where: str) -> None:
    store = tmp_path / "agent.db"
    with offprompt.open(store, embedder="none") as mem:
        mem.ingest(docs, space="legal")
        old = [replace(one, revision=0) for one in stored(mem.space("legal"), "docs/more/rent.txt")]
    (docs / "leave.md").write_text(LEAVE.replace("Ten", "Twelve"))
    (docs / "more" / "rent.txt").write_text(RENT + "\n\n再加一条。" * 200)
    document = "docs/more/rent.txt"
    command = [sys.executable, "-m", "tests.service.ingest_victim", str(store), str(docs), where, document]
    assert subprocess.run(command, cwd=ROOT, check=False, timeout=60).returncode == -signal.SIGKILL
    with offprompt.open(store, embedder="none") as mem:
        legal = mem.space("legal")
        assert ["Twelve" in one.text for one in stored(legal, "docs/leave.md")] == [True, False]
        assert [replace(one, revision=0) for one in stored(legal, document)] == old
        assert mem.ingest(docs, space="legal").counts == {"unchanged": 1, "changed": 1}
        assert len(stored(legal, document)) == legal.documents()[1].passages > 1


def test_documents_go_out_and_come_in_whole(mem: Offprompt, legal: BoundScope, tmp_path: Path) -> None:
    """Previously the words that two documents share were one passage behind an import."""
    for name in ("a.md", "b.md"):
        legal.put_document(name, b"# A\n\nSame.\n\n# A\n\nSame.\n\n# B\n\nOther.\n")
    for within, scope in (("exact", legal), ("subtree", mem.scope(shared=True))):
        file = tmp_path / f"{within}.jsonl"
        scope.memories.export(file, within="exact" if within == "exact" else "subtree")
        with offprompt.open(":memory:") as other:
            into = other.space("legal") if within == "exact" else other.scope(shared=True)
            assert into.memories.import_file(file).added == 8
            space = other.space("legal")
            assert [(one.session, one.text) for one in stored(space)] == [
                (one.session, one.text) for one in stored(legal)
            ]
            assert [one.passages for one in space.documents()] == [3, 3]
            assert [
                hit.memory.metadata
                for hit in space.recall("a.md", kinds=["passage"])
                if "converter" in hit.memory.metadata
            ] == []
            assert space.memories.import_file(file).added in (0, 2)
            changed = space.put_document("a.md", b"# A\n\nSame.\n\n# A\n\nSame.\n\n# C\n\nNew.\n")
            assert (changed.added, changed.removed) == (1, 1)
            assert [one.name for one in space.documents()] == ["a.md", "b.md"]
