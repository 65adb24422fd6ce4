"""Reranking: by a chat model or any reranker, counted, and nothing lost where it fails."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

import offprompt
from offprompt import BackendError, BoundScope, UnsupportedError, UsageError
from offprompt.models.chat_openai import OpenAIChatModel
from offprompt.models.retrying import Retries
from offprompt.recall.reranking import scores_of
from offprompt.testing.strict_server import StrictServer, Trouble
from tests.servers import Server, openai_url

FACTS = ("I live in Ulm.", "I lived in Graz before.", "I like to live near a lake.", "我住在上海。")


class Judge:
    """A stand-in that scores notes by a rule, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.rule: Callable[[str], int] = lambda text: 9 if "Graz" in text else 1
        self.says: str | None = None

    def __call__(self, **request: Any) -> str:
        self.asked.append(request)
        if self.says is not None:
            return self.says
        notes = [json.loads(line) for line in request["messages"][-1]["content"].splitlines()[1:]]
        return json.dumps({"scores": [{"note": each["note"], "score": self.rule(each["text"])} for each in notes]})


@pytest.fixture
def judge() -> Judge:
    return Judge()


@pytest.fixture
def server(judge: Judge) -> Iterator[StrictServer]:
    with StrictServer(judge) as running:
        yield running


def scope(server: StrictServer, **settings: Any) -> BoundScope:
    model = OpenAIChatModel("judge", base_url=f"{server.url}/v1", retries=Retries(0), timeout_s=20)
    ada = offprompt.open(":memory:", models={"rerank": model}, **settings).scope(user="ada")
    for fact in FACTS:
        ada.remember(fact, derive="none")
    return ada


def texts(found: Any) -> list[str]:
    return [hit.text for hit in found]


def test_off_by_default_no_model_is_asked(server: StrictServer, judge: Judge) -> None:
    assert texts(scope(server).recall("Where do I live?"))[0] == "I live in Ulm."
    assert judge.asked == []


def test_the_reranker_puts_in_order_what_was_found(server: StrictServer, judge: Judge) -> None:
    ada = scope(server)
    plain = ada.recall("Where do I live?", top_k=4)
    found = ada.recall("Where do I live?", top_k=4, rerank=True, explain=True)
    assert found[0].text == "I lived in Graz before."
    assert sorted(texts(found)) == sorted(texts(plain)), "nothing is lost and nothing is added"
    assert [hit.text for hit in found][1:] == [text for text in texts(plain) if "Graz" not in text]
    assert (found[0].score, found[0].parts["rerank"]) == (0.9, 0.9)
    assert len(judge.asked) == 1
    assert (found.degraded, plain.degraded) == ("", "")


def test_it_reads_more_hits_than_are_wanted(server: StrictServer, judge: Judge) -> None:
    ada = scope(server)
    assert texts(ada.recall("Where do I live?", top_k=1, rerank=True)) == ["I lived in Graz before."]
    assert len(judge.asked[-1]["messages"][-1]["content"].splitlines()) > 2


def test_it_can_be_on_by_setting_and_off_by_call(server: StrictServer, judge: Judge) -> None:
    ada = scope(server, rerank=True)
    assert texts(ada.recall("Where do I live?"))[0] == "I lived in Graz before."
    assert texts(ada.recall("Where do I live?", rerank=False))[0] == "I live in Ulm."
    assert len(judge.asked) == 1


def test_the_question_is_asked_in_its_language(server: StrictServer, judge: Judge) -> None:
    judge.rule = lambda text: 9 if "上海" in text else 0
    found = scope(server).recall("我住在哪里？", rerank=True)
    assert found[0].text == "我住在上海。"
    assert "打分" in judge.asked[-1]["messages"][0]["content"]


