"""What the command line says of models for memory: audit, trace, doctor, reranked recalls."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt import BudgetError, ModelError, Scope
from offprompt.models.chat_openai import OpenAIChatModel
from offprompt.models.retrying import Retries
from offprompt.testing.scripted import ScriptedModel
from offprompt.testing.strict_server import StrictServer, Trouble
from tests.cli.conftest import Run

ADA, BOB = Scope(user="ada"), Scope(user="bob")
ASK = [{"role": "user", "content": "What did she say?"}]


def says(**_: Any) -> dict[str, Any]:
    return {
        "choices": [{"message": {"role": "assistant", "content": '{"scores": [{"note": 2, "score": 9}]}'}}],
        "usage": {"prompt_tokens": 70, "completion_tokens": 30, "total_tokens": 100},
    }


@pytest.fixture
def server() -> Iterator[StrictServer]:
    with StrictServer(says) as running:
        yield running


@pytest.fixture
def day(server: StrictServer, store: Path) -> str:
    """Ada's budget is spent, one of Bob's calls had no answer; the day of it."""
    model = OpenAIChatModel("deepseek-chat", base_url=f"{server.url}/v1", retries=Retries(0), timeout_s=20)
    with offprompt.open(store, models={"extract": model}, budget_tokens=150) as mem:
        calls = mem.parts.models
        assert calls is not None
        extract = calls.needed("extract")
        extract.complete(ADA, ASK)
        extract.complete(ADA, ASK)
        with pytest.raises(BudgetError):
            extract.complete(ADA, ASK)
        server.troubles = [Trouble(503, says="overloaded")]
        with pytest.raises(ModelError):
            extract.complete(BOB, ASK)
        return calls.spent(ADA).day


def test_an_audit_counts_the_calls_of_models_for_memory(run: Run, store: Path, day: str) -> None:
    with offprompt.open(store) as mem:
        session = mem.scope(user="ada").session("s1", model="gpt-4o-mini")
        session.complete(ScriptedModel().create, [{"role": "user", "content": "How are you?"}])
    out = run("audit --verify --user ada").out
    assert "models for memory: extract 2 calls, 200 tokens, price 0.0000" in out
    assert "the day's budget was spent" in out
    assert "ledger: all 2 entries are as they were written" in out
    assert "2 calls of models were made for memory" in out
    assert "requests: 1 in 1 turns" in out, "they are no requests of a conversation"
    assert "没有回答：1 次" in run("audit --user bob --lang zh").out
    document = run("audit --verify --json").document
    assert document["model_calls_for_memory"] == 3
    assert [(one["day"], one["tokens"], one["refused"]) for one in document["for_memory"]] == [
        (day, 0, False),
        (day, 200, True),
    ]
    assert document["for_memory"][1]["ledger"] == {"entries": 2, "whole": True, "broken": None}


def test_an_audit_finds_a_changed_entry(run: Run, store: Path, day: str) -> None:
    assert day
    with sqlite3.connect(store) as db:
        db.execute("UPDATE ledger SET entry = replace(entry, '\"input\":70', '\"input\":7')")
    db.close()
    ran = run("audit --verify --user ada")
    assert ran.code == 5
    assert "BROKEN at entry 1" in ran.out


def test_a_trace_says_what_each_call_took_and_why_one_failed(run: Run, day: str) -> None:
    assert "request 2" in run(f"trace @models/{day} --user ada").out
    out = run(f"trace @models/{day} --user bob").out
    assert "failed (HTTP 503): overloaded" in out
    assert "no reply" in out


def test_doctor_says_that_a_budget_is_spent_and_that_calls_failed(run: Run, store: Path, day: str) -> None:
    assert day
    out = run("doctor").out
    assert "3 calls for memory today, 200 tokens; the day's budget is spent for user=ada" in out
    assert run("doctor").code == 0
    with offprompt.open(store) as mem:
        mem.scope(user="ada").clear()
    assert "1 calls for memory today, 0 tokens; 1 without an answer, for user=bob" in run("doctor").out
    with offprompt.open(store) as mem:
        mem.scope(user="bob").clear()
    assert "for memory today" not in run("doctor").out


def test_a_recall_is_reranked_when_asked_to(
    run: Run, store: Path, server: StrictServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "offprompt.toml"
    file.write_text(f'[models.rerank]\nmodel = "judge"\nbase_url = "{server.url}/v1"\n')
    monkeypatch.setenv("OFFPROMPT_CONFIG", str(file))
    run("remember 'I live in Ulm.' --user ada")
    run("remember 'I lived in Graz.' --user ada")
    plain = [hit["text"] for hit in run("recall 'Where do I live?' --user ada --json").document["hits"]]
    assert server.requests == []
    again = run("recall 'Where do I live?' --user ada --rerank --json").document["hits"]
    assert [hit["text"] for hit in again[:2]] == [plain[1], plain[0]]
    assert (again[0]["score"], len(server.requests)) == (0.9, 1)
    assert store.exists()
