"""Documents by the command line: ingested, listed, found with where they stand, removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run

LEAVE = "# Leave\n\n## Sick leave\n\nSick staff get ten days a year with pay.\n"


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "leave.md").write_text(LEAVE)
    (folder / "租约.txt").write_text("租客每月一号付款，逾期每日加收千分之五。")
    (folder / "pic.png").write_bytes(b"x")
    return folder


def test_documents_are_ingested_found_listed_and_removed(run: Run, docs: Path) -> None:
    first = run(f"ingest {docs} --space legal")
    assert (first.code, first.out.splitlines()[-1]) == (0, "2 added, 1 left out")
    assert "no converter for .png" in first.out
    again = run(f"--json ingest {docs} --space Legal").document
    assert (again["space"], again["counts"]) == ("legal", {"unchanged": 2, "refused": 1})
    listed = run("documents --space legal")
    assert "docs/leave.md" in listed.out
    assert "markdown" in listed.out
    assert "space legal" in run("users").out
    alone = run("recall 'How many sick days a year with pay?' --space legal")
    assert "[legal: Leave (docs/leave.md) › Sick leave, 9–64] ## Sick leave Sick staff" in alone.out
    nothing = run("recall 'How many sick days a year with pay?' --space legal --user alice")
    assert "docs/leave.md" not in nothing.out
    assert "offprompt grant space legal --to user:alice" in nothing.out
    assert run("grant space legal --to user:alice").code == 0
    found = run("--json recall 'How many sick days a year with pay?' --space legal --user alice").document
    assert found["hits"][0]["citation"] == "legal: Leave (docs/leave.md) › Sick leave, 9–64"
    gone = run("forget-document docs/leave.md --space legal")
    assert (gone.code, gone.out) == (0, "removed: docs/leave.md, 1 passages\n")
    assert run("forget-document docs/leave.md --space legal").code == 3
    (docs / "租约.txt").unlink()
    assert run(f"ingest {docs} --space legal --remove").out.splitlines()[-1] == "1 added, 1 left out, 1 removed"


def test_what_is_all_refused_ends_with_2_and_what_is_not_there_with_3(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.md").write_text("")
    refused = run(f"ingest {tmp_path}/empty.md --space legal")
    assert (refused.code, "says nothing" in refused.out) == (2, True)
    assert run(f"ingest {tmp_path}/none.md --space legal").code == 3
    assert run(f"ingest {tmp_path}/empty.md --space 'a b'").code == 2


def test_the_same_in_chinese(run: Run, docs: Path) -> None:
    first = run(f"--lang zh ingest {docs} --space 法务")
    assert first.out.splitlines()[-1].startswith("2 已添加, 1 ")
    assert "文档" in run("--lang zh documents --space 法务").out
    found = run("--lang zh recall 租客什么时候付款 --space 法务")
    assert "[法务: docs/租约.txt, 0–20] 租客每月一号付款" in found.out