def test_its_tokens_are_in_the_ledger_and_within_the_budget(server: StrictServer, judge: Judge) -> None:
    ada = scope(server, budget_tokens=1)
    ada.recall("Where do I live?", rerank=True)
    found = ada.recall("Where do I live?", rerank=True)
    assert texts(found)[0] == "I live in Ulm."
    assert found.degraded.startswith("not reranked: the models for memory of user=ada")
    assert len(judge.asked) == 1
    assert ada.recall("Where do I live?").degraded == ""


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ("Sure, here are the scores!", "it is no JSON"),
        ('{"scores": []}', "scores nothing"),
        ('{"notes": []}', "no scores"),
        ('{"scores": [{"note": 99, "score": 5}]}', "scores note 99, and there are"),
        ('{"scores": [{"note": 0, "score": 5}]}', "scores note 0"),
        ('{"scores": [{"note": "1", "score": 5}]}', "a score that is none"),
        ('{"scores": [{"note": 1, "score": null}]}', "a score that is none"),
        ('{"scores": [{"note": true, "score": 5}]}', "a score that is none"),
    ],
)
def test_an_answer_of_no_use_changes_nothing(server: StrictServer, judge: Judge, says: str, why: str) -> None:
    judge.says = says
    ada = scope(server)
    plain, found = ada.recall("Where do I live?"), ada.recall("Where do I live?", rerank=True)
    assert texts(found) == texts(plain)
    assert why in found.degraded


def test_a_failing_endpoint_changes_nothing(server: StrictServer) -> None:
    ada = scope(server)
    plain = ada.recall("Where do I live?")
    for trouble in (Trouble(503), Trouble(401), Trouble(drop=True), Trouble(text="<html>")):
        server.troubles = [trouble]
        found = ada.recall("Where do I live?", rerank=True)
        assert texts(found) == texts(plain)
        assert found.degraded.startswith("not reranked: 'judge' at") or "connection" in found.degraded


def test_a_reranker_of_ones_own_may_raise_anything(server: StrictServer) -> None:
    class Raises:
        name = "mine"

        def scores(self, query: str, texts: Sequence[str]) -> list[float]:
            raise RuntimeError(f"out of memory at {query} {texts}")

    ada = scope(server)
    found = ada.recall("Where do I live?", rerank=Raises())
    assert texts(found) == texts(ada.recall("Where do I live?"))
    assert found.degraded == "not reranked: the reranker 'mine' raised RuntimeError"


def test_secrets_do_not_go_to_the_model(server: StrictServer, judge: Judge) -> None:
    ada = scope(server)
    ada.write("door_code", "tulip-4711-meadow-0815", policy="never")
    ada.remember("Where I live the door opens with tulip-4711-meadow-0815.", derive="none")
    assert ada.recall("Where do I live, and what opens the door tulip-4711-meadow-0815?", rerank=True).hits
    assert "tulip-4711" not in str(judge.asked)


def test_what_scores_count() -> None:
    rows = [{"note": 2, "score": 7}, {"note": 2, "score": 1}, {"note": 3, "score": 99}, {"note": 4, "score": -1}]
    assert scores_of({"scores": rows}, 4) == [0.0, 0.7, 1.0, 0.0]


class Backwards:
    """A reranker of one's own."""

    name = "backwards"

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        del query
        return [float(at) for at, _ in enumerate(texts)]


class Short(Backwards):
    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        return super().scores(query, texts)[1:]


class Odd(Backwards):
    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        return [math.nan for _ in super().scores(query, texts)]


class Failing(Backwards):
    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        del query, texts
        raise BackendError("it is not there")


def test_any_reranker_will_do(server: StrictServer) -> None:
    ada = scope(server)
    plain = texts(ada.recall("Where do I live?", top_k=20))
    assert texts(ada.recall("Where do I live?", top_k=20, rerank=Backwards())) == plain[::-1]
    assert ada.recall("Where do I live?", rerank=Failing()).degraded == "not reranked: it is not there"
    with pytest.raises(UsageError, match="one finite number each"):
        ada.recall("Where do I live?", rerank=Short())
    with pytest.raises(UsageError, match="one finite number each"):
        ada.recall("Where do I live?", rerank=Odd())
    with pytest.raises(UsageError, match="name and scores"):
        ada.recall("Where do I live?", rerank="yes")


def test_without_a_model_it_is_not_supported() -> None:
    with pytest.raises(UnsupportedError, match=r"\[models\.rerank\]"):
        offprompt.open(":memory:").scope(user="ada").recall("Where?", rerank=True)


def test_a_real_small_model_loses_nothing(small_model: Server, record_property: Any) -> None:
    model = offprompt.chat_model("smollm2", base_url=openai_url(small_model), timeout_s=120)
    ada = offprompt.open(":memory:", models={"rerank": model}).scope(user="ada")
    for fact in FACTS:
        ada.remember(fact, derive="none")
    plain, found = ada.recall("Where do I live?"), ada.recall("Where do I live?", rerank=True)
    record_property("order", texts(found))
    assert sorted(texts(found)) == sorted(texts(plain))
