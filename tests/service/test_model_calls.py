"""Calls of models for memory: in the ledger by purpose, within the day's budget, set by purpose."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import offprompt
from offprompt import BudgetError, ModelError, Scope, UnsupportedError, UsageError
from offprompt.models.chat_openai import OpenAIChatModel
from offprompt.models.retrying import Retries
from offprompt.service.accounting import digester
from offprompt.service.ledger_check import verify_ledger
from offprompt.service.model_calls import ModelCalls, place_of
from offprompt.service.offprompt import Offprompt
from offprompt.testing.chat_stand_in import StandInModel
from offprompt.testing.clock import MovedClock
from offprompt.testing.strict_server import StrictServer, Trouble

ASK = [{"role": "user", "content": "What did she say about 上海?"}]
ADA, BOB = Scope(user="ada"), Scope(user="bob", agent="helper", session="s1")
DAY_S = 86400.0


@pytest.fixture
def server() -> Iterator[StrictServer]:
    reply = {
        "choices": [{"message": {"role": "assistant", "content": "That she lives there."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 70, "completion_tokens": 30, "total_tokens": 100},
    }

    def replies(**_: Any) -> dict[str, Any]:
        return reply

    with StrictServer(replies) as running:
        yield running


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock(1_800_000_000.0)


def opened(server: StrictServer, clock: MovedClock, url: Any = ":memory:", **settings: Any) -> Offprompt:
    model = OpenAIChatModel("deepseek-chat", base_url=f"{server.url}/v1", retries=Retries(0), timeout_s=20)
    return offprompt.open(url, clock=clock, models={"extract": model}, **settings)


def calls_of(mem: Offprompt) -> ModelCalls:
    assert mem.parts.models is not None
    return mem.parts.models


def test_a_call_is_in_the_ledger_of_its_scopes_day_by_purpose(server: StrictServer, clock: MovedClock) -> None:
    mem = opened(server, clock)
    calls = calls_of(mem)
    extract, summarize = calls.needed("extract"), calls.needed("summarize")
    assert extract.complete(ADA, ASK).text == "That she lives there."
    summarize.complete(ADA, ASK)
    extract.complete(BOB, ASK)
    place = Scope(user="ada", session="@models/2027-01-15")
    ledger = mem.parts.sessions.ledger(place)
    assert [(entry.seq, entry.model, list(entry.parts), entry.usage.input, entry.out.chars) for entry in ledger] == [
        (1, "deepseek-chat", ["extract"], 70, 21),
        (2, "deepseek-chat", ["summarize"], 70, 21),
    ]
    assert all((entry.price or 0) > 0 for entry in ledger)
    spent = calls.spent(ADA)
    assert (spent.day, spent.tokens, spent.calls, spent.failed) == (
        "2027-01-15",
        200,
        {"extract": 1, "summarize": 1},
        0,
    )
    assert list(spent.prices) == ["USD"]
    assert spent.prices["USD"] == sum(entry.price or 0 for entry in ledger)
    assert calls.spent(BOB).tokens == 100
    record = mem.parts.sessions.load(place)
    assert record is not None
    assert verify_ledger(record, ledger, digester(mem.parts.sessions.digest_key(place))) is None


def test_what_was_sent_is_in_no_ledger(server: StrictServer, clock: MovedClock) -> None:
    mem = opened(server, clock)
    calls_of(mem).needed("extract").complete(ADA, ASK)
    place = place_of(ADA, "2027-01-15")
    assert "上海" not in f"{mem.parts.sessions.ledger(place)}{mem.parts.sessions.load(place)}"
    assert mem.parts.sessions.journal(place) == []


def test_a_failed_call_is_in_the_ledger_with_why(server: StrictServer, clock: MovedClock) -> None:
    mem = opened(server, clock)
    calls = calls_of(mem)
    server.troubles = [Trouble(503, says="overloaded"), Trouble(401, says="wrong key")]
    with pytest.raises(ModelError, match="overloaded"):
        calls.needed("extract").complete(ADA, ASK)
    with pytest.raises(UsageError, match="wrong key"):
        calls.needed("extract").complete(ADA, ASK)
    ledger = mem.parts.sessions.ledger(place_of(ADA, "2027-01-15"))
    assert [entry.outcome for entry in ledger] == ["no reply", "no reply"]
    assert "overloaded" in ledger[0].warnings[0]
    assert (calls.spent(ADA).failed, calls.spent(ADA).tokens) == (2, 0)


def test_a_model_of_ones_own_may_raise_anything(clock: MovedClock) -> None:
    def raises(**request: Any) -> str:
        raise ValueError(f"no {request['messages']}")

    mem = offprompt.open(":memory:", clock=clock, models={"extract": StandInModel(raises, name="own")})
    with pytest.raises(ModelError, match="'own' raised ValueError, no error of Offprompt's") as caught:
        calls_of(mem).needed("extract").complete(ADA, ASK)
    assert "上海" not in str(caught.value), "its words may be what was sent"
    assert calls_of(mem).spent(ADA).failed == 1


def test_a_spent_budget_stops_calls_and_not_memory(server: StrictServer, clock: MovedClock) -> None:
    mem = opened(server, clock, budget_tokens=150)
    extract = calls_of(mem).needed("extract")
    extract.complete(ADA, ASK)
    extract.complete(ADA, ASK)
    with pytest.raises(BudgetError, match=r"user=ada today, 2027-01-15.*200 tokens, the limit is 150") as caught:
        extract.complete(ADA, ASK)
    assert (caught.value.used, caught.value.limit, len(server.requests)) == (200, 150, 2)
    assert calls_of(mem).spent(ADA).refused
    extract.complete(BOB, ASK)
    ada = mem.scope(user="ada")
    ada.remember("I moved to Ulm in May.")
    assert ada.recall("Where does she live?").hits
    clock.move(DAY_S)
    extract.complete(ADA, ASK)


def test_a_budget_in_money(server: StrictServer, clock: MovedClock) -> None:
    mem = opened(server, clock, budget_price=0.00001)
    extract = calls_of(mem).needed("extract")
    extract.complete(ADA, ASK)
    with pytest.raises(BudgetError, match="millionths of USD"):
        extract.complete(ADA, ASK)


def test_processes_share_one_budget(server: StrictServer, clock: MovedClock, tmp_path: Path) -> None:
    one, two = (opened(server, clock, tmp_path / "m.db", budget_tokens=150) for _ in range(2))
    calls_of(one).needed("extract").complete(ADA, ASK)
    calls_of(two).needed("extract").complete(ADA, ASK)
    clock.move(86_400 - clock.now() % 86_400 + 86_400 - 90)  # a minute and a half are left of the next day
    for each in (one, two):
        calls_of(each).needed("extract").complete(ADA, ASK)
    with pytest.raises(BudgetError) as spent:
        calls_of(one).needed("extract").complete(ADA, ASK)
    assert spent.value.retry_after_s == pytest.approx(90)
    one.close()
    two.close()
    with opened(server, clock, tmp_path / "m.db", budget_tokens=150) as again, pytest.raises(BudgetError):
        calls_of(again).needed("extract").complete(ADA, ASK)


def test_calls_at_the_same_time_are_all_counted(server: StrictServer, clock: MovedClock, tmp_path: Path) -> None:
    mem = opened(server, clock, tmp_path / "m.db")
    extract = calls_of(mem).needed("extract")
    threads = [threading.Thread(target=lambda: extract.complete(ADA, ASK)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    place = place_of(ADA, "2027-01-15")
    record, ledger = mem.parts.sessions.load(place), mem.parts.sessions.ledger(place)
    assert record is not None
    assert (calls_of(mem).spent(ADA).tokens, [entry.seq for entry in ledger]) == (800, list(range(1, 9)))
    assert verify_ledger(record, ledger, digester(mem.parts.sessions.digest_key(place))) is None
    mem.close()


def test_what_is_erased_takes_its_ledger_along(server: StrictServer, clock: MovedClock) -> None:
    mem = opened(server, clock)
    calls_of(mem).needed("extract").complete(ADA, ASK)
    mem.scope(user="ada").clear()
    assert mem.parts.sessions.ledger(place_of(ADA, "2027-01-15")) == []


def test_no_conversation_takes_a_ledgers_place() -> None:
    with pytest.raises(UsageError, match="Offprompt's own ledgers"):
        offprompt.open(":memory:").scope(user="ada").session("@models/2027-01-15")


def test_no_model_is_set_unless_one_is_named(server: StrictServer) -> None:
    calls = calls_of(offprompt.open(":memory:"))
    assert calls.of("extract") is None
    with pytest.raises(UnsupportedError, match=r"\[models\.rerank\]"):
        calls.needed("rerank")
    with pytest.raises(UsageError, match="no purpose 'extrakt'; the purposes are chat, extract"):
        offprompt.open(":memory:", models={"extrakt": "deepseek-chat"})
    assert server.requests == []


def test_routes_of_the_config_file(tmp_path: Path, server: StrictServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "k-12345678")
    file = tmp_path / "offprompt.toml"
    file.write_text(
        f"""
