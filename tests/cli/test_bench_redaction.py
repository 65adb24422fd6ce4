"""`offprompt bench redaction`: tables, document, floors, and texts that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

ID = "11010519491231002X"


def test_it_measures_made_texts_and_those_that_are_given(run: Run, tmp_path: Path) -> None:
    rows = [{"text": f"{at} {ID}", "spans": [{"start": 2, "end": 20, "type": "CN_ID"}]} for at in range(8)]
    (tmp_path / "dev.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    ran = run(f"bench redaction --texts 300 --no-cost --data {tmp_path} --json")
    assert (ran.code, ran.err) == (0, "")
    made, given = ran.document["texts"]
    assert made["count"] == 300
    assert {one["kind"] for one in made["kinds"]} >= {"id_number", "bank_card", "phone", "name"}
    assert [(one["kind"], one["recall"], one["below_floor"]) for one in given["kinds"]] == [("id_number", 1.0, False)]
    low, high = given["kinds"][0]["recall_95"]
    assert 0 < low < 1.0 == high
    assert "召回率" in run("bench redaction --texts 30 --no-cost --lang zh").out


def test_a_missed_floor_is_an_exit_code(run: Run, tmp_path: Path) -> None:
    rows = [{"text": f"{at} no number", "spans": [{"start": 2, "end": 11, "type": "CN_ID"}]} for at in range(8)]
    file = tmp_path / "texts.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert run(f"bench redaction --texts 30 --no-cost --data {file}").code == 1


@pytest.mark.parametrize(
    ("line", "says"), [("[]", "is no labelled text"), ('{"text": "a", "spans": [{"type": "FAX"}]}', "FAX")]
)
def test_texts_of_another_form_are_refused(run: Run, tmp_path: Path, line: str, says: str) -> None:
    (tmp_path / "texts.jsonl").write_text(line)
    ran = run(f"bench redaction --texts 30 --no-cost --data {tmp_path / 'texts.jsonl'}")
    assert ran.code == 2
    assert says in ran.err