budget_tokens = 1000
[models.extract]
model = "small"
base_url = "{server.url}/v1"
key_env = "MY_KEY"
timeout_s = 20
[models.rerank]
model = "ollama:qwen3:8b"
context_tokens = 8192
"""
    )
    calls = calls_of(offprompt.open(":memory:", config=file))
    assert calls.needed("extract").complete(ADA, ASK).text
    rerank = calls.needed("rerank")
    assert (rerank.name, rerank.context_tokens) == ("qwen3:8b", 8192)
    monkeypatch.delenv("MY_KEY")
    with pytest.raises(UsageError, match="MY_KEY, which is not set"):
        calls_of(offprompt.open(":memory:", config=file)).needed("extract")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("models = 3", "is no table"),
        ('[models.embed]\nmodel = "bge-m3"', "settings of its own: embedder, embedder_url"),
        ('[models.extrakt]\nmodel = "m"', "no purpose 'extrakt'"),
        ('[models.extract]\nbase_url = "http://x"', "names no model"),
        ('[models.extract]\nmodel = "m"\nkey = "sk-1"', "a secret in a file; write key_env"),
        ('[models.extract]\nmodel = "m"\nurl = "http://x"', "unknown key 'url'"),
        ('[models.extract]\nmodel = "m"\nretries = "many"', "wrong type"),
        ('[models.extract]\nmodel = "m"\nretries = true', "wrong type"),
    ],
)
def test_a_route_that_does_not_fit_is_said_when_memory_is_opened(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "offprompt.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=says) as caught:
        offprompt.open(":memory:", config=file)
    assert "sk-1" not in str(caught.value)
